"""The columns of ``ssij.csv`` that figures show."""

from __future__ import annotations

from thetabench.measure import Measure

__all__ = ["MEASURES"]

MEASURES: dict[str, Measure] = {
    "rows_per_s": Measure("thousand stream rows per second", 1e-3),
    "hit_share": Measure("answered from the cache, %", 100.0),
    "blocks_per_row": Measure("blocks read per row"),
    "cpu_us": Measure("processor microseconds per row"),
    "latency_p99": Measure("seconds to the answer, 99th percentile"),
    "met_share": Measure("deadlines met, %", 100.0, digits=4),
    "nominal_per_s": Measure("thousand stream rows per second before", 1e-3),
    "burst_ms": Measure("milliseconds until memory is full"),
    "plan_cost_ms": Measure("milliseconds to read"),
    "plan_ms": Measure("milliseconds to plan"),
    "plan_share": Measure("planning, % of the phase", 100.0),
    "index_bytes": Measure("kilobytes of index", 1e-3),
    "index_mb_10gb": Measure("megabytes of index per 10 GB"),
}
"""Every column that some figure shows."""

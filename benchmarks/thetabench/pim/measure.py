"""The columns of ``pim.csv`` that figures show."""

from __future__ import annotations

from thetabench.measure import Measure

__all__ = ["MEASURES"]

MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("million tuples per second", 1e-6),
    "bytes_per_row": Measure("bytes per row"),
    "merge_ms": Measure("milliseconds per merge"),
    "p50_us": Measure("p50, µs"),
    "p99_us": Measure("p99, µs"),
    "p999_us": Measure("p99.9, µs"),
    "top_share": Measure("inserts into the busiest subindex, %", 100),
    "idle_share": Measure("idle subindexes, %", 100),
    "ns_per_tuple": Measure("ns per tuple"),
    "predicted_ns": Measure("predicted"),
    "ns_descend": Measure("search, ns"),
    "ns_scan": Measure("scan, ns"),
    **{f"ns_{step}": Measure(f"{step}, ns") for step in ("search", "delete", "insert", "merge")},
    **{
        f"predicted_{step}": Measure(f"{step}, predicted")
        for step in ("search", "delete", "insert", "merge")
    },
}
"""Every column that some figure shows."""

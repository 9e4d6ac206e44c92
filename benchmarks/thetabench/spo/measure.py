"""The columns of ``spo.csv`` that figures show."""

from __future__ import annotations

from thetabench.measure import Measure

__all__ = ["LATENCIES", "MEASURES"]

MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("thousand rows per second", 1e-3),
    "ns_per_tuple": Measure("ns per row"),
    "p50_us": Measure("µs per row, median"),
    "p75_us": Measure("µs per row, 75 %"),
    "p95_us": Measure("µs per row, 95 %"),
    "p99_us": Measure("µs per row, 99 %"),
    "max_us": Measure("µs per row, longest"),
    "pairs_per_tuple": Measure("matches per row"),
    "bytes_per_row": Measure("bytes per stored row"),
    "merge_ms": Measure("merge, ms"),
    "stall_ms": Measure("longest insertion, ms"),
}
"""Every column that some figure shows."""

LATENCIES = ("p50_us", "p75_us", "p95_us", "max_us")

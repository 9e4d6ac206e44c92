"""The columns of ``ordered.csv`` that figures show."""

from __future__ import annotations

from thetabench.measure import Measure

__all__ = ["MEASURES"]

MEASURES: dict[str, Measure] = {
    "ns_insert": Measure("nanoseconds per insertion"),
    "ns_find": Measure("nanoseconds per look-up"),
    "us_range": Measure("microseconds per range search"),
    "ns_row": Measure("nanoseconds per row of a range"),
    "bytes_per_pair": Measure("bytes per key and id"),
    "empty_ms": Measure("milliseconds to empty"),
    "free_ms": Measure("milliseconds in the background"),
    "tuples_per_s": Measure("thousand rows per second", 1e-3),
    "longest_ms": Measure("longest call, milliseconds"),
    "us_question": Measure("microseconds per question"),
}
"""Every column that some figure shows."""

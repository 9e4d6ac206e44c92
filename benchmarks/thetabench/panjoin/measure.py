"""The columns of ``panjoin.csv`` that figures show."""

from __future__ import annotations

from thetabench.measure import Measure

__all__ = ["MEASURES"]

MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("million tuples per second", 1e-6),
    "ns_per_tuple": Measure("ns per tuple"),
    "bytes_per_row": Measure("bytes per row"),
    "splitter_error": Measure("normalised error of the partitions"),
    "outside_share": Measure("rows outside the splitters' range, %", 100),
    "iterations": Measure("adjustments needed"),
    "bound": Measure("the paper's bound"),
    "result_share": Measure("time for giving rows, %", 100),
}
"""Every column that some figure shows."""

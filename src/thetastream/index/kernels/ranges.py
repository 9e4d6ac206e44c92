"""Answers as records ⟨start, end⟩ into sorted arrays."""

from __future__ import annotations

from thetastream._jit.arrays import Array, i64, u64
from thetastream._jit.compiling import M, V, kernel


@kernel((M, M, V, V, V, V))
def record(
    starts: Array, stops: Array, boxes: Array, runs: Array, firsts: Array, lasts: Array
) -> int:
    """Write the ranges ``[starts[run, box], stops[run, box])`` that hold a row, box by box.

    The output arrays have room for all; returns the number of records.
    """
    k = u64(0)
    for box in range(u64(starts.shape[1])):
        for run in range(u64(starts.shape[0])):
            boxes[k] = box
            runs[k] = run
            firsts[k] = starts[run, box]
            lasts[k] = stops[run, box]
            k += u64(starts[run, box] < stops[run, box])
    return i64(k)

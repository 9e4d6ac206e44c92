"""Answers as records ⟨start, end⟩ into sorted arrays."""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import kernel, vector

V, M = vector(1), vector(2)


@kernel((M, M, V, V, V, V))
def record(
    starts: Array, stops: Array, boxes: Array, runs: Array, firsts: Array, lasts: Array
) -> int:
    """Write the ranges ``[starts[run, box], stops[run, box])`` that hold a row, box by box.

    The output arrays have room for all; returns the number of records.
    """
    k = np.uint64(0)
    for box in range(np.uint64(starts.shape[1])):
        for run in range(np.uint64(starts.shape[0])):
            boxes[k] = box
            runs[k] = run
            firsts[k] = starts[run, box]
            lasts[k] = stops[run, box]
            k += np.uint64(starts[run, box] < stops[run, box])
    return np.int64(k)  # type: ignore[return-value]

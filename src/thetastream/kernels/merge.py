"""Merging two sorted runs into one, leaving out what has expired."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.kernels._jit import kernel

__all__ = ["merge", "merge_columns"]

Array = NDArray[np.int64]


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1], i8, i8[::1], i8[::1])")
def merge(
    old_keys: Array,
    old_ids: Array,
    new_keys: Array,
    new_ids: Array,
    before: int,
    keys: Array,
    ids: Array,
) -> int:
    """Merge by key, old rows first among equals; rows with an id below ``before`` are left out.

    The result is written to ``keys`` and ``ids``, which must hold all rows; gives its length.
    """
    i = j = k = 0
    while i < old_keys.size and j < new_keys.size:
        a, b = old_keys[i], new_keys[j]
        first = a <= b
        keys[k] = a if first else b
        row = old_ids[i] if first else new_ids[j]
        ids[k] = row
        k += row >= before
        i += first
        j += not first
    while i < old_keys.size:
        keys[k] = old_keys[i]
        ids[k] = old_ids[i]
        k += old_ids[i] >= before
        i += 1
    while j < new_keys.size:
        keys[k] = new_keys[j]
        ids[k] = new_ids[j]
        k += new_ids[j] >= before
        j += 1
    return k


@kernel("i8(i8[:,::1], i8[::1], i8[:,::1], i8[::1], i8, i8[:,::1], i8[::1])")
def merge_columns(
    old_keys: Array,
    old_ids: Array,
    new_keys: Array,
    new_ids: Array,
    before: int,
    keys: Array,
    ids: Array,
) -> int:
    """``merge`` for several key columns, sorted by the first."""
    width = keys.shape[0]
    i = j = k = 0
    n, m = old_ids.size, new_ids.size
    while i < n or j < m:
        if j == m or (i < n and old_keys[0, i] <= new_keys[0, j]):
            if old_ids[i] >= before:
                for c in range(width):
                    keys[c, k] = old_keys[c, i]
                ids[k] = old_ids[i]
                k += 1
            i += 1
        else:
            if new_ids[j] >= before:
                for c in range(width):
                    keys[c, k] = new_keys[c, j]
                ids[k] = new_ids[j]
                k += 1
            j += 1
    return k

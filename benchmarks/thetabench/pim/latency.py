"""How long tasks took, from the times that a crew has recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["latencies", "overlapping"]

Array = NDArray[np.int64]
_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999, "max_us": 1.0}


def latencies(starts: Array, ends: Array) -> dict[str, float]:
    """Quantiles of the microseconds per task, and how many tasks there were.

    >>> latencies(np.array([0, 0]), np.array([1000, 3000]))["max_us"]
    3.0
    """
    spent = (ends - starts) / 1e3
    if not spent.size:
        return {}
    quantiles = {name: float(np.quantile(spent, part)) for name, part in _QUANTILES.items()}
    return {"tasks": spent.size, **quantiles}


def overlapping(
    starts: Array, ends: Array, merges: Sequence[tuple[int, int, int]]
) -> NDArray[np.bool_]:
    """Which tasks were under way while some merge was: ``merges`` are (side, start, end).

    >>> overlapping(np.array([0, 4, 9]), np.array([3, 6, 12]), [(0, 5, 8), (1, 1, 2)]).tolist()
    [True, True, False]
    """
    if not merges:
        return np.zeros(starts.size, np.bool_)
    times = np.array(sorted((start, end) for _, start, end in merges), np.int64)
    begun = np.searchsorted(times[:, 0], ends, side="left")  # merges that began before its end …
    latest = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(times[:, 1])])
    return np.asarray(latest[begun] > starts)  # … the last of which ended after its start

"""How fast this machine is, from two short tasks whose times on another one are known.

The default prices were measured on one machine. Another one may be three times as fast or as slow,
in nearly all steps alike: interpreter, searches, merges. So one factor brings the defaults close to
what steps cost here. It scales all prices and therefore changes no choice, only the nanoseconds of
estimates. Measuring it takes about two milliseconds, once per process; ``thetastream index
calibrate`` measures every price instead, and takes minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter

import numpy as np

MOST = 8.0  # the largest factor: beyond that, something disturbed the measurement
_TIMES = 7
# Nanoseconds of a task on a machine whose steps cost what the default prices say.
_CALLS, _CALLS_NS = 100, 210_000.0
_KEYS, _SEARCHES, _SEARCHES_NS = 1 << 15, 1 << 10, 165_000.0
_PRIME = 2_654_435_761


@lru_cache(maxsize=1)
def factor() -> float:
    """What a step costs here, in parts of its default price."""
    return min(max(measured(), 1 / MOST), MOST)


def measured() -> float:
    """Time the tasks: small calls of NumPy, as in a push, and searches, as for its rows.

    The shortest of several times counts, as other work can only make a task slower. Keys differ
    from time to time, so that the processor does not learn to predict them.
    """
    keys, numbers = np.arange(_KEYS), np.arange(_TIMES * _SEARCHES)
    scattered = iter(((numbers * numbers * _PRIME >> 7) % _KEYS).reshape(_TIMES, _SEARCHES))
    tasks: tuple[tuple[Callable[[], object], float], ...] = (
        (_call, _CALLS_NS),
        (lambda: np.searchsorted(keys, next(scattered)), _SEARCHES_NS),
    )
    ratios = [_shortest(task) / nanoseconds for task, nanoseconds in tasks]
    return math.prod(ratios) ** (1 / len(ratios))


def _call() -> None:
    sizes = {}
    for number in range(_CALLS):
        column = np.empty(4, np.int64)
        column[0] = number
        sizes[number % 16] = column[:2].size + column.sum()


def _shortest(task: Callable[[], object]) -> float:
    """Nanoseconds of the fastest of several runs."""
    shortest = math.inf
    for _ in range(_TIMES):
        started = perf_counter()
        task()
        shortest = min(shortest, perf_counter() - started)
    return 1e9 * shortest

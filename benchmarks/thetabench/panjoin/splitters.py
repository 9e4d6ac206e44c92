"""How evenly a RaP-Table's splitters cut the subwindows, adjustment after adjustment.

No clock: a table that starts with splitters even over the 32-bit range takes subwindow after
subwindow of the same distribution; its normalised error (the mean distance of a partition's rows
from N_Sub / P, over N_Sub / P) is read after each. Iteration 0 is the even start, whose error also
follows from the keys alone: that is compared.

========================  =========================================================================
distribution              keys, as parts of the 32-bit range
========================  =========================================================================
``normal``                deviation 0.01 around ½
``multimodal normal``     four of deviation 0.001
``uniform corner``        even over the lowest hundredth
``multimodal uniform``    even over four ranges of a thousandth
``rank-size``             like view counts: 99 % in the lowest 0.01 %, the largest of a million at
                          about 1 % (Lomax, exponent 2)
``increasing``            every subwindow above the last: what RaP-Table cannot adapt to
``worst case``            s, s/P, s/P², …, 0 again and again, s just below the first
                          splitter: each adjustment can only tell the largest remaining value
                          from the others (Figure 4)
========================  =========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetabench.arrays import Array
from thetabench.contestant import Unavailable
from thetabench.digest import VerificationError
from thetabench.panjoin.contestant import Contestant, Maker
from thetabench.race import Values

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]

RANGE = 1 << 32
ITERATIONS = 6
WORST = "worst case"
INCREASING = "increasing"
_MODES = (0.15, 0.4, 0.65, 0.9)
_BATCH = 1 << 16
_REACHED = 0.1
_SETTLED = 1 + 1e-9  # of the last error: every subwindow holds the same keys
_SLACK = 0.02  # by how much the first error may differ: a key at a splitter may go either way


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, count: rng.normal(0.5, 0.01, count),
    "multimodal normal": lambda rng, count: (
        rng.choice(_MODES, count) + rng.normal(0.0, 0.001, count)
    ),
    "uniform corner": lambda rng, count: 0.01 * rng.random(count),
    "multimodal uniform": lambda rng, count: rng.choice(_MODES, count) + 0.001 * rng.random(count),
    "rank-size": lambda rng, count: (
        rng.pareto(2.0, count) * (1e-4 / 9)  # P(x > 9 units) = (1 + 9)^-2 = 1 %
    ),
}
"""Every distribution that splitters must adapt to; parts of the 32-bit range."""


def keys_of(who: Contestant, iteration: int, seed: int) -> Array:
    """The keys of one subwindow."""
    rng = np.random.default_rng([seed, iteration])
    if who.distribution == WORST:
        return _worst(who)
    if who.distribution == INCREASING:
        step = RANGE // (2 * ITERATIONS)
        return np.sort(iteration * step + rng.integers(0, step, who.rows))
    keys = DISTRIBUTIONS[who.distribution](rng, who.rows) * RANGE
    return np.clip(keys.astype(np.int64), 0, RANGE - 1)


def _worst(who: Contestant) -> Array:
    partitions = _partitions(who)
    values, value = [0], RANGE // partitions - 2  # just below the first splitter
    while value:
        values.append(value)
        value //= partitions
    return np.resize(np.array(values, np.int64), who.rows)


def _partitions(who: Contestant) -> int:
    return int(dict(who.parameters)["partitions"])


def bound(partitions: int) -> int:
    """The paper's limit of adjustments: ⌈log_P 2^32⌉.

    >>> bound(1024), bound(65536), bound(16)
    (4, 2, 8)
    """
    return math.ceil(round(32 / math.log2(partitions), 9))


def even_error(keys: Array, partitions: int) -> float:
    """The normalised error of splitters that are even over the range.

    >>> even_error(np.arange(0, 1 << 32, 1 << 28), 16), even_error(np.zeros(64, np.int64), 16)
    (0.0, 1.875)
    """
    counts = np.bincount(keys // (RANGE // partitions), minlength=partitions)
    fair = counts.sum() / counts.size
    return float(np.abs(counts - fair).mean() / fair)


def needed(errors: list[float], worst: bool) -> int:
    """Adjustments until the error stays below 0.1; in the worst case until it falls no more.

    -1 when they were not enough.

    >>> needed([1.9, 0.4, 0.05, 0.06], False), needed([1.9, 1.5, 1.2, 1.2], True)
    (2, 2)
    >>> needed([1.9, 1.8], False)
    -1
    """
    limit = _SETTLED * errors[-1] if worst else _REACHED
    above = [-1, *(n for n, error in enumerate(errors) if error > limit)]
    return above[-1] + 1 if above[-1] + 1 < len(errors) else -1


def adjusted(who: Contestant, make: Maker, seed: int) -> list[Values]:
    """The columns of one line per iteration: the error, and the share outside the splitters."""
    table: Any = make(who)
    if not hasattr(table, "errors"):
        raise Unavailable(f"{who.structure} does not report the error of its splitters")
    limit = bound(_partitions(who))
    iterations = max(ITERATIONS, limit + 2 if who.distribution == WORST else 0)
    lines: list[Values] = []
    stored = 0
    for iteration in range(iterations + 1):  # the last one closes the one before
        keys = keys_of(who, iteration, seed)
        for start in range(0, keys.size, _BATCH):
            piece = np.sort(keys[start : start + _BATCH])
            table.insert(piece, stored + np.arange(piece.size))
            stored += piece.size
        table.expire(stored - who.rows)
        if len(lines) < min(len(table.errors), iterations):
            outside = float(table.statistics.get("outside_share", 0.0))
            lines.append({"splitter_error": table.errors[len(lines)], "outside_share": outside})
    _check(who, table, keys_of(who, 0, seed), lines, iterations)
    iterations = needed([line["splitter_error"] for line in lines], who.distribution == WORST)
    facts = {"iterations": iterations, "bound": limit, "tuples": who.rows, "verified": True}
    return [{**line, **facts} for line in lines]


def _check(who: Contestant, table: Any, keys: Array, lines: list[Values], iterations: int) -> None:
    if len(lines) < iterations or len(table) != who.rows:
        raise VerificationError(
            f"{who.label} reports {len(lines)} subwindows and holds {len(table):,} rows; expected "
            f"{iterations} and {who.rows:,}."
        )
    right = even_error(keys, _partitions(who))
    if abs(lines[0]["splitter_error"] - right) > _SLACK * max(right, 1.0):
        raise VerificationError(
            f"{who.label} reports an error of {lines[0]['splitter_error']:.3f} for even splitters; "
            f"that of the keys is {right:.3f}."
        )


def lines_of(who: Contestant, make: Maker, seed: int) -> list[Values]:
    """A line per iteration; of the worst case one with the number of iterations."""
    lines = adjusted(who, make, seed)
    if who.distribution == WORST:
        return [{**lines[-1], "place": float(_partitions(who))}]
    return [{**line, "place": float(n)} for n, line in enumerate(lines)]

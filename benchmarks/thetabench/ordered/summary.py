"""Table 1 of the paper, from our own measurements: which structure is best at what.

A structure is compared with the best one, measure by measure, at the same number of keys of the
same kind; the geometric mean of these ratios decides its word. Stability is the ratio of a
structure's largest to its least value, over all sizes from 2 M keys on and both kinds of keys, of
each of the four measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import geometric_mean
from typing import Any

from thetabench.figure import Lines
from thetabench.line import Line
from thetabench.ordered.contestant import STRUCTURES
from thetabench.ordered.growing import FIRST_NEXT
from thetabench.score import Ratios, taken

LIMITS = {"best": 1.25, "good": 2.0, "bad": 4.0, "worst": math.inf}
"""How far from the best a structure may be, for each word."""

_ASPECTS: dict[str, tuple[tuple[str, ...], str]] = {
    "memory utilization": (("8", "9", "10"), "bytes_per_pair"),
    "insertion": (("4", "5"), "ns_insert"),
    "key access": (("6", "7"), "ns_find"),
    "range search": (("11", "12"), "ns_row"),
}
_FEW = 2 / 16  # of the largest size: smaller ones lie in the cache, and say nothing of stability
_FOREIGN = ("judy",)  # whose code is not ours to count

_AFTER = STRUCTURES.index("radix-trie") + 1
_COLUMNS = (*STRUCTURES[:_AFTER], f"radix-trie, {FIRST_NEXT}", *STRUCTURES[_AFTER:])


def table(lines: Lines) -> str:
    """Table 1 in Markdown; "" without the figures it is made of."""
    ratios = judged(lines)
    names = [name for name in _COLUMNS if any(name in row for row in ratios.values())]
    if not names:
        return ""
    rows = [["", *names], ["---"] * (1 + len(names))]
    for aspect, row in ratios.items():
        shown = [f"{word(row[name])} ({row[name]:.2g})" if name in row else "–" for name in names]
        rows.append([aspect, *shown])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def judged(lines: Lines) -> dict[str, dict[str, float]]:
    """Ratios to the best, by aspect and contestant."""
    ratios: dict[str, dict[str, float]] = {}
    spreads: dict[str, list[float]] = {}
    for aspect, (figures, column) in _ASPECTS.items():
        ran = [line for line in lines if line.figure in figures and line.ran]
        measured = [line for line in ran if getattr(line, column)]
        values = {name: taken(name, column, by=_where)(measured) for name in _COLUMNS}
        values = {name: own for name, own in values.items() if own}
        ratios[aspect] = _ratios(values)
        for name, own in values.items():
            spreads.setdefault(name, []).append(_spread(own))
    means = {name: geometric_mean(own) for name, own in spreads.items() if len(own) == len(ratios)}
    ratios["stability"] = _to_best(means)
    shown = {figure for figures, _ in _ASPECTS.values() for figure in figures}
    sizes = {
        line.structure: float(line.code_lines)
        for line in lines
        if line.figure in shown and line.code_lines and line.structure not in _FOREIGN
    }
    ratios["simplicity"] = _to_best(sizes)
    return ratios


def word(ratio: float) -> str:
    """What a ratio to the best is called.

    >>> word(1.0), word(1.9), word(3.0), word(9.0)
    ('best', 'good', 'bad', 'worst')
    """
    return next(name for name, limit in LIMITS.items() if ratio <= limit)


def _where(line: Line) -> tuple[str, float]:
    return line.distribution, line.place


def _ratios(values: Mapping[str, Ratios]) -> dict[str, float]:
    """The geometric mean over sizes and kinds of keys of the ratio to the best."""
    best: dict[Any, float] = {}
    for own in values.values():
        for where, value in own.items():
            best[where] = min(value, best.get(where, math.inf))
    return {
        name: geometric_mean(value / best[where] for where, value in own.items())
        for name, own in values.items()
    }


def _spread(own: Ratios) -> float:
    largest = max(size for _, size in own)
    kept = [value for (_, size), value in own.items() if size >= largest * _FEW]
    return max(kept) / min(kept)


def _to_best(values: Ratios) -> dict[str, float]:
    best = min(values.values(), default=1.0)
    return {name: value / best for name, value in values.items()}

"""Table 1 of the paper, from our own measurements: which structure is best at what.

A structure is compared with the best one, measure by measure, at the same number of keys of the
same kind; the geometric mean of these ratios decides its word. Stability is the ratio of a
structure's largest to its least value, over all sizes from 2 M keys on and both kinds of keys, of
each of the four measures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from thetabench.ordered.figures import STRUCTURES
from thetabench.ordered.growing import FIRST_NEXT
from thetabench.ordered.result import OrderedResult

__all__ = ["LIMITS", "judged", "table", "word"]

LIMITS = {"best": 1.25, "good": 2.0, "bad": 4.0, "worst": math.inf}
"""How far from the best a structure may be, for each word."""

_ASPECTS: dict[str, tuple[tuple[str, ...], str]] = {
    "memory utilization": (("8", "9", "10"), "bytes_per_pair"),
    "insertion": (("4", "5"), "ns_insert"),
    "key access": (("6", "7"), "ns_find"),
    "range search": (("11", "12"), "ns_row"),
}
_STABILITY, _SIMPLICITY = "stability", "simplicity"
_FEW = 2 / 16  # of the largest size: smaller ones lie in the cache, and say nothing of stability
_FOREIGN = ("judy",)  # whose code is not ours to count

Values = dict[str, dict[tuple[str, float], float]]
"""By contestant, then by kind of keys and size."""


def table(results: Sequence[Any]) -> str:
    """Table 1 in Markdown; "" without the figures it is made of."""
    found = judged(results)
    names = [name for name in _columns() if any(name in row for row in found.values())]
    if not names:
        return ""
    lines = [_row(["", *names]), _row(["---"] * (1 + len(names)))]
    for aspect, row in found.items():
        shown = [f"{word(row[name])} ({row[name]:.2g})" if name in row else "–" for name in names]
        lines.append(_row([aspect, *shown]))
    return "\n".join(lines)


def judged(results: Sequence[OrderedResult]) -> dict[str, dict[str, float]]:
    """Ratios to the best, by aspect and contestant."""
    found: dict[str, dict[str, float]] = {}
    spreads: dict[str, list[float]] = {}
    for aspect, (figures, column) in _ASPECTS.items():
        values = _values((r for r in results if r.figure in figures and r.ran), column)
        found[aspect] = _ratios(values)
        for name, own in values.items():
            if spread := _spread(own):
                spreads.setdefault(name, []).append(spread)
    means = {name: geometric_mean(own) for name, own in spreads.items() if len(own) == len(found)}
    found[_STABILITY] = _to_best(means)
    shown = {figure for figures, _ in _ASPECTS.values() for figure in figures}
    lines = {
        r.structure: float(r.code_lines) for r in results if r.figure in shown and r.code_lines
    }
    found[_SIMPLICITY] = _to_best({n: v for n, v in lines.items() if n not in _FOREIGN})
    return found


def word(ratio: float) -> str:
    """What a ratio to the best is called.

    >>> word(1.0), word(1.9), word(3.0), word(9.0)
    ('best', 'good', 'bad', 'worst')
    """
    return next(name for name, limit in LIMITS.items() if ratio <= limit)


def _columns() -> Iterable[str]:
    for name in STRUCTURES:
        yield name
        if name == "radix-trie":
            yield f"{name}, {FIRST_NEXT}"


def _values(results: Iterable[OrderedResult], column: str) -> Values:
    known = set(_columns())
    found: Values = {}
    for result in results:
        if result.contestant in known and getattr(result, column):
            own = found.setdefault(result.contestant, {})
            own[result.distribution, result.place] = getattr(result, column)
    return found


def _ratios(values: Values) -> dict[str, float]:
    """The geometric mean over sizes and kinds of keys of the ratio to the best."""
    best: dict[tuple[str, float], float] = {}
    for own in values.values():
        for where, value in own.items():
            best[where] = min(value, best.get(where, math.inf))
    return {
        name: geometric_mean(value / best[where] for where, value in own.items())
        for name, own in values.items()
    }


def _spread(own: Mapping[tuple[str, float], float]) -> float:
    largest = max(size for _, size in own)
    kept = [value for (_, size), value in own.items() if size >= largest * _FEW]
    return max(kept) / min(kept)


def _to_best(values: Mapping[str, float]) -> dict[str, float]:
    best = min(values.values(), default=1.0)
    return {name: value / best for name, value in values.items()}


def _row(values: Sequence[str]) -> str:
    return "| " + " | ".join(values) + " |"

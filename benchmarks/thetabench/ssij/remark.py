"""What a figure shows, in a sentence that is made of its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thetabench.figure import Figure, power
from thetabench.ssij.figures import FIGURES
from thetabench.ssij.measure import MEASURES
from thetabench.ssij.plan import Cell
from thetabench.ssij.result import SsijResult

__all__ = ["REMARKS", "marked"]

Results = Sequence[SsijResult]

_LESS = ("plan_cost_ms", "index_bytes")  # where less is better
_BEST = ("12", "13", "15")  # where the best place is what is asked for


def marked(name: str) -> str:
    """The mark of a figure's sentence in the page.

    >>> marked("8")
    '8-here'
    """
    return f"{name}-here"


def _here(figure: Figure[Cell]) -> Callable[[Results], str]:
    def remark(results: Results) -> str:
        own = [result for result in results if result.figure == figure.name and result.ran]
        if not own:
            return ""
        say = _best_place if figure.name in _BEST else _ranking
        return f"*Here:* {say(figure, own)}"

    return remark


def _ranking(figure: Figure[Cell], results: Results) -> str:
    """All contestants at the first and at the last place, the best first."""
    column = figure.measures[0]
    measure = MEASURES[column]
    places = dict.fromkeys(
        (min(result.place for result in results), max(result.place for result in results))
    )
    found = []
    for place in places:
        there = [r for r in results if r.place == place and getattr(r, column)]
        there.sort(key=lambda result: getattr(result, column), reverse=column not in _LESS)
        shown = [f"{r.contestant} {measure.text(getattr(r, column))}" for r in there]
        found.append(f"{figure.axis} {power(place)}: {', '.join(shown)}")
    return f"{measure.title}; {'; '.join(found)}."


def _best_place(figure: Figure[Cell], results: Results) -> str:
    """Where the rate is greatest, and what it is at both ends."""
    column = figure.measures[0]
    measure = MEASURES[column]
    best = max(results, key=lambda result: getattr(result, column))
    ends = (min(results, key=_place), max(results, key=_place))
    shown = [f"{measure.text(getattr(r, column))} at {power(r.place)}" for r in ends]
    return (
        f"{measure.title}: most at {power(best.place)} {figure.axis}, "
        f"{measure.text(getattr(best, column))}; {' and '.join(shown)}."
    )


def _place(result: SsijResult) -> float:
    return result.place


REMARKS: dict[str, Any] = {marked(name): _here(figure) for name, figure in FIGURES.items()}
"""Sentences by mark."""

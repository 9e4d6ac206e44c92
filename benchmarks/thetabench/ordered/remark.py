"""What a figure shows, in a sentence that is made of its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thetabench.figure import Figure, power
from thetabench.ordered.figures import FIGURES
from thetabench.ordered.measure import MEASURES
from thetabench.ordered.plan import Cell
from thetabench.ordered.result import OrderedResult

__all__ = ["REMARKS", "marked"]

Results = Sequence[OrderedResult]

_MORE = ("tuples_per_s",)  # where more is better
_GROWN = ("ns_insert", "ns_find")  # where growth is said, too
_BEST = ("node-size",)  # where the best place is what is asked for


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
        say = _best_places if figure.name in _BEST else _ranking
        return "*Here:* " + " ".join(filter(None, (say(figure, own), _growth(figure, own))))

    return remark


def _ranking(figure: Figure[Cell], results: Results) -> str:
    """All contestants at the last place, the best first."""
    column = figure.measures[0]
    last = max(result.place for result in results)
    there = [result for result in results if result.place == last and getattr(result, column)]
    there.sort(key=lambda result: getattr(result, column), reverse=column in _MORE)
    shown = [f"{r.contestant} {MEASURES[column].text(getattr(r, column))}" for r in there]
    return f"{MEASURES[column].title}, {figure.axis} {power(last)}: {', '.join(shown)}."


def _best_places(figure: Figure[Cell], results: Results) -> str:
    """Where each measure is least."""
    found = []
    for column in figure.measures:
        places = []
        for label in dict.fromkeys(result.contestant for result in results):
            own = [result for result in results if result.contestant == label]
            best = min(own, key=lambda result: getattr(result, column))
            places.append(f"{best.place:,.0f} ({label})")
        found.append(f"{MEASURES[column].title}: least at {' and '.join(places)} {figure.axis}")
    return f"{'; '.join(found)}."


def _growth(figure: Figure[Cell], results: Results) -> str:
    """How the time grows from a quarter of the largest size on."""
    column = figure.measures[0]
    last = max(result.place for result in results)
    if column not in _GROWN or figure.name in _BEST:
        return ""
    times = {(r.contestant, r.place): getattr(r, column) for r in results}
    shown = [
        f"{label} × {time / times[label, last / 4]:.2f}"
        for (label, place), time in times.items()
        if place == last and times.get((label, last / 4))
    ]
    return f"From {last / 4:g} to {last:g} {figure.axis}: {', '.join(shown)}." if shown else ""


REMARKS: dict[str, Any] = {marked(name): _here(figure) for name, figure in FIGURES.items()}
"""Sentences by mark."""

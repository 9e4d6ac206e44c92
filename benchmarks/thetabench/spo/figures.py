"""The named experiments: Figures 7–23 of the SPO-Join paper, and some of our own.

Lists are chosen so that all of it takes less than 15 minutes on one core. One thread, unless a
label says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from thetabench import figure as plans
from thetabench.figure import Figure, Sizes
from thetabench.spo import parts, rivals, systems
from thetabench.spo.plan import Cell

__all__ = ["FIGURES", "NOT_MEASURED", "SECONDS", "cells", "chosen"]

SECONDS = 0.3
"""Timed seconds per contestant and cell."""

NOT_MEASURED = {
    "16": "it needs several nodes; there is one here. Figure 17 has its threads",
    "18": "our answers are exact at every rate: a test on Spark shows it, tests/spark",
    "19": "no expired row is ever met: a test on Spark shows it, tests/spark",
}

_ALL = {figure.name: figure for figure in (*parts.FIGURES, *rivals.FIGURES, *systems.FIGURES)}
_ORDER = (
    *("7a", "7b", "7c", "8a", "8b", "9a", "9b", "10a", "10b", "11a", "11b", "11c", "11d"),
    *("12", "13", "14", "15", "17", "20", "21", "22", "23"),
    *("taxi", "w2", "w3", "probing", "correlation", "selectivity", "policy"),
)

FIGURES: dict[str, Figure[Cell]] = {name: _ALL[name] for name in _ORDER}
"""Every experiment by name, in the order of the paper."""


def chosen(names: Sequence[str] = ()) -> list[Figure[Cell]]:
    """The experiments asked for, or all; a number alone asks for all parts of that figure.

    >>> [figure.name for figure in chosen(["9", "17"])]
    ['9a', '9b', '17']
    """
    return plans.chosen(FIGURES, names, NOT_MEASURED)


def cells(names: Sequence[str], sizes: Sizes) -> list[Cell]:
    """All cells of the experiments asked for."""
    return [cell for figure in chosen(names) for cell in figure.cells(sizes)]

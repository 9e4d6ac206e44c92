"""Tactic ``auto``: whatever another tactic offers and costs least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from thetastream.index.registry import structure
from thetastream.plan.layout import Layout
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options
from thetastream.plan.tactics.registry import families


class AutoFamily(Family):
    """Asks all tactics that compete; those that win ties come first.

    Where no pair is wanted, only sorted arrays are considered: they need not make any.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the cheapest of all by the cost model, from observed keys"
    keeps_order: ClassVar[bool] = True

    def structures(self) -> Sequence[str]:
        """None: every tactic brings its own."""
        return ()

    def competes(self, known: Selectivity) -> bool:
        return False

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        asked = [found for found in families() if found.competes(known)]
        asked.sort(key=lambda found: not found.wins_ties)
        return [
            layout
            for found in asked
            if found.keeps_order or not options.pairless
            for layout in found.layouts(known, self._own(found, options))
            if structure(layout.index).ranged or not options.pairless
        ]

    def _own(self, found: Family, options: Options) -> Options:
        return replace(options, structures=tuple(found.structures()))

"""Tactic ``auto``: the cheapest layout of all other tactics."""

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
    """Collects the layouts of all competing tactics; those that win ties come first.

    If no pairs are needed, only sorted arrays are considered: they need not produce any.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the cheapest of all by the cost model, from observed keys"
    keeps_order: ClassVar[bool] = True

    def structures(self) -> Sequence[str]:
        """None: every tactic has its own."""
        return ()

    def competes(self, known: Selectivity) -> bool:
        return False

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        competing = [family for family in families() if family.competes(known)]
        return [
            layout
            for family in sorted(competing, key=lambda family: not family.wins_ties)
            if family.keeps_order or not options.pairless
            for layout in family.layouts(
                known, replace(options, structures=tuple(family.structures()))
            )
            if structure(layout.index).ranged or not options.pairless
        ]

"""Tactic ``ibwj``: the index-based window join of the PIM-Tree paper.

Like ``ordered``, over structures that take rows one by one. Their costs are Equations 1–6 of the
paper, with constants that can be calibrated (``cost.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from thetastream.index.base import Index
from thetastream.index.registry import names, structure
from thetastream.plan.cost import priced
from thetastream.plan.estimate import Estimate, Traffic, tree_estimate
from thetastream.plan.layout import Layout, Ordered
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options

_PREFERRED = "pim-tree"
_CONCURRENT = "optimistic-tree"  # a baseline for threads; alone it is a B⁺-tree with extra work


class Indexed(Ordered):
    """One field drives a tree."""

    tactic = "ibwj"


class IbwjFamily(Family):
    """Every field as the driver of every tree."""

    name: ClassVar[str] = "ibwj"
    summary: ClassVar[str] = "index-based window join: one term drives the cheapest tree"
    needs: ClassVar[str] = "it has no term that can be indexed"
    takes_structure: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def structures(self) -> Sequence[str]:
        """Those that take rows one by one and have an equation."""
        trees = [name for name in names() if structure(name).per_tuple and name in priced()]
        return sorted((n for n in trees if n != _CONCURRENT), key=lambda name: name != _PREFERRED)

    def suits(self, structure: type[Index]) -> bool:
        return structure.per_tuple

    def competes(self, known: Selectivity) -> bool:
        """No: the rows of a push arrive together, and sorted runs are made for that."""
        return False

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        return [
            Indexed(known.fields, driver, index, options.of(index))
            for index in options.structures
            for driver in known.fields
        ]

    def estimate(
        self, layout: Layout, known: Selectivity, traffic: Traffic, lost: float = 0.0
    ) -> Estimate:
        """By the equations; as in ``ordered`` for a structure that has none."""
        if layout.index in priced():
            return tree_estimate(layout, known, traffic)
        return super().estimate(layout, known, traffic, lost)

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
from thetastream.plan.tactics.family import DriverFamily

_PREFERRED = "pim-tree"
_CONCURRENT = "optimistic-tree"  # a baseline for threads; alone it is a B⁺-tree with extra work


class Indexed(Ordered):
    """One field drives a tree."""

    tactic = "ibwj"


class IbwjFamily(DriverFamily):
    """Every field as the driver of every tree."""

    name: ClassVar[str] = "ibwj"
    summary: ClassVar[str] = "index-based window join: one term drives the cheapest tree"
    layout: ClassVar[type[Ordered]] = Indexed

    def structures(self) -> Sequence[str]:
        """The structures that take rows one by one and have an equation."""
        trees = [name for name in names() if structure(name).per_tuple and name in priced()]
        return sorted((n for n in trees if n != _CONCURRENT), key=lambda name: name != _PREFERRED)

    def suits(self, structure: type[Index]) -> bool:
        return structure.per_tuple

    def competes(self, known: Selectivity) -> bool:
        """No: the rows of a push arrive together, which suits sorted runs."""
        return False

    def estimate(
        self, layout: Layout, known: Selectivity, traffic: Traffic, lost: float = 0.0
    ) -> Estimate:
        """By the equations; as in ``ordered`` for a structure without one."""
        if layout.index in priced():
            return tree_estimate(layout, known, traffic)
        return super().estimate(layout, known, traffic, lost)

"""Tactic ``panjoin``: PanJoin, one term over a chain of subwindows, dealt to workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from thetastream.index.base import Index
from thetastream.plan.layout import Layout, Ordered
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options


class PanJoin(Ordered):
    """One field drives a chain of subwindows."""

    tactic = "panjoin"


class PanJoinFamily(Family):
    """Every field as the driver of a chain that chooses the structure of each subwindow."""

    name: ClassVar[str] = "panjoin"
    summary: ClassVar[str] = "one term drives a chain of subwindows, dealt to workers"
    needs: ClassVar[str] = "it has no term that can be indexed"
    takes_structure: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def structures(self) -> Sequence[str]:
        return ("subwindows",)

    def suits(self, structure: type[Index]) -> bool:
        return structure.in_subwindows

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        return [
            PanJoin(known.fields, driver, index, options.of(index))
            for index in options.structures
            for driver in known.fields
        ]

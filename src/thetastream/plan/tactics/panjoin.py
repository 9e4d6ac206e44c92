"""Tactic ``panjoin``: PanJoin, one term over a chain of subwindows, dealt to workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from thetastream.index.base import Index
from thetastream.plan.layout import Ordered
from thetastream.plan.tactics.family import DriverFamily


class PanJoin(Ordered):
    """One field drives a chain of subwindows."""

    tactic = "panjoin"


class PanJoinFamily(DriverFamily):
    """Every field as the driver of a chain that chooses the structure of each subwindow."""

    name: ClassVar[str] = "panjoin"
    summary: ClassVar[str] = "one term drives a chain of subwindows, dealt to workers"
    layout: ClassVar[type[Ordered]] = PanJoin

    def structures(self) -> Sequence[str]:
        return ("subwindows",)

    def suits(self, structure: type[Index]) -> bool:
        return structure.in_subwindows

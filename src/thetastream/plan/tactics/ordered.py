"""Tactic ``ordered``: the key of one term drives an ordered index, the other terms are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from thetastream.index.base import Index
from thetastream.plan.layout import Layout, Ordered
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options

_BY_ZONES = "zoned-runs"  # with one key column it is sorted runs with extra work


class OrderedFamily(Family):
    """Every field as the driver of every structure."""

    name: ClassVar[str] = "ordered"
    summary: ClassVar[str] = "one term drives an ordered index, the others are checked"
    needs: ClassVar[str] = "it has no term that can be indexed"
    takes_structure: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def structures(self) -> Sequence[str]:
        return ("sorted-runs", _BY_ZONES)

    def suits(self, structure: type[Index]) -> bool:
        return not (structure.per_tuple or structure.in_subwindows or structure.permuted)

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        alone = len(known.fields) == 1
        return [
            Ordered(known.fields, driver, index, options.of(index))
            for index in options.structures
            if options.named or not (alone and index == _BY_ZONES)
            for driver in known.fields
        ]

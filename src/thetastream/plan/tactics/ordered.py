"""Tactic ``ordered``: the key of one term drives an ordered index, the other terms are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from thetastream.index.base import Index
from thetastream.plan.layout import Layout
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import DriverFamily, Options

_BY_ZONES = "zoned-runs"  # with one key column it is sorted runs with extra work


class OrderedFamily(DriverFamily):
    """Every field as the driver of every structure."""

    name: ClassVar[str] = "ordered"
    summary: ClassVar[str] = "one term drives an ordered index, the others are checked"

    def structures(self) -> Sequence[str]:
        return ("sorted-runs", _BY_ZONES)

    def suits(self, structure: type[Index]) -> bool:
        return not (structure.per_tuple or structure.in_subwindows or structure.permuted)

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        if len(known.fields) == 1 and not options.named:
            others = tuple(index for index in options.structures if index != _BY_ZONES)
            options = replace(options, structures=others)
        return super().layouts(known, options)

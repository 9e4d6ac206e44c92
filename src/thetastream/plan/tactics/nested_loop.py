"""Tactic ``nested-loop``: every row against every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.boxes.field import Field
from thetastream.plan.layout import Boxes, Layout
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options


class Scan(Layout):
    """No order: every row is a candidate."""

    tactic = "nested-loop"

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__(fields, "nested-loop")

    @property
    def checks(self) -> tuple[Field, ...]:
        return self.fields

    def first_column(self, keys: Mapping[Field, Array], count: int) -> Array:
        return np.zeros(count, np.int64)

    def first_interval(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        zeros = np.zeros(owners.size, np.int64)
        return Boxes(zeros, zeros, owners)

    def describe(self) -> str:
        return "nothing (nested loop)"


class NestedLoopFamily(Family):
    """No order. ``auto`` uses it if nothing can be indexed."""

    name: ClassVar[str] = "nested-loop"
    summary: ClassVar[str] = "every row against every row"

    def structures(self) -> Sequence[str]:
        return ("nested-loop",)

    def competes(self, known: Selectivity) -> bool:
        return not known.fields

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        return [Scan(known.fields)]

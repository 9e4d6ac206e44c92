"""Tactic ``spo-join``: SPO-Join keeps two terms in order, with permutations between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, ClassVar

from thetastream.boxes.field import Field
from thetastream.index.base import Index
from thetastream.plan.layout import NO_PARAMETERS, Layout, Ordered
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options

PAIRED = 4  # the most selective fields, of which two become the columns of a permutation


class SpoJoinLayout(Ordered):
    """Two fields are kept in order; further ones are checked."""

    tactic = "spo-join"

    def __init__(
        self,
        fields: Sequence[Field],
        driver: Field,
        second: Field,
        index: str,
        parameters: Mapping[str, Any] = NO_PARAMETERS,
    ) -> None:
        super().__init__(fields, driver, index, parameters)
        self.second = second

    @property
    def checks(self) -> tuple[Field, ...]:
        others = [f for f in self.fields if f is not self.driver and f is not self.second]
        return (self.second, *others)

    def describe(self) -> str:
        return f"orders of {self.driver} and {self.second}"


class SpoJoinFamily(Family):
    """Every ordered pair of the most selective fields."""

    name: ClassVar[str] = "spo-join"
    summary: ClassVar[str] = "two terms keep their orders, with permutations between them"
    needs: ClassVar[str] = "it needs two terms that can be indexed"
    takes_structure: ClassVar[bool] = True

    def structures(self) -> Sequence[str]:
        return ("spo-join",)

    def suits(self, structure: type[Index]) -> bool:
        return structure.permuted

    def competes(self, known: Selectivity) -> bool:
        return len(known.fields) > 1

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        if len(known.fields) == 1 < options.opposite:
            return self._point(known.fields, options)
        selective = sorted(known.fields, key=lambda field: known.shares[field])[:PAIRED]
        return [
            SpoJoinLayout(known.fields, first, second, index, options.of(index))
            for index in options.structures
            for first, second in permutations(selective, 2)
        ]

    def _point(self, fields: Sequence[Field], options: Options) -> list[Layout]:
        """Both terms read the same expression of this side: a point in an interval.

        There is one order to keep, and nothing to permute.
        """
        if not options.named:
            return [Ordered(fields, fields[0])]
        return [Ordered(fields, fields[0], i, options.of(i)) for i in options.structures]

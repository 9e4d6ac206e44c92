"""Tactic ``hash``: all equality terms become one hash, and the other terms are checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.boxes.field import Field
from thetastream.data.kernels.hashing import unmix
from thetastream.plan.layout import NO_PARAMETERS, Boxes, Layout, Reach, hashed
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options


class HashLayout(Layout):
    """All equality fields become one hash; a single one is mixed one-to-one and not checked."""

    tactic = "hash"
    prepared = "prepare_hash"

    def __init__(
        self,
        fields: Sequence[Field],
        points: Sequence[Field],
        index: str = "sorted-runs",
        parameters: Mapping[str, Any] = NO_PARAMETERS,
    ) -> None:
        super().__init__(fields, index, parameters)
        self.points = tuple(points)

    @property
    def checks(self) -> tuple[Field, ...]:
        alone = len(self.points) == 1
        return tuple(f for f in self.fields if not (alone and f is self.points[0]))

    def first_column(self, keys: Mapping[Field, Array], count: int) -> Array:
        return hashed([keys[field] for field in self.points])

    def first_interval(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        hashes = hashed([pieces[field][0][owners] for field in self.points])
        return Boxes(hashes, hashes, owners)

    def field_keys(self, matrix: Array) -> dict[Field, Array]:
        keys = super().field_keys(matrix)
        if len(self.points) == 1:
            keys[self.points[0]] = np.empty(matrix.shape[1], np.int64)
            unmix(matrix[0], keys[self.points[0]])
        return keys

    def reach(self, known: Selectivity, lost: float = 0.0) -> Reach:
        share = math.prod(known.shares[field] for field in self.points)
        return Reach(self._arms(known), share)

    def describe(self) -> str:
        return f"hash of {', '.join(map(str, self.points))}"


class HashFamily(Family):
    """All equality terms as one hash."""

    name: ClassVar[str] = "hash"
    summary: ClassVar[str] = "equality terms by hash, the others are checked"
    needs: ClassVar[str] = "it has no equality term"
    wins_ties: ClassVar[bool] = True  # against the order of one such term, which costs the same

    def structures(self) -> Sequence[str]:
        return ("sorted-runs",)

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        points = [field for field in known.fields if field.is_point]
        return [
            HashLayout(known.fields, points, index, options.of(index))
            for index in options.structures
            if points
        ]

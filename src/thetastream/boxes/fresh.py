"""Rows arriving now, as keys."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.data.order import argsorted
from thetastream.side import Side

__all__ = ["Fresh"]

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Fresh:
    """Rows arriving now on one side, as keys. ``valid`` marks rows that can match at all.

    In a join that runs in several partitions, ``positions`` are the rows' places among all rows of
    their side, and ``copies`` marks rows whose home is another partition: they are here to be met.
    ``numbers`` are arrival numbers, where they are asked for and ids are others.
    """

    side: Side
    batch: pa.RecordBatch
    keys: list[Array]
    valid: Mask | None
    times: Array | None
    null_keys: int = 0
    nan_keys: int = 0
    timed: Mask | None = None
    ranks: Array | None = None
    positions: Array | None = None
    copies: Mask | None = None
    numbers: Array | None = None
    selected: int | None = None
    _sorted: dict[int, tuple[Array, Fresh]] = dataclass_field(default_factory=dict)

    def able(self) -> tuple[Array, Fresh]:
        """The rows that can match: their positions, and their keys."""
        if self.valid is None:
            return np.arange(len(self)), self
        at = np.flatnonzero(self.valid)
        return at, self._at(at)

    def by_key(self, term: int) -> tuple[Array, Fresh]:
        """``able``, in the order of the key of a term; sorted once for probe and insert."""
        if term not in self._sorted:
            at, rows = self.able()
            order, keys = argsorted(rows.keys[term])
            moved = rows._at(order, term, keys)
            self._sorted[term] = (order if rows is self else at[order], moved)
        return self._sorted[term]

    def _at(self, at: Array, term: int = -1, known: Array | None = None) -> Fresh:
        """Keys and times of some rows; no payload."""
        keys = [
            known if i == term and known is not None else key[at] for i, key in enumerate(self.keys)
        ]
        times = None if self.times is None else self.times[at]
        return Fresh(self.side, self.batch, keys, None, times, selected=at.size)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def count(self) -> int:
        """How many rows have keys here; a selection of rows keeps the whole batch."""
        return len(self) if self.selected is None else self.selected

    def filter(self, keep: Mask) -> Fresh:
        """Only the marked rows."""
        return Fresh(
            self.side,
            self.batch.filter(pa.array(keep)),
            [key[keep] for key in self.keys],
            None if self.valid is None else self.valid[keep],
            None if self.times is None else self.times[keep],
            timed=None if self.timed is None else self.timed[keep],
            ranks=None if self.ranks is None else self.ranks[keep],
            positions=None if self.positions is None else self.positions[keep],
            copies=None if self.copies is None else self.copies[keep],
            numbers=None if self.numbers is None else self.numbers[keep],
        )

"""Values in the order of a sorted run, cached for repeated mappers.

A mapper over a run reads values by row, anywhere in the column: 5 ns each. Side by side in the
order of the run they take a tenth of that. Reordering a column costs as much as reading it once, so
it happens when as many values of a run have been read as it has rows. Whatever the queries, the
total is at most twice the least work.

A column is identified by its ``owner``. The values of rows never change, so a reordered column
stays valid as long as the run lives. Runs and owners that are gone are dropped.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.data.kernels.pairs import gather
from thetastream.index.folding import Fold
from thetastream.index.kernels.fold import fold_held, fold_live, fold_ranges
from thetastream.index.runs.run import Run


class _Column:
    """One column in one run: how many values were read, and the values in order, if cached."""

    __slots__ = ("read", "run", "values")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.read = 0
        self.values: NDArray[Any] | None = None


class HeldValues:
    """Columns in the order of runs."""

    def __init__(self) -> None:
        self._columns: WeakKeyDictionary[Any, dict[int, _Column]] = WeakKeyDictionary()

    def fold(
        self, runs: tuple[Run, ...], starts: Array, stops: Array, before: int, fold: Fold
    ) -> None:
        """Add the rows ``starts[r, b]`` to ``stops[r, b]`` of each run ``r`` to each box ``b``."""
        columns = self._of(runs, fold)
        for run, start, stop in zip(runs, starts, stops, strict=True):
            held = None
            if columns is not None:
                held = self._values(columns[id(run)], int((stop - start).sum()), fold)
            if held is None:
                fold_ranges(run.ids, start, stop, before, *fold.arrays)
            elif run.first >= before:
                fold_held(start, stop, held, *fold.arrays[3:])
            else:
                fold_live(run.ids, before, start, stop, held, *fold.arrays[3:])

    def _of(self, runs: tuple[Run, ...], fold: Fold) -> dict[int, _Column] | None:
        """The column in each live run, by the run's identity; None for one that is not cached."""
        owner = fold.values.owner
        if owner is None or fold.values.valid.size:
            return None
        earlier = self._columns.get(owner, {})
        columns = {}
        for run in runs:
            column = earlier.get(id(run))
            columns[id(run)] = column if column and column.run is run else _Column(run)
        self._columns[owner] = columns
        return columns

    def _values(self, column: _Column, reads: int, fold: Fold) -> NDArray[Any] | None:
        if column.values is None:
            column.read += reads
            values, ids = fold.values, column.run.ids
            if column.read < ids.size or not values.array.size:
                return None
            if column.run.first < values.first:
                ids = np.maximum(ids, values.first)  # values of expired rows may be gone
            column.values = np.empty(ids.size, values.array.dtype)
            target = column.values.view(np.uint64)
            gather(values.array.view(np.uint64), ids, values.first, target)
        return column.values

    @property
    def nbytes(self) -> int:
        """Bytes of values in order."""
        return sum(
            column.values.nbytes
            for columns in self._columns.values()
            for column in columns.values()
            if column.values is not None
        )

"""Values in the order of a sorted run, kept for mappers that come again.

A mapper over a run reads values by row, anywhere in the column: 5 ns each. Side by side in the
order of the run they take a tenth of that. Putting them so costs as much as reading them once, so
it is done when as many values of a run have been read as it has rows: whatever is asked, at most
twice the least work.

Columns are told apart by their ``owner``: the values of rows never change, so what was put in order
stays right as long as the run lives. Runs and owners that are gone are forgotten.
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


class _Known:
    """What is known of one column in one run."""

    __slots__ = ("read", "run", "values")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.read = 0
        self.values: NDArray[Any] | None = None


class HeldValues:
    """Columns in the order of runs."""

    def __init__(self) -> None:
        self._columns: WeakKeyDictionary[Any, dict[int, _Known]] = WeakKeyDictionary()

    def fold(
        self, runs: tuple[Run, ...], starts: Array, stops: Array, before: int, fold: Fold
    ) -> None:
        """Add the rows ``starts[r, b]`` to ``stops[r, b]`` of each run ``r`` to each box ``b``."""
        known = self._known(runs, fold)
        for at, run in enumerate(runs):
            start, stop = starts[at], stops[at]
            wanted, held = int((stop - start).sum()), None
            if known is not None:
                held = self._held(known[id(run)], wanted, fold)
            if known is None or held is None:
                fold_ranges(run.ids, start, stop, before, *fold.arrays)
            elif run.first >= before:
                fold_held(start, stop, held, *fold.arrays[3:])
            else:
                fold_live(run.ids, before, start, stop, held, *fold.arrays[3:])

    def _known(self, runs: tuple[Run, ...], fold: Fold) -> dict[int, _Known] | None:
        """What is known of a column, of the runs that live; None for one that is not kept."""
        owner = fold.values.owner
        if owner is None or fold.values.valid.size:
            return None
        before = self._columns.get(owner, {})
        now = {}
        for run in runs:
            found = before.get(id(run))
            now[id(run)] = found if found is not None and found.run is run else _Known(run)
        self._columns[owner] = now
        return now

    def _held(self, known: _Known, wanted: int, fold: Fold) -> NDArray[Any] | None:
        if known.values is None:
            known.read += wanted
            if known.read < known.run.ids.size or not fold.values.array.size:
                return None
            values, ids = fold.values, known.run.ids
            if known.run.first < values.first:
                ids = np.maximum(ids, values.first)  # values of expired rows may be gone
            held = np.empty(ids.size, values.array.dtype)
            gather(values.array.view(np.uint64), ids, values.first, held.view(np.uint64))
            known.values = held
        return known.values

    @property
    def nbytes(self) -> int:
        """Bytes of values in order."""
        return sum(
            known.values.nbytes
            for runs in self._columns.values()
            for known in runs.values()
            if known.values is not None
        )

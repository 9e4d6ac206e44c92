"""Aggregates of the matches of fresh rows, without storing pairs.

    fresh rows ─ boxes ─┬─ fold inside the index, box by box     one key column decides a match
                        └─ pairs, chunk by chunk ─ fold them     several columns, residuals, windows
                                   └─ boxes of one row are combined ─ one output row per fresh row

Either way a match costs one lookup of a number by id: no pair is kept, no payload is gathered.
Memory is O(boxes) and one chunk of pairs. Ordered Indexing, Section 3.2, calls the first way a
mapper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.aggregate import Aggregate, Folded, Summary, answer
from thetastream.data.number_columns import Values
from thetastream.engine.parts.batches import Flow, OutputPart
from thetastream.engine.probe import AnswerReader, Probe
from thetastream.index.base import Index, folds_itself
from thetastream.index.folding import Fold
from thetastream.metrics import Counters
from thetastream.plan.layout import Boxes

ROWS = ""  # the fold that counts rows, in the place of a column's name


class Summarizer:
    """Turns fresh rows and a probe into output rows with aggregates.

    ``kinds`` are the types of the aggregated columns, ``schema`` that of the output. Columns of the
    fresh rows pass through unchanged.
    """

    def __init__(
        self,
        aggregates: Sequence[Aggregate],
        kinds: Mapping[str, pa.DataType],
        schema: pa.Schema,
        batch_rows: int,
        counters: Counters,
    ) -> None:
        self._aggregates = {one.name: one for one in aggregates}
        self._kinds = kinds
        self._schema = schema
        self._size = batch_rows
        self._counters = counters

    def summarize(
        self,
        batch: pa.RecordBatch,
        probe: Probe | None,
        columns: Mapping[str, Values],
        pool: ThreadPoolExecutor | None,
    ) -> list[OutputPart]:
        """Return one output row per row of the batch; ``probe`` is None if no row can match.

        Folds inside the index happen now. Pairs are found from a snapshot while the result is read,
        unless threads share the work.
        """
        if not batch.num_rows:
            return []
        folds = self._folds(columns)
        if probe is None:
            return [self._part(batch, lambda: _empty(folds, batch.num_rows))]
        boxes = probe.boxes()
        slices = probe.split(boxes)
        if is_mapped(probe):
            work = [self._mapping(probe, part, folds) for part in slices]
        else:
            work = [self._pairing(probe, part, folds) for part in slices]

        def run() -> dict[str, Folded]:
            with probe.timed():
                if pool is None or len(work) == 1:
                    done = [one() for one in work]
                else:
                    done = list(pool.map(lambda one: one(), work))
                self._counters.candidates += sum(candidates for _, candidates in done)
                joined = {name: _joined([folded[name] for folded, _ in done]) for name in folds}
                rows = {
                    name: combined(fold, boxes.owners, batch.num_rows)
                    for name, fold in joined.items()
                }
                self._counters.matches += int(rows[ROWS].counts.sum())
            return rows

        if pool is not None or is_mapped(probe):
            folded = run()
            return [self._part(batch, lambda: folded)]
        return [self._part(batch, cache(run))]

    def _folds(self, columns: Mapping[str, Values]) -> dict[str, Values | None]:
        """What must be folded: the rows, and the columns whose values matter."""
        folds: dict[str, Values | None] = {ROWS: None}
        for aggregate in self._aggregates.values():
            name = aggregate.column
            if name is not None and self._is_needed(aggregate, columns[name]):
                folds[name] = columns[name]
        return folds

    @staticmethod
    def _is_needed(aggregate: Aggregate, values: Values) -> bool:
        """Values without NULLs are counted with the rows."""
        return aggregate.function is not Summary.COUNT or values.valid.size > 0

    # --- Folding --------------------------------------------------------------------------------

    def _mapping(
        self, probe: Probe, boxes: Boxes, folds: Mapping[str, Values | None]
    ) -> Callable[[], tuple[dict[str, Folded], int]]:
        """Fold inside the index, without pairs."""
        lows, highs = np.ascontiguousarray(boxes.lows), np.ascontiguousarray(boxes.highs)
        index = probe.index

        def run() -> tuple[dict[str, Folded], int]:
            folded: dict[str, Folded] = {}
            for name, values in folds.items():
                if values is not None:
                    fold = Fold(values, len(boxes))
                    index.fold_boxes(lows, highs, fold)
                    folded[name] = Folded.of(fold)
            whole = _whole(folds)
            folded[ROWS] = _counted(index, lows, highs) if whole is None else folded[whole]
            return folded, 0

        return run

    def _pairing(
        self, probe: Probe, boxes: Boxes, folds: Mapping[str, Values | None]
    ) -> Callable[[], tuple[dict[str, Folded], int]]:
        """Fold pairs as they are found, a chunk at a time."""
        start: Callable[[], AnswerReader] = probe.pairs(boxes, boxed=True)

        def run() -> tuple[dict[str, Folded], int]:
            whole = _whole(folds)
            running = {
                name: Fold(values, len(boxes))
                for name, values in folds.items()
                if name != ROWS or whole is None
            }
            reader = start()
            for positions, ids in reader.pairs:
                for fold in running.values():
                    fold.add(np.ascontiguousarray(positions), np.ascontiguousarray(ids))
            folded = {name: Folded.of(fold) for name, fold in running.items()}
            folded[ROWS] = folded[whole or ROWS]
            return folded, reader.candidates

        return run

    # --- Rows -----------------------------------------------------------------------------------

    def _part(self, batch: pa.RecordBatch, fold: Callable[[], dict[str, Folded]]) -> OutputPart:
        def flow() -> Iterator[pa.RecordBatch]:
            folds = fold()
            with self._counters.timed("gather"):
                columns = [self._column(name, batch, folds) for name in self._schema.names]
                whole = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            for start in range(0, whole.num_rows, self._size):
                yield whole.slice(start, self._size)

        return Flow(flow)

    def _column(self, name: str, batch: pa.RecordBatch, folds: Mapping[str, Folded]) -> pa.Array:
        aggregate = self._aggregates.get(name)
        if aggregate is None:
            return batch.column(name)
        column = aggregate.column
        if column is None:
            return answer(aggregate, None, folds[ROWS])
        return answer(aggregate, self._kinds[column], folds.get(column, folds[ROWS]))


def is_mapped(probe: Probe) -> bool:
    """Whether one key column decides every match, and the index has a fold of its own."""
    checked = probe.layout.columns > 1 or probe.binding.residuals or probe.window is not None
    return folds_itself(type(probe.index)) and not checked


def _whole(folds: Mapping[str, Values | None]) -> str | None:
    """A folded column without NULLs, whose values are as many as the rows."""
    whole = [n for n, values in folds.items() if values is not None and not values.valid.size]
    return whole[0] if whole else None


def _counted(index: Index, lows: Array, highs: Array) -> Folded:
    """The number of rows in each box; nothing else is asked of them."""
    fold = Fold(None, lows.shape[1], counting=True)
    index.fold_boxes(lows, highs, fold)
    return Folded.of(fold)


def _empty(folds: Mapping[str, Values | None], count: int) -> dict[str, Folded]:
    return {name: Folded.of(Fold(values, count)) for name, values in folds.items()}


# --- Combining ----------------------------------------------------------------------------------


def _arrays(folded: Folded) -> tuple[NDArray[np.generic], ...]:
    return folded.counts, folded.totals, folded.carries, folded.least, folded.greatest


def _joined(parts: Sequence[Folded]) -> Folded:
    """The entries of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(_arrays(part) for part in parts), strict=True)
    return Folded(*(np.concatenate(column) for column in columns))


def combined(boxes: Folded, owners: Array, count: int) -> Folded:
    """The folds of ``count`` rows from those of their boxes; box ``i`` is of row ``owners[i]``.

    In rounds: the first box of every row, then the second, … O(boxes log boxes).
    """
    real = boxes.totals.dtype == np.float64
    empty = Values(np.empty(0, np.float64 if real else np.int64))
    rows = Folded.of(Fold(empty, count))
    order = np.argsort(owners, kind="stable")
    sorted_owners = owners[order]
    turn = np.arange(owners.size) - np.searchsorted(sorted_owners, sorted_owners)
    for number in range(int(turn.max(initial=-1)) + 1):
        at = order[turn == number]
        _add(rows, owners[at], Folded(*(array[at] for array in _arrays(boxes))), real=real)
    return rows


def _add(rows: Folded, at: Array, boxes: Folded, *, real: bool) -> None:
    """Add folds to those of different rows."""
    rows.counts[at] += boxes.counts
    if real:
        total, more = rows.totals[at], boxes.totals
        with np.errstate(invalid="ignore", over="ignore"):
            now = total + more
            back = now - total
            rest = (total - (now - back)) + (more - back)  # Knuth's two-sum
            rows.carries[at] += boxes.carries + rest
        rows.totals[at] = now
        rows.least[at] = np.fmin(rows.least[at], boxes.least)  # NaN only where all are
        rows.greatest[at] = np.maximum(rows.greatest[at], boxes.greatest)  # NaN where one is
        return
    rows.totals[at] += boxes.totals
    rows.carries[at] += boxes.carries
    rows.least[at] = np.minimum(rows.least[at], boxes.least)
    rows.greatest[at] = np.maximum(rows.greatest[at], boxes.greatest)

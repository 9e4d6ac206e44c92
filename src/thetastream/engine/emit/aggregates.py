"""``aggregate=``: one row per left row, over the right rows that it sees.

A left row sees the right rows that are in its window when it arrives and satisfy the predicate.
Right rows are stored and indexed, and never probe. Left rows probe once, and are never probed.

    count window   arrival is the order of pushes (left first), or of ranks: the row at ``c(x)``
                   sees the positions ``[c(x) - size, c(x))`` of the right side. It probes at once,
                   or when its rank is due, and is not stored.
    time window    arrival is event time: the row at ``t`` sees right rows with times
                   ``[t - size, t]``, whenever they arrive. It waits in its stream until it is
                   final, when no such row can arrive any more; then it probes.

So the answer does not depend on how streams are cut into pushes, nor, with a time window, on the
order of arrival within the lateness. No pair is stored:

    fresh rows ─ boxes ─┬─ fold inside the index, box by box     one key column decides a match
                        └─ pairs, chunk by chunk ─ fold them     several columns, residuals, windows
                                   └─ boxes of one row are combined ─ one output row per fresh row

Either way a match costs one lookup of a number by id: no pair is kept, no payload is gathered.
Memory is O(boxes) and one chunk of pairs. Ordered Indexing, Section 3.2, calls the first way a
mapper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.aggregate import Aggregate, Folded, Summary, answer
from thetastream.boxes.fresh import Fresh
from thetastream.data.number_columns import Values
from thetastream.engine.emit.base import Emitter, Task
from thetastream.engine.parts.batches import Flow, OutputPart
from thetastream.engine.probe import AnswerReader, Probe
from thetastream.index.base import Index, folds_itself
from thetastream.index.folding import Fold
from thetastream.plan.layout import Boxes
from thetastream.side import Side

ROWS = ""  # the fold that counts rows, instead of a column's name
_ASKED = 1 << 16  # waiting rows that probe at a time


class Aggregates(Emitter):
    """Folds the matches of left rows. Their columns pass through unchanged."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._aggregates = {one.name: one for one in task.query.aggregates}
        self._kinds = {field.name: field.type for field in task.binding.schemas[Side.RIGHT]}
        self._schema = task.shape.schema

    def answer(self, rows: Fresh, probe: Probe | None) -> list[OutputPart]:
        """Return one output row per left row; ``probe`` is None if no row can match.

        Folds inside the index happen now. Pairs are found from a snapshot while the result is read,
        unless threads share the work.
        """
        batch, pool = rows.batch, self._task.pool
        if not batch.num_rows:
            return []
        measured = self._task.streams[Side.RIGHT].measured
        folds = self._folds({name: column.view() for name, column in measured.items()})
        if probe is None:
            return [self._part(batch, lambda: _empty(folds, batch.num_rows))]
        boxes = probe.boxes()
        slices = probe.split(boxes)
        if is_mapped(probe):
            work = [partial(_mapped, probe.index, part, folds) for part in slices]
        else:
            begun = [probe.pairs(part, boxed=True) for part in slices]
            work = [
                partial(_paired, start, len(part), folds)
                for start, part in zip(begun, slices, strict=True)
            ]

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

    def final(self, role: Side, ids: Array) -> list[OutputPart]:
        """Probe with waiting left rows; their keys are computed again from the stored columns."""
        task = self._task
        left, schema = task.streams[Side.LEFT], task.binding.schemas[Side.LEFT]
        names, view = left.rows.columns, left.rows.view()
        kept = pa.schema([schema.field(name) for name in names])
        parts: list[OutputPart] = []
        for start in range(0, ids.size, _ASKED):
            some = ids[start : start + _ASKED]
            with self._counters.timed("gather"):
                arrays = [view.take(name, some) for name in names]
                batch = pa.RecordBatch.from_arrays(arrays, schema=kept)
            with self._counters.timed("keys"):
                keys = task.binding.keys(Side.LEFT, batch)
            rows = Fresh(Side.LEFT, batch, {Side.LEFT: keys})
            parts += self.answer(rows, self._probe(rows))
        return parts

    def _probe(self, rows: Fresh) -> Probe | None:
        stream = self._task.streams[Side.RIGHT]
        if not len(stream.rows):
            return None
        facts = (stream, self._counters, None, self._size)
        return Probe(self._task.binding, rows, 0, Side.LEFT, *facts)

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


def _mapped(
    index: Index, boxes: Boxes, folds: Mapping[str, Values | None]
) -> tuple[dict[str, Folded], int]:
    """Fold inside the index, without pairs; also return the number of candidates, 0."""
    lows, highs = np.ascontiguousarray(boxes.lows), np.ascontiguousarray(boxes.highs)
    folded: dict[str, Folded] = {}
    for name, values in folds.items():
        if values is not None:
            fold = Fold(values, len(boxes))
            index.fold_boxes(lows, highs, fold)
            folded[name] = Folded.of(fold)
    whole = _whole(folds)
    folded[ROWS] = _counted(index, lows, highs) if whole is None else folded[whole]
    return folded, 0


def _paired(
    start: Callable[[], AnswerReader], boxes: int, folds: Mapping[str, Values | None]
) -> tuple[dict[str, Folded], int]:
    """Fold pairs as they are found, a chunk at a time; also return the number of candidates."""
    whole = _whole(folds)
    running = {
        name: Fold(values, boxes) for name, values in folds.items() if name != ROWS or whole is None
    }
    reader = start()
    for positions, ids in reader.pairs:
        for fold in running.values():
            fold.add(np.ascontiguousarray(positions), np.ascontiguousarray(ids))
    folded = {name: Folded.of(fold) for name, fold in running.items()}
    folded[ROWS] = folded[whole or ROWS]
    return folded, reader.candidates


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

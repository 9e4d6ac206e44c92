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
order of arrival within the lateness.
"""

from __future__ import annotations

import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.boxes.fresh import Fresh
from thetastream.engine.emit.base import Emitter, Task
from thetastream.engine.emit.summarizer import Summarizer
from thetastream.engine.parts.batches import OutputPart
from thetastream.engine.probe import Probe
from thetastream.side import Side

_ASKED = 1 << 16  # waiting rows that probe at a time


class Aggregates(Emitter):
    """Folds the matches of left rows."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        kinds = {field.name: field.type for field in task.binding.schemas[Side.RIGHT]}
        self._summarizer = Summarizer(
            task.query.aggregates, kinds, task.shape.schema, self._size, task.counters
        )

    def answer(self, rows: Fresh, probe: Probe | None) -> list[OutputPart]:
        measured = self._task.streams[Side.RIGHT].measured
        columns = {name: column.view() for name, column in measured.items()}
        return self._summarizer.summarize(rows.batch, probe, columns, self._task.pool)

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

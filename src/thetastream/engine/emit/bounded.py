"""Output whose size does not depend on the number of matches: no pair is written.

``output="count"`` is how many matches each fresh row has; ``output="ranges"`` is where the matches
lie, found at once: more matches do not cost more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from thetastream.boxes.fresh import Fresh
from thetastream.engine.emit import base
from thetastream.engine.emit.base import Emitter, fresh_numbers
from thetastream.engine.parts.batches import Flow, OutputPart, counted
from thetastream.engine.parts.records import Records
from thetastream.engine.probe import Probe, collect
from thetastream.side import Side


class Counts(Emitter):
    """Counts ranges at once if one key column decides every pair; otherwise pairs, when read."""

    def answer(self, rows: Fresh, probe: Probe | None) -> list[OutputPart]:
        if probe is None:
            return []
        numbers = fresh_numbers(probe).of(np.arange(rows.count))
        if probe.settled:
            counts = probe.counts()
            self._counters.matches += int(counts.sum())
            return [Flow(partial(counted, probe.side, numbers, counts, self._size))]
        matches = collect(probe, self._task.pool, None, base.EAGER_PAIRS)
        sides = list(Side) if self._task.mirrored else [probe.side]

        def flow() -> Iterator[pa.RecordBatch]:
            counts = np.zeros(rows.count, np.int64)
            for fresh_rows, _ in matches:
                np.add.at(counts, fresh_rows, 1)
            for side in sides:
                yield from counted(side, numbers, counts, self._size)

        return [Flow(flow)]


class RangeRecords(Emitter):
    """Records ⟨start, end⟩ into the sorted arrays of an index."""

    def answer(self, rows: Fresh, probe: Probe | None) -> list[OutputPart]:
        if probe is None:
            return []
        owners, ranges, negated = probe.ranges()
        rows_in = owners + probe.first
        records = Records.of(probe.side, rows_in, ranges, negated=negated, size=self._size)
        self._counters.matches += records.matches
        return [records]

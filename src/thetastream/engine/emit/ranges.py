"""``output="ranges"``: where the matches lie, found at once; more matches do not cost more."""

from __future__ import annotations

from thetastream.boxes.fresh import Fresh
from thetastream.engine.emit.base import Emitter
from thetastream.engine.parts.batches import OutputPart
from thetastream.engine.parts.records import Records
from thetastream.engine.probe import Probe


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

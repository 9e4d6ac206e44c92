"""``output="ranges"``: where the matches lie, found at once, as no search takes longer for many."""

from __future__ import annotations

from thetastream.boxes.fresh import Fresh
from thetastream.engine.emit.base import Emitter
from thetastream.engine.output.batches import OutputPart
from thetastream.engine.output.records import Records
from thetastream.engine.probe import Probe


class RangeRecords(Emitter):
    """Records ⟨start, end⟩ into the sorted arrays of an index."""

    def answer(self, rows: Fresh, probe: Probe | None) -> list[OutputPart]:
        if probe is None:
            return []
        owners, found, negated = probe.ranges()
        owners = owners + probe.first
        records = Records.of(probe.side, owners, found, negated=negated, size=self._size)
        self._counters.matches += records.matches
        return [records]

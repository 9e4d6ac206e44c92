"""When phases start and how large they are (SSIJ, Sections IV-B and IV-F).

The phases report which leaves are asked for, what the cache answers, how long rows waited, how long
a join phase took and how many rows arrived meanwhile. From these reports follow the thresholds of
the next cycle, the moment at which work must start for a deadline, and whether memory would fill up
during a join phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from thetastream.duration import Interval
from thetastream.errors import OptionError, RelationError
from thetastream.relation.disk.clock import Clock, Costs
from thetastream.relation.join.arrivals import Arrivals
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.metrics import RelationCounters
from thetastream.relation.join.waiting import Segment, StreamBuffer
from thetastream.relation.join.workspace import Workspace
from thetastream.relation.pacing.deadlines import CostModel
from thetastream.relation.pacing.tuning import Thresholds, Tuner

_SHORT = 0.001  # seconds before a deadline at which work starts at the latest
_SHARE = 0.4  # of a deadline that one join phase may take
_FADE = 0.9  # weight of what arrived during earlier join phases


class Pace:
    """Thresholds, an optional deadline in seconds, and what is known about the stream.

    ``fixed`` are thresholds set by the user. Rows that arrive during a join phase wait for its end
    and then for their own phase. So a phase may take less than half of a deadline; it starts at
    once if it would take longer.
    """

    thresholds: Thresholds
    """Set by ``tune``."""

    def __init__(
        self,
        tuner: Tuner,
        fixed: Mapping[str, int],
        deadline: float | None,
        costs: Costs,
        clock: Clock,
        counters: RelationCounters,
    ) -> None:
        self.tuner = tuner
        """Learns which leaves rows ask for."""
        self._fixed: dict[str, Any] = dict(fixed)
        self._deadline = deadline
        self._model = CostModel(costs.seek, costs.transfer, margin=0.3)
        self._clock = clock
        self._counters = counters
        self._backlog = 0.0  # bytes of rows that arrive during a join phase,
        self._incoming = 0.0  # and how many per second

    def done(self, segments: Iterable[Segment]) -> None:
        """Count rows that have been answered, by how long they waited."""
        now, counters, deadline = self._clock.now(), self._counters, self._deadline
        for segment in segments:
            waited = now - segment.arrived
            counters.latencies.add(waited, segment.rows)
            if deadline is not None and waited <= deadline:
                counters.deadlines_met += segment.rows
            elif deadline is not None:
                counters.deadlines_missed += segment.rows

    def has_read(self, leaves: int, seconds: float, came: int) -> None:
        """Record the end of a join phase, during which ``came`` bytes of rows arrived."""
        self._model.observe(leaves, seconds)
        self._backlog = max(_FADE * self._backlog, float(came))
        self._incoming = max(_FADE * self._incoming, came / seconds if seconds > 0 else 0.0)

    def tune(self, work: Workspace, index_bytes: int, waiting_bytes: float) -> None:
        """Choose thresholds for the next cycle; a waiting row takes ``waiting_bytes``.

        No rows wait now, so there is room for any choice.
        """
        self.tuner.fixed = index_bytes + work.fixed_bytes + int(self._backlog)
        chosen = self.tuner.thresholds(work.row_bytes + work.per_row, waiting_bytes)
        self.thresholds = work.reserve(replace(chosen, **self._fixed))

    def begin(self, arrivals: Arrivals, waiting: StreamBuffer, leaves: int) -> float | None:
        """The moment at which work must start; None if no row is under a deadline."""
        if self._deadline is None:
            return None
        first = [arrivals.oldest] if arrivals.rows else []
        first += [waiting.oldest] if waiting.rows else []
        if not first:
            return None
        misses, hits = self._counters.misses, self._counters.hits
        missing = (misses + 1) / (misses + hits + 1)
        needed = self._model.estimate(min(waiting.leaves_at_most + arrivals.rows * missing, leaves))
        if needed >= _SHARE * self._deadline:
            return min(first)
        return min(first) + self._deadline * (1 - _SHARE) - needed - _SHORT

    def is_due(self, arrivals: Arrivals, waiting: StreamBuffer, leaves: int) -> bool:
        """Whether work must start now."""
        moment = self.begin(arrivals, waiting, leaves)
        return moment is not None and self._clock.now() >= moment

    def is_crowded(self, waiting: StreamBuffer, memory: Memory, leaves: int) -> bool:
        """Whether a join phase is due: enough rows wait, or too many would arrive during it.

        The latter is estimated from the rate of arrivals and the duration of the last phases.
        """
        enough = self.thresholds.stream_rows
        if waiting.rows >= enough:
            return True
        if not self._incoming or waiting.rows < enough >> 3:
            return False
        coming = self._incoming * self._model.estimate(min(waiting.leaves_at_most, leaves))
        return memory.rows + coming >= memory.for_rows


def read_deadline(deadline: str | timedelta | Interval | None, costs: Costs) -> float | None:
    """The deadline in seconds; OptionError if it is not a duration, RelationError if too short."""
    if deadline is None:
        return None
    try:
        seconds = Interval.of(deadline).nanoseconds / 1e9
    except ValueError as error:
        raise OptionError(f"deadline: {error}") from None
    one = costs.seek + costs.transfer
    least = (one + _SHORT) / _SHARE
    if seconds < least:
        raise RelationError(
            f"a deadline of {seconds * 1e3:g} ms cannot be met: one block takes {one * 1e3:.3g} ms "
            f"to read from this device. At a low rate, {least * 1e3:.3g} ms or more can be met"
        )
    return seconds

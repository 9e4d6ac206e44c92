"""When work must begin so that every row is answered in time (SSIJ, Section IV-F)."""

from __future__ import annotations

from datetime import timedelta

from thetastream.duration import Interval
from thetastream.errors import RelationError
from thetastream.relation.disk.clock import Clock, Costs
from thetastream.relation.join.arrivals import Arrivals
from thetastream.relation.join.engine import Engine
from thetastream.relation.join.metrics import Counters
from thetastream.relation.join.waiting import Segment
from thetastream.relation.pacing.deadlines import CostModel

__all__ = ["Urgency"]

_SHORT = 0.001  # seconds before a deadline in which work is begun at the latest
_SHARE = 0.4  # of a deadline, that one join phase may take


class Urgency:
    """A deadline, or none, and what is known about the time that join phases take.

    Rows that come while a join phase runs wait for it first, and then for their own. So one may
    take less than half of a deadline; it begins at once when it would take more.
    """

    def __init__(
        self,
        deadline: str | timedelta | Interval | None,
        costs: Costs,
        clock: Clock,
        counters: Counters,
    ) -> None:
        self.model = CostModel(costs.seek, costs.transfer, margin=0.3)
        self._clock = clock
        self._counters = counters
        self.deadline = None if deadline is None else _read(deadline, costs)

    def begin(self, engine: Engine, arrivals: Arrivals) -> float | None:
        """The moment at which work must begin; None when no row is under a deadline."""
        if self.deadline is None:
            return None
        first = [arrivals.oldest] if arrivals.rows else []
        first += [engine.waiting.oldest] if engine.waiting.rows else []
        if not first:
            return None
        misses, hits = self._counters.misses, self._counters.hits
        missing = (misses + 1) / (misses + hits + 1)
        leaves = engine.waiting.leaves_at_most + arrivals.rows * missing
        needed = self.model.estimate(min(leaves, len(engine.fences.firsts)))
        if needed >= _SHARE * self.deadline:
            return min(first)
        return min(first) + self.deadline * (1 - _SHARE) - needed - _SHORT

    def is_due(self, engine: Engine, arrivals: Arrivals) -> bool:
        """Whether work must begin now."""
        moment = self.begin(engine, arrivals)
        return moment is not None and self._clock.now() >= moment

    def done(self, segments: list[Segment]) -> None:
        """Count rows that have been answered, by how long they waited."""
        now, counters = self._clock.now(), self._counters
        for segment in segments:
            waited = now - segment.arrived
            counters.latencies.add(waited, segment.rows)
            if self.deadline is not None and waited <= self.deadline:
                counters.deadlines_met += segment.rows
            elif self.deadline is not None:
                counters.deadlines_missed += segment.rows


def _read(deadline: str | timedelta | Interval, costs: Costs) -> float:
    """Seconds; RelationError for what is no duration, or shorter than a read."""
    try:
        seconds = Interval.of(deadline).nanoseconds / 1e9
    except ValueError as error:
        raise RelationError(f"deadline: {error}") from None
    one = costs.seek + costs.transfer
    least = (one + _SHORT) / _SHARE
    if seconds < least:
        raise RelationError(
            f"a deadline of {seconds * 1e3:g} ms cannot be met: one block takes {one * 1e3:.3g} ms "
            f"to read from this device. {least * 1e3:.3g} ms or more can be, at a low rate"
        )
    return seconds

"""From a join to its emitter."""

from __future__ import annotations

from thetastream.engine.emit.aggregates import Aggregates
from thetastream.engine.emit.base import Emitter, Task
from thetastream.engine.emit.counts import Counts
from thetastream.engine.emit.pairs import Pairs
from thetastream.engine.emit.ranges import RangeRecords
from thetastream.output_mode import Output

_BOUNDED: dict[Output, type[Emitter]] = {Output.COUNT: Counts, Output.RANGES: RangeRecords}


def emitter_of(task: Task) -> Emitter:
    """What writes the output of a join."""
    if task.query.aggregates:
        return Aggregates(task)
    return _BOUNDED.get(task.query.output, Pairs)(task)

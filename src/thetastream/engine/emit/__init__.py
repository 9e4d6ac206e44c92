"""What is returned for matches, one way per module: an emitter turns a probe into output parts.

``pairs`` writes rows of the output, or pairs of arrival numbers, for all join modes; ``counts`` and
``ranges`` write no pair; ``aggregates`` folds the matches of each left row (``summarizer``).
``base`` is the protocol. The room imports ``probe``, ``stream`` and ``query`` of the engine, and
``output``.
"""

from __future__ import annotations

from thetastream.engine.emit.aggregates import Aggregates
from thetastream.engine.emit.base import Emitter, Task
from thetastream.engine.emit.counts import Counts
from thetastream.engine.emit.pairs import Pairs
from thetastream.engine.emit.ranges import RangeRecords
from thetastream.output_mode import Output

__all__ = ["Emitter", "Task", "emitter_of"]

_BOUNDED: dict[Output, type[Emitter]] = {Output.COUNT: Counts, Output.RANGES: RangeRecords}


def emitter_of(task: Task) -> Emitter:
    """What writes the output of a join."""
    if task.query.aggregates:
        return Aggregates(task)
    return _BOUNDED.get(task.query.output, Pairs)(task)

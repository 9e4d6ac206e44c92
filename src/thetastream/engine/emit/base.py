"""The protocol between the engine and an emitter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from thetastream._jit.arrays import Array
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.data.rows import NumberView
from thetastream.engine.parts.batches import OutputPart
from thetastream.engine.probe import Probe
from thetastream.engine.query import Query, Traits
from thetastream.engine.stream import Stream
from thetastream.metrics import Counters
from thetastream.shape import OutputShape
from thetastream.side import Side

EAGER_PAIRS = 1 << 20


@dataclass(frozen=True)
class Task:
    """What an emitter needs to know of a join. ``streams`` holds the stream of each role."""

    query: Query
    binding: Binding
    traits: Traits
    shape: OutputShape
    counters: Counters
    streams: Mapping[Side, Stream]

    @cached_property
    def mirrored(self) -> bool:
        """Whether a self-join finds each pair once and returns it in both orders."""
        return self.query.mirrored and self.traits.mirrors

    @cached_property
    def pool(self) -> ThreadPoolExecutor | None:
        """The threads that share the matching of a push."""
        return ThreadPoolExecutor(self.query.threads) if self.query.threads > 1 else None


class Emitter(ABC):
    """Turns probes into parts of the output."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._counters = task.counters
        self._size = task.query.batch_rows

    @abstractmethod
    def answer(self, rows: Fresh, probe: Probe | None) -> list[OutputPart]:
        """The output for fresh rows; ``probe`` is None if no stored row can meet them."""

    def final(self, role: Side, ids: Array) -> list[OutputPart]:
        """The output for stored rows that never matched and that nothing can meet any more."""
        return []

    def close(self) -> None:
        """Release the threads."""
        if self._task.pool is not None:
            self._task.pool.shutdown(wait=False)


def fresh_numbers(probe: Probe) -> NumberView:
    """The arrival numbers of the probing rows."""
    numbers = probe.rows.places.numbers
    return NumberView(probe.first) if numbers is None else NumberView(0, numbers)

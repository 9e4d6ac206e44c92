"""A contestant at work: filled, warmed up, then timed lap by lap."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thetabench.digest import Digest, mix
from thetabench.pim.contestant import Contestant, Indexed, Joiner
from thetabench.pim.stream import Stream

__all__ = ["MOST_PAIRS", "Lap", "Trial"]

Array = NDArray[np.int64]
_FIRST = 64  # tuples of the first chunk, and a chunk's least
_CHUNK = 1 << 18  # tuples given to a join at a time: also what it queues at a time
_CHUNK_PAIRS = 1 << 24
_CHUNK_SECONDS = 0.25
MOST_PAIRS = 1 << 26
"""Pairs of a measurement, unless a cycle of merges has more: all are checked, which takes time."""


@dataclass
class Lap:
    """What was done over some tuples."""

    start: int
    stop: int
    seconds: float = 0.0
    cpu: float = 0.0
    answer: Digest = field(default_factory=partial(Digest, 0, 0))
    steps: dict[str, float] = field(default_factory=dict)
    """Nanoseconds per step, of all tuples together."""

    @property
    def tuples(self) -> int:
        """How many tuples."""
        return self.stop - self.start

    @property
    def speed(self) -> float:
        """Tuples per second."""
        return self.tuples / max(self.seconds, 1e-9)

    def extend(self, more: Lap) -> None:
        """Go on with what was done over the next tuples."""
        assert more.start == self.stop
        self.stop = more.stop
        self.seconds += more.seconds
        self.cpu += more.cpu
        self.answer += more.answer
        self.steps = {name: self.steps.get(name, 0.0) + spent for name, spent in more.steps.items()}


class Trial:
    """A contestant's join, where it is in the stream, and what it has found so far.

    The clock runs while pairs are asked for and stands while they are counted. That is fair as a
    join does nothing until it is asked: threads come back before pairs are handed out.
    """

    def __init__(self, who: Contestant, joiner: Joiner, stream: Stream) -> None:
        self.who = who
        self.joiner = joiner
        self.stream = stream
        self.at = 0
        self.answer = Digest(0, 0)
        self.laps: list[Lap] = []
        self._speed = 0.0
        self._chunk = _FIRST
        start = time.perf_counter()
        joiner.fill(*stream.fill())
        self.fill_seconds = time.perf_counter() - start

    def warm_up(self, seconds: float, most: float = float("inf")) -> None:
        """Join more and more tuples until there is an idea of the speed, or ``most`` are done."""
        self.advance(self._chunk)  # both sides merge, as they have been filled to the brim
        spent = 0.0
        while not self._speed or (spent < seconds and self.at + self._chunk <= most):
            lap = self.advance(self.at + self._chunk)
            spent += lap.seconds
            self._speed = max(self._speed, lap.speed)
        self.forget()

    def wanted(self, seconds: float) -> int:
        """How many tuples to time: for so many seconds at least, in whole cycles of merges."""
        cycle = self.who.cycle(self.stream.shape)
        speed = self.laps[-1].speed if self.laps else self._speed
        most = int(MOST_PAIRS / max(1.0, self.stream.shape.match_rate))
        return -(-max(_FIRST, min(int(seconds * speed), most)) // cycle) * cycle

    def advance(self, stop: int, *, empty: bool = False) -> Lap:
        """Join up to a tuple; with ``empty`` boxes that hold nothing, which must give no pair."""
        lap, before = Lap(self.at, stop), self._steps()
        while self.at < stop:
            end = min(self.at + self._chunk, stop)
            sides, keys = self.stream.tuples(self.at, end)
            spent = lap.seconds
            self._read(self.joiner.run(sides, keys, *self.stream.boxes(keys, empty=empty)), lap)
            self._adapt(end - self.at, lap.seconds - spent)
            self.at = end
        lap.steps = {step: spent - before[step] for step, spent in self._steps().items()}
        self.answer += lap.answer
        return lap

    def _adapt(self, tuples: int, seconds: float) -> None:
        """Choose the next chunk: as large as can be, unless that takes too long."""
        if seconds > _CHUNK_SECONDS:
            self._chunk = max(_FIRST, self._chunk // 2)
        elif tuples == self._chunk and seconds < _CHUNK_SECONDS / 2:
            largest = min(_CHUNK, int(_CHUNK_PAIRS / max(1.0, self.stream.shape.match_rate)))
            self._chunk = min(2 * self._chunk, largest)

    def _read(self, answer: Iterator[tuple[Array, Array]], lap: Lap) -> None:
        while True:
            start, cpu = time.perf_counter(), time.process_time()
            pairs = next(answer, None)
            lap.seconds += time.perf_counter() - start
            lap.cpu += time.process_time() - cpu
            if pairs is None:
                return
            positions, numbers = pairs
            total = int(mix(positions + self.at, numbers).sum(dtype=np.uint64))
            lap.answer += Digest(len(positions), total)

    def _steps(self) -> dict[str, float]:
        """Nanoseconds since the beginning, by step."""
        if not self.who.steps or not isinstance(self.joiner, Indexed):
            return {}
        tuples = self.stream.shape.rows + self.at
        return {step: cost * tuples for step, cost in self.joiner.join.costs.items()}

    def forget(self) -> None:
        """Drop the times of tasks recorded so far."""
        if isinstance(self.joiner, Indexed) and self.joiner.join.crew is not None:
            self.joiner.join.crew.forget()

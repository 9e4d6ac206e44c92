"""A contestant at work: batch after batch, each timed and checked; and turns of several.

The clock runs while the structure works and stands while answers are checked and the next batch is
made. An answer of pairs is read to its end, chunk by chunk.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from thetabench.arrays import Array
from thetabench.digest import Digest, pair_digest

TURNS = 3

T = TypeVar("T")


class Clocked(ABC):
    """What one contestant does in a cell: ``name`` is for messages.

    ``several``: whether threads of its own go on while nobody asks for the next chunk.
    """

    def __init__(self, name: str, *, several: bool = False) -> None:
        self.name = name
        self._several = several
        self.steps = 0
        self.tuples = 0
        self.seconds = 0.0
        self.cpu = 0.0
        self.pairs = 0
        self.checked = 0
        """Tuples whose effect was compared with the reference, untimed ones included."""

    @abstractmethod
    def step(self) -> bool:
        """Do and check one batch; False when this turn cannot go on."""

    def advance(self, seconds: float) -> None:
        """Work until so many seconds have been timed in all; at least one batch."""
        while (not self.steps or self.seconds < seconds) and self.step():
            self.steps += 1

    def finish(self) -> None:  # noqa: B027  (not every trial has something left)
        """Check what was not checked batch by batch."""

    @property
    def nbytes(self) -> int:
        """Bytes of the structure that was measured; 0 where they are not known."""
        return 0

    def timed(self, work: Callable[[], T]) -> T:
        """Let the clock run."""
        cpu, start = time.process_time(), time.perf_counter()
        done = work()
        self.seconds += time.perf_counter() - start
        self.cpu += time.process_time() - cpu
        return done

    def read(self, answer: Callable[[], Iterator[tuple[Array, Array]]]) -> Digest:
        """Ask and read an answer to its end, while the clock runs; give its digest.

        The clock stands while a chunk is looked at, unless workers go on meanwhile: then all is
        read first.
        """
        chunks = self.timed(answer)
        if self._several:
            chunks = iter(self.timed(lambda: list(chunks)))
        found = Digest(0, 0)
        while (chunk := self.timed(lambda: next(chunks, None))) is not None:
            found += pair_digest(*chunk)
        return found

    def restart(self) -> None:
        """Set the clock to zero, after a rehearsal."""
        self.seconds = self.cpu = 0.0


def take_turns(
    trials: Sequence[Clocked], seconds: float, say: Callable[[Clocked, int], None]
) -> None:
    """Let all work for some seconds each, in turns, so that a slow moment hits everyone.

    One that needs longer than its turn for one batch has just that one.
    """
    for turn in range(TURNS):
        for trial in trials:
            say(trial, turn + 1)
            trial.advance(seconds * (turn + 1) / TURNS)

"""The race: contestants of a cell take turns over the same input, and every answer is checked.

Each contestant has a :class:`Trial`, which times it. All trials of a cell advance by turns, mostly
a third of the time each, so that a slow moment of the machine hits all of them. When the time is
over their answers are compared with the reference, and only then become lines: a wrong answer ends
the run. Contestants that cannot be had, or that give up, have a line with the reason.

What the cells of a run share (input, filled structures, right answers) is a :class:`Course`, one
per paper. It lets contestants enter and checks answers that are best checked together.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from thetabench.arrays import Array
from thetabench.contestant import Unavailable
from thetabench.digest import Digest, pair_digest
from thetabench.figure import Cell, Contestant, Sizes
from thetabench.machine import provenance

TURNS = 3
Values = dict[str, Any]
Say = Callable[[str], None]

T = TypeVar("T")
K = TypeVar("K", bound=Contestant)
C = TypeVar("C", bound=Cell[Any])


class Trial(Generic[K]):
    """A contestant at work in a cell: batch after batch, each timed and checked.

    The clock runs while the structure works and stands while answers are checked and the next batch
    is made. ``several``: whether threads of its own go on while no chunk is asked for.
    """

    def __init__(self, who: K, label: str, *, several: bool = False) -> None:
        self.who = who
        self.name = f"{who.label} ({label})"
        self._several = several
        self.steps = 0
        self.tuples = 0
        self.seconds = 0.0
        self.cpu = 0.0
        self.pairs = 0
        self.checked = 0
        """Tuples whose effect was compared with the reference, untimed ones included."""

    def step(self) -> bool:
        """Do and check one batch; False when this turn cannot go on."""
        raise NotImplementedError("a trial has steps, or turns of its own")

    def turn(self, number: int, seconds: float) -> None:
        """Take a turn, the first to the last of ``TURNS``, of some seconds in all."""
        self.advance(seconds * number / TURNS)

    def advance(self, seconds: float) -> None:
        """Work until this many seconds have been timed in all; at least one batch."""
        while (not self.steps or self.seconds < seconds) and self.step():
            self.steps += 1

    def finish(self) -> None:
        """Check what was not checked batch by batch."""

    def lines(self) -> Iterable[Values]:
        """Columns of its lines: of one, or of several, as for the phases of a stream."""
        yield self.columns

    @property
    def columns(self) -> Values:
        """Columns of its line: the shared ones, to which a paper adds its own."""
        seconds = max(self.seconds, 1e-9)
        return {
            "tuples": self.tuples,
            "seconds": self.seconds,
            "tuples_per_s": self.tuples / seconds,
            "cpu_share": self.cpu / seconds,
            "verified": self.checked > 0,
        }

    def timed(self, work: Callable[[], T]) -> T:
        """Let the clock run."""
        cpu, start = time.process_time(), time.perf_counter()
        done = work()
        self.seconds += time.perf_counter() - start
        self.cpu += time.process_time() - cpu
        return done

    def read(
        self,
        answer: Callable[[], Iterator[tuple[Array, Array]]],
        digest: Callable[[Array, Array], Digest] = pair_digest,
    ) -> Digest:
        """Ask and read an answer to its end, while the clock runs; returns its digest.

        The clock stands while a chunk is looked at, unless workers go on meanwhile: then all is
        read first.
        """
        chunks = self.timed(answer)
        if self._several:
            chunks = iter(self.timed(lambda: list(chunks)))
        total = Digest(0, 0)
        while (chunk := self.timed(lambda: next(chunks, None))) is not None:
            total += digest(*chunk)
        return total

    def restart(self) -> None:
        """Set the clock and the counts to zero, after a rehearsal."""
        self.seconds = self.cpu = 0.0
        self.tuples = self.pairs = 0


class Course(ABC, Generic[C, K]):
    """What the cells of one run have in common.

    A contestant that cannot be had, or that gives up in a turn, raises ``Unavailable`` with the
    reason.
    """

    turns = TURNS

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    def prepare(self, cell: C) -> None:
        """Make what the contestants of a cell share."""

    @abstractmethod
    def enter(self, cell: C, who: K, say: Say) -> Trial[K] | None:
        """A contestant, ready for its first turn; None if it has no part in this cell."""

    def order(self, trials: Sequence[Trial[K]], turn: int) -> Sequence[Trial[K]]:
        """Who goes when in a turn, the first of which is 1: as they have entered."""
        return trials

    def about(self, cell: C, who: K) -> Values:
        """Columns that are known before anything is measured."""
        return {}

    def packages(self, cell: C, who: K) -> Sequence[str]:
        """Packages besides thetastream, NumPy and Numba whose versions belong to a line."""
        return ()

    def check(self, cell: C, trials: Sequence[Any]) -> None:
        """Compare answers with the reference; raises ``VerificationError``."""
        for trial in trials:
            trial.finish()

    def close(self) -> None:
        """Release what the run has taken."""


def race(
    course: Course[Any, Any], cell: Cell[Any], sizes: Sizes, say: Say = lambda step: None
) -> Iterator[Values]:
    """Let the contestants of a cell enter, take turns and be checked; then yield their columns."""
    course.prepare(cell)
    entered = [_entered(course, cell, who, say) for who in cell.contestants]
    for turn in range(1, course.turns + 1):
        for trial in course.order(_trials(entered), turn):
            say(f"{trial.name}: turn {turn} of {course.turns}")
            try:
                trial.turn(turn, sizes.seconds * cell.weight)
            except Unavailable as error:
                entered[entered.index(trial)] = error.with_traceback(None)
    say(f"{cell.label}: checking answers")
    course.check(cell, _trials(entered))
    for who, one in zip(cell.contestants, entered, strict=True):
        about = {
            "figure": cell.figure,
            "contestant": who.label,
            "place": float(who.place),
            "scale": sizes.scale,
            **course.about(cell, who),
            **provenance(("thetastream", "numpy", "numba", *course.packages(cell, who))),
        }
        if isinstance(one, Trial):
            yield from ({**about, **values} for values in one.lines())
        elif one is not None:
            yield {**about, "status": one.status, "reason": str(one)}


def _trials(entered: Sequence[object]) -> list[Trial[Any]]:
    return [one for one in entered if isinstance(one, Trial)]


def _entered(
    course: Course[Any, Any], cell: Cell[Any], who: Contestant, say: Say
) -> Trial[Any] | Unavailable | None:
    say(f"{cell.label}: filling {who.label}")
    try:
        return course.enter(cell, who, say)
    except Unavailable as error:
        return error.with_traceback(None)  # which would keep a large structure

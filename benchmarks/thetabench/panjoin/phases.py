"""Traffic that changes from phase to phase: the rule of ``subwindows`` beside each structure.

A window moves through all phases without being made anew. In every push some boxes are asked, a
batch is inserted, and as many rows expire. Contestants take turns within each phase, and what is
counted is processor time. Every answer is compared with a reference that looks at all candidates of
an offline search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from thetabench.answers import Tally, met
from thetabench.arrays import Array
from thetabench.digest import Digest, row_hash, weights
from thetabench.panjoin.contestant import Contestant
from thetabench.panjoin.stock import Load
from thetabench.panjoin.trial import Moving
from thetabench.race import Values
from thetabench.windows import Filled
from thetastream.datasets.keys import DOMAIN

ALL = 0
"""The place of the sum over all phases."""
SUBWINDOWS = 4
_LENGTH = 13  # half subwindows that a phase goes on for: it ends in the middle of one
_TURNS = 8  # per contestant and phase


@dataclass(frozen=True)
class Phase:
    """What traffic is like for a while."""

    about: str
    batch: int
    boxes: int
    """Asked per push."""
    matches: float
    """Rows of a full window inside a box."""
    drifts: bool = False
    """Whether every subwindow has a range of keys of its own."""


def phases(rows: int) -> list[Phase]:
    """The story of a window of this size; small windows have smaller pushes."""

    def fit(count: int) -> int:
        return max(1, min(count, rows // 16))

    return [
        Phase("large batches", fit(1 << 13), fit(1 << 13), 4.0),
        Phase("drift, few boxes", fit(1 << 10), fit(16), 4.0, drifts=True),
        Phase("steady, few boxes", fit(1 << 10), fit(16), 4.0),
        Phase("many matches", fit(1 << 10), fit(256), fit(1 << 10)),
        Phase("small batches", fit(64), 1, 4.0),
        Phase("drift again, few boxes", fit(1 << 10), fit(16), 4.0, drifts=True),
    ]


@dataclass(frozen=True)
class Push:
    """Rows ``[start, stop)`` arrive, after boxes were asked."""

    number: int
    start: int
    stop: int
    boxes: int
    width: int


class Story(Load):
    """All rows and boxes, the same for every contestant, the right answers, and who takes part."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.phases = phases(rows)
        self.trials: list[Changing] = []
        self._right: dict[int, Digest] = {}
        super().__init__(self.pushes[-1][-1].stop, seed=seed)

    @cached_property
    def pushes(self) -> list[list[Push]]:
        """Those of each phase; the window is full when the first begins."""
        made: list[list[Push]] = []
        start, number = self.rows, 0
        for phase in self.phases:
            width = round(DOMAIN * phase.matches / self.rows / 2)
            count = _LENGTH * self.rows // SUBWINDOWS // 2 // phase.batch
            stops = [start + (n + 1) * phase.batch for n in range(count)]
            made.append([
                Push(number + n, stop - phase.batch, stop, phase.boxes, width)
                for n, stop in enumerate(stops)
            ])  # fmt: skip
            start, number = stops[-1], number + count
        return made

    @cached_property
    def keys(self) -> Array:
        """The key of every row, in order of arrival."""
        keys = self._drawn(np.random.default_rng([self._seed, 0]), self.count)
        for phase, pushes in zip(self.phases, self.pushes, strict=True):
            if phase.drifts:
                start, stop = pushes[0].start, pushes[-1].stop
                steps = np.arange(stop - start) // (self.rows // SUBWINDOWS)
                keys[start:stop] += (1 + steps) * DOMAIN
        return keys

    def boxes(self, push: Push) -> tuple[Array, Array]:
        """Boxes about keys like those that arrive."""
        rng = np.random.default_rng([self._seed, 1 + push.number])
        middle = np.sort(self.keys[rng.integers(push.start, push.stop, push.boxes)])
        return middle - push.width, middle + push.width

    def right(self, push: Push) -> Digest:
        """The right answer of a push, computed once."""
        if push.number not in self._right:
            self.learn([push])
        return self._right[push.number]

    def learn(self, pushes: Sequence[Push]) -> None:
        """Find the right answers of pushes that follow each other."""
        lows, highs = (np.concatenate(edge) for edge in zip(*map(self.boxes, pushes), strict=True))
        sizes = [push.boxes for push in pushes]
        answer = np.repeat(np.arange(len(pushes)), sizes)
        position = np.concatenate([np.arange(size) for size in sizes])
        ends = np.repeat([push.start for push in pushes], sizes)
        tally = Tally(len(pushes))
        for box, ids in met(self.keys, lows, highs, ends - self.rows, ends):
            tally.add(answer[box], weights(position[box]) * row_hash(ids))
        self._right.update(zip((push.number for push in pushes), tally.digests, strict=True))

    def tell(self) -> None:
        """Lead all trials through the phases, in turns within each."""
        for pushes in self.pushes:
            for trial in self.trials:
                trial.restart()
            size = -(-len(pushes) // _TURNS)
            for turn, at in enumerate(range(0, len(pushes), size)):
                some = pushes[at : at + size]
                self.learn(some)  # before any clock runs: the reference takes the caches
                first = turn % len(self.trials)
                for trial in (*self.trials[first:], *self.trials[:first]):
                    for push in some:
                        trial.take(push)
            for trial in self.trials:
                trial.close_phase()


class Changing(Moving):
    """One structure on its way through the story."""

    def __init__(self, who: Contestant, label: str, structure: Any, story: Story) -> None:
        super().__init__(who, label, who.rows)
        self.held = Filled(structure, story)
        self._story = story
        self._phases: list[Values] = []
        story.trials.append(self)
        phase, width = story.phases[0], story.pushes[0][0].width
        for start in range(0, story.rows, phase.batch):
            push = Push(-1, start, start + phase.batch, phase.boxes, width)
            for _ in structure.probe(*story.boxes(push)):
                pass
            self.held.fill(push.stop)

    def turn(self, number: int, seconds: float) -> None:
        """The first trial starts the story, which has turns of its own."""
        if number == 1 and self is self._story.trials[0]:
            self._story.tell()

    def restart(self) -> None:
        """Set the clock and the counts to zero."""
        super().restart()
        self.steps = self.checked = 0

    def take(self, push: Push) -> None:
        """Ask, insert, expire; check the answer."""
        story = self._story
        self.move(push.number, story.boxes(push), push.stop - push.start, lambda: story.right(push))
        self.steps += 1

    def close_phase(self) -> None:
        """Keep what the phase took; processor time is what counts."""
        self.seconds = self.cpu
        self._phases.append(self.columns)

    def lines(self) -> Iterator[Values]:
        """What it needed in every phase, and in all of them."""
        for place, (phase, own) in enumerate(zip(self._story.phases, self._phases, strict=True), 1):
            about = {"batch": phase.batch, "matches": phase.matches, "distribution": phase.about}
            yield {**own, **about, "place": float(place)}
        names = ("seconds", "tuples", "batches", "pairs")
        sums = (sum(own[name] for own in self._phases) for name in names)
        self.seconds, self.tuples, self.steps, self.pairs = sums
        self.cpu, self.checked = self.seconds, self.tuples
        yield {**self.columns, "distribution": "all phases", "place": float(ALL)}

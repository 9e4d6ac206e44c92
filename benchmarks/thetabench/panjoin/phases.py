"""Traffic that changes from phase to phase: the rule of ``subwindows`` beside each structure.

A window moves through all phases without being made anew. In every push some boxes are asked, a
batch is inserted, and as many rows expire. Contestants take turns within each phase, and what is
counted is processor time. Every answer is compared with a reference: the window as sorted blocks of
arrival, and its two ends looked at row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thetabench.arrays import Array, Sums
from thetabench.digest import Digest, check_pairs, row_hash, weighed
from thetabench.panjoin.contestant import Contestant, Structure
from thetabench.panjoin.reference import Truth
from thetabench.panjoin.trial import Timed
from thetabench.race import Values
from thetastream.datasets.keys import DOMAIN

ALL = 0
"""The place of the sum over all phases."""
SUBWINDOWS = 4
_LENGTH = 13  # half subwindows that a phase goes on for: it ends in the middle of one
_BLOCKS = 64  # of a window, in the reference
_FEW = 16  # boxes up to which a reference looks at rows one by one
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


class Story:
    """All rows and boxes, the same for every contestant, the right answers, and who takes part."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.phases = phases(rows)
        self._seed = seed
        self._block = rows // _BLOCKS
        self._right: dict[int, Digest] = {}
        self.trials: list[Changing] = []

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
        rng, count = np.random.default_rng([self._seed, 0]), self.pushes[-1][-1].stop
        keys = rng.integers(0, DOMAIN, count)
        for phase, pushes in zip(self.phases, self.pushes, strict=True):
            if phase.drifts:
                start, stop = pushes[0].start, pushes[-1].stop
                steps = np.arange(stop - start) // (self.rows // SUBWINDOWS)
                keys[start:stop] += (1 + steps) * DOMAIN
        return keys

    @cached_property
    def _blocks(self) -> list[Truth]:
        starts = range(0, self.keys.size, self._block)
        return [Truth(self.keys[start : start + self._block], start) for start in starts]

    def asked(self, push: Push) -> tuple[Array, Array]:
        """Boxes about keys like those that arrive."""
        rng = np.random.default_rng([self._seed, 1 + push.number])
        middle = np.sort(self.keys[rng.integers(push.start, push.stop, push.boxes)])
        return middle - push.width, middle + push.width

    def sorted_batch(self, start: int, stop: int) -> tuple[Array, Array]:
        """Keys and ids of rows, sorted by key."""
        order = np.argsort(self.keys[start:stop])
        return self.keys[start:stop][order], start + order

    def right(self, push: Push) -> Digest:
        """The right answer of a push, computed once."""
        if push.number not in self._right:
            lows, highs = self.asked(push)
            first, last = push.start - self.rows, push.start
            begin, end = -(-first // self._block), last // self._block
            parts = [self._blocks[n].boxes(lows, highs) for n in range(begin, end)]
            parts.append(self._at_end(first, begin * self._block, lows, highs))
            parts.append(self._at_end(end * self._block, last, lows, highs))
            sums = np.stack([hashes for _, hashes in parts]).sum(axis=0, dtype=np.uint64)
            matches = sum(int(counts.sum()) for counts, _ in parts)
            self._right[push.number] = Digest(matches, weighed(np.arange(lows.size), sums))
        return self._right[push.number]

    def _at_end(self, start: int, stop: int, lows: Array, highs: Array) -> tuple[Array, Sums]:
        keys = self.keys[start:stop]
        if lows.size > _FEW:
            return Truth(keys, start).boxes(lows, highs)
        inside = (keys >= lows[:, None]) & (keys <= highs[:, None])
        hashes = np.where(inside, row_hash(np.arange(start, stop)), np.uint64(0))
        return inside.sum(axis=1), hashes.sum(axis=1, dtype=np.uint64)

    def tell(self) -> None:
        """Lead all trials through the phases, in turns within each."""
        for pushes in self.pushes:
            for trial in self.trials:
                trial.restart()
            size = -(-len(pushes) // _TURNS)
            for turn, at in enumerate(range(0, len(pushes), size)):
                some = pushes[at : at + size]
                for push in some:  # before any clock runs: the reference takes the caches
                    self.right(push)
                first = turn % len(self.trials)
                for trial in (*self.trials[first:], *self.trials[:first]):
                    for push in some:
                        trial.take(push)
            for trial in self.trials:
                trial.close_phase()


class Changing(Timed):
    """One structure on its way through the story."""

    def __init__(self, who: Contestant, label: str, structure: Structure, story: Story) -> None:
        super().__init__(who, label)
        self._story = story
        self._structure = structure
        self._phases: list[Values] = []
        story.trials.append(self)
        phase, width = story.phases[0], story.pushes[0][0].width
        for start in range(0, story.rows, phase.batch):
            push = Push(-1, start, start + phase.batch, phase.boxes, width)
            for _ in structure.probe(*story.asked(push)):
                pass
            structure.insert(*story.sorted_batch(push.start, push.stop))

    @property
    def nbytes(self) -> int:
        """Bytes of the window."""
        return self._structure.nbytes

    def turn(self, number: int, seconds: float) -> None:
        """The first trial starts the story, which has turns of its own."""
        if number == 1 and self is self._story.trials[0]:
            self._story.tell()

    def restart(self) -> None:
        """Set the clock and the counts to zero."""
        super().restart()
        self.steps = 0

    def take(self, push: Push) -> None:
        """Ask, insert, expire; check the answer."""
        structure, story = self._structure, self._story
        lows, highs = story.asked(push)
        keys, ids = story.sorted_batch(push.start, push.stop)
        answer = self.read(lambda: structure.probe(lows, highs))
        self.timed(lambda: structure.insert(keys, ids))
        self.timed(lambda: structure.expire(push.stop - story.rows))
        check_pairs(self.name, push.number, answer, story.right(push))
        self.steps += 1
        self.tuples += keys.size
        self.pairs += answer.matches

    def close_phase(self) -> None:
        """Keep what the phase took; processor time is what counts."""
        self.seconds, self.checked = self.cpu, self.tuples
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

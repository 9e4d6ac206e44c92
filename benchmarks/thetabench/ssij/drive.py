"""One join, fed: as fast as it takes rows, or at a rate of arrival; every answer is checked.

With a simulated clock time is what was accounted for. With a real one the watch runs while the join
works, and stands while answers are looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import dropwhile
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.digest import Digest, check_pairs
from thetabench.ssij.load import Rows, Truth, answer_digest
from thetastream.relation.disk.clock import SimulatedClock
from thetastream.relation.join.join import RelationJoin

_CHUNKS = 512  # pieces that a stream is cut into
_LEAST, _MOST = 16, 4096  # rows of a piece
_WARM = 0.2  # of the stream: the cache is filled
_FEW = 3  # phases without which there is no rate of phases
_LEFT = 0.1  # of the rows answered: more that wait in the end than in the beginning is too much
_STEADY = 0.6  # of the stream, that must be answered before the end
_GROWTH = 1.25  # of what waits, from the middle third to the last, that is no growth

T = TypeVar("T")


class Mark(NamedTuple):
    """A moment, the rows that were answered by then, and those that waited."""

    moment: float
    answered: int
    waiting: int


@dataclass(frozen=True)
class Arrivals:
    """Rows come at ``rate``; from ``burst`` on, for ``lasting`` seconds, ``more`` times as fast."""

    rate: float
    burst: float = 0.0
    lasting: float = 0.0
    more: float = 1.0
    grain: float = np.inf
    """Seconds of arrivals that may be offered together, so that a row is not late by more."""

    def come(self, moment: float) -> int:
        """How many rows have come at a moment.

        >>> Arrivals(10, burst=1, lasting=2, more=1.5).come(2), Arrivals(10).come(2)
        (25, 20)
        """
        extra = min(max(moment - self.burst, 0.0), self.lasting) * (self.more - 1)
        return int(self.rate * (moment + extra) + 1e-6)

    def moment(self, rows: int) -> float:
        """When row ``rows - 1`` comes."""
        return float(self.moments(np.array([rows]))[0])

    def moments(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """When rows come, as `moment`."""
        before = rows / self.rate
        during = self.burst + (before - self.burst) / self.more
        after = before - self.lasting * (self.more - 1)
        return np.asarray(np.minimum(before, np.maximum(during, after)))


class Drive:
    """A join that is fed the first ``rows`` rows of a stream; ``name`` is for messages.

    ``clock`` is the simulated one, None where the time of calls is measured.
    """

    def __init__(
        self, name: str, join: RelationJoin, clock: SimulatedClock | None, feed: Rows,
        truth: Truth, rows: int,
    ) -> None:  # fmt: skip
        self.name = name
        self.join = join
        self.rows = rows
        self.offered = 0
        self.cpu = 0.0
        self.answer = Digest(0, 0)
        self.overflow: float | None = None
        """When there was no room for a row that came; None: there always was."""
        self._answered = np.empty(0)
        self._arrivals = Arrivals(1.0)
        self._feed = feed
        self._truth = truth
        self._marks: list[Mark] = []
        self._chunk = min(max(rows // _CHUNKS, _LEAST), _MOST)
        self._clock = clock
        self._spent = 0.0
        self._start = self._now()

    def __enter__(self) -> Drive:
        return self

    def __exit__(self, *error: object) -> None:
        self.join.close()

    def _now(self) -> float:
        """Seconds since some moment: accounted for, or those of the calls alone."""
        return self._clock.now() if self._clock is not None else self._spent

    def _timed(self, work: Callable[[], T]) -> T:
        """Let the watch run."""
        cpu, start = time.process_time(), time.perf_counter()
        done = work()
        self._spent += time.perf_counter() - start
        self.cpu += time.process_time() - cpu
        return done

    # --- As fast as it takes ---------------------------------------------------------------------

    def serve(self) -> None:
        """Offer the next rows as soon as all work that is due was done; then let it finish.

        While they do not fit, it works; they are pushed where nothing is due.
        """
        while self.offered < self.rows:
            stop = min(self.offered + self._chunk, self.rows)
            for batch in self._feed.slice(self.offered, stop):
                while not self._offer(batch):
                    if self._step() is None:
                        self._push(batch)
                        break
            while self._step() is not None:
                pass
            self._mark()
        self.finish()

    def _push(self, batch: pa.RecordBatch) -> None:
        """Hand rows over, whatever that makes due."""
        self._read(self._timed(lambda: self.join.push(batch)))
        self.offered += batch.num_rows

    def _offer(self, batch: pa.RecordBatch) -> bool:
        if self._timed(lambda: self.join.offer(batch)):
            self.offered += batch.num_rows
            return True
        return False

    def _step(self) -> list[pa.RecordBatch] | None:
        done = self._timed(self.join.step)
        if done is not None:
            self._look(done)
        return done

    # --- At a rate -------------------------------------------------------------------------------

    def arrive(self, arrivals: Arrivals) -> bool:
        """Let rows come while the join works; False when one finds memory full (and stop there).

        Memory is full when rows that came during work have no room. A join that was idle is
        pushed to work instead.
        """
        start, marked, busy = self._start, 0, False
        chunk = max(1, int(min(self._chunk, arrivals.rate * arrivals.grain)))
        self._arrivals = arrivals
        self._answered = np.full(self.rows, np.nan)
        while True:
            come = min(self.rows, arrivals.come(self._now() - start))
            for batch in self._feed.slice(self.offered, come):
                if not self._offer(batch):
                    if busy:
                        self.overflow = self._now() - start
                        return False
                    self._push(batch)
            if self.offered - marked >= self._chunk:
                marked = self.offered
                self._mark()
            busy = self._step() is not None
            if busy:
                continue
            if self.offered >= self.rows:
                break
            target = start + arrivals.moment(min(self.offered + chunk, self.rows)) + 1e-9
            due = self.join.due
            if due is not None:
                target = min(target, self._now() + max(due, 0.0) + 1e-9)
            if self._clock is not None:
                self._clock.wait_until(target)
            if due is not None:
                self._look(self._timed(lambda: list(self.join.poll())))
        self.finish()
        return True

    @property
    def grows(self) -> bool:
        """Whether more and more rows wait."""
        waiting = [mark.waiting for mark in self._marks]
        third = len(waiting) // 3
        if not third:
            return False
        middle = max(waiting[third : 2 * third])
        return max(waiting[2 * third :]) > _GROWTH * middle + 2 * self._chunk

    @property
    def latencies(self) -> NDArray[np.float64]:
        """Seconds from the arrival of rows to their last answer; rows without matches left out."""
        came = self._arrivals.moments(np.arange(1, self._answered.size + 1))
        seconds = self._answered - came
        return np.asarray(seconds[~np.isnan(seconds)])

    # --- The end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Answer all that wait, and compare everything with the reference."""
        self._read(self._timed(self.join.flush))
        right = self._truth.digest(self.offered)
        check_pairs(self.name, self.offered, self.answer, right, "rows 0 to")

    def _read(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Read an answer to its end; the watch runs while a batch is made."""
        while (batch := self._timed(lambda: next(batches, None))) is not None:
            self._look([batch])

    def _look(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self.answer += answer_digest(batch)
            if self._answered.size:
                self._answered[batch.column("id").to_numpy()] = self._now() - self._start

    def _mark(self) -> None:
        waiting = self.join.metrics().waiting_rows
        self._marks.append(Mark(self._now(), self.offered - waiting, waiting))

    @property
    def seconds(self) -> float:
        """Time from the first row on."""
        return self._now() - self._start

    @property
    def rate(self) -> float:
        """Rows answered per second, once the cache is filled.

        Work comes in phases: rows wait, then all are joined at once. So the rate is taken between
        two moments after such phases, the first fifth of the stream left out. Where what waits
        stays the same, as in MeshJoin, it is the slope of rows answered over time. A stream
        shorter than a few phases has neither; then all rows are divided by all of the time.
        """
        warm = _WARM * self.rows
        rate = _cycles(self._marks, warm)
        if rate is None and self._marks and self._marks[-1].answered >= _STEADY * self.offered:
            rate = _slope(self._marks, warm)
        return self.offered / max(self.seconds, 1e-12) if rate is None else rate


def _cycles(marks: list[Mark], warm: float) -> float | None:
    """The rate between the first and the last moment at which what waits has fallen by half."""
    troughs, high = [], 0
    for mark in marks:
        high = max(high, mark.waiting)
        if high and mark.waiting <= high / 2:
            high = mark.waiting
            if mark.answered >= warm:
                troughs.append(mark)
    if len(troughs) < _FEW:
        return None
    first, last = troughs[0], troughs[-1]
    seconds, rows = last.moment - first.moment, last.answered - first.answered
    if seconds <= 0 or last.waiting - first.waiting > _LEFT * rows:
        return None
    return rows / seconds


def _slope(marks: list[Mark], warm: float) -> float | None:
    """The slope of rows answered over time, if as many wait in the end as in the beginning."""
    own = list(dropwhile(lambda mark: mark.answered < warm, marks))
    if len(own) < 2 * _FEW or own[-1].moment <= own[0].moment:
        return None
    times, rows, waiting = np.array(own, float).T
    if waiting[-1] - waiting[0] > _LEFT * (rows[-1] - rows[0]):
        return None
    grid = np.linspace(times[0], times[-1], 4 * len(own))
    slope = float(np.polyfit(grid - grid[0], np.interp(grid, times, rows), 1)[0])
    return slope if slope > 0 else None

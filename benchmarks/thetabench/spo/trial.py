"""Structures at work: rows ask a full window or a growing part, windows move, parts are merged.

A contestant that needs long for one row is asked with fewer rows at a time than the batch has: as
many as fit into its seconds. Where single rows ask, the seconds of each are kept.
"""

from __future__ import annotations

import time

import numpy as np

from thetabench.digest import Digest, VerificationError, check_pairs, verify
from thetabench.race import Values
from thetabench.spo.contestant import Contestant, Work
from thetabench.spo.stock import Step, Stock, moving
from thetabench.windows import Batched, Filled, Holding

_POOL = 1 << 11  # fresh rows after which the same ones ask again …
_WIDE_POOL = 1 << 8  # … where each has so many matches that a checksum takes long
_WIDE = 1 << 12
_SOME = 16  # rows that ask a window of which only the size is measured
_PATIENCE = 4.0  # how often its seconds a contestant may take to come to its next merge
_MEANWHILE = 1 << 10  # rows that ask while a merge is under way, at most …
_AFTER = 16  # … and after it
_MERGES = 6  # at most
_SOON = 30.0  # seconds that a merge may take
_NAP = 1e-3
_COUNTED = ("runs", "merges")
_QUANTILES = {"p50_us": 0.5, "p75_us": 0.75, "p95_us": 0.95, "p99_us": 0.99, "max_us": 1.0}


def row_columns(trial: Batched[Contestant], asked: int) -> Values:
    """What a line says of rows that ask, ``asked`` at a time."""
    shown = _QUANTILES if asked == 1 and trial.waits else {}
    waits = np.array(trial.waits) * 1e6
    return {
        "asked": asked,
        "pairs_per_tuple": trial.pairs / max(trial.tuples, 1),
        **{name: float(np.quantile(waits, part)) for name, part in shown.items()},
    }


class Asking(Holding[Contestant]):
    """A structure of the registry that is asked with boxes, for ``budget`` seconds."""

    def __init__(self, who: Contestant, label: str, budget: float, stock: Stock) -> None:
        super().__init__(who, label, who.window)
        self.budget = budget
        self.stock = stock
        self.asked = who.batch
        """Rows that ask at a time."""
        self.held = self._made()
        self._rehearse()

    def _made(self) -> Filled:
        """A structure of its own: with a full window, or half of what a growing part can hold."""
        grows = self.who.work is Work.GROW
        return self.stock.fresh(self.who, self.who.window // (2 if grows else 1))

    @property
    def columns(self) -> Values:
        """What was done and how long it took, and what the structure has counted."""
        counted = self.held.structure.statistics
        counts = {name: counted.get(name, 0.0) for name in _COUNTED}
        return {**super().columns, **row_columns(self, self.asked), **counts}

    def _rehearse(self) -> None:
        """Ask twice with one row, to see how many rows there is time for; then with some."""
        for _ in range(2):
            self.restart()
            self._ask(0, 1)
        most = int(self.budget / max(self.seconds, 1e-9))
        self.asked = max(1, min(self.who.batch, most))
        if self.asked > 1:
            self._ask(0, min(self.asked, _SOME))
        self.restart()

    def _ask(self, start: int, stop: int) -> Digest:
        """Ask with fresh rows and read the answer, while the clock runs."""
        return self.ask(*self.held.load.boxes(start, stop))


class Probing(Asking):
    """Rows ask a window that stays as it is."""

    def __init__(self, who: Contestant, label: str, budget: float, stock: Stock) -> None:
        super().__init__(who, label, budget, stock)
        pool = _WIDE_POOL if who.rows.rate > _WIDE else _POOL
        count = max(self.asked, min(pool, who.rows.after))
        self._answers = stock.answers(who.rows, who.window, count)
        self._pool = count // self.asked * self.asked

    def _made(self) -> Filled:
        return self.stock.full(self.who)

    def step(self) -> bool:
        """Ask with one batch."""
        start, before = self.steps * self.asked % self._pool, self.seconds
        answer = self._ask(start, start + self.asked)
        self.count(self.asked, answer.matches, before)
        right = self._answers.digest(start, start + self.asked)
        check_pairs(self.name, self.steps, answer, right)
        self.checked += self.asked
        return True


class Weighing(Probing):
    """A full window, of which only the size is measured; some rows ask, to see that it is right."""

    def advance(self, seconds: float) -> None:
        """Ask a few times."""
        while self.steps * self.asked < _SOME:
            self.step()
            self.steps += 1

    def finish(self) -> None:
        """Compare the number of rows, and forget what was timed."""
        held = len(self.held.structure)
        if held != self.who.window:
            raise VerificationError(f"{self.name} holds {held:,} of {self.who.window:,} rows.")
        self.restart()


class Recorded(Asking):
    """A structure that changes: probe, insert, expire. Its answers are compared at the end.

    Some parts only grow: they start half full, and rows go in until they are full.
    """

    def __init__(self, who: Contestant, label: str, budget: float, stock: Stock) -> None:
        super().__init__(who, label, budget, stock)
        self._asked: list[Step] = []
        self._answered: list[Digest] = []

    def _recorded(self, count: int) -> int:
        """Let the next rows ask; returns the number of their matches."""
        start = self._asked[-1].stop if self._asked else 0
        self._answered.append(self._ask(start, start + count))
        self._asked.append(Step(start, start + count, self.held.first, self.held.count))
        return self._answered[-1].matches

    def step(self) -> bool:
        """Move on by one batch; a part that grows, until it is full."""
        held, rows, work = self.held, self.asked, self.who.work
        full = work is Work.GROW and held.count + rows > self.who.window
        if full or (self.steps + 1) * rows > self.who.rows.after:
            return False
        before = self.seconds
        pairs = 0 if work is Work.INSERT else self._recorded(rows)
        self.enter(rows)
        if work is not Work.GROW:
            self.expire(held.count - self.who.window)
        self.count(rows, pairs, before)
        return True

    def finish(self) -> None:
        """Compare all answers."""
        if self._asked:
            verify(self.name, self._answered, moving(self.held.load, self._asked), "batch")
        self.checked += sum(step.stop - step.start for step in self._asked)


class Sliding(Recorded):
    """One side of a join on a single structure."""

    def advance(self, seconds: float) -> None:
        """Work until the time is over and, if that is soon, there was a merge."""
        super().advance(seconds)
        cycle = self.who.cycle * seconds / self.budget if self.budget else 0.0
        while self.tuples < cycle and self.seconds < _PATIENCE * seconds and self.step():
            self.steps += 1


class Inserting(Sliding):
    """Rows go in and old ones expire; at the end some ask, and all must be there."""

    def _rehearse(self) -> None:
        """There are no probes to rehearse."""

    def finish(self) -> None:
        """Compare the rows that are there, and a few answers."""
        held, seconds, cpu = self.held, self.seconds, self.cpu
        keys, ids = held.structure.dump()
        right = np.arange(held.first, held.count)
        if not np.array_equal(ids, right) or not np.array_equal(keys, held.load.keys[:, right]):
            raise VerificationError(
                f"{self.name} does not hold the last {self.who.window:,} rows that went in."
            )
        self._recorded(1)
        super().finish()
        self.seconds, self.cpu = seconds, cpu
        self.checked += self.tuples


class Merging(Recorded):
    """The mutable part becomes immutable; meanwhile single rows ask.

    A step is one merge. Rows go in, untimed, until one is missing. The clock runs for the row that
    makes the part full, and for each row that asks, until the mutable part is empty. A merge lasts
    from that row until then; where it is not in the background, that is the insertion itself.
    """

    def __init__(self, who: Contestant, label: str, budget: float, stock: Stock) -> None:
        super().__init__(who, label, budget, stock)
        self._stalls: list[float] = []
        self._merges: list[float] = []

    def _rehearse(self) -> None:
        """Rows ask one by one."""
        self.asked = 1

    def step(self) -> bool:
        """Come to the next merge, and through it."""
        held, stop = self.held, self.held.count + self.who.slide
        if self.steps == _MERGES or stop > len(held.load.keys[0]):
            return False
        held.fill(stop - 1, self.who.few)
        held.expire(held.count - self.who.window)
        started, before = time.perf_counter(), self.seconds
        self.enter(1)
        self._stalls.append(self.seconds - before)
        merged, asked = self._stalls[-1] if self._is_merged() else 0.0, 0
        while not merged:
            if asked < _MEANWHILE:
                self._asks_alone()
                asked += 1
            else:
                time.sleep(_NAP)
            if self._is_merged():
                merged = time.perf_counter() - started
            elif time.perf_counter() - started > _SOON:
                raise VerificationError(f"{self.name} had not merged after {_SOON} s.")
        self._merges.append(merged)
        for _ in range(_AFTER):
            self._asks_alone()
        return True

    def _asks_alone(self) -> None:
        before = self.seconds
        self.count(1, self._recorded(1), before)

    def _is_merged(self) -> bool:
        """Whether the mutable part is empty; a finished merge is taken over first."""
        structure = self.held.structure
        structure.expire(self.held.first)
        return not structure.details["rows in the mutable part"]

    @property
    def columns(self) -> Values:
        """Latencies of rows meanwhile, milliseconds of a merge and of the longest insertion."""
        return {
            **super().columns,
            "merge_ms": 1e3 * sum(self._merges) / max(len(self._merges), 1),
            "stall_ms": 1e3 * max(self._stalls, default=0.0),
        }

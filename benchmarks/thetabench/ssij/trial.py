"""What contestants of a cell do, and the columns of their lines.

Most time is simulated, so contestants do not take turns: each does all of its work when it enters.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from thetabench.contestant import Unavailable
from thetabench.race import Say, Trial, Values
from thetabench.ssij.contestant import Cell, Contestant
from thetabench.ssij.drive import Drive
from thetabench.ssij.rates import arrivals, burst, met, sustained
from thetabench.ssij.stock import Stock, make

_EASY = 0.8  # of the sustainable rate: where deadlines are counted
_DEADLINES = 100  # that a run with deadlines lasts …
_LEAST = 2_000  # … and the rows that it has at least
_SHORT = 0.2  # of the stream: enough to guess a rate that is then looked for
_COUNTED = (
    *("peak_bytes", "seeks", "blocks_read", "blocks_wasted", "cached_blocks"),
    *("online_phases", "join_phases"),
)


class AtOnce(Trial[Contestant]):
    """A contestant that does all of its work when it enters; answers are checked meanwhile."""

    def __init__(self, cell: Cell, who: Contestant, stock: Stock, say: Say) -> None:
        super().__init__(who, cell.label)
        self.cell = cell
        self.stock = stock
        self.say: Say = lambda step: say(f"{self.name}: {step}")
        self.values = self.work()

    @abstractmethod
    def work(self) -> Values:
        """Do it; returns the columns. ``tuples`` are rows whose answers were checked."""

    def turn(self, number: int, seconds: float) -> None:
        """All is done."""

    @property
    def columns(self) -> Values:
        """What was measured."""
        return {"verified": "tuples" in self.values, **self.values}


class Indexing(AtOnce):
    """The index of a relation, of which only the size is measured."""

    def work(self) -> Values:
        """Build the relation."""
        return self.stock.about(self.cell)


class Serving(AtOnce):
    """The service rate: the next rows come as soon as the last were taken."""

    def drive(self, most: float = math.inf, part: float = 1.0) -> Drive:
        """The join, ready to be fed ``most`` rows at most, or a part of what it is usually fed."""
        cell, stock = self.cell, self.stock
        path, feed, truth = stock.built(cell.table).path, stock.feed(cell), stock.truth(cell)
        rows = max(1, int(min(feed.keys.size * self.who.part * part, most)))
        join, clock = make(self.who, path, stock.budget(cell), cell.device, feed.table.schema)
        return Drive(self.name, join, clock, feed, truth, rows)

    def work(self) -> Values:
        """Serve the stream."""
        return self.served()

    def served(self, part: float = 1.0) -> Values:
        """Serve a part of the stream."""
        self.say("as fast as it takes")
        with self.drive(part=part) as drive:
            drive.serve()
            return self.made(drive, drive.rate)

    def made(self, drive: Drive, rate: float) -> Values:
        """The columns: the rate, and what the join has counted.

        Latencies are counted from arrivals to answers; as the join counts them where rows came as
        fast as it took them.
        """
        metrics, rows, latencies = drive.join.metrics(), max(drive.offered, 1), drive.latencies
        questions = metrics.hits + metrics.misses
        middle, high = metrics.latency_p50 or 0.0, metrics.latency_p99 or 0.0
        if latencies.size:
            middle, high = map(float, np.quantile(latencies, (0.5, 0.99)))
        return {
            **self.stock.about(self.cell),
            "tuples_per_s": rate,
            "seconds": drive.seconds,
            "cpu_us": drive.cpu / rows * 1e6,
            "matches": drive.answer.matches,
            "hit_share": metrics.hits / questions if questions else 0.0,
            "blocks_per_row": metrics.blocks_read / rows,
            "tuples": drive.offered,
            **{name: getattr(metrics, name) for name in _COUNTED},
            "latency_p50": middle,
            "latency_p99": high,
        }


class Sustaining(Serving):
    """The greatest constant rate of arrival that memory bears."""

    def work(self) -> Values:
        """Look for it."""
        service = self.served()["tuples_per_s"]
        rate, drive = sustained(lambda rate: self.drive(), service, self.say)
        return self.made(drive, rate)


class Hurrying(Serving):
    """The rate that is sustained with deadlines met, and the share that is met at 0.8 of it.

    Runs last for a hundred deadlines or for the whole stream, whichever is shorter.
    """

    def work(self) -> Values:
        """Look for it, then count deadlines."""
        limit = self.who.place

        def start(rate: float) -> Drive:
            return self.drive(max(rate * _DEADLINES * limit, _LEAST))

        service = self.served(_SHORT)["tuples_per_s"]
        best, _ = sustained(start, service, self.say, deadline=limit)
        self.say(f"at {_EASY:g} of {best:,.0f} rows per second")
        with start(_EASY * best) as drive:
            if not drive.arrive(arrivals(_EASY * best, limit)):
                raise Unavailable(f"{_EASY:g} of a rate that is sustained is not sustained")
            return {**self.made(drive, best), "met_share": met(drive, limit)}


class Bursting(Sustaining):
    """How long a burst lasts; ``nominal`` has rates that are sustained without one, by label."""

    def __init__(self, nominal: dict[str, float], *given: Any) -> None:
        self._nominal = nominal
        super().__init__(*given)

    def work(self) -> Values:
        """Try bursts."""
        if self.who.label not in self._nominal:
            self._nominal[self.who.label] = super().work()["tuples_per_s"]
        rate, more = self._nominal[self.who.label], 1 + self.who.place / 100
        seconds, drive = burst(self.drive, rate, more, self.say)
        own = self.made(drive, rate * more)
        return {**own, "burst_ms": seconds * 1e3, "nominal_per_s": rate}

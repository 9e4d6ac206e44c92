"""What contestants of a cell do, and the columns of their lines.

A *restart* is a query of two sessions. The first fills the window and ends. The second goes on from
its checkpoint, with two more micro-batches: once without the first one's run files, as on another
host, and once with them. What counts is the first micro-batch of the second session, with the start
of its Python workers and compilers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import correlation, median
from typing import TYPE_CHECKING, Any

import numpy as np

from thetabench.contestant import Failed
from thetabench.digest import Digest, VerificationError, verify
from thetabench.machine import versions
from thetabench.race import Trial, Values
from thetabench.spark.cells import LOST, PEERS, Entrant, SparkCell

if TYPE_CHECKING:
    from thetabench.spark.course import SparkCourse
    from thetabench.spark.session import Session

_PACKAGES = ("thetastream", "pyspark", "pyarrow", "pandas", "numba", "numpy")
_PHASES = ("open", "keys", "sort", "probe", "insert", "merge", "expire", "gather", "save")
_COUNTS = {"hits": "hits", "catch_ups": "catchUps", "attaches": "attaches", "rebuilds": "rebuilds"}
_LOGS = ("walCommit", "commitOffsets", "latestOffset", "getBatch")
Answers = list[tuple[int, int]]


class SparkTrial(Trial[Entrant]):
    """A contestant's query in a session."""

    def __init__(self, course: SparkCourse, cell: SparkCell, who: Entrant) -> None:
        super().__init__(who, cell.label)
        self._course = course
        self._cell = cell
        self._seat = course.seat(who)
        self._feed = course.feed(who)[0]
        self._session: Session | None = None
        self._query = ""
        self._java = ""
        self._wrong = ""
        self.reports: list[list[dict[str, Any]]] = []
        """What Spark reports of the micro-batches of each turn: of one, as a rule."""

    def turn(self, number: int, seconds: float) -> None:
        if self.who.is_due(number, self._course.turns):
            self._session = self._course.shared(self._cell)
            self._ask(self._session)

    def _ask(self, session: Session) -> None:
        """One micro-batch."""
        reply = session.ask("step", self._seat, batch=len(self.reports))
        self._query, self._java = reply["query"], session.java
        self.reports.append(reply["batches"])

    def finish(self) -> None:
        """Compare the answer of every micro-batch.

        A wrong one ends the run; that of a peer is a failure of the peer, and the others go on.
        """
        try:
            self._compare()
        except VerificationError as error:
            if self.who.structure not in PEERS:
                raise
            self._wrong = str(error)

    def lines(self) -> Iterator[Values]:
        yield {"status": Failed.status, "reason": self._wrong} if self._wrong else self.columns

    def _compare(self) -> None:
        found = [_added(own["answer"] for own in reports) for reports in self.reports]
        if len(found) != self.who.batches:
            raise VerificationError(
                f"{self.name} did {len(found)} of {self.who.batches} micro-batches, so its answer "
                "cannot be right."
            )
        self._verified(found)

    def _verified(self, found: Answers) -> None:
        total = verify(self.name, found, self._course.truth(self.who), "micro-batch")
        self.checked, self.pairs = len(found), total.matches
        self._sum = total.checksum

    @property
    def columns(self) -> Values:
        return {**self._common, **self._speeds, **self._spent, **self._state}

    @property
    def _common(self) -> Values:
        return {
            "verified": self.checked > 0,
            "checked_pushes": self.checked,
            "matches": self.pairs,
            "checksum": f"{self._sum % (1 << 64):016x}",
            "versions": f"{versions(_PACKAGES)}; java {self._java}",
            "packed_bytes": self._feed.packed_bytes,
        }

    @property
    def _timed(self) -> list[list[dict[str, Any]]]:
        return self.reports[self.who.untimed :]

    @property
    def _speeds(self) -> Values:
        """Speeds of the timed micro-batches."""
        rows = [self._feed.rows(number) for number in range(self.who.batches)]
        every = [_seconds(reports) for reports in self.reports]
        seconds, counts = every[self.who.untimed :], rows[self.who.untimed :]
        rates = [count / spent for count, spent in zip(counts, seconds, strict=True)]
        store = sum(path.stat().st_size for path in Path(self._seat.checkpoint).glob("state/**/*")
                    if path.is_file())  # fmt: skip
        return {
            "tuples": sum(counts),
            "seconds": sum(seconds),
            "tuples_per_s": sum(counts) / sum(seconds),
            "tuples_per_s_low": min(rates),
            "tuples_per_s_high": max(rates),
            "p50_s": median(seconds),
            "max_s": max(seconds),
            "pushes": len(seconds),
            "first_s": every[0],
            "total_rows": sum(rows),
            "total_s": sum(every),
            "add_batch_s": self._median("addBatch"),
            "planning_s": self._median("queryPlanning"),
            "bookkeeping_s": self._median(*_LOGS),
            "store_bytes": store / sum(rows),
        }

    def _median(self, *names: str) -> float:
        return median(_seconds(reports, *names) for reports in self._timed)

    @property
    def _spent(self) -> Values:
        """Medians over stages and tasks, from Spark's event log."""
        if self._session is None:
            return {}
        spent = [
            self._session.spent[self._query, own["batch"]]
            for reports in self._timed
            for own in reports
            if (self._query, own["batch"]) in self._session.spent
        ]
        names = {"map_s": "map", "join_s": "join", "task_s": "tasks", "gc_s": "gc"}
        return {
            column: median(getattr(one, name) for one in spent) if spent else 0.0
            for column, name in names.items()
        }

    @property
    def _state(self) -> Values:
        """What the join reports of itself; nothing of other contestants."""
        joins = [own["join"] for reports in self.reports for own in reports if own["join"]]
        steady = [own["join"] for reports in self._timed for own in reports if own["join"]]
        if not steady:
            return {}
        tuples = sum(self._feed.rows(n) for n in range(self.who.untimed, self.who.batches))
        phases = {name: sum(join["seconds"][name] for join in steady) for name in _PHASES}
        return {
            **{f"ns_{name}": seconds * 1e9 / tuples for name, seconds in phases.items()},
            **{name: sum(join[own] for join in joins) for name, own in _COUNTS.items()},
            "save_share": phases["save"] / max(sum(phases.values()), 1e-9),
            "stored_rows": steady[-1]["numRowsTotal"],
            "written_bytes": sum(join["writtenBytes"] for join in steady) / tuples,
            **_attached(self._timed),
        }


def _attached(timed: list[list[dict[str, Any]]]) -> Values:
    """Micro-batches in which all partitions were found alive, and the others."""
    pairs = [
        (_seconds(reports), sum(own["join"]["attaches"] for own in reports if own["join"]))
        for reports in timed
    ]
    seconds, attaches = [own for own, _ in pairs], [own for _, own in pairs]
    hit, other = ([s for s, n in pairs if bool(n) == some] for some in (False, True))
    vary = len(set(attaches)) > 1 and len(set(seconds)) > 1
    return {
        "hit_s": median(hit) if hit else 0.0,
        "attach_s": median(other) if other else 0.0,
        "attach_r": correlation(attaches, seconds) if vary else 0.0,
    }


class Restarting(SparkTrial):
    """A query of two sessions."""

    def turn(self, number: int, seconds: float) -> None:
        stop, runs = self.who.untimed, f"{self._seat.name}-runs"
        for place, count in enumerate((stop, self.who.timed)):
            lost = "-2" if place and self.who.structure == LOST else ""
            name = f"{self._seat.name}-{place}"
            self._session = self._course.session(self._cell, name, f"{runs}{lost}")
            for _ in range(count):
                self._ask(self._session)
            self._session.close()

    @property
    def columns(self) -> Values:
        every = [_seconds(reports) for reports in self.reports]
        normal, first = median(every[1 : self.who.untimed]), every[self.who.untimed]
        more = {"normal_s": normal, "cold_s": every[0], "first_s": first}
        return {**super().columns, **more, "slower_s": first - normal}


class Landing(SparkTrial):
    """A query whose files land at a steady pace."""

    def turn(self, number: int, seconds: float) -> None:
        session = self._course.shared(self._cell)
        counts = {"untimed": self.who.untimed, "timed": self.who.timed}
        reply = session.ask("latency", self._seat, **counts)
        self._query, self._java = reply["query"], session.java
        self._session = session
        self.reports = [[own] for own in reply["batches"]]
        self._latencies, self._period = reply["latencies"], reply["period"]

    def _compare(self) -> None:
        """Compare all answers together: files of both sides can come in two micro-batches."""
        found = _added(own["answer"] for reports in self.reports for own in reports)
        truth = self._course.truth(self.who)[: self.who.batches]
        right = Digest(*_added(truth))
        if Digest(*found) != right:
            raise VerificationError(
                f"{self.name} gave a wrong answer: expected {right}, got {Digest(*found)}."
            )
        self.checked, self.pairs, self._sum = self.who.batches, right.matches, right.checksum

    @property
    def columns(self) -> Values:
        p50, p99 = np.quantile(self._latencies, (0.5, 0.99)).tolist()
        tuples = self.who.timed * self.who.batch
        span = self.who.timed * self._period
        fed = [own for own in self.reports if own[0]["rows"]]
        return {
            **self._common,
            "tuples": tuples,
            "seconds": span,
            "tuples_per_s": tuples / span,
            "pushes": self.who.timed,
            "p50_s": median(_seconds(own) for own in fed[-self.who.timed :]),
            "latency_p50": p50,
            "latency_p99": p99,
            "period_s": self._period,
        }


class Stepping(Trial[Entrant]):
    """Steps of a partition, without Spark."""

    def __init__(self, course: SparkCourse, cell: SparkCell, who: Entrant) -> None:
        super().__init__(who, cell.label)
        self._course = course
        self._steps = course.steps(who)
        self._taken: list[float] = []
        self._answers: list[tuple[int, Digest]] = []

    def turn(self, number: int, seconds: float) -> None:
        place = self._steps.done
        seconds, answer = self._steps.step(self.who.structure)
        self._taken.append(seconds)
        self._answers.append((place, answer))

    def finish(self) -> None:
        truth = self._course.truth(self.who)
        for place, answer in self._answers:
            verify(self.name, [answer], truth[place : place + 1], "step")
            self.pairs += answer.matches
        self.checked = len(self._answers)

    @property
    def columns(self) -> Values:
        timed = self._taken[self.who.untimed :]
        return {
            "verified": self.checked > 0,
            "checked_pushes": self.checked,
            "matches": self.pairs,
            "pushes": len(timed),
            "tuples": len(timed) * self.who.batch,
            "stored_rows": self._steps.stored,
            "cpu_s": median(timed),
            "versions": versions(_PACKAGES),
        }


def _added(answers: Iterable[tuple[int, int]]) -> tuple[int, int]:
    every = list(answers)
    return sum(count for count, _ in every), sum(total for _, total in every)


def _seconds(reports: list[dict[str, Any]], *names: str) -> float:
    """Seconds of the micro-batches of a turn: all of them, or the parts named."""
    wanted = names or ("triggerExecution",)
    return sum(float(own["milliseconds"].get(n, 0)) for own in reports for n in wanted) / 1000

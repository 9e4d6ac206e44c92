"""Runs the figures: files made once per feed, sessions whose queries take turns, right answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from thetabench.contestant import Failed
from thetabench.digest import Digest
from thetabench.figure import Sizes
from thetabench.race import Course, Say, Trial, Values
from thetabench.spark.cells import (
    DOUBLES,
    EQUI,
    HOME,
    KEPT,
    LOST,
    NOOPS,
    STATE_FILES,
    Entrant,
    SparkCell,
    Work,
)
from thetabench.spark.feed import Feed, Shape
from thetabench.spark.reference import CHECKSUM, echoes, equals, received, reference
from thetabench.spark.session import Session
from thetabench.spark.trial import Landing, Restarting, SparkTrial, Stepping

if TYPE_CHECKING:
    from thetabench.spark.attach import Steps
    from thetabench.spark.peers import Seat

Start = Callable[[Path, Path, int, str, float], Session]
_TRIALS: dict[Work, Callable[[SparkCourse, SparkCell, Entrant], Trial[Entrant]]] = {
    Work.RACE: SparkTrial,
    Work.RESTART: Restarting,
    Work.LATENCY: Landing,
    Work.ATTACH: Stepping,
}
_TRUTHS: dict[tuple[str, ...], Callable[[Feed, int], list[Digest]]] = {
    NOOPS: received,
    DOUBLES: partial(echoes, copies=2),
    EQUI: equals,
}
"""Right answers of those that do not answer the query of the feed."""


class SparkCourse(Course[SparkCell, Entrant]):
    """The feeds of the present cell, and the sessions that it has started."""

    def __init__(self, sizes: Sizes, start: Start = Session) -> None:
        super().__init__(sizes)
        self._start = start
        self._folder: TemporaryDirectory[str] | None = None
        self._runs: TemporaryDirectory[str] | None = None
        self._sessions: list[Session] = []
        self._steps: Steps | None = None

    def prepare(self, cell: SparkCell) -> None:
        from thetastream.spark.state.cache import default_root

        self.close()
        root = default_root().parent
        self._folder = _temporary()
        self._runs = _temporary(root if root.is_dir() else None)
        self._sessions, self._steps = [], None
        self._shared: Session | Failed | None = None
        self._truths: dict[tuple[Shape, tuple[str, ...]], list[Digest]] = {}
        self._feeds = {shape: Feed.of(shape) for shape in self._shapes(cell).values()}
        for number, feed in enumerate(self._feeds.values()):
            feed.save(self.folder / f"feed-{number}")
        races = cell.work in (Work.RACE, Work.ATTACH)
        self.turns = max(who.batches for who in cell.contestants) if races else 1

    @property
    def folder(self) -> Path:
        """Where the files of the present cell are."""
        assert self._folder is not None
        return Path(self._folder.name)

    def _shapes(self, cell: SparkCell) -> dict[Shape, Shape]:
        """The feeds of a cell: of those that differ in length only, the longest."""
        longest: dict[Shape, Shape] = {}
        for who in cell.contestants:
            shape = who.shape(self.sizes.seed)
            if cell.work is Work.ATTACH:  # all on one partition
                shape = replace(shape, batches=who.batches * len(cell.contestants))
            key = replace(shape, batches=1)
            longest[key] = max(shape, longest.get(key, shape), key=lambda one: one.batches)
        return longest

    def feed(self, who: Entrant) -> tuple[Feed, Path]:
        """The feed of a contestant, and where it is saved."""
        own = replace(who.shape(self.sizes.seed), batches=1)
        for number, feed in enumerate(self._feeds.values()):
            if replace(feed.shape, batches=1) == own:
                return feed, self.folder / f"feed-{number}"
        raise AssertionError("every contestant has a feed")

    def seat(self, who: Entrant) -> Seat:
        """What a contestant's query does, and where its files are."""
        from thetabench.spark.job import COUNT
        from thetabench.spark.peers import Seat

        feed, saved = self.feed(who)
        name = re.sub(r"\W+", "-", f"{who.label} {who.place:g}")  # Spark splits paths at commas
        own = self.folder / name
        band = feed.query.bands[:1]
        key = f"{feed.query.columns[0]}_right" if who.structure in DOUBLES else "t_right"
        counts = who.structure in NOOPS
        return Seat(
            name=name,
            contestant=HOME if who.structure in (LOST, KEPT) else who.structure,
            saved=str(saved),
            source=str(own / "source"),
            files=who.files,
            on=feed.query.predicate,
            count="sum(rows)" if counts else COUNT,
            checksum="sum(times)" if counts else CHECKSUM.format(right=key),
            width=int(band[0].width) if band else 0,
            window=who.window,
            partitions=who.partitions,
            checkpoint=str(own / "checkpoint"),
            state_path=str(own / "state") if who.structure == STATE_FILES else None,
            tactic=str(dict(who.parameters).get("tactic", "auto")),
        )

    def session(self, cell: SparkCell, name: str = "shared", runs: str = "") -> Session:
        """Start a session."""
        assert self._runs is not None
        place = Path(self._runs.name) / (runs or name)
        started = self._start(self.folder / name, place, cell.cores, cell.memory, cell.limit)
        self._sessions.append(started)
        return started

    def shared(self, cell: SparkCell) -> Session:
        """The session of the cell. One that did not start fails for everyone."""
        if self._shared is None:
            try:
                self._shared = self.session(cell)
            except Failed as error:
                self._shared = error
        if isinstance(self._shared, Failed):
            raise self._shared
        return self._shared

    def steps(self, who: Entrant) -> Steps:
        """The partition on which the contestants of a cell take their steps."""
        if self._steps is None:
            from thetabench.spark.attach import Steps

            self._steps = Steps(self.feed(who)[0], self.seat(who), self.folder / "runs")
        return self._steps

    def enter(self, cell: SparkCell, who: Entrant, say: Say) -> Trial[Entrant]:
        return _TRIALS[cell.work](self, cell, who)

    def order(self, trials: Sequence[Any], turn: int) -> Sequence[Any]:
        """In another order at each turn, so that nobody always follows the same one."""
        first = turn % len(trials) if trials else 0
        turned = [*trials[first:], *trials[:first]]
        return turned[::-1] if turn % 2 else turned

    def about(self, cell: SparkCell, who: Entrant) -> Values:
        return {
            "workload": who.workload,
            "predicate": self.feed(who)[0].query.predicate,
            "window": who.window,
            "batch": who.batch,
            "partitions": who.partitions,
        }

    def check(self, cell: SparkCell, trials: Sequence[Any]) -> None:
        for session in self._sessions:
            session.close()
        super().check(cell, trials)

    def truth(self, who: Entrant) -> list[Digest]:
        """The right answers, for as many micro-batches as anybody has done."""
        feed = self.feed(who)[0]
        kind = next((kind for kind in _TRUTHS if who.structure in kind), ())
        if (feed.shape, kind) not in self._truths:
            self._truths[feed.shape, kind] = _TRUTHS.get(kind, reference)(feed, feed.batches)
        return self._truths[feed.shape, kind]

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        if self._steps is not None:
            self._steps.close()
        for folder in (self._folder, self._runs):
            if folder is not None:
                folder.cleanup()


def _temporary(above: Path | None = None) -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="thetastream-bench-", dir=above, ignore_cleanup_errors=True)

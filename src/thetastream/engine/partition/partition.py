"""One partition of a join that runs in several places: a part of the rows, exact answers.

A partition is an engine that is told what it cannot see by itself: the frontier of event time, and
the ranks of all rows of a count window. Rows come as a *home* row (in one partition) or as a *copy*
(in others, to be met there); a pair is given where its left row is at home, an unmatched row where
it is at home, so every row of the answer is given once.

The state of a partition is a list of *runs* per stream, immutable batches of the rows of one push,
and a bit per row and role when matches must be remembered. ``saved`` and ``restore`` move it; a
partition restored from runs gives the same answers as one that lived on.

    push k                 ids 100 ─────────── 163 164 ── 171 172 … 180
    runs of a stream       │ run a: 64 rows       │ run b    │ run c │   ← rows of push k
    flags (outer joins)    1 0 0 1 1 …             0 0 1 …    0 0 …
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.boxes.arrival import Census
from thetastream.boxes.binding import Binding, bind
from thetastream.boxes.fresh import Fresh
from thetastream.data.batch import joined
from thetastream.engine.aggregates.aggregating import Aggregating
from thetastream.engine.engine import Engine
from thetastream.engine.output.batches import Batches
from thetastream.engine.query import Query
from thetastream.engine.report import snapshot
from thetastream.errors import DataError
from thetastream.metrics import Counters, Metrics, SideCounters
from thetastream.side import Side
from thetastream.window import CountWindow

__all__ = ["COPY", "POSITION", "RANK", "Partition", "Ranks", "Stretch"]

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]

COPY = "__copy"
POSITION = "__position"
RANK = "__rank"


@dataclass
class Ranks:
    """The ranks of all fresh rows of a side, one array per sender, each in the sender's order."""

    senders: list[int]
    ranks: list[Array]

    def merged(self) -> tuple[Array, dict[int, Array]]:
        """All ranks ascending, and for each sender the places of its rows among them.

        Equal ranks keep the order of senders, and of rows within a sender.
        """
        order = sorted(range(len(self.senders)), key=self.senders.__getitem__)
        whole = np.concatenate([self.ranks[i] for i in order] or [np.empty(0, np.int64)])
        by_rank = np.argsort(whole, kind="stable")
        places = np.empty(whole.size, np.int64)
        places[by_rank] = np.arange(whole.size)
        ends = np.cumsum([self.ranks[i].size for i in order])
        parts = np.split(places, ends[:-1]) if order else []
        return whole[by_rank], {self.senders[i]: p for i, p in zip(order, parts, strict=True)}


@dataclass(frozen=True)
class Stretch:
    """Rows stored by one push: what a run is made of. ``last`` is their largest time or position.

    ``system`` columns (copy, position, rank) stand beside those of the user.
    """

    side: Side
    batch: pa.RecordBatch
    last: int


class Partition:
    """The engine of one partition, with its state as plain batches."""

    def __init__(self, query: Query, schemas: Mapping[Side, pa.Schema]) -> None:
        assert query.partitioned
        self.query = query
        back = bool(query.aggregates)
        self.binding: Binding = bind(query.predicate, query.window, schemas, back=back)
        self.counters = Counters()
        self.sides = {side: SideCounters() for side in Side}
        make = Aggregating if query.aggregates else Engine
        self.engine: Engine = make(
            query, self.binding, self.counters, self.sides, dict.fromkeys(query.streams, 0)
        )

    # --- A push ---------------------------------------------------------------------------------

    def push(
        self, batches: Mapping[Side, pa.RecordBatch], *, frontier: int | None = None
    ) -> Batches:
        """Take fresh rows in. Batches carry the system columns that apply."""
        self.engine.frontier = frontier
        fresh = self._keyed(batches)
        for side in self.query.streams:
            if side in fresh:
                rows = fresh[side]
                own = len(rows) if rows.copies is None else int(np.count_nonzero(~rows.copies))
                self.sides[side].rows += own
        self.counters.pushes += 1
        self.engine.journal.clear()
        return Batches(self.engine.process(fresh), self.counters)

    def finish(self) -> Batches:
        """The streams have ended: give what is left."""
        self.engine.journal.clear()
        return Batches(self.engine.finish(), self.counters)

    def note_ranks(self, ranks: Mapping[Side, Ranks]) -> dict[Side, dict[int, Array]]:
        """Take note of the ranks of all fresh rows; gives the position of each sender's rows."""
        positions: dict[Side, dict[int, Array]] = {}
        for side, given in ranks.items():
            census = self.engine.census[side]
            whole, places = given.merged()
            if whole.size and census.last is not None and whole[0] < census.last:
                raise DataError(
                    f"the order column of the {side.value} side falls: a row of rank {whole[0]} "
                    f"came after rank {census.last} had been seen; rows of one side must come in "
                    "the order of their ranks from one micro-batch to the next"
                )
            first = census.seen
            census.add(whole)
            positions[side] = {sender: first + at for sender, at in places.items()}
            if self.query.self_join:
                self.engine.census[side.other].add(whole)
        return positions

    def _keyed(self, batches: Mapping[Side, pa.RecordBatch]) -> dict[Side, Fresh]:
        with self.counters.timed("keys"):
            if self.query.self_join:
                batches = {role: batches[Side.LEFT] for role in Side if Side.LEFT in batches}
            return {side: self._fresh(side, batch) for side, batch in batches.items()}

    def _fresh(self, side: Side, batch: pa.RecordBatch) -> Fresh:
        rows = self.binding.fresh(side, batch)
        names = batch.schema.names
        if COPY in names:
            copies = batch.column(COPY).to_numpy(zero_copy_only=False).astype(np.bool_)
            rows.copies = copies if copies.any() else None
        if POSITION in names:
            rows.positions = batch.column(POSITION).to_numpy()
        if RANK in names:
            rows.ranks = batch.column(RANK).to_numpy()
        return rows

    # --- State ----------------------------------------------------------------------------------

    def stretches(self) -> list[Stretch]:
        """The rows that the last push stored: at most one stretch per stream."""
        return [
            Stretch(rows.side, rows.batch, self._last(rows))
            for rows in self.engine.journal
            if len(rows)
        ]

    def _last(self, rows: Fresh) -> int:
        if isinstance(self.query.window, CountWindow):
            assert rows.positions is not None
            return int(rows.positions[-1])
        assert rows.times is not None
        times = rows.times if rows.timed is None else rows.times[rows.timed]
        return int(times.max()) if times.size else -(2**63)

    def waiting(self) -> dict[Side, pa.RecordBatch]:
        """Rows whose turn has not come."""
        found = {side: waiting.rows for side, waiting in self.engine.waiting.items()}
        return {side: rows.batch for side, rows in found.items() if rows is not None}

    def census(self) -> dict[Side, Census]:
        """What is known of all ranks."""
        return self.engine.census

    def restore(
        self,
        side: Side,
        batches: Sequence[pa.RecordBatch],
        flags: Mapping[Side, Mask],
    ) -> None:
        """Take back the rows of all runs of a stream, oldest first, and their flags per role."""
        if batches:
            self.engine.restore(self._keyed({side: joined(batches)}), flags)

    def restore_ranks(
        self, census: Mapping[Side, Census], waiting: Mapping[Side, pa.RecordBatch]
    ) -> None:
        """Take back what was known of ranks, and the rows that wait."""
        self.engine.census.update(census)
        for side, batch in waiting.items():
            self.engine.waiting[side].add(self._keyed({side: batch})[side])

    def flags(self, side: Side, first: int) -> dict[Side, Mask]:
        """Match flags of a stream's rows from id ``first`` on; rows that are gone count as met."""
        stream = self.engine.streams[side]
        found: dict[Side, Mask] = {}
        for role, ring in stream.matched.items():
            gone = np.ones(max(0, ring.first - first), np.bool_)
            found[role] = np.concatenate([gone, ring.values[max(0, first - ring.first) :]])
        return found

    def next_id(self, side: Side) -> int:
        """The id that the next row of a stream will get."""
        return self.engine.streams[side].rows.next

    def horizon(self, side: Side) -> int | None:
        """Runs whose ``last`` is below this have expired."""
        return self.engine.horizon(side)

    def metrics(self) -> Metrics:
        """Counters, sizes and times up to now."""
        waiting = {side: len(self.engine.waiting[side]) for side in Side}
        return snapshot(self.counters, self.sides, self.engine.streams, waiting)

    def check(self) -> None:
        """Assert every invariant. For tests."""
        for stream in self.engine.streams.values():
            stream.check()

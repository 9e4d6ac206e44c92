"""One partition of a join that runs in several places: a part of the rows, exact answers.

A partition is an engine that sees only some of the rows, so the caller supplies the global facts:
the frontier of event time, and the ranks of all rows of a count window. A row arrives as a *home*
row in one partition, and as a *copy* in others, where it is met. A pair is returned where its left
row is at home, and an unmatched row where it is at home, so every row of the answer appears once.

The state of a partition is a list of *runs* per stream, immutable batches of the rows of one push,
and a bit per row and role if matches must be known. ``stretches`` and ``flags`` return it,
``restore`` takes it back; a restored partition returns the same answers as one that lived on.

    push k                 ids 100 ─────────── 163 164 ── 171 172 … 180
    runs of a stream       │ run a: 64 rows       │ run b    │ run c │   ← rows of push k
    flags (outer joins)    1 0 0 1 1 …             0 0 1 …    0 0 …
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array, Mask
from thetastream.boxes.arrival import Census
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh, Places
from thetastream.data.batch import joined
from thetastream.engine.engine import Engine, Pushed
from thetastream.engine.outside import Outside, Tops
from thetastream.engine.parts.batches import Batches
from thetastream.engine.query import Query, Traits
from thetastream.engine.report import snapshot
from thetastream.errors import DataError
from thetastream.metrics import Counters, Metrics, SideCounters
from thetastream.plan.choice import Choice
from thetastream.side import Side

COPY = "__copy"
POSITION = "__position"
RANK = "__rank"


Ranks = Mapping[int, Array]
"""The ranks of all fresh rows of a side, one array per sender, each in the sender's order."""


def merged(ranks: Ranks) -> tuple[Array, dict[int, Array]]:
    """All ranks ascending, and for each sender the places of its rows among them.

    Equal ranks keep the order of senders, and of rows within a sender.
    """
    senders = sorted(ranks)
    whole = np.concatenate([np.empty(0, np.int64), *(ranks[sender] for sender in senders)])
    by_rank = np.argsort(whole, kind="stable")
    places = np.empty(whole.size, np.int64)
    places[by_rank] = np.arange(whole.size)
    parts = np.split(places, np.cumsum([ranks[sender].size for sender in senders]))
    return whole[by_rank], dict(zip(senders, parts, strict=False))


@dataclass(frozen=True)
class Stretch:
    """Rows stored by one push, which become a run. ``last`` is their largest time or position.

    The columns ``COPY``, ``POSITION`` and ``RANK``, where they apply, follow those of the user.
    """

    side: Side
    batch: pa.RecordBatch
    last: int


class Partition:
    """The engine of one partition, with its state as plain batches.

    ``led``: a pair is returned only where its row of that side is at home; None if pairs meet once.
    """

    def __init__(self, query: Query, binding: Binding, led: Side | None = None) -> None:
        self.query = query
        self.binding = binding
        self.counters = Counters()
        self.sides = {side: SideCounters() for side in Side}
        placed = query.window.order is not None
        traits = Traits(led=led, placed=placed, mirrors=False, renumbers=False)
        nothing = dict.fromkeys(query.streams, 0)
        self._engine = Engine(query, binding, self.counters, self.sides, nothing, traits)
        self._tops = Tops(query.streams, binding.bound)
        self._ranks: dict[Side, Array] = {}
        self._stored: list[Fresh] = []

    # --- A push ---------------------------------------------------------------------------------

    def push(
        self, batches: Mapping[Side, pa.RecordBatch], *, frontier: int | None = None
    ) -> Batches:
        """Process fresh rows. Batches have ``COPY``, ``POSITION`` and ``RANK`` where they apply."""
        started = perf_counter()
        fresh = [self._fresh(side, batches[side]) for side in Side if side in batches]
        self.counters.seconds["keys"] += perf_counter() - started
        for rows in fresh:
            copies = rows.places.copies
            at_home = rows.count if copies is None else int(np.count_nonzero(~copies))
            self.sides[rows.side].rows += at_home
        self.counters.pushes += 1
        ranks, self._ranks = self._ranks, {}
        return self._returned(self._engine.push(fresh, Outside(frontier, frontier, ranks)))

    def finish(self) -> Batches:
        """End the streams; return what is left."""
        return self._returned(self._engine.finish())

    def _returned(self, pushed: Pushed) -> Batches:
        self._stored = pushed.stored
        for rows in pushed.stored:
            self._tops.note(rows)
        return Batches(pushed.parts, self.counters)

    def note_ranks(self, ranks: Mapping[Side, Ranks]) -> dict[Side, dict[int, Array]]:
        """Note the ranks of all fresh rows; return the positions of each sender's rows."""
        positions: dict[Side, dict[int, Array]] = {}
        for side, fresh in ranks.items():
            census = self.census()[side]
            whole, places = merged(fresh)
            if whole.size and census.last is not None and whole[0] < census.last:
                raise DataError(
                    f"the order column of the {side.value} side falls: a row of rank {whole[0]} "
                    f"came after rank {census.last} had been seen; rows of one side must come in "
                    "the order of their ranks from one micro-batch to the next"
                )
            positions[side] = {sender: census.seen + at for sender, at in places.items()}
            self._ranks[side] = whole
        return positions

    def _fresh(self, side: Side, batch: pa.RecordBatch) -> Fresh:
        roles = {role: self.binding.keys(role, batch) for role in self.query.roles(side)}
        names = batch.schema.names
        known: dict[str, Any] = {}
        if COPY in names:
            copies = batch.column(COPY).to_numpy(zero_copy_only=False).astype(np.bool_)
            known["copies"] = copies if copies.any() else None
        if POSITION in names:
            known["positions"] = batch.column(POSITION).to_numpy()
        if RANK in names:
            known["ranks"] = batch.column(RANK).to_numpy()
        return Fresh(side, batch, roles, Places(**known))

    # --- State ----------------------------------------------------------------------------------

    def stretches(self) -> list[Stretch]:
        """The rows that the last push stored: at most one stretch per stream."""
        last = self._engine.lifetime.last
        return [
            Stretch(rows.side, rows.batch, last(rows))
            for rows in self._stored
            if self.query.stores(rows.side)
        ]

    @property
    def _counted(self) -> Any:
        """The lifetime of a count window, which knows the ranks and the waiting rows."""
        return self._engine.lifetime

    def waiting(self) -> dict[Side, pa.RecordBatch]:
        """Rows that are not due yet."""
        if not self.query.ranked:
            return {}
        waiting = {side: queue.rows for side, queue in self._counted.waiting.items()}
        return {side: rows.batch for side, rows in waiting.items() if rows is not None}

    def census(self) -> dict[Side, Census]:
        """What is known of all ranks."""
        census: dict[Side, Census] = self._counted.census
        return census

    def restore(self, batches: Mapping[Side, Sequence[pa.RecordBatch]]) -> None:
        """Restore rows of runs after those that are stored; per stream, oldest first."""
        self._engine.restore(
            [self._fresh(side, joined(runs)) for side, runs in batches.items() if runs]
        )

    def restore_ranks(
        self, census: Mapping[Side, Census], waiting: Mapping[Side, pa.RecordBatch]
    ) -> None:
        """Restore the known ranks and the waiting rows, instead of those known before."""
        self._counted.resume(census, [self._fresh(side, batch) for side, batch in waiting.items()])

    def flags(self, side: Side, first: int) -> dict[Side, Mask]:
        """Match flags of a stream's rows from id ``first`` on; expired rows count as matched."""
        stream = self._engine.streams[side]
        flags: dict[Side, Mask] = {}
        for role, ring in stream.matched.items():
            expired = np.ones(max(0, ring.first - first), np.bool_)
            flags[role] = np.concatenate([expired, ring.values[max(0, first - ring.first) :]])
        return flags

    def restore_flags(self, side: Side, role: Side, runs: Sequence[tuple[int, Mask]]) -> None:
        """Restore the match flags of runs, by the id of their first row.

        Rows in no run have expired, and so count as matched: they were returned, if they had to be.
        """
        ring = self._engine.streams[side].matched[role]
        ring.values[:] = True
        for first, flags in runs:
            left = flags[max(0, ring.first - first) :]
            start = first + flags.size - left.size - ring.first
            ring.values[start : start + left.size] = left

    @property
    def tracked(self) -> dict[Side, list[Side]]:
        """The roles in which each stream has match flags."""
        return {side: self.query.tracked(side) for side in self.query.streams}

    def next_id(self, side: Side) -> int:
        """The id that the next row of a stream will get."""
        return self._engine.streams[side].rows.next

    def rows(self, side: Side) -> int:
        """How many rows of a stream are stored, including dead ones behind a younger one."""
        return len(self._engine.streams[side].rows)

    @property
    def tops(self) -> dict[Side, int]:
        """The largest event time of each stream that has any."""
        return {side: top for side, top in self._tops.largest.items() if top is not None}

    @tops.setter
    def tops(self, known: Mapping[Side, int]) -> None:
        self._tops.largest.update(known)

    def horizon(self, side: Side) -> int | None:
        """Runs whose ``last`` is below this have expired."""
        return self._engine.lifetime.horizon(side)

    def choices(self) -> list[Choice]:
        """How the rows of each stream are indexed."""
        streams = self._engine.streams.values()
        return [index.choice for stream in streams for index in stream.indexes.values()]

    def metrics(self) -> Metrics:
        """Counters, sizes and times up to now."""
        waiting = {side: self._engine.waiting_rows(side) for side in Side}
        largest = self._tops.largest
        return snapshot(self.counters, self.sides, self._engine.streams, waiting, largest)

    def check(self) -> None:
        """Assert every invariant. For tests."""
        self._engine.check()

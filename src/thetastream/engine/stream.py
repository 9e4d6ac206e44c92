"""The state of one stream: payload, event times, match flags and indexes.

A self-joined stream plays both roles, so it may have two indexes. Any other stream has one, in the
role of its own side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import thread_time
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, Array
from thetastream.boxes.fresh import Fresh
from thetastream.boxes.keys import Keys
from thetastream.data.number_columns import NumberColumn
from thetastream.data.rows import NumberView, Ring, Rows
from thetastream.index.base import Index
from thetastream.index.registry import create
from thetastream.metrics import Spent
from thetastream.plan.choice import Choice
from thetastream.side import Side

N = TypeVar("N", int, NDArray[np.int64])
_SWEEP = 4096


class RoleIndex:
    """A stream's index in one role, and the layout of its keys.

    ``times`` are the event times of the stream's rows, for indexes that order rows by time.
    ``spent`` is the work done since the plan was made.
    """

    def __init__(self, choice: Choice, capacity: int) -> None:
        self.choice = choice
        self.layout = choice.layout
        self.index = self._empty(choice, capacity)
        self.times: Ring | None = None
        self.spent = Spent()
        self._capacity = capacity
        self._before = 0
        self._replaced: dict[str, float] = {}

    @staticmethod
    def _empty(choice: Choice, capacity: int) -> Index:
        layout = choice.layout
        given = {**choice.best.tuned, **layout.parameters}
        return create(layout.index, capacity=capacity, columns=layout.columns, **given)

    def replace(self, rows: Keys, first: int, before: int) -> None:
        """Expire rows below ``before``, then insert fresh rows that can match as ``first …``.

        Old rows leave first, so that merges skip them.
        """
        started = thread_time()
        layout = self.layout
        at, able = layout.arranged(rows)
        keys = {field: field.keys(able) for field in layout.fields}
        if before > first:
            kept = at >= before - first
            at, keys = at[kept], {field: key[kept] for field, key in keys.items()}
        self.expire(before)
        self._put(self.index, layout.matrix(keys, at.size), at + first)
        self.spent.insert += thread_time() - started
        self.spent.stored += rows.count

    def expire(self, before: int) -> None:
        """Expire rows below ``before``."""
        if before > self._before:
            self._before = before
            self.index.expire(before)

    def _put(self, index: Index, matrix: Array, ids: Array) -> None:
        """Insert into an index, with the rows' event times if it takes them."""
        if self.times is None or not index.timed:
            index.insert(matrix, ids)
            return
        timed: Any = index
        timed.insert(matrix, ids, self.times.values[ids - self.times.first])

    def keep(self, choice: Choice) -> None:
        """Keep the layout, tune it to the traffic, and restart the measurement."""
        tuned = choice.best.tuned
        if tuned and tuned != self.choice.best.tuned:
            self.index.tune(round(choice.rows), **tuned)
        self.choice = choice
        self.spent = Spent()

    def move(self, choice: Choice) -> None:
        """Rebuild the index under another layout. O(n log n)."""
        matrix, ids = self.index.dump()
        keys = self.choice.layout.field_keys(matrix)
        for name, value in self.index.statistics.items():
            if name != "runs":
                self._replaced[name] = self._replaced.get(name, 0) + value
        moved = self._empty(choice, self._capacity)
        self._put(moved, choice.layout.matrix(keys, ids.size), ids)
        moved.expire(self._before)
        self.index, self.choice, self.layout = moved, choice, choice.layout
        self.spent = Spent()

    def relocate(self, ids: Array, first: int) -> None:
        """Renumber the rows ``ids`` (ascending) as ``first …``, and drop all others."""
        matrix, present = self.index.dump()
        keep = np.isin(present, ids)
        self.expire(first)
        moved = np.searchsorted(ids, present[keep]) + first
        self._put(self.index, np.ascontiguousarray(matrix[:, keep]), moved)

    def statistics(self, name: str) -> float:
        """A counter of the index, including those of the indexes it replaced."""
        return self.index.statistics.get(name, 0) + self._replaced.get(name, 0)


class Stream:
    """The stored rows of one stream. Row ids count its arrivals.

    ``measured`` maps columns that are kept as numbers, for folds, to their names in messages;
    ``ordered`` are columns of strings whose order is compared.
    """

    def __init__(
        self,
        schema: pa.Schema,
        columns: Sequence[str],
        *,
        timed: bool,
        tracked: Sequence[Side],
        first: int = 0,
        placed: bool = False,
        copied: bool = False,
        numbered: bool = False,
        measured: Mapping[str, str] | None = None,
        ordered: Collection[str] = (),
    ) -> None:
        self.rows = Rows(schema, columns, first, ordered=ordered)
        self.times = Ring(np.int64, first) if timed else None
        self.positions = Ring(np.int64, first) if placed else None
        self.copies = Ring(np.bool_, first) if copied else None
        self.numbers = Ring(np.int64, first) if numbered else None
        self.matched = {role: Ring(np.bool_, first) for role in tracked}
        self.measured = {
            name: NumberColumn(schema.field(name).type, what, first)
            for name, what in (measured or {}).items()
        }
        self.indexes: dict[Side, RoleIndex] = {}
        self.sweeps = True
        self._sweep_at = _SWEEP

    def index_as(self, role: Side, role_index: RoleIndex) -> None:
        """Index the rows in a role."""
        role_index.times = self.times
        self.indexes[role] = role_index

    def append(self, rows: Fresh) -> int:
        """Store payload, times and flags; return the id of the first row."""
        first = self.rows.next
        self.rows.append(rows.batch)
        places = rows.places
        if self.times is not None:
            keys = rows.keys
            assert keys.times is not None
            times = keys.times if keys.timed is None else np.where(keys.timed, keys.times, LEAST)
            self.times.append(times)
        if self.positions is not None:
            assert places.positions is not None
            self.positions.append(places.positions)
        if self.numbers is not None:
            assert places.numbers is not None
            self.numbers.append(places.numbers)
        for name, column in self.measured.items():
            column.append(rows.batch.column(name))
        flagged = [*self.matched.values(), *([] if self.copies is None else [self.copies])]
        if flagged:
            copies = np.zeros(rows.count, np.bool_) if places.copies is None else places.copies
            for flags in flagged:
                flags.append(copies)  # a copy counts as matched: only its home emits it
        return first

    def number_view(self) -> NumberView:
        """A snapshot of the arrival numbers, which are the ids unless stored separately."""
        if self.numbers is None:
            return NumberView()
        return NumberView(self.numbers.first, self.numbers.values)

    def first_at(self, positions: N) -> N:
        """The first id at or after each position among all rows of the side.

        Ids are positions unless this is one of several partitions.
        """
        if self.positions is None:
            return positions
        at = np.searchsorted(self.positions.values, positions) + self.rows.first
        return int(at) if isinstance(positions, int) else at

    def mark(self, role: Side, ids: Array) -> Array:
        """Flag rows as matched; return those newly flagged, each once, ascending."""
        flags = self.matched[role]
        at = np.unique(ids) - flags.first
        newly = at[~flags.values[at].astype(np.bool_)]
        flags.values[newly] = True
        return newly + flags.first

    def unmatched(self, role: Side, before: int) -> Array:
        """Ids below ``before`` that never matched; they count as matched from now on."""
        flags = self.matched[role]
        matched = flags.values[: max(0, before - flags.first)]
        never = np.flatnonzero(~matched.astype(np.bool_))
        matched[never] = True
        return never + flags.first

    def unmatched_older(self, role: Side, time: int) -> Array:
        """Ids of rows older than ``time`` that never matched; they count as matched from now on."""
        assert self.times is not None
        flags = self.matched[role]
        matched = flags.values
        never = np.flatnonzero(~matched.astype(np.bool_) & (self.times.values < time))
        matched[never] = True
        return never + flags.first

    def first_younger(self, time: int) -> int:
        """The first id with an event time of at least ``time``; all before it are older."""
        assert self.times is not None
        times = self.times.values
        for start in range(0, len(times), _SWEEP):
            young = times[start : start + _SWEEP] >= time
            if young.any():
                return self.times.first + start + int(np.argmax(young))
        return self.rows.next

    def sweep(self, time: int) -> None:
        """Reclaim rows older than ``time`` that are stuck behind younger ones.

        Rows leave from the front, so one row from the future would keep every row that came after
        it. When more than half of the rows are dead, the living ones are appended again under new
        ids and the front is dropped. Checked when the rows have doubled: O(log n) per row,
        amortised.
        """
        if not self.sweeps or len(self.rows) < self._sweep_at:
            return
        assert self.times is not None
        alive = np.flatnonzero(self.times.values >= time)
        if 2 * alive.size < len(self.rows):
            self._relocate(alive + self.rows.first)
        self._sweep_at = max(_SWEEP, 2 * len(self.rows))

    def _relocate(self, ids: Array) -> None:
        assert self.times is not None
        first, view = self.rows.next, self.rows.view()
        at = ids - self.rows.first
        columns = self.rows.columns
        arrays = [view.take(name, ids) for name in columns]
        self.rows.append(pa.RecordBatch.from_arrays(arrays, names=columns), len(ids))
        for ring in self._rings():
            ring.append(ring.values[at])
        for role_index in self.indexes.values():
            role_index.relocate(ids, first)
        self.expire(first)

    def expire(self, before: int) -> None:
        """Drop rows below ``before`` everywhere."""
        if before <= self.rows.first:
            return
        for role_index in self.indexes.values():
            role_index.expire(before)
        self.rows.expire(before)
        for ring in self._rings():
            ring.expire(before)

    def expire_older(self, time: int) -> None:
        """Let indexes that know event times drop the rows older than ``time``."""
        for role_index in self.indexes.values():
            role_index.index.expire_older(time)

    def _rings(self) -> list[Ring]:
        """Everything stored beside the payload, one entry per row."""
        kept = (self.times, self.positions, self.copies, self.numbers)
        measured = [ring for column in self.measured.values() for ring in column.rings()]
        return [*(r for r in kept if r is not None), *self.matched.values(), *measured]

    @property
    def index_bytes(self) -> int:
        """Bytes of all indexes."""
        return sum(role_index.index.nbytes for role_index in self.indexes.values())

    @property
    def nbytes(self) -> int:
        """Bytes of everything held."""
        return self.rows.nbytes + sum(ring.nbytes for ring in self._rings()) + self.index_bytes

    def check(self) -> None:
        """Assert that the parts agree."""
        for ring in self._rings():
            assert ring.first == self.rows.first and ring.size == len(self.rows)
        for role_index in self.indexes.values():
            role_index.index.check()
            _, ids = role_index.index.dump()
            if ids.size:
                assert self.rows.first <= ids[0] and ids[-1] < self.rows.next

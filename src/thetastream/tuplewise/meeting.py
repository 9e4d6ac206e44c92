"""The meeting: due rows of a parallel join are matched one by one, in indexes that they share.

``SharedMeeting`` takes the place of the engine's own indexes. A push is a queue of tuples in
arrival order; what the shared join finds are numbers of rows, which become pairs of ids here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.boxes.field import Field
from thetastream.boxes.fresh import Fresh
from thetastream.boxes.keys import Keys
from thetastream.condition.expression import Column
from thetastream.data.byte_columns import Place
from thetastream.data.rows import Ring, RowsView, gathered
from thetastream.engine.engine import Engine
from thetastream.engine.parts.batches import Flow, OutputPart, rechunked
from thetastream.engine.report import memory
from thetastream.errors import (
    PredicateError,
)
from thetastream.metrics import Metrics
from thetastream.plan.choice import choose
from thetastream.side import Side
from thetastream.tuplewise.ibwj import IndexJoin
from thetastream.tuplewise.kernels.ibwj import Feed

_UNKNOWN = 1 << 16  # initial rows of a time window; indexes grow


class _Store:
    """Ids and keys to check of the rows of one role, by number."""

    def __init__(self, driver: Field, checks: Sequence[Field]) -> None:
        self.driver = driver
        self.checks = list(checks)
        self.ids = Ring(np.int64)
        self.keys = [Ring(np.int64) for _ in checks]

    def rings(self) -> list[Ring]:
        return [self.ids, *self.keys]


class SharedMeeting:
    """Joins due rows tuple by tuple, in the indexes of one shared join."""

    def __init__(self, engine: Engine, structure: str, options: Mapping[str, Any]) -> None:
        self.engine = engine
        self._options = options
        self.mirrored = engine.mirrored
        self.roles = [Side.LEFT] if self.mirrored else list(Side)
        sizes = [self._expected_rows(side) for side in Side]
        self.joined = IndexJoin(structure, (sizes[0], sizes[1]), self_join=self.mirrored, **options)
        self.stores = {role: _Store(*self._driver(role)) for role in self.roles}

    def _driver(self, role: Side) -> tuple[Field, list[Field]]:
        """The field that the index of a role is built on, and the fields to check."""
        binding = self.engine.binding
        fields = binding.fields(role)
        one = np.zeros(1, np.int64)
        asking = Keys(role.other, [one for _ in binding.terms], one, 1)
        candidates = [field for field in fields if len(field.pieces(asking)) == 1]
        if not candidates:
            raise PredicateError(
                "ParallelJoin needs a term that yields one interval per row, as =, <, BETWEEN or a "
                f"band do; {binding.predicate} has none. Use StreamJoin",
                binding.predicate.text,
            )
        driver = candidates[0]
        if len(candidates) > 1:
            rows = float(self._expected_rows(role))
            best = choose(binding, role, self.engine.query.tactic, rows).layout
            chosen = getattr(best, "driver", driver)
            driver = chosen if chosen in candidates else driver
        return driver, [field for field in fields if field is not driver]

    def _expected_rows(self, role: Side) -> int:
        return self.engine.query.window.expected(role) or _UNKNOWN

    # --- Facts ----------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """For explanations: the shared indexes, and how they are worked on."""
        indexes = {}
        for at, (role, store) in enumerate(self.stores.items()):
            text = f"{self.joined.structure}, order of {store.driver}"
            if store.checks:
                text += f", then {' AND '.join(map(str, store.checks))}"
            merges, _ = self.joined.merged(at)
            indexes[f"{role.value} rows"] = text + (f"; {merges} merges so far" if merges else "")
        columns = [(role, 1 + len(store.checks)) for role, store in self.stores.items()]
        return {
            **indexes,
            "threads": f"{self._options['threads']}, tasks of {self._options['task_size']} rows, "
            f"{self._options['merge']} merges",
            "memory": memory(self.engine.query, self.engine.binding, columns),
        }

    def measured(self, metrics: Metrics) -> Metrics:
        """Metrics with the sizes and the work of the shared indexes."""
        kept = [ring.nbytes for store in self.stores.values() for ring in store.rings()]
        merges, rows = zip(*(self.joined.merged(at) for at in range(len(self.roles))), strict=True)
        size = self.joined.index_bytes + sum(kept)
        return replace(metrics, index_bytes=size, merges=sum(merges), merged_rows=sum(rows))

    # --- One push -------------------------------------------------------------------------------

    def meet(self, due: Sequence[Fresh]) -> list[OutputPart]:
        """Match the rows in arrival order, and store them."""
        engine, counters = self.engine, self.engine.counters
        if not any(rows.count for rows in due):
            return []
        firsts = {rows.side: engine.append(rows) for rows in due}
        fresh = {role: rows for rows in due for role in engine.query.roles(rows.side)}
        if engine.query.self_join:
            firsts = dict.fromkeys(Side, firsts[Side.LEFT])
        with counters.timed("keys"):
            queue = _Queue(self, fresh, firsts)
        with counters.timed("probe"):
            pairs = list(queue.pairs())
        for first, _ in pairs:
            counters.matches += first.size * (2 if self.mirrored else 1)
        parts = self._output(pairs)
        for role, store in self.stores.items():
            floor = queue.floor(role)
            for ring in store.rings():
                ring.expire(floor)
        return parts

    def _output(self, pairs: list[tuple[Array, Array]]) -> list[OutputPart]:
        if not pairs:
            return []
        engine, by_role = self.engine, self.engine.by_role
        numbered = engine.query.output.numbered
        views: dict[Side, RowsView] = {
            side: by_role[side].number_view() if numbered else by_role[side].rows.view()
            for side in Side
        }

        def flow() -> Iterator[pa.RecordBatch]:
            for left, right in rechunked(pairs, engine.query.batch_rows):
                with engine.counters.timed("gather"):
                    ids = {Side.LEFT: left, Side.RIGHT: right}
                    taken = {side: (views[side], ids[side]) for side in Side}
                    yield gathered(engine.shape.schema, engine.shape.origin, taken, left.size)

        return [Flow(flow)]


class _Queue:
    """The tuples of a push in arrival order, and how their matches become pairs of ids."""

    def __init__(
        self, meeting: SharedMeeting, fresh: Mapping[Side, Fresh], firsts: Mapping[Side, int]
    ) -> None:
        self._meeting = meeting
        self._engine = meeting.engine
        self._mirrored = meeting.mirrored
        self._firsts = firsts
        able = {role: fresh[role].roles[role].able() for role in meeting.roles if role in fresh}
        self._at: dict[Side, Array] = {role: at for role, (at, _) in able.items()}
        self._rows: dict[Side, Keys] = {role: keys for role, (_, keys) in able.items()}
        if self._mirrored:
            # Rows are stored in one role and probe in the other; keys of both are the same.
            self._asking = {Side.LEFT: fresh[Side.LEFT].roles[Side.RIGHT].able()[1]}
        else:
            self._asking = self._rows
        self._fresh = fresh
        self._numbers = {role: self._remember(role) for role in meeting.roles}
        self.feed = self._feed()

    def _remember(self, role: Side) -> int:
        """Store ids and keys of the rows of a role; returns the number of the first."""
        store = self._meeting.stores[role]
        first = store.ids.first + store.ids.size
        if role in self._rows:
            store.ids.append(self._at[role] + self._firsts[role])
            for field, ring in zip(store.checks, store.keys, strict=True):
                ring.append(field.keys(self._rows[role]))
        return first

    @cached_property
    def _order(self) -> tuple[Array, Array, Array]:
        """Side, row among the able ones, and arrival of every tuple, in arrival order."""
        side = np.concatenate([np.full(at.size, role.position) for role, at in self._at.items()])
        row = np.concatenate([np.arange(at.size) for at in self._at.values()])
        place = np.concatenate([self._arrivals(role) for role in self._at])
        order = np.lexsort((side, place))
        return side[order], row[order], place[order]

    def _feed(self) -> Feed:
        meeting = self._meeting
        sides, rows, places = self._order
        count = sides.size
        keys, lows, highs = (np.empty(count, np.int64) for _ in range(3))
        own, until = np.empty(count, np.int64), np.empty(count, np.int64)
        floors = np.empty((len(meeting.roles), count), np.int64)
        for role in meeting.roles:
            other = role if self._mirrored else role.other
            mine = np.flatnonzero(sides == role.position)
            if role in self._rows:
                keys[mine] = meeting.stores[role].driver.keys(self._rows[role])[rows[mine]]
                ((low, high),) = meeting.stores[other].driver.pieces(self._asking[role])
                lows[mine], highs[mine] = low[rows[mine]], high[rows[mine]]
                own[mine] = self._numbers[role] + rows[mine]
            others = np.sort(self._arrivals(other))
            until[mine] = self._numbers[other] + np.searchsorted(others, places[mine])
            floors[role.position] = self._floors(role, places)
        looks_at = np.array([0] if self._mirrored else [1, 0])
        return Feed(sides, keys, lows, highs, own, until, floors, looks_at)

    def _arrivals(self, role: Side) -> Array:
        """The arrival of the able rows of a role."""
        if role not in self._at:
            return np.empty(0, np.int64)
        positions = self._fresh[role].places.positions
        assert positions is not None
        return positions[self._at[role]]

    def _floors(self, role: Side, places: Array) -> Array:
        """Per place: numbers below have left the window when its tuple arrives."""
        stream, ids = self._engine.by_role[role], self._meeting.stores[role].ids
        window: Any = self._engine.query.window
        if not window.by_arrival:
            oldest = np.full(places.size, stream.rows.first)
        else:
            fresh = self._fresh.get(role)
            came = np.empty(0, np.int64) if fresh is None else fresh.places.positions
            assert came is not None
            counts = stream.rows.next - came.size + np.searchsorted(came, places)
            oldest = np.asarray(window.oldest(counts, role))
        return ids.first + np.searchsorted(ids.values, oldest)

    def floor(self, role: Side) -> int:
        """Numbers of a role below this match nothing after this push."""
        stream, ids = self._engine.by_role[role], self._meeting.stores[role].ids
        return ids.first + int(np.searchsorted(ids.values, stream.rows.first))

    # --- Pairs ----------------------------------------------------------------------------------

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        """Pairs of ids, left and right, in arrival order."""
        engine = self._engine
        for at, numbers in self._meeting.joined.join(self.feed):
            engine.counters.candidates += at.size
            sides, rows = self.feed.sides[at], self._order[1][at]
            keep = self._kept(sides, rows, numbers)
            sides, rows, numbers = sides[keep], rows[keep], numbers[keep]
            left, right = self._ids(sides, rows, numbers)
            if self._mirrored:
                left, right = (
                    np.stack([left, right], axis=1).ravel(),
                    np.stack([right, left], axis=1).ravel(),
                )
            mask = self._residual(left, right)
            if mask is not None:
                left, right = left[mask], right[mask]
            if left.size:
                yield left, right

    def _kept(self, sides: Array, rows: Array, numbers: Array) -> NDArray[np.bool_]:
        """Which pairs also lie in the boxes of all other fields."""
        keep = np.ones(sides.size, np.bool_)
        for role in self._rows:
            other = role if self._mirrored else role.other
            store = self._meeting.stores[other]
            mine = np.flatnonzero(sides == role.position)
            for field, ring in zip(store.checks, store.keys, strict=True):
                keys = ring.values[numbers[mine] - ring.first]
                inside = np.zeros(mine.size, np.bool_)
                for low, high in field.pieces(self._asking[role]):
                    inside |= (low[rows[mine]] <= keys) & (keys <= high[rows[mine]])
                keep[mine] &= inside
        return keep

    def _ids(self, sides: Array, rows: Array, numbers: Array) -> tuple[Array, Array]:
        """The ids of both rows of each pair."""
        pairs = np.empty((2, sides.size), np.int64)
        for role, at in self._at.items():
            other = role if self._mirrored else role.other
            ids = self._meeting.stores[other].ids
            mine = np.flatnonzero(sides == role.position)
            pairs[role.position, mine] = at[rows[mine]] + self._firsts[role]
            pairs[1 - role.position, mine] = ids.values[numbers[mine] - ids.first]
        return pairs[0], pairs[1]

    def _residual(self, left: Array, right: Array) -> NDArray[np.bool_] | None:
        engine = self._engine
        if not engine.binding.residuals or not left.size:
            return None
        views = {side: engine.by_role[side].rows.view() for side in Side}
        ids = {Side.LEFT: left, Side.RIGHT: right}

        def lookup(column: Column) -> pa.Array:
            return views[column.side].take(column.name, ids[column.side])

        def find(column: Column) -> Place | None:
            view = views[column.side].as_bytes(column.name)
            return None if view is None else (view, ids[column.side])

        return engine.binding.residual_mask(lookup, left.size, find)

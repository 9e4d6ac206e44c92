"""WindowIndex: the last minutes of one stream, for point look-ups and range aggregates.

    index = WindowIndex(key=…, window=TimeWindow("5 minutes", time="t", slide="1 minute"))
    index.insert(batch)                                   rows come in, old ones leave
    index.lookup([(0, 1, 57, 4711)])                      the newest row of each key
    index.aggregate([(0, 1, 57)], [(0, 1, 57)],           count, sum, min, max, mean of key ranges
                    {"avg_speed": ("speed", "mean")}, last="5 minutes")

These are the two queries of Ordered Indexing, Section 3.1, and what is under them is its PTWI:
partial indexes by time, dropped whole. A look-up costs a descent in the subwindow where the key is
found, an aggregate one descent per subwindow and the rows of the range: neither grows with the
window. Answers are exact for any moment and period, whatever the structure and order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import LEAST, Array
from thetastream.aggregate import (
    Folded,
    answer,
    check_aggregates,
    read_aggregates,
    result_type,
)
from thetastream.data.batch import conform
from thetastream.data.key_packing import Key, KeyPacker
from thetastream.data.measure import Measured, numbers
from thetastream.data.rows import Ring, Rows, check_gatherable
from thetastream.data.values import Values
from thetastream.errors import (
    DataError,
    OptionError,
    RegistryError,
    SchemaError,
    StateError,
    suggest,
)
from thetastream.index.folding import Fold
from thetastream.index.registry import check_parameters
from thetastream.index.slotted.ptwi import Ptwi
from thetastream.lookup.clock import Length, WindowClock, check_clocked, clock_of
from thetastream.lookup.parts import Parts, WindowPart, parts_of
from thetastream.options.checks import read_columns, read_count
from thetastream.plan.tactic import Tactic
from thetastream.window import CountWindow, TimeWindow, Window

_AUTO = "ptwi/radix-trie"
_WHY = (
    "partial indexes by time are dropped whole, and a compact trie finds a key in a number of "
    "steps that does not grow with the window"
)
_CAPACITY = 1 << 20
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class WindowMetrics:
    """Counters of a ``WindowIndex``."""

    rows: int
    """Rows that came."""
    stored: int
    """Rows that are held."""
    late: int
    """Rows that had left the window before they came, and were dropped."""
    null_keys: int
    """Rows with NULL in their key: they are found by no question."""
    null_times: int
    """Rows without a time, which were dropped."""
    nbytes: int
    """Bytes of rows and index."""
    index: Mapping[str, float] = field(default_factory=dict)
    """The structure's own counters, such as ``slots_dropped``."""


class WindowIndex:
    """An ordered index over the window of one stream.

    ``key`` is a column, a list of columns, or columns with their ranges, ``{"seg": (0, 99), "vid":
    (0, 1_048_575)}``; several columns are packed in order into 64 bits. ``window`` is a TimeWindow
    or a CountWindow. ``index`` is a structure's name, or ``ptwi/NAME`` for partial indexes by time
    over it, or "auto". ``subwindows`` is how many of them make the window (by default one per
    ``slide`` of the window, else five); further ``options`` go to the structure, as do parameters
    in ``index``: "ptwi/b-tree(background=false)" or Tactic("ptwi/b-tree", background=False).

    Rows that come after they have left the window are dropped and counted, as are rows without a
    time. ``lateness`` of the window keeps rows for questions of so long ago.
    """

    def __init__(
        self,
        key: Key,
        window: Window,
        index: str | Tactic = "auto",
        *,
        subwindows: int | None = None,
        schema: pa.Schema | None = None,
        **options: Any,
    ) -> None:
        check_clocked(window)
        if subwindows is not None:
            read_count("subwindows", subwindows)
        self._key, self._window = key, cast("TimeWindow | CountWindow", window)
        self._asked = Tactic(str(Tactic.of(index)), **options)
        self._name = _AUTO if self._asked.name == "auto" else self._asked.name
        self._options = dict(self._asked.parameters)
        self._subwindows = subwindows
        if self._name.partition("/")[0] == Ptwi.name:
            self._subwindows = self._cut(subwindows)
        elif subwindows is not None:
            raise OptionError(
                f"subwindows={subwindows} cuts the window of a ptwi index; {self._name!r} is one "
                f"index for the whole window. Use index='ptwi/{self._name}', or write a parameter "
                f"of the structure in its name: index='{self._name}(subwindows={subwindows})'"
            )
        parts_of(self._name, 1, 1, 1, self._options)  # a wrong structure or option shows here
        self._came = self._late = self._null_keys = self._null_times = 0
        self._state: _State | None = None
        if schema is not None:
            self._state = self._bound(schema)

    def _cut(self, subwindows: int | None) -> int | None:
        """How many partial indexes by time make the window; how long each is follows from it."""
        if "stride" in self._options:
            raise RegistryError(
                "a WindowIndex takes the stride of ptwi from its window: give subwindows= instead"
            )
        if subwindows is not None and "subwindows" in self._options:
            raise RegistryError(
                f"subwindows was given twice: {subwindows}, and in index={str(self._asked)!r}; "
                "give it once"
            )
        if "subwindows" not in self._options:
            return subwindows
        count = self._options.pop("subwindows")
        check_parameters(self._name, {"subwindows": count})
        return int(count)

    def _bound(self, schema: pa.Schema) -> _State:
        check_gatherable(schema, "indexed")
        clock = clock_of(self._window, schema)
        stride = clock.stride(self._subwindows)
        parts = parts_of(
            self._name, _CAPACITY, stride, max(1, -(-clock.size // stride)), self._options
        )
        return _State(schema, KeyPacker(self._key, schema), clock, parts)

    # --- Rows in --------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows in; what is too old then leaves. Bad input raises and changes nothing."""
        known = None if self._state is None else self._state.schema
        rows = conform(batch, known, "indexed")
        state = self._state or self._bound(rows.schema)
        late, null_times, null_keys = state.insert(rows)
        self._state = state
        self._came += rows.num_rows
        self._late += late
        self._null_times += null_times
        self._null_keys += null_keys

    # --- Questions ------------------------------------------------------------------------------

    def lookup(
        self,
        keys: Any,
        *,
        at: Any = None,
        last: Length | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.RecordBatch:
        """The latest row of each key, as it was ``at`` a moment; one row per key asked.

        By default now, the latest time that was seen. Only rows of the ``last`` so long count,
        unless the whole window does. A key without such a row gives NULLs. Keys of several columns
        are tuples, or a table.
        """
        state = self._ready()
        names = state.columns(columns)
        packed, good = state.packer.points(keys)
        found = np.full(packed.size, -1, np.int64)
        if good.any():
            found[good] = state.latest(packed[good], *state.period(at, last))
        return state.gathered(names, found)

    def aggregate(
        self,
        lows: Any,
        highs: Any,
        aggregates: Mapping[str, Any],
        *,
        last: Length | None = None,
        at: Any = None,
    ) -> pa.RecordBatch:
        """Aggregates over the rows of each key range, both ends included; one row per range.

        ``aggregates`` is like ``{"n": "count", "avg": ("speed", "mean")}``. Of a key of several
        columns the first ones may be given: the others are then free. A range that holds nothing,
        also one with low > high, has count 0 and NULLs.
        """
        state = self._ready()
        asked = read_aggregates(aggregates)
        check_aggregates(asked, state.schema, "the window")
        edges = state.packer.intervals(lows, highs)
        folds = state.folded(*edges, {found.column for found in asked}, *state.period(at, last))
        arrays, fields = [], []
        for found in asked:
            kind = None if found.column is None else state.schema.field(found.column).type
            arrays.append(answer(found, kind, Folded.of(folds[found.column])))
            fields.append(pa.field(found.name, result_type(found, kind)))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def rows(
        self,
        low: Any,
        high: Any,
        *,
        last: Length | None = None,
        at: Any = None,
        columns: Sequence[str] | None = None,
        batch_rows: int = _CHUNK,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one key range, by key within each subwindow, the latest subwindow first."""
        state = self._ready()
        names = state.columns(columns)
        read_count("batch_rows", batch_rows)
        lows, highs = state.packer.intervals([low], [high])
        since, until = state.period(at, last)
        for part in state.parts.between(since, until):
            for _, ids in part.index.scan(int(lows[0]), int(highs[0]), buffer=batch_rows):
                kept = ids if part.inside(since, until) else state.seen(ids, since, until)
                if kept.size:
                    yield state.gathered(names, kept)

    def _ready(self) -> _State:
        if self._state is None:
            raise StateError(
                "the columns are not known yet: insert a batch first, or give schema= when the "
                "WindowIndex is made"
            )
        return self._state

    # --- Facts ----------------------------------------------------------------------------------

    def explain(self) -> str:
        """How rows are kept, and why."""
        why = f"index={str(self._asked)!r} was asked for"
        if self._asked.name == "auto":
            why = _WHY + (f"; {why}" if self._asked.parameters else "")
        lines = [f"WindowIndex over {self._window}", f"  index: {self._name}: {why}"]
        if self._state is not None:
            state = self._state
            stride = state.clock.text(state.clock.stride(self._subwindows))
            lines += [f"  key: {state.packer}", f"  subwindows of {stride}"]
            details = state.parts.index.details.get("array")
            lines += [f"  circular array: {details}"] if details else []
        return "\n".join(lines)

    def metrics(self) -> WindowMetrics:
        """Counters so far."""
        state = self._state
        return WindowMetrics(
            self._came,
            0 if state is None else len(state.rows),
            self._late,
            self._null_keys,
            self._null_times,
            0 if state is None else state.nbytes,
            {} if state is None else state.parts.index.statistics,
        )

    def __len__(self) -> int:
        """Rows held."""
        return 0 if self._state is None else len(self._state.rows)

    def check(self) -> None:
        """Assert every invariant. For tests."""
        if self._state is not None:
            self._state.check()


class _State:
    """What a window index holds, once its columns are known."""

    def __init__(
        self, schema: pa.Schema, packer: KeyPacker, clock: WindowClock, parts: Parts
    ) -> None:
        self.schema, self.packer, self.clock, self.parts = schema, packer, clock, parts
        self.rows = Rows(schema, schema.names)
        self._moments = Ring(np.int64)
        self._now: int | None = None
        self._measured: dict[str, Measured] = {}

    def insert(self, batch: pa.RecordBatch) -> tuple[int, int, int]:
        """Take rows in; gives how many were late, had no time, and had no key."""
        moments, timed = self.clock.moments(batch, self.rows.next)
        keep = np.ones(moments.size, np.bool_) if timed is None else timed.copy()
        null_times = int(np.count_nonzero(~keep))
        if self._now is not None:
            keep &= moments >= self.clock.horizon(self._now)
        late = int(np.count_nonzero(~keep)) - null_times
        if not keep.all():
            batch, moments = batch.filter(pa.array(keep)), moments[keep]
        keys, valid = self.packer.keys(batch)
        for name in self._measured:
            numbers(batch.column(name), name)  # raises for what cannot be aggregated
        if moments.size:
            self._store(batch, moments, keys, valid)
        return late, null_times, 0 if valid is None else int(np.count_nonzero(~valid))

    def _store(self, batch: pa.RecordBatch, moments: Array, keys: Array, valid: Any) -> None:
        ids = np.arange(self.rows.next, self.rows.next + moments.size)
        self.rows.append(batch)
        self._moments.append(moments)
        for name, measured in self._measured.items():
            measured.append(batch.column(name))
        good = slice(None) if valid is None else valid
        self.parts.insert(keys, ids, moments, good)
        latest = int(moments.max()) + (0 if self.clock.timed else 1)
        self._now = latest if self._now is None else max(self._now, latest)
        self._expire(self.clock.horizon(self._now))

    def _expire(self, horizon: int) -> None:
        ring = self._moments
        before = self.parts.expire(horizon, ring.values, ring.first, self.rows.next)
        self.rows.expire(before)
        ring.expire(before)
        for measured in self._measured.values():
            for held in measured.rings():
                held.expire(before)

    # --- Questions ------------------------------------------------------------------------------

    def period(self, at: Any, last: Length | None) -> tuple[int, int]:
        """The moments a question sees; DataError when some of them were forgotten already."""
        span = self.clock.checked(last)
        if self._now is None:
            return 1, 0
        moment = self._now if at is None else self.clock.read(at)
        since, until = self.clock.between(moment, span)
        if since < self.clock.horizon(self._now):
            raise DataError(
                f"at={at!r} asks for rows that have left the window; rows are kept for questions "
                f"of the last {self.clock.text(self.clock.lateness)}: give the window a lateness "
                "to ask about earlier moments"
            )
        return since, until

    def seen(self, ids: Array, since: int, until: int) -> Array:
        """Those of the rows that lie in the period."""
        moments = self._moments.values[ids - self._moments.first]
        return ids[(since <= moments) & (moments <= until)]

    def folded(
        self, lows: Array, highs: Array, columns: set[str | None], since: int, until: int
    ) -> dict[str | None, Fold]:
        """Accumulators of each range, one set per column."""
        folds = {n: Fold(self._values(n), lows.size, counting=n is None) for n in columns}
        lows, highs = lows.reshape(1, -1), highs.reshape(1, -1)
        for part in self.parts.between(since, until):
            if part.inside(since, until):
                for fold in folds.values():
                    part.index.fold_boxes(lows, highs, fold)
                continue
            for positions, ids in part.index.probe(lows, highs):
                moments = self._moments.values[ids - self._moments.first]
                inside = (since <= moments) & (moments <= until)
                positions, ids = positions[inside], ids[inside]
                for fold in folds.values():
                    fold.add(positions, ids)
        return folds

    def _values(self, name: str | None) -> Values | None:
        """A column by row. The first question about one converts what is held, O(n)."""
        if name is None:
            return None
        if name not in self._measured:
            measured = Measured(self.schema.field(name).type, name, self.rows.first)
            measured.append(self.rows.view().take(name, np.arange(self.rows.first, self.rows.next)))
            self._measured[name] = measured
        return self._measured[name].view()

    def latest(self, keys: Array, since: int, until: int) -> Array:
        """The row of each key with the greatest moment of the period, the newest of equals."""
        found = np.full(keys.size, -1, np.int64)
        open_ = np.arange(keys.size)
        for part in self.parts.between(since, until):
            here = self._latest_in(part, keys[open_], since, until)
            found[open_] = here
            open_ = open_[here < 0]
            if not open_.size:
                break
        return found

    def _latest_in(self, part: WindowPart, keys: Array, since: int, until: int) -> Array:
        find = getattr(part.index, "find", None)
        if find is not None and part.inside(since, until) and self.parts.in_order(part):
            newest: Array = find(keys)
            return newest
        found, best = np.full(keys.size, -1, np.int64), np.full(keys.size, LEAST, np.int64)
        for positions, ids in part.index.probe(keys, keys):
            moments = self._moments.values[ids - self._moments.first]
            inside = (since <= moments) & (moments <= until)
            positions, ids, moments = positions[inside], ids[inside], moments[inside]
            order = np.lexsort([ids, moments, positions])
            positions, ids, moments = positions[order], ids[order], moments[order]
            last = np.flatnonzero(np.append(positions[1:] != positions[:-1], True))[: ids.size]
            at, row, moment = positions[last], ids[last], moments[last]
            better = (moment > best[at]) | ((moment == best[at]) & (row > found[at]))
            found[at[better]], best[at[better]] = row[better], moment[better]
        return found

    # --- Rows out -------------------------------------------------------------------------------

    def columns(self, wanted: Sequence[str] | None) -> list[str]:
        """Names of the columns to give."""
        wanted = read_columns(wanted)
        if wanted is None:
            return list(self.schema.names)
        for name in wanted:
            if name not in self.schema.names:
                raise SchemaError(
                    f"there is no column {name!r}; the rows have {', '.join(self.schema.names)}."
                    f"{suggest(name, self.schema.names)}"
                )
        return list(wanted)

    def gathered(self, names: Sequence[str], ids: Array) -> pa.RecordBatch:
        """Rows as a batch; NULLs where the id is -1."""
        view, there = self.rows.view(), ids >= 0
        places = None if there.all() else pa.array(np.cumsum(there) - 1, mask=~there)
        arrays = []
        for name in names:
            array = view.take(name, ids[there])
            arrays.append(array if places is None else array.take(places))
        fields = [self.schema.field(name).with_nullable(True) for name in names]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of payload, moments, aggregated columns and the index."""
        rings = [self._moments, *(r for m in self._measured.values() for r in m.rings())]
        return self.rows.nbytes + self.parts.index.nbytes + sum(ring.nbytes for ring in rings)

    def check(self) -> None:
        """Assert that rows, moments, numbers and index agree."""
        self.parts.index.check()
        rings = [self._moments, *(r for m in self._measured.values() for r in m.rings())]
        for ring in rings:
            assert (ring.first, ring.size) == (self.rows.first, len(self.rows))
        _, ids = self.parts.index.dump()
        assert not ids.size or (ids[0] >= self.rows.first and ids[-1] < self.rows.next)

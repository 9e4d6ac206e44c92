"""WindowIndex: the last minutes of one stream, for point look-ups and range aggregates.

    index = WindowIndex(key=…, window=TimeWindow("5 minutes", time="t", slide="1 minute"))
    index.insert(batch)                                   rows arrive, old ones leave
    index.lookup([(0, 1, 57, 4711)])                      the newest row of each key
    index.aggregate([(0, 1, 57)], [(0, 1, 57)],           count, sum, min, max, mean of key ranges
                    {"avg_speed": ("speed", "mean")}, last="5 minutes")

These are the two queries of Ordered Indexing, Section 3.1, over its PTWI: partial indexes by time,
dropped whole. A look-up costs a descent in the subwindow that has the key, an aggregate one descent
per subwindow plus the rows of the range. Neither grows with the window. Answers are exact for any
moment and period, whatever the structure and order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import LEAST, Array, Mask
from thetastream.aggregate import Folded, answer, check_aggregates, read_aggregates, result_type
from thetastream.data.batch import conform
from thetastream.data.key_packing import Key, KeyPacker
from thetastream.data.number_columns import NumberColumn, Values, numbers
from thetastream.data.rows import Ring, Rows, check_gatherable
from thetastream.display.facts import Facts, Shown
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
from thetastream.metrics import Items
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


@dataclass(frozen=True, repr=False)
class WindowMetrics(Items):
    """Counters of a ``WindowIndex``."""

    rows: int
    """Rows that arrived."""
    stored: int
    """Rows that are held."""
    late: int
    """Rows dropped because they arrived after they had left the window."""
    null_keys: int
    """Rows with NULL in their key, which no question finds."""
    null_times: int
    """Rows dropped because they have no time."""
    nbytes: int
    """Bytes of rows and index."""
    index: Mapping[str, float] = field(default_factory=dict)
    """The structure's own counters, such as ``slots_dropped``."""


class WindowIndex(Shown):
    """An ordered index over the window of one stream.

    ``key`` is a column, a list of columns, or columns with their ranges, ``{"seg": (0, 99), "vid":
    (0, 1_048_575)}``; several columns are packed in order into 64 bits. ``window`` is a TimeWindow
    or a CountWindow. ``index`` is the name of a structure, ``ptwi/NAME`` for partial indexes by
    time, or "auto". ``subwindows`` is the number of partial indexes per window (by default one per
    ``slide`` of the window, else five). Further ``options`` go to the structure, like parameters in
    ``index``: "ptwi/b-tree(background=false)" or Tactic("ptwi/b-tree", background=False).

    Rows that arrive after they have left the window are dropped and counted, as are rows without a
    time. The window's ``lateness`` keeps rows for questions about earlier moments.
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
        self._tactic = Tactic(str(Tactic.of(index)), **options)
        self._name = _AUTO if self._tactic.name == "auto" else self._tactic.name
        self._options = dict(self._tactic.parameters)
        self._subwindows = subwindows
        if self._name.partition("/")[0] == Ptwi.name:
            self._subwindows = self._cut(subwindows)
        elif subwindows is not None:
            raise OptionError(
                f"subwindows={subwindows} cuts the window of a ptwi index; {self._name!r} is one "
                f"index for the whole window. Use index='ptwi/{self._name}', or write a parameter "
                f"of the structure in its name: index='{self._name}(subwindows={subwindows})'"
            )
        parts_of(self._name, 1, 1, 1, self._options)  # raises for a wrong structure or option
        self._came = self._late = self._null_keys = self._null_times = 0
        self._state: _State | None = None
        if schema is not None:
            self._state = self._bound(schema)

    def _cut(self, subwindows: int | None) -> int | None:
        """The number of partial indexes by time per window, if given."""
        if "stride" in self._options:
            raise RegistryError(
                "a WindowIndex takes the stride of ptwi from its window: pass subwindows= instead"
            )
        if subwindows is not None and "subwindows" in self._options:
            raise RegistryError(
                f"subwindows was given twice: {subwindows}, and in index={str(self._tactic)!r}; "
                "pass it once"
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
        count = max(1, -(-clock.size // stride))
        parts = parts_of(self._name, _CAPACITY, stride, count, self._options)
        return _State(schema, KeyPacker(self._key, schema), clock, parts)

    # --- Rows in --------------------------------------------------------------------------------

    def insert(self, batch: Any) -> None:
        """Insert rows, a frame of any kind; rows that are then too old leave.

        Bad input raises and changes nothing.
        """
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
        """The latest row of each key as of ``at``; one row per key.

        ``at`` defaults to the latest time seen, ``last`` to the whole window. A key without a row
        in that period yields NULLs. Keys of several columns are tuples, or a table.
        """
        state = self._ready()
        names = state.columns(columns)
        packed, good = state.packer.points(keys)
        ids = np.full(packed.size, -1, np.int64)
        if good.any():
            ids[good] = state.latest(packed[good], *state.period(at, last))
        return state.gathered(names, ids)

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

        ``aggregates`` is like ``{"n": "count", "avg": ("speed", "mean")}``. For a key of several
        columns, ranges may name the first ones only. An empty range, including one with low > high,
        has count 0 and NULLs.
        """
        state = self._ready()
        wanted = read_aggregates(aggregates)
        check_aggregates(wanted, state.schema, "the window")
        edges = state.packer.intervals(lows, highs)
        folds = state.folded(*edges, {one.column for one in wanted}, *state.period(at, last))
        arrays, fields = [], []
        for one in wanted:
            kind = None if one.column is None else state.schema.field(one.column).type
            arrays.append(answer(one, kind, Folded.of(folds[one.column])))
            fields.append(pa.field(one.name, result_type(one, kind)))
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
                if not part.inside(since, until):
                    ids = ids[state.inside(ids, since, until)]
                if ids.size:
                    yield state.gathered(names, ids)

    def _ready(self) -> _State:
        if self._state is None:
            raise StateError(
                "the columns are not known yet: insert a batch first, or pass schema= when the "
                "WindowIndex is made"
            )
        return self._state

    # --- Facts ----------------------------------------------------------------------------------

    def explain(self) -> str:
        """How rows are kept, and why."""
        why = f"index={str(self._tactic)!r} was asked for"
        if self._tactic.name == "auto":
            why = _WHY + (f"; {why}" if self._tactic.parameters else "")
        lines = [f"WindowIndex over {self._window}", f"  index: {self._name}: {why}"]
        if self._state is not None:
            state = self._state
            stride = state.clock.text(state.clock.stride(self._subwindows))
            lines += [f"  key: {state.packer}", f"  subwindows of {stride}"]
            details = state.parts.index.details.get("array")
            lines += [f"  circular array: {details}"] if details else []
        return "\n".join(lines)

    def _shown(self) -> tuple[str, Facts]:
        metrics = self.metrics()
        counts = {"rows in": metrics.rows, "rows stored": metrics.stored}
        window, index = str(self._window), self._name
        return f"WindowIndex on {self._key}", {"window": window, "index": index, **counts}

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
    """The contents of a window index, once its columns are known."""

    def __init__(
        self, schema: pa.Schema, packer: KeyPacker, clock: WindowClock, parts: Parts
    ) -> None:
        self.schema, self.packer, self.clock, self.parts = schema, packer, clock, parts
        self.rows = Rows(schema, schema.names)
        self._moments = Ring(np.int64)
        self._now: int | None = None
        self._measured: dict[str, NumberColumn] = {}

    def insert(self, batch: pa.RecordBatch) -> tuple[int, int, int]:
        """Insert rows; returns how many were late, had no time, and had no key."""
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
            numbers(batch.column(name), name)  # raises for values that cannot be aggregated
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
        moments = self._moments
        before = self.parts.expire(horizon, moments.values, moments.first, self.rows.next)
        self.rows.expire(before)
        for ring in self._rings():
            ring.expire(before)

    # --- Questions ------------------------------------------------------------------------------

    def period(self, at: Any, last: Length | None) -> tuple[int, int]:
        """The moments a question sees; DataError if some of them have left the window."""
        span = self.clock.checked(last)
        if self._now is None:
            return 1, 0
        moment = self._now if at is None else self.clock.read(at)
        since, until = self.clock.between(moment, span)
        if since < self.clock.horizon(self._now):
            raise DataError(
                f"at={at!r} asks for rows that have left the window; rows are kept for questions "
                f"of the last {self.clock.text(self.clock.lateness)}: set the window's lateness "
                "to ask about earlier moments"
            )
        return since, until

    def inside(self, ids: Array, since: int, until: int) -> Mask:
        """Which rows lie in the period."""
        moments = self._moments.values[ids - self._moments.first]
        return (since <= moments) & (moments <= until)

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
                inside = self.inside(ids, since, until)
                positions, ids = positions[inside], ids[inside]
                for fold in folds.values():
                    fold.add(positions, ids)
        return folds

    def _values(self, name: str | None) -> Values | None:
        """A column by row. The first question about a column converts it, O(n)."""
        if name is None:
            return None
        if name not in self._measured:
            measured = NumberColumn(self.schema.field(name).type, name, self.rows.first)
            measured.append(self.rows.view().take(name, np.arange(self.rows.first, self.rows.next)))
            self._measured[name] = measured
        return self._measured[name].view()

    def latest(self, keys: Array, since: int, until: int) -> Array:
        """The row of each key with the greatest moment of the period, the newest among ties."""
        latest = np.full(keys.size, -1, np.int64)
        open_ = np.arange(keys.size)
        for part in self.parts.between(since, until):
            latest[open_] = self._latest_in(part, keys[open_], since, until)
            open_ = open_[latest[open_] < 0]
            if not open_.size:
                break
        return latest

    def _latest_in(self, part: WindowPart, keys: Array, since: int, until: int) -> Array:
        find = getattr(part.index, "find", None)
        if find is not None and part.inside(since, until) and self.parts.in_order(part):
            newest: Array = find(keys)
            return newest
        latest, best = np.full(keys.size, -1, np.int64), np.full(keys.size, LEAST, np.int64)
        for positions, ids in part.index.probe(keys, keys):
            inside = self.inside(ids, since, until)
            positions, ids = positions[inside], ids[inside]
            moments = self._moments.values[ids - self._moments.first]
            order = np.lexsort([ids, moments, positions])
            positions, ids, moments = positions[order], ids[order], moments[order]
            last = np.flatnonzero(np.append(positions[1:] != positions[:-1], True))[: ids.size]
            at, row, moment = positions[last], ids[last], moments[last]
            better = (moment > best[at]) | ((moment == best[at]) & (row > latest[at]))
            latest[at[better]], best[at[better]] = row[better], moment[better]
        return latest

    # --- Rows out -------------------------------------------------------------------------------

    def columns(self, wanted: Sequence[str] | None) -> list[str]:
        """The names of the output columns."""
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
        rings = sum(ring.nbytes for ring in self._rings())
        return self.rows.nbytes + self.parts.index.nbytes + rings

    def _rings(self) -> list[Ring]:
        return [self._moments, *(r for m in self._measured.values() for r in m.rings())]

    def check(self) -> None:
        """Assert that rows, moments, numbers and index agree."""
        self.parts.index.check()
        for ring in self._rings():
            assert (ring.first, ring.size) == (self.rows.first, len(self.rows))
        _, ids = self.parts.index.dump()
        assert not ids.size or (ids[0] >= self.rows.first and ids[-1] < self.rows.next)

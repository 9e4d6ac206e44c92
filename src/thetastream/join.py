"""The engine: orders the steps of a push.

    push ─ conform ─ keys ─┬─ left:  append, probe right, index, expire ─┐
                           └─ right: append, probe left,  index, expire ─┴─ rows, lazily

Left first, then right against a window that already holds the fresh left rows: every pair exactly
once. Everything that can fail because of the input happens before the first change of state. The
matching is done when ``push`` returns; payload is gathered while the result is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.arrival import Waiting, read_ranks
from thetastream.batch import conform
from thetastream.binding import Binding, Fresh, bind, check_columns
from thetastream.errors import SchemaError, StateError
from thetastream.expression import Expression
from thetastream.interrupt import uninterrupted
from thetastream.kernels import prepare
from thetastream.metrics import Counters, Metrics, SideCounters
from thetastream.output import Batches, Flow, Part, Pieces, Source, gathered, rechunked
from thetastream.plan import Choice, Explanation, choose, sample
from thetastream.predicate import Predicate
from thetastream.probe import EAGER_PAIRS, Matches, Probe, collect
from thetastream.report import explanation, snapshot
from thetastream.rows import BatchView, RowsView, check_gatherable
from thetastream.schema import Domain, common_domain, output_schema, select
from thetastream.side import How, Side
from thetastream.stream import Stored, Stream
from thetastream.tactic import read_tactic
from thetastream.window import CountWindow, TimeWindow, Window

__all__ = ["StreamJoin"]

Array = NDArray[np.int64]
_REPLAN_GAIN = 0.6


class StreamJoin:
    """Join two streams on any conjunction of comparisons, exactly.

    ``on`` is SQL text over ``l`` and ``r``, a Predicate, or a Python expression. ``window`` is a
    CountWindow or a TimeWindow. ``how`` is inner, left, right, full, semi or anti. With
    ``self_join=True`` one stream is pushed as ``left`` and joined with itself. ``columns`` keeps
    only those output columns. ``schemas`` tells the columns of both sides before the first push.
    ``threads`` splits the matching of a push; the result is the same for any number.

    >>> import pyarrow as pa
    >>> join = StreamJoin("abs(l.x - r.x) <= 1", window=CountWindow(100))
    >>> _ = join.push(left=pa.record_batch({"x": [1, 5, 9]}))
    >>> [batch.to_pylist() for batch in join.push(right=pa.record_batch({"x": [4, 20]}))]
    [[{'x': 5, 'x_right': 4}]]
    """

    def __init__(
        self,
        on: str | Predicate | Expression,
        *,
        window: Window,
        how: str | How = "inner",
        tactic: str = "auto",
        suffix: str = "_right",
        self_join: bool = False,
        threads: int = 1,
        batch_rows: int = 65_536,
        columns: Sequence[str] | None = None,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
    ) -> None:
        if not isinstance(window, CountWindow | TimeWindow):
            raise StateError(f"window must be a CountWindow or a TimeWindow; got {window!r}")
        for name, value in (("threads", threads), ("batch_rows", batch_rows)):
            if not isinstance(value, int) or value < 1:
                raise StateError(f"{name} must be a whole number of at least 1; got {value!r}")
        read_tactic(tactic)
        self.predicate = Predicate.of(on)
        self.window = window
        self.how = How.of(how)
        self.self_join = self_join
        self.tactic = tactic
        self._suffix = suffix
        self._columns = None if columns is None else list(columns)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._batch_rows = batch_rows
        self._schemas: dict[Side, pa.Schema] = {}
        self._binding: Binding | None = None
        self._streams: dict[Side, Stream] = {}
        self._early: list[tuple[Side, pa.RecordBatch]] = []
        self._waiting = {side: Waiting() for side in Side}
        self._order_domain: Domain | None = None
        self._samples: dict[Side, Fresh] = {}
        self._counters = Counters()
        self._side_counters = {side: SideCounters() for side in Side}
        self._next_plan = {side: 1 for side in Side}
        self._held: list[Part] = []
        self._flushed = False
        self._broken = False
        sizes = self.window.sizes
        self._mirror = self_join and self.predicate.is_symmetric and sizes[0] == sizes[1]
        prepare()
        if schemas is not None:
            self._learn({Side.LEFT: schemas[0], Side.RIGHT: schemas[1]})

    # --- The three calls ------------------------------------------------------------------------

    def push(
        self,
        left: pa.RecordBatch | pa.Table | None = None,
        right: pa.RecordBatch | pa.Table | None = None,
    ) -> Batches:
        """Take fresh rows in and give the rows of the join that follow from them.

        The state is updated before this returns. An interrupt (Ctrl-C) waits until the push is
        whole; the rows of an interrupted push come with the next one.
        """
        self._refuse_if_over()
        given = {Side.LEFT: left, Side.RIGHT: right}
        if self.self_join and right is not None:
            raise StateError("a self-join has one stream: push it as left")
        batches = {
            side: conform(data, self._schemas.get(side), side.value)
            for side, data in given.items()
            if data is not None
        }
        self._learn({side: batch.schema for side, batch in batches.items()})
        if self._binding is None:
            return self._put_off(batches)
        early, self._early = self._early, []
        try:
            lasts = {side: self._waiting[side].last for side in Side}
            steps = [self._keyed({side: batch}, lasts) for side, batch in early]
            steps.append(self._keyed(batches, lasts))
        except BaseException:
            self._early = early
            raise
        with uninterrupted():
            for fresh in steps:
                self._held += self._guarded(fresh)
            self._counters.pushes += 1
        return self._deliver()

    def flush(self) -> Batches:
        """End both streams and give the remaining unmatched rows. Nothing can be pushed after."""
        self._refuse_if_over()
        with uninterrupted():
            if self._binding is None:
                self._held += self._flush_one_side()
            else:
                early, self._early = self._early, []
                lasts = {side: self._waiting[side].last for side in Side}
                for side, batch in early:
                    self._held += self._guarded(self._keyed({side: batch}, lasts))
                if self._waits():
                    self._held += self._process_ordered({}, last=True)
                for side in self._streams:
                    self._held += self._finals(side, self._streams[side].rows.next)
            self._flushed = True
        if self._pool is not None:
            self._pool.shutdown(wait=False)
        return self._deliver()

    def explain(self) -> Explanation:
        """Which tactic, which index per side, why, at what estimated cost."""
        choices = [
            stored.choice for stream in self._streams.values() for stored in stream.stored.values()
        ]
        return explanation(self, self._binding, choices)

    def metrics(self) -> Metrics:
        """Counters, sizes and times up to now."""
        waiting = {side: len(self._waiting[side]) for side in Side}
        for side, batch in self._early:
            waiting[side] += batch.num_rows
        return snapshot(self._counters, self._side_counters, self._streams, waiting)

    def check(self) -> None:
        """Assert every invariant of the state. For tests."""
        for stream in self._streams.values():
            stream.check()

    # --- Before there is a binding --------------------------------------------------------------

    def _refuse_if_over(self) -> None:
        if self._flushed:
            raise StateError("this join was flushed: the streams have ended; make a new StreamJoin")
        if self._broken:
            raise StateError(
                "an earlier push failed half-way, so results would be wrong; make a new StreamJoin"
            )

    def _learn(self, schemas: dict[Side, pa.Schema]) -> None:
        """Remember schemas; bind once both are known."""
        if self._binding is not None:
            return
        known = dict(self._schemas)
        for side, schema in schemas.items():
            if side in known:
                continue
            check_gatherable(schema, side.value)
            roles = tuple(Side) if self.self_join else (side,)
            for role in roles:
                check_columns(self.predicate, self.window, role, schema)
                known[role] = schema
        if len(known) == 2:
            self._set_up(bind(self.predicate, self.window, known))
        self._schemas = known

    def _set_up(self, binding: Binding) -> None:
        schema, origin = output_schema(
            binding.schemas[Side.LEFT], binding.schemas[Side.RIGHT], self.how, self._suffix
        )
        schema, origin = select(schema, origin, self._columns)
        self._source = Source(schema, origin)
        if isinstance(self.window, CountWindow) and self.window.order is not None:
            kinds = [binding.schemas[s].field(self.window.order[s.position]).type for s in Side]
            self._order_domain = common_domain(kinds[0], kinds[1], f"order {self.window.order}")
            if not self._order_domain.kind.is_ordered:
                raise SchemaError(f"the order columns must be ordered; got {kinds[0]}, {kinds[1]}")
        for side in (Side.LEFT,) if self.self_join else tuple(Side):
            self._streams[side] = self._new_stream(binding, side)
        self._binding = binding

    def _new_stream(self, binding: Binding, side: Side) -> Stream:
        roles = tuple(Side) if self.self_join else (side,)
        columns = {name for role, name in self._source.origin if role in roles}
        for node in binding.residuals:
            for role in roles:
                columns.update(node.columns(role))
        schema = binding.schemas[side]
        stream = Stream(
            schema,
            [name for name in schema.names if name in columns],
            timed=binding.time is not None,
            tracked=[role for role in roles if self.how.tracks(role)],
        )
        for role in self._indexed_roles() if self.self_join else (side,):
            choice = choose(binding, role, self.tactic, self._expected(role))
            stream.stored[role] = Stored(choice, max(1, round(self._expected(role))))
        return stream

    def _indexed_roles(self) -> tuple[Side, ...]:
        """Roles a self-joined stream is indexed in: one suffices when both ask the same."""
        assert self.self_join
        return (Side.LEFT,) if self._mirror else tuple(Side)

    def _expected(self, side: Side) -> float:
        """Rows of the side that the window will hold: known for counts, observed for times."""
        if isinstance(self.window, CountWindow):
            return float(self.window.size(side))
        stream = self._streams.get(Side.LEFT if self.self_join else side)
        return float(max(len(stream.rows), 1000)) if stream is not None else 100_000.0

    def _put_off(self, batches: dict[Side, pa.RecordBatch]) -> Batches:
        """One side is still unknown: keep the rows, as nothing can match them yet."""
        for side, batch in batches.items():
            self._early.append((side, batch))
            self._side_counters[side].rows += batch.num_rows
        self._counters.pushes += 1
        return self._deliver()

    def _flush_one_side(self) -> list[Part]:
        """The other side never came: its columns are unknown, so only this side's are given."""
        parts: list[Part] = []
        for side, batch in self._early:
            if self.how.keeps(side):
                schema, origin = output_schema(batch.schema, None, How.SEMI, self._suffix)
                wanted = self._columns
                if wanted is not None:
                    wanted = [name for name in wanted if name in schema.names]
                schema, _ = select(schema, origin, wanted)
                parts.append(Flow(_cut(batch.select(schema.names), self._batch_rows)))
        return parts

    # --- One push -------------------------------------------------------------------------------

    def _keyed(
        self, batches: dict[Side, pa.RecordBatch], lasts: dict[Side, int | None]
    ) -> dict[Side, Fresh]:
        """Keys of all fresh rows; raises before any state has changed.

        ``lasts`` are the last ranks before these rows; they are moved on.
        """
        assert self._binding is not None
        with self._counters.timed("keys"):
            if self.self_join:
                batch = batches.get(Side.LEFT)
                found = {} if batch is None else {s: self._binding.fresh(s, batch) for s in Side}
            else:
                found = {side: self._binding.fresh(side, b) for side, b in batches.items()}
            if self._order_domain is not None:
                assert isinstance(self.window, CountWindow) and self.window.order is not None
                for side, rows in found.items():
                    name = self.window.order[side.position]
                    rows.ranks = read_ranks(
                        rows.batch, name, self._order_domain, side, lasts[side]
                    )
                    if rows.ranks.size:
                        lasts[side] = int(rows.ranks[-1])
        return found

    def _guarded(self, fresh: dict[Side, Fresh]) -> list[Part]:
        try:
            return self._process(fresh)
        except BaseException:
            self._broken = True
            raise

    def _process(self, fresh: dict[Side, Fresh]) -> list[Part]:
        for side, rows in fresh.items():
            if not (self.self_join and side is Side.RIGHT):
                self._count(side, rows)
        if isinstance(self.window, TimeWindow):
            fresh = self._without_late(fresh)
        self._sample(fresh)
        if self.self_join:
            parts = self._process_self(fresh)
        elif self._waits():
            parts = self._process_ordered(fresh, last=False)
        else:
            parts = [part for side in Side if side in fresh for part in self._arrive(fresh[side])]
        if isinstance(self.window, TimeWindow):
            parts += self._advance_time(fresh)
        self._note_peak()
        return parts

    def _count(self, side: Side, rows: Fresh) -> None:
        counters = self._side_counters[side]
        counters.rows += len(rows)
        counters.null_keys += rows.null_keys
        counters.nan_keys += rows.nan_keys
        if rows.timed is not None:
            counters.null_times += int(np.count_nonzero(~rows.timed))

    def _arrive(self, rows: Fresh) -> list[Part]:
        """Rows of one side: probe the other, then be stored."""
        side = rows.side
        stream, other = self._streams[side], self._streams[side.other]
        first = self._append(stream, rows)
        parts = self._match(rows, first, side.other, other, None, None)
        before = stream.rows.first
        if isinstance(self.window, CountWindow):
            before = max(before, self.window.oldest(stream.rows.next, side))
            stream.stored[side].index.expire(before)
        with self._counters.timed("insert"):
            stream.stored[side].insert(rows, first, before)
        if isinstance(self.window, CountWindow):
            parts += self._finals(side, before)
        return parts

    def _append(self, stream: Stream, rows: Fresh) -> int:
        with self._counters.timed("insert"):
            return stream.append(rows)

    def _process_self(self, fresh: dict[Side, Fresh]) -> list[Part]:
        """The later row of a pair finds the earlier one, in either role."""
        if not fresh:
            return []
        stream = self._streams[Side.LEFT]
        for side, rows in fresh.items():
            if rows.ranks is not None and rows.ranks.size:
                self._waiting[side].last = int(rows.ranks[-1])
        first = self._append(stream, fresh[Side.LEFT])
        ids = np.arange(first, first + len(fresh[Side.LEFT]))
        with self._counters.timed("insert"):
            for role, stored in stream.stored.items():
                stored.insert(fresh[role], first, stream.rows.first)
        parts: list[Part] = []
        for role in stream.stored:
            lows = np.full(ids.size, stream.rows.first)
            if isinstance(self.window, CountWindow):
                lows = self.window.oldest(ids, role)
            parts += self._match(fresh[role.other], first, role, stream, lows, ids)
        if isinstance(self.window, CountWindow):
            parts += self._finals(Side.LEFT, self._oldest_needed(stream))
        return parts

    def _oldest_needed(self, stream: Stream) -> int:
        assert isinstance(self.window, CountWindow)
        window, count = self.window, stream.rows.next
        return min(window.oldest(count, role) for role in Side)

    def _waits(self) -> bool:
        return self._order_domain is not None and not self.self_join

    def _process_ordered(self, fresh: dict[Side, Fresh], *, last: bool) -> list[Part]:
        """Rows whose rank has come: both sides stored first, then each looks back."""
        assert isinstance(self.window, CountWindow)
        for side, rows in fresh.items():
            self._waiting[side].add(rows)
        ready: dict[Side, tuple[Fresh, Array]] = {}
        seen = {side: self._waiting[side].last for side in Side}
        for side in Side:
            waiting = self._waiting[side]
            count = len(waiting) if last else waiting.ready(side, seen[side.other])
            rows, ranks = waiting.release(count)
            if rows is not None:
                ready[side] = (rows, ranks)
        before = {side: self._streams[side].rows.next for side in Side}
        firsts: dict[Side, int] = {}
        for side, (rows, _) in ready.items():
            stream = self._streams[side]
            firsts[side] = self._append(stream, rows)
            with self._counters.timed("insert"):
                stream.stored[side].insert(rows, firsts[side], stream.rows.first)
        parts: list[Part] = []
        for side, (rows, ranks) in ready.items():
            theirs = ready[side.other][1] if side.other in ready else ranks[:0]
            earlier = np.searchsorted(theirs, ranks, "left" if side is Side.LEFT else "right")
            counts = before[side.other] + earlier
            lows = self.window.oldest(counts, side.other)
            other = self._streams[side.other]
            parts += self._match(rows, firsts[side], side.other, other, lows, counts)
        for side in Side:
            stream = self._streams[side]
            parts += self._finals(side, self.window.oldest(stream.rows.next, side))
        return parts

    # --- Event time -----------------------------------------------------------------------------

    def _frontier(self) -> int | None:
        """The smaller of both sides' largest event time, less the lateness; None before that."""
        assert self._binding is not None and self._binding.time is not None
        tops = [stream.max_time for stream in self._streams.values()]
        known = [top for top in tops if top is not None]
        return min(known) - self._binding.time.lateness if len(known) == len(tops) else None

    def _without_late(self, fresh: dict[Side, Fresh]) -> dict[Side, Fresh]:
        frontier = self._frontier()
        if frontier is None:
            return fresh
        kept: dict[Side, Fresh] = {}
        for side, rows in fresh.items():
            assert rows.times is not None
            late = rows.times < frontier
            if rows.timed is not None:
                late &= rows.timed
            if late.any():
                if not (self.self_join and side is Side.RIGHT):
                    self._side_counters[side].dropped += int(np.count_nonzero(late))
                rows = rows.filter(~late)
            kept[side] = rows
        return kept

    def _advance_time(self, fresh: dict[Side, Fresh]) -> list[Part]:
        assert self._binding is not None and self._binding.time is not None
        for side, rows in fresh.items():
            if side in self._streams:
                self._streams[side].note_time(rows)
        frontier = self._frontier()
        if frontier is None:
            return []
        parts: list[Part] = []
        time = self._binding.time
        for side, stream in self._streams.items():
            roles = tuple(Side) if self.self_join else (side,)
            old = {role: time.expired_below(frontier, role) for role in roles}
            # A row of a role meets later rows of the other one, so it lives as long as its own size.
            for role in roles:
                if self.how.keeps(role):
                    ids = stream.unmatched_older(role, old[role])
                    parts += self._unmatched(role, stream, ids)
            with self._counters.timed("expire"):
                stream.expire(stream.first_younger(min(old.values())))
        return parts

    # --- Matching and its rows ------------------------------------------------------------------

    def _match(
        self,
        rows: Fresh,
        first: int,
        role: Side,
        other: Stream,
        lows: Array | None,
        highs: Array | None,
    ) -> list[Part]:
        """Match fresh rows against the index that ``other`` has in ``role``."""
        assert self._binding is not None
        if not len(rows) or not len(other.rows):
            return []
        self._replan(role, other)
        stored = other.stored[role]
        views = {rows.side: BatchView(rows.batch), role: other.rows.view()}
        probe = Probe(
            self._binding,
            rows,
            stored.choice.layout,
            stored.index,
            views,
            self._counters,
            lows,
            highs,
            self._batch_rows,
            weight=2 if self._mirror else 1,
        )
        found: list[Array] = []
        stream = other if self.self_join else self._streams[rows.side]

        def see(fresh_rows: Array, ids: Array) -> None:
            for side, owner, seen in ((rows.side, stream, fresh_rows + first), (role, other, ids)):
                if side in owner.matched:
                    new = owner.mark(side, seen)
                    if self.how is How.SEMI and side is Side.LEFT:
                        found.append(new)
            if self._mirror:
                for side, seen in ((role, fresh_rows + first), (rows.side, ids)):
                    if side in other.matched:
                        new = other.mark(side, seen)
                        if self.how is How.SEMI and side is Side.LEFT:
                            found.append(new)

        tracked = bool(stream.matched or other.matched)
        matches = collect(
            probe, self._pool, self._threads, see if tracked else None, EAGER_PAIRS
        )
        if self.how is How.SEMI:
            left = self._streams[Side.LEFT]
            return self._rows_of(left, np.concatenate(found)) if found else []
        if not self.how.pairs:
            return []
        return self._pairs(matches, rows.side, role, views)

    def _pairs(
        self, matches: Matches, side: Side, role: Side, views: dict[Side, RowsView]
    ) -> list[Part]:
        if not matches.chunks and matches.rest is None:
            return []
        swapped = {side: views[role], role: views[side]}

        def gather(pair: tuple[Array, Array], exchanged: bool) -> pa.RecordBatch:
            """The rows of pairs; exchanged: each row in the other role."""
            fresh_rows, ids = pair
            with self._counters.timed("gather"):
                if exchanged:
                    taken = {side: ids, role: fresh_rows}
                    return gathered(self._source, swapped, taken, ids.size)
                return gathered(self._source, views, {side: fresh_rows, role: ids}, ids.size)

        if matches.rest is None:
            pairs = list(rechunked(matches.chunks, self._batch_rows))
            ways = 2 if self._mirror else 1
            return [Pieces(lambda i: gather(pairs[i // ways], i % ways == 1), ways * len(pairs))]

        def flow() -> Iterator[pa.RecordBatch]:
            for pair in rechunked(matches, self._batch_rows):
                yield gather(pair, False)
                if self._mirror:
                    yield gather(pair, True)

        return [Flow(flow())]

    def _finals(self, side: Side, before: int) -> list[Part]:
        """Rows below ``before`` meet nothing any more: emit the unmatched, forget them all."""
        stream = self._streams[side]
        parts: list[Part] = []
        for role in tuple(Side) if self.self_join else (side,):
            if self.how.keeps(role):
                parts += self._unmatched(role, stream, stream.unmatched(role, before))
        with self._counters.timed("expire"):
            stream.expire(before)
        return parts

    def _unmatched(self, role: Side, stream: Stream, ids: Array) -> list[Part]:
        if not ids.size:
            return []
        view, size = stream.rows.view(), self._batch_rows

        def gather(i: int) -> pa.RecordBatch:
            piece = ids[i * size : (i + 1) * size]
            with self._counters.timed("gather"):
                return gathered(self._source, {role: view}, {role: piece}, piece.size)

        return [Pieces(gather, -(-ids.size // size))]

    def _rows_of(self, stream: Stream, ids: Array) -> list[Part]:
        return self._unmatched(Side.LEFT, stream, ids)

    def _deliver(self) -> Batches:
        parts, self._held = self._held, []
        return Batches(parts, self._counters)

    # --- Planning -------------------------------------------------------------------------------

    def _sample(self, fresh: dict[Side, Fresh]) -> None:
        """Keep a sample of recent keys while plans may still change."""
        pushes = self._counters.pushes
        if pushes < 16 or pushes % 16 == 0:
            for side, rows in fresh.items():
                if len(rows):
                    self._samples[side] = sample(rows)

    def _replan(self, role: Side, stream: Stream) -> None:
        """Look at the keys seen, at the 1st, 4th, 16th … probe; move when it pays."""
        assert self._binding is not None
        self._next_plan[role] -= 1
        if self._next_plan[role] > 0 or len(self._samples) < 2:
            return
        stored = stream.stored[role]
        self._next_plan[role] = 4 * max(1, self._counters.pushes)
        if not stored.choice.others and stored.choice.sampled:
            return
        choice = choose(
            self._binding,
            role,
            self.tactic,
            self._expected(role),
            self._samples[role],
            self._samples[role.other],
        )
        if self._better(stored.choice, choice):
            stored.move(choice)
            self._counters.replans += 1

    @staticmethod
    def _better(current: Choice, choice: Choice) -> bool:
        """Whether the new layout is clearly cheaper than the current one, by the new estimates."""
        if current.layout.signature() == choice.layout.signature():
            return False
        if not current.sampled:
            return True
        same = [e for e in choice.others if e.layout.signature() == current.layout.signature()]
        return not same or choice.best.nanoseconds < _REPLAN_GAIN * same[0].nanoseconds

    def _note_peak(self) -> None:
        if self._counters.pushes % 8 == 0:
            held = sum(stream.nbytes for stream in self._streams.values())
            self._counters.peak_bytes = max(self._counters.peak_bytes, held)


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)

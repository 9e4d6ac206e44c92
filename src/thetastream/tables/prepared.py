"""One side of a join, stored and indexed once; batches of the other side stream past it.

The same as a join of two finite tables, for a streamed side that has no end: its rows are joined
and forgotten, batch by batch. The layout of the index is planned when the first batch is seen.

Cost: O(s log s) to prepare s rows, one probe per streamed row, and the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import pyarrow as pa

from thetastream._jit.compiling import prepare
from thetastream.boxes import kernels as box_kernels
from thetastream.boxes.binding import Binding, bind
from thetastream.boxes.keys import Keys
from thetastream.data import kernels as data_kernels
from thetastream.engine.engine import shape_of
from thetastream.engine.query import Query
from thetastream.metrics import Counters, SideCounters
from thetastream.plan import kernels as plan_kernels
from thetastream.plan.choice import Choice, sample
from thetastream.side import Side
from thetastream.tables.finite import PastStored, StoredSide
from thetastream.tables.ways import FiniteWay, ways

_STREAMED = 1 << 20  # rows for which an index is worth building, at least


class PreparedTable:
    """The stored side ``rows`` of a join. ``join`` returns what follows from a batch of the other.

    Only modes that need no end of the streamed side are exact here: the stored side may not be
    kept (``How.keeps``), since its unmatched rows would be known at the end only.
    """

    def __init__(
        self, query: Query, schemas: Mapping[Side, pa.Schema], side: Side, rows: pa.RecordBatch
    ) -> None:
        assert not query.how.keeps(side)
        prepare(data_kernels, box_kernels, plan_kernels)
        self._query, self._side, self._rows = query, side, rows
        self._binding: Binding = bind(query.predicate, query.window, schemas)
        self._shape = shape_of(query, schemas)
        self._parts: list[Counters] = []
        self._chunks: list[SideCounters] = []
        self._past: PastStored | None = None
        self._stored: StoredSide | None = None

    @cached_property
    def _keys(self) -> Keys:
        """The keys of the table, all of them: their spans bound what is asked for."""
        return self._binding.keys(self._side, self._rows)

    def plan(self, streamed: pa.RecordBatch) -> FiniteWay:
        """How the table is stored, given some rows of the other side."""
        fresh = self._binding.keys(self._side.other, streamed)
        samples = {self._side: sample(self._keys), self._side.other: sample(fresh)}
        stored = float(self._rows.num_rows)
        rows = {self._side: stored, self._side.other: max(10 * stored, float(_STREAMED))}
        binding = self._binding.spanned(self._side, self._keys)
        (way,) = ways(binding, self._query.dealt_tactic, rows, samples, [self._side])
        return way

    def join(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the answer that follow from a batch."""
        if self._past is None:
            way = self.plan(batch)
            self._stored = StoredSide(self._keys, way, self._rows, self._query)
            facts = (self._query, self._binding, self._shape, self._stored)
            self._past = PastStored(*facts, self._parts, self._chunks)
        yield from self._past.chunk((0, batch))

    @property
    def choice(self) -> Choice | None:
        """How the table is indexed; None before the first batch."""
        return None if self._stored is None else self._stored.stream.indexes[self._side].choice

    @property
    def nbytes(self) -> int:
        """What the rows and their index hold."""
        held = int(self._rows.nbytes)
        return held if self._stored is None else held + self._stored.stream.index_bytes

    def drained(self) -> tuple[Counters, int]:
        """What was counted since the last call, and how many streamed rows had a NULL key."""
        whole, self._parts[:] = _sum(self._parts), []
        null_keys, self._chunks[:] = sum(chunk.null_keys for chunk in self._chunks), []
        return whole, null_keys


def _sum(parts: list[Counters]) -> Counters:
    whole = Counters()
    for part in parts:
        whole.matches += part.matches
        whole.candidates += part.candidates
        for phase, seconds in part.seconds.items():
            whole.seconds[phase] += seconds
    return whole

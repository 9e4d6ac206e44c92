"""Counting the intervals of a relation that are open, empty or overlap others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream._jit.arrays import Array
from thetastream.data.batch import plain
from thetastream.errors import RelationError
from thetastream.relation.files.refusals import has_binary_ends
from thetastream.relation.files.scan import scan
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.files.unique import value_numbers
from thetastream.schema import value_type


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """Numbers of rows."""

    rows: int
    open: int
    """Rows with a NULL end."""
    overlapping: int
    """Rows that share more than an end with a row before them, of the same equality columns."""
    empty: int
    """Rows whose ``lo`` lies above ``hi``: they contain no point, and overlap nothing."""


def count_intervals(snapshot: Snapshot) -> IntervalCounts:
    """Count the intervals of a snapshot; O(n log n), with the key columns in memory."""
    key = snapshot.layout.columns
    if not key.is_interval:
        raise RelationError(
            f"the key {key} is not an interval; only key=('lo', 'hi') has any to count"
        )
    schema = snapshot.layout.schema
    kinds = pa.schema([schema.field(name) for name in key.names])
    table = pa.Table.from_batches(scan(snapshot, key.names), schema=kinds)
    columns = [plain(column) for column in table.columns]
    rows = table.num_rows
    low, high = columns[-2:]
    absent = [column.is_null().to_numpy(zero_copy_only=False) for column in (low, high)]
    first, last = _ranks(low, high)
    first[absent[0]], last[absent[1]] = 0, 2 * rows + 1
    group = value_numbers(columns[:-2]) if key.equal else np.zeros(rows, np.int64)
    empty = first > last
    inside = ~empty
    overlapping = _overlapping(group[inside], first[inside], last[inside])
    both = absent[0] | absent[1]
    return IntervalCounts(rows, int(both.sum()), overlapping, int(empty.sum()))


def _ranks(low: pa.Array, high: pa.Array) -> tuple[Array, Array]:
    """The values of both columns by their rank, from 1; equal values have the same."""
    both = pa.chunked_array([low, high]) if low.type == high.type else _common(low, high)
    ranks = pc.rank(both, sort_keys="ascending", tiebreaker="dense")
    numbers = np.array(ranks.to_numpy(zero_copy_only=False), np.int64)
    return numbers[: len(low)].copy(), numbers[len(low) :].copy()


def _common(low: pa.Array, high: pa.Array) -> pa.ChunkedArray:
    """Both columns in one type, by Arrow's rules for comparing them."""
    kind = pa.unify_schemas(
        [pa.schema([("x", low.type)]), pa.schema([("x", high.type)])],
        promote_options="permissive",
    )
    return pa.chunked_array([column.cast(kind.field("x").type) for column in (low, high)])


def _overlapping(group: Array, first: Array, last: Array) -> int:
    """Rows that begin below the greatest end of those before them in their group."""
    if not len(group):
        return 0
    order = np.lexsort((last, first, group))
    group = np.unique(group[order], return_inverse=True)[1]
    first, last = first[order], last[order]
    reach = int(last.max()) + 1
    ends = np.maximum.accumulate(group * reach + last) - group * reach
    again = group[1:] == group[:-1]
    return int(np.count_nonzero(again & (first[1:] < ends[:-1])))


def end_bytes(snapshot: Snapshot) -> int | None:
    """The length of all ends, in a relation of intervals of binary; None: of others, or no rows.

    Reads a group of leaves if the type does not tell.
    """
    layout = snapshot.layout
    if not has_binary_ends(layout.schema, layout.columns):
        return None
    name = layout.key[0]
    kind = value_type(layout.schema.field(name).type)
    if pat.is_fixed_size_binary(kind):
        return int(kind.byte_width)
    for batch in scan(snapshot, [name]):
        return len(plain(batch.column(0))[0].as_py())
    return None

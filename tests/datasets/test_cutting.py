"""Cutting tables into pushes loses, repeats and reorders nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.datasets import cut, interleave
from thetastream.errors import DataError
from thetastream.side import Side


def chunked(sizes: list[int]) -> pa.Table:
    chunks, start = [], 0
    for size in sizes:
        chunks.append(pa.array(range(start, start + size), pa.int64()))
        start += size
    column = pa.chunked_array(chunks, pa.int64())
    return pa.table({"x": column, "s": column.cast(pa.string())})


tables = st.lists(st.integers(0, 5), max_size=5).map(chunked)


@given(tables, st.integers(1, 8))
def test_cut_keeps_every_row_in_order(table: pa.Table, batch_rows: int) -> None:
    batches = list(cut(table, batch_rows))
    assert pa.Table.from_batches(batches, table.schema).equals(table.combine_chunks())
    assert all(batch.num_rows == batch_rows for batch in batches[:-1])
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)


@given(tables, tables, st.integers(1, 4), st.integers(1, 4))
def test_interleave_alternates(left: pa.Table, right: pa.Table, rows: int, more: int) -> None:
    pushes = list(interleave(left, right, (rows, more)))
    for side, table, size in ((Side.LEFT, left, rows), (Side.RIGHT, right, more)):
        assert [batch for at, batch in pushes if at is side] == list(cut(table, size))
    order = [side for side, _ in pushes]
    both = 2 * min(order.count(side) for side in Side)
    assert order[:both] == [Side.LEFT, Side.RIGHT] * (both // 2)
    assert len(set(order[both:])) <= 1


def test_interleave_with_one_size_and_for_a_self_join() -> None:
    table = chunked([4])
    sides = [side.value for side, _ in interleave(table, table, 2)]
    assert sides == ["left", "right", "left", "right"]
    assert [side for side, _ in interleave(table, None, 2)] == [Side.LEFT] * 2


def test_no_rows_per_batch_is_refused_at_once() -> None:
    with pytest.raises(DataError, match="batch_rows"):
        cut(chunked([1]), 0)
    with pytest.raises(DataError, match="batch_rows"):
        interleave(chunked([1]), chunked([1]), (1, 0))

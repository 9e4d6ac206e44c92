"""The streamed side is cut without a copy where batches are long, and joined where short."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from thetastream.tables.reading import chunks_of


@given(sizes=st.lists(st.integers(0, 9), max_size=9), size=st.integers(1, 8))
def test_chunks_hold_all_rows_in_order(sizes: list[int], size: int) -> None:
    whole = pa.record_batch({"x": np.arange(sum(sizes))})
    starts = np.cumsum([0, *sizes])
    batches = [whole.slice(start, n) for start, n in zip(starts, sizes, strict=False)]
    chunks = list(chunks_of(batches, size))
    assert [x for chunk in chunks for x in chunk["x"].to_pylist()] == list(range(sum(sizes)))
    assert all(0 < chunk.num_rows <= size for chunk in chunks)


def test_long_batches_are_not_copied() -> None:
    batch = pa.record_batch({"x": np.arange(1000)})
    address = batch["x"].buffers()[1].address
    chunks = list(chunks_of([batch], 300))
    assert [chunk.num_rows for chunk in chunks] == [300, 300, 300, 100]
    assert all(chunk["x"].buffers()[1].address == address for chunk in chunks)

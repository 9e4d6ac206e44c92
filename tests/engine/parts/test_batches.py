"""From pairs to batches: bounded, lazy, nothing lost on an interrupt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.data.rows import BatchView, gathered
from thetastream.engine.emit import pairs as pairs_module
from thetastream.engine.parts.batches import Batches, Flow, GatheredPart, rechunked
from thetastream.metrics import Counters
from thetastream.side import Side


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(numbers, pa.int64())})


# --- Chunks -------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9)), st.integers(1, 7))
def test_chunks_are_rearranged_in_order_below_the_limit(sizes: list[int], limit: int) -> None:
    ends = np.cumsum(sizes)
    chunks = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    out = list(rechunked(((chunk, chunk + 100) for chunk in chunks), limit))
    rows = [row for a, _ in out for row in a.tolist()]
    assert rows == list(range(sum(sizes)))
    assert all(np.array_equal(b, a + 100) for a, b in out)
    assert all(0 < a.size <= limit for a, _ in out)
    # No two neighbours would have fitted into one.
    assert all(out[i][0].size + out[i + 1][0].size > limit for i in range(len(out) - 1))


def test_chunks_are_read_as_they_are_needed() -> None:
    drawn = []

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for at in range(9):
            drawn.append(at)
            yield np.array([at]), np.array([at])

    out = rechunked(pairs(), 2)
    assert next(out)[0].tolist() == [0, 1]
    assert drawn == [0, 1, 2]


# --- Gathering ----------------------------------------------------------------------------------


def test_a_batch_is_gathered_from_both_sides() -> None:
    left = BatchView(pa.record_batch({"x": [10, 11, 12], "s": ["a", "b", None]}))
    right = BatchView(pa.record_batch({"x": [0.5, 1.5]}))
    schema = pa.schema([("x_right", pa.float64()), ("s", pa.string()), ("x", pa.int64())])
    origin = [(Side.RIGHT, "x"), (Side.LEFT, "s"), (Side.LEFT, "x")]
    taken = {Side.LEFT: (left, np.array([2, 0, 0])), Side.RIGHT: (right, np.array([1, 1, 0]))}
    found = gathered(schema, origin, taken, 3)
    assert found.schema == schema
    assert found.to_pydict() == {
        "x_right": [1.5, 1.5, 0.5],
        "s": [None, "a", "a"],
        "x": [12, 10, 10],
    }
    alone = gathered(schema, origin, {Side.LEFT: (left, np.array([1]))}, 1)
    assert alone.to_pydict() == {"x_right": [None], "s": ["b"], "x": [11]}
    assert alone.schema == schema


# --- Parts --------------------------------------------------------------------------------------


def test_pieces_are_gathered_when_read() -> None:
    asked: list[int] = []

    def gather(i: int) -> pa.RecordBatch:
        asked.append(i)
        return batch(i)

    pieces = GatheredPart(gather, 2)
    assert asked == []
    assert pieces.read() == batch(0)
    assert asked == [0]
    assert pieces.read() == batch(1)
    assert pieces.read() is pieces.read() is None
    assert asked == [0, 1]


def test_an_interrupted_piece_is_gathered_again() -> None:
    failures = [KeyboardInterrupt()]

    def gather(i: int) -> pa.RecordBatch:
        if i == 1 and failures:
            raise failures.pop()
        return batch(i)

    batches = Batches([GatheredPart(gather, 3)], Counters())
    assert next(batches) == batch(0)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert list(batches) == [batch(1), batch(2)]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupted_flow_goes_on_where_it_was(at: int) -> None:
    failures = [KeyboardInterrupt()]

    def start() -> Iterator[pa.RecordBatch]:
        for i in range(3):
            if i == at and failures:
                raise failures.pop()
            yield batch(i)

    flow, read = Flow(start), []
    for _ in range(4):
        try:
            found = flow.read()
        except KeyboardInterrupt:
            continue
        read.append(found)
    assert read == [batch(0), batch(1), batch(2)]
    assert flow.read() is None


def test_a_flow_is_not_started_before_it_is_read() -> None:
    started = []

    def start() -> Iterator[pa.RecordBatch]:
        started.append(True)
        yield batch(0)

    flow = Flow(start)
    assert started == []
    assert (flow.read(), flow.read()) == (batch(0), None)
    assert started == [True]


def test_batches_read_all_parts_and_count_rows() -> None:
    counters = Counters()
    batches = Batches(
        [
            GatheredPart(lambda i: batch(*range(i)), 3),
            Flow(lambda: iter([batch(7, 8)])),
            Flow(lambda: iter([])),
        ],
        counters,
    )
    assert iter(batches) is batches
    assert counters.output_rows == 0
    assert [b.num_rows for b in batches] == [0, 1, 2, 2]
    assert counters.output_rows == 5
    assert next(batches, None) is None
    assert list(Batches([], counters)) == []


def test_matches_are_counted_once_in_spite_of_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def interrupted(*args: Any) -> pa.RecordBatch:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return gathered(*args)

    monkeypatch.setattr(pairs_module, "gathered", interrupted)
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(100), batch_rows=5)
    join.push(left=batch(*[0] * 6))
    batches = join.push(right=batch(*[0] * 6))
    rows = next(batches).num_rows + next(batches).num_rows
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    rows += sum(found.num_rows for found in batches)
    assert rows == join.metrics().output_rows == 36
    assert join.metrics().matches == 36

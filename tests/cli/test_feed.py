"""The order in which two both are pushed."""

from __future__ import annotations

import pyarrow as pa

from thetastream.cli import feed
from thetastream.side import Side

BOTH = {Side.LEFT: "t", Side.RIGHT: "t"}


def streams(left: pa.Array, right: pa.Array, batch_rows: int) -> feed.Streams:
    return {
        side: pa.table({"t": values}).to_batches(max_chunksize=batch_rows)
        for side, values in ((Side.LEFT, left), (Side.RIGHT, right))
    }


def test_alternating() -> None:
    pushes = list(feed.alternate(streams(pa.array([1, 2, 3]), pa.array([9]), 2)))
    assert [{side: b["t"].to_pylist() for side, b in push.items()} for push in pushes] == [
        {"left": [1, 2], "right": [9]},
        {"left": [3]},
    ]


def test_the_lagging_side_comes_next() -> None:
    both = streams(pa.array([1, 2, 3, 10, 11]), pa.array([4, 5, 6, 7, 8, 9]), 2)
    order = [(side, b["t"].to_pylist()) for p in feed.in_step(both, BOTH) for side, b in p.items()]
    assert order == [
        ("left", [1, 2]),
        ("right", [4, 5]),
        ("left", [3, 10]),
        ("right", [6, 7]),
        ("right", [8, 9]),
        ("left", [11]),
    ]


def test_times_of_different_units_compare() -> None:
    left = pa.array([1, 2], pa.timestamp("s"))
    right = pa.array([1_500, 2_500], pa.timestamp("ms"))
    order = [next(iter(p)) for p in feed.in_step(streams(left, right, 1), BOTH)]
    assert order == ["left", "right", "left", "right"]

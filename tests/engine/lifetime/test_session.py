"""Sessions at work: when they end, who belongs to them, and what cannot have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import OptionError, SchemaError, WindowError

ALL = "l.x <> r.x"  # rows of both sides have other numbers, so all that meet match


def rows(*times: int | None, first: int = 0, by: list[Any] | None = None) -> pa.RecordBatch:
    columns: dict[str, Any] = {"t": pa.array(times, pa.int64())}
    columns["x"] = pa.array(range(first, first + len(times)), pa.int64())
    if by is not None:
        columns["k"] = by
    return pa.record_batch(columns)


def joined(**options: Any) -> ts.StreamJoin:
    window = ts.SessionWindow(3, time="t", by=options.pop("by", None))
    return ts.StreamJoin(ALL, window=window, output="pairs", **options)


def pairs(answer: Any) -> list[tuple[int, int]]:
    found = [tuple(pair.values()) for batch in answer for pair in batch.to_pylist()]
    return sorted(found, key=str)


def test_a_session_is_joined_when_it_is_over() -> None:
    join = joined()
    left, right = rows(1, 3, 9), rows(2, 6, 15, first=10)
    assert pairs(join.push(left=left, right=right)) == []
    assert join.metrics().sides["left"].waiting_rows == 3
    # The frontier is that of the slower side, the left: 12 is a gap behind 9 and no more.
    assert pairs(join.push(left=rows(12, first=3))) == []
    over = pairs(join.push(left=rows(40, first=4), right=rows(40, first=13)))
    assert over == [(a, b) for a in range(4) for b in range(3)], "12 has joined 9 and 15"
    assert join.metrics().window_rows == 0, "rows leave with their session"
    assert join.metrics().sides["left"].waiting_rows == 1
    assert pairs(join.flush()) == [(4, 3)]


def test_every_key_has_sessions_of_its_own() -> None:
    join = joined(by="k")
    join.push(left=rows(1, 1, 1, by=["a", "b", None]), right=rows(2, 3, 9, by=["b", None, "a"]))
    assert pairs(join.flush()) == [(1, 0)], "NULL belongs to no session"


def test_rows_without_a_session_are_unmatched() -> None:
    join = joined(by="k", how="full")
    join.push(left=rows(1, None, 1, by=["a", "a", None]), right=rows(1, by=["a"], first=9))
    assert pairs(join.flush()) == [(0, 0), (1, None), (2, None)]


def test_late_rows_continue_no_session() -> None:
    join = joined()
    join.push(left=rows(0, 20), right=rows(20, first=5))
    assert pairs(join.push(right=rows(3, first=6))) == []
    assert join.metrics().dropped == 1
    assert pairs(join.flush()) == [(1, 0)]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ts.SessionWindow(3), WindowError, "needs the event-time column"),
        (lambda: ts.SessionWindow(0, time="t"), WindowError, "must be positive"),
        (lambda: ts.SessionWindow("1 s", time="t", lateness=5), WindowError, "durations through"),
        (lambda: ts.SessionWindow(3, time="t", slide=1), WindowError, "has no 'slide'"),
        (lambda: joined(aggregate={"n": "count"}), OptionError, "aggregate"),
        (
            lambda: ts.StreamJoin("l.x < r.x", window=ts.SessionWindow(3, "t"), output="ranges"),
            OptionError,
            "cannot be exact",
        ),
        (lambda: ts.ParallelJoin(ALL, window=ts.SessionWindow(3, "t")), WindowError, "session"),
        (
            lambda: joined(by="gone").push(left=rows(1)),
            SchemaError,
            "session key column 'gone' of the window is missing on the left side",
        ),
        (
            lambda: joined(by="k").push(left=rows(1, by=["a"]), right=rows(1, by=[7])),
            SchemaError,
            "session key .* cannot be compared",
        ),
    ],
)
def test_what_is_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()

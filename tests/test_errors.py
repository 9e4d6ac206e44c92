"""One tree of errors, and messages that end in what to do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream import errors
from thetastream.errors import (
    DataError,
    OptionError,
    PredicateError,
    RegistryError,
    RelationError,
    SchemaError,
    StateError,
    ThetastreamError,
    WindowError,
    suggest,
)

TREE: dict[type[Exception], type[Exception]] = {
    OptionError: ValueError,
    PredicateError: ValueError,
    WindowError: ValueError,
    SchemaError: TypeError,
    DataError: ValueError,
    StateError: RuntimeError,
    RelationError: RuntimeError,
    RegistryError: KeyError,
}


def test_the_tree() -> None:
    found = {
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, Exception)
    } - {errors.IdleTasksWarning, errors.NestedLoopWarning}
    assert found == {ThetastreamError, *TREE}
    for error, builtin in TREE.items():
        root = OptionError if error is RegistryError else ThetastreamError
        assert error.__bases__ == (root, builtin)
        assert error.__doc__
    assert ThetastreamError.__bases__ == (Exception,)


def test_the_tree_is_drawn() -> None:
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    assert sorted(drawn) == sorted(error.__name__ for error in TREE)
    others = {"IdleTasksWarning", "NestedLoopWarning", "ThetastreamError", "suggest"}
    assert set(errors.__all__) == {*others, *drawn}
    assert ts.errors is errors
    assert ts.ThetastreamError is ThetastreamError


def test_a_registry_error_reads_like_the_others() -> None:
    assert str(RegistryError("there is no such thing")) == "there is no such thing"
    assert str(RegistryError()) == ""


def test_a_predicate_error_points_at_the_text() -> None:
    error = PredicateError("no such side", text="x < r.y", start=0, end=1)
    assert str(error) == "no such side\n  x < r.y\n  ^"
    assert (error.message, error.text, error.span) == ("no such side", "x < r.y", (0, 1))
    assert str(PredicateError("bad", text="x < r.y")) == "bad\n  x < r.y"
    assert str(PredicateError("bad", text="x <\nr.y", start=0, end=1)) == "bad\n  x <\nr.y"
    assert str(PredicateError("bad")) == "bad"
    for start, end in ((-1, 3), (3, 3), (4, 2)):
        assert PredicateError("bad", "text", start, end).span is None


def test_suggestions() -> None:
    assert suggest("prise", ["price", "size"]) == " Did you mean 'price'?"
    assert suggest("zzz", ["price"]) == ""
    assert suggest("x", []) == ""


# --- What the user sees -------------------------------------------------------------------------

WINDOW = ts.CountWindow(10)
INTS = pa.record_batch({"x": [1, 2], "t": [1, 2]})


def join(on: str = "l.x = r.x", **options: Any) -> ts.StreamJoin:
    return ts.StreamJoin(on, **{"window": WINDOW, **options})


def push(
    on: str, left: dict[str, Any], right: dict[str, Any] | None = None, **options: Any
) -> None:
    right = left if right is None else right
    made = join(on, **options)
    for batch in made.push(left=pa.record_batch(left), right=pa.record_batch(right)):
        assert batch.num_rows


def twice(first: dict[str, Any], second: dict[str, Any]) -> None:
    made = join()
    made.push(left=pa.record_batch(first))
    made.push(left=pa.record_batch(second))


def flushed() -> None:
    made = join()
    made.push(left=INTS, right=INTS)
    made.flush()
    made.push(left=INTS)


def stamps(zone: str | None = None) -> dict[str, pa.Array]:
    return {"x": pa.array([1], pa.timestamp("s", zone))}


Case = tuple[Callable[[], Any], type[Exception], str]
CASES: dict[str, Case] = {
    # The predicate
    "empty": (lambda: join(" "), PredicateError, r"write for example 'abs\(l\.x - r\.x\) <= 5'"),
    "not text": (lambda: join(5), PredicateError, "a Predicate or an expression; got int"),
    "unparsable": (lambda: join("l.x <"), PredicateError, "cannot parse the predicate"),
    "no side": (
        lambda: join("x = r.x"),
        PredicateError,
        r"ambiguous side.*write l\.x for the left or r\.x for the",
    ),
    "unknown side": (lambda: join("q.x = r.x"), PredicateError, r"unknown side 'q'; write l\.x"),
    "one side": (lambda: join("l.x = l.y"), PredicateError, "must use columns of both sides"),
    "a column and a number": (lambda: join("l.x < 5"), PredicateError, "columns of both sides"),
    "empty band": (lambda: join("abs(l.x - r.x) <= -1"), PredicateError, "band is empty: .*-1"),
    "bounds": (
        lambda: join("l.x BETWEEN r.x + 5 AND r.x"),
        PredicateError,
        "band is empty: .*exchange its bounds",
    ),
    "truth value": (
        lambda: bool(ts.left.x < ts.right.x),
        PredicateError,
        r"as \(a < b\) & \(b < c\)",
    ),
    "unsupported": (
        lambda: join("l.x <=> r.x"),
        PredicateError,
        "a predicate may use comparisons",
    ),
    "no column": (
        lambda: push("l.z = r.x", {"x": [1]}),
        PredicateError,
        "has no column 'z'; it has x",
    ),
    "tactic refuses": (
        lambda: push("l.x < r.x", {"x": [1]}, tactic="hash"),
        PredicateError,
        "use tactic='auto'",
    ),
    # The window
    "size 0": (lambda: ts.CountWindow(0), WindowError, "must be at least 1; got 0"),
    "no time": (lambda: ts.TimeWindow(0, time="t"), WindowError, "must be positive; got 0"),
    "half a row": (lambda: ts.CountWindow(1.5), WindowError, "a whole number of rows; got 1.5"),
    "lateness on rows": (
        lambda: ts.CountWindow(5, lateness="1 s"),
        WindowError,
        "no 'lateness'.*use TimeWindow for event time",
    ),
    "no time column": (
        lambda: ts.TimeWindow("1 s"),
        WindowError,
        r"event-time column.*time=\('left_t', 'right_t'\)",
    ),
    "bad duration": (
        lambda: ts.TimeWindow("soon", time="t"),
        WindowError,
        "write for example '10 minutes'",
    ),
    "months": (
        lambda: ts.TimeWindow("1 month", time="t"),
        WindowError,
        "write it in days or smaller units",
    ),
    "slide": (lambda: ts.CountWindow(5, slide=2), WindowError, "must be a multiple of the slide"),
    "too fine": (
        lambda: push("l.x = r.x", stamps(), window=ts.TimeWindow("1 ms", time="x")),
        WindowError,
        "cast the columns to a finer unit or round the size",
    ),
    # Columns and types
    "not arrow": (
        lambda: join().push(left=7),
        SchemaError,
        "the left side got int, which holds no rows.*convert it, for example with pyarrow.table",
    ),
    "null type": (
        lambda: push("l.x = r.x", {"x": pa.nulls(1)}),
        SchemaError,
        "type null, and the join compares it; cast it to the type it will have later",
    ),
    "missing": (
        lambda: twice({"x": [1], "y": [1]}, {"x": [1]}),
        SchemaError,
        "'y' is missing on the left side; earlier pushes had it",
    ),
    "changed": (
        lambda: twice({"x": [1]}, {"x": [1.5]}),
        SchemaError,
        "from int64 to double; cast it before the push",
    ),
    "extra": (
        lambda: twice({"x": [1]}, {"x": [1], "y": [1]}),
        SchemaError,
        "new columns y; earlier pushes did not have them",
    ),
    "string and number": (
        lambda: push("l.x = r.x", {"x": ["a"]}, {"x": [1]}),
        SchemaError,
        "string cannot be compared with int64; cast one of the columns",
    ),
    "zone": (
        lambda: push("l.x = r.x", stamps(), stamps("UTC")),
        SchemaError,
        "add a zone to both, or remove it from both",
    ),
    "no unit": (
        lambda: push("l.x - r.x < 5", stamps()),
        SchemaError,
        "write INTERVAL '5 seconds' or another unit",
    ),
    "band": (lambda: push("abs(l.x - r.x) <= 5", stamps()), SchemaError, "INTERVAL '5 seconds'"),
    "unit of a number": (
        lambda: push("l.x - r.x < INTERVAL '1 s'", {"x": [1]}),
        SchemaError,
        "write a plain number",
    ),
    "nested key": (lambda: push("l.x = r.x", {"x": [[1]]}), SchemaError, "or cast the column"),
    "output names": (
        lambda: push("l.x = r.x", {"x": [1]}, suffix=""),
        SchemaError,
        "choose a suffix other than ''",
    ),
    "another clash": (
        lambda: push("l.x = r.x", {"x": [1], "x_r": [1]}, {"x": [1]}, suffix="_r"),
        SchemaError,
        "choose a suffix other than '_r'",
    ),
    "output column": (
        lambda: push("l.x = r.x", {"x": [1]}, columns=["x_rihgt"]),
        SchemaError,
        r"there are x, x_right\. Did you mean 'x_right'\?",
    ),
    "time of text": (
        lambda: push("l.x = r.x", {"x": ["a"]}, window=ts.TimeWindow(5, time="x")),
        SchemaError,
        "it must be a timestamp, a date or an integer",
    ),
    "time in numbers": (
        lambda: push("l.x = r.x", stamps(), window=ts.TimeWindow(5, time="x")),
        SchemaError,
        "not as the number 5",
    ),
    "time in durations": (
        lambda: push("l.x = r.x", {"x": [1]}, window=ts.TimeWindow("5 s", time="x")),
        SchemaError,
        "whole number in the column's unit, or cast the column to a timestamp; got 5 seconds",
    ),
    "time column": (
        lambda: push("l.x = r.x", {"x": [1]}, window=ts.TimeWindow(5, time="tt")),
        SchemaError,
        "the time column 'tt' of the window is missing",
    ),
    "day": (
        lambda: push("l.x + INTERVAL '1 day' = r.y", {"x": [date(2024, 1, 1)], "y": [1]}),
        SchemaError,
        ".",
    ),
    # Values
    "overflow": (
        lambda: push("l.x * l.x = r.x", {"x": [2**62]}),
        DataError,
        "cast the columns to double to allow it",
    ),
    "digits": (
        lambda: push("l.x = r.x", {"x": pa.array([Decimal(10**20)])}),
        DataError,
        "has more: cast to double",
    ),
    "range": (
        lambda: push(
            "l.x = r.x",
            {"x": pa.array([10**10], pa.timestamp("s"))},
            {"x": pa.array([1], pa.timestamp("ns"))},
        ),
        DataError,
        "cast the other side to a coarser unit or scale",
    ),
    "unsigned": (
        lambda: push("l.x = r.x", {"x": pa.array([2**63], pa.uint64())}, {"x": [1]}),
        DataError,
        "cast the other side to uint64",
    ),
    "null rank": (
        lambda: push("l.x = r.x", {"x": pa.array([None, 1])}, window=ts.CountWindow(5, order="x")),
        DataError,
        "every row needs a rank",
    ),
    "falling rank": (
        lambda: push("l.x = r.x", {"x": [2, 1]}, window=ts.CountWindow(5, order="x")),
        DataError,
        "must come in the order of their ranks",
    ),
    # The order of calls
    "flushed": (flushed, StateError, "make a new StreamJoin"),
    "self-join": (lambda: join(self_join=True).push(right=INTS), StateError, "push it as left"),
    "mode": (
        lambda: join(how="cross"),
        OptionError,
        "how must be one of inner, left, right, full, semi, anti; got 'cross'",
    ),
    "window": (
        lambda: join(window=5),
        WindowError,
        "must be a CountWindow, a TimeWindow, .*; got 5",
    ),
    "threads": (lambda: join(threads=0), OptionError, "a whole number of at least 1; got 0"),
    "batch rows": (
        lambda: join(batch_rows=0),
        OptionError,
        "batch_rows must be a whole number of at least 1; got 0",
    ),
    # Names
    "tactic": (lambda: join(tactic="hsah"), RegistryError, r"Did you mean 'hash'\?"),
    "index": (
        lambda: ts.index.create("sorted-rnus"),
        RegistryError,
        r"Did you mean 'sorted-runs'\?",
    ),
    "parameter": (
        lambda: ts.index.create("sorted-runs", slots=3),
        RegistryError,
        r"Did you mean 'slot'\?",
    ),
    "capacity": (
        lambda: ts.index.create("sorted-runs", capacity=0),
        RegistryError,
        "capacity must be a whole number of at least 1; got 0",
    ),
    # Tables on disk; more of them in tests/relation
    "relation": (
        lambda: ts.Relation.open("no/such/relation"),
        RelationError,
        "Relation.build",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_messages_say_what_to_do(name: str) -> None:
    trigger, kind, advice = CASES[name]
    with pytest.raises(ThetastreamError, match=advice) as caught:
        trigger()
    assert type(caught.value) is kind
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    message = getattr(caught.value, "message", str(caught.value))
    assert message == message.strip()
    assert "Traceback" not in message
    assert "has no kernel" not in message, "Arrow's words help nobody"


def test_every_error_has_a_case() -> None:
    assert {kind for _, kind, _ in CASES.values()} == set(TREE)


@pytest.mark.parametrize(
    "on",
    ["LOWER(l.x) = r.x", "NOT l.x AND r.x", "COALESCE(l.x, 'a') = r.x", "CONCAT(l.x, r.x) = 'a'"],
)
def test_type_errors_inside_expressions_say_what_to_do(on: str) -> None:
    with pytest.raises(SchemaError) as caught:
        push(on, {"x": [1]})
    assert "has no kernel" not in str(caught.value)
    assert re.search(r"cast|write|use", str(caught.value))


def test_bad_input_changes_nothing() -> None:
    made = join("abs(l.x - r.x) <= 1")
    good = pa.record_batch({"x": [1, 2]})
    list(made.push(left=good, right=good))
    for bad in (
        pa.record_batch({"y": [1]}),
        pa.record_batch({"x": ["a"]}),
        pa.record_batch({"x": [1.5]}),
    ):
        with pytest.raises(SchemaError):
            made.push(left=good, right=bad)
    assert made.metrics().rows == 4
    assert [b.num_rows for b in made.push(right=pa.record_batch({"x": [1]}))] == [2]
    made.check()

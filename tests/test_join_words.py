"""Conditions, windows, modes and aggregates as people write them."""

from __future__ import annotations

import datetime as dt
import warnings
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import (
    DataError,
    NestedLoopWarning,
    PredicateError,
    SchemaError,
    WindowError,
)
from thetastream.truth import oracle

from .join_rows import joined, pairs, rows, table

# --- Nested loops ---------------------------------------------------------------------------------


def test_a_nested_loop_warns_at_the_call() -> None:
    with pytest.warns(NestedLoopWarning, match="no part of this condition can be indexed") as seen:
        joined("l.x * r.x > 5")
    assert len(seen) == 1
    assert seen[0].filename.endswith("join_rows.py")


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("l.x * r.x > 5", {"tactic": "nested-loop"}),
        ("abs(l.x - r.x) <= 1 AND l.x * r.x > 5", {}),
        ("abs(l.x - r.x) <= 0.01 * l.x", {}),
        ("abs(l.x - r.x) <= l.x / 100", {}),
    ],
)
def test_others_do_not(on: str, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joined(on, **options)


# --- Relative bands -------------------------------------------------------------------------------

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    99.0,
    100.0,
    101.0,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
    None,
]
VALUES = st.lists(st.sampled_from(SPECIAL) | st.floats(90, 110), max_size=8)


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("base", ["0.01 * l.x", "r.x * 0.1", "0.05 * abs(r.x)"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.int64()], ids=str)
@given(left=VALUES, right=VALUES)
def test_relative_bands(how: str, base: str, kind: Any, left: list[Any], right: list[Any]) -> None:
    def column(values: list[Any]) -> pa.Table:
        if kind == pa.int64():
            values = [int(v) if v is not None and abs(v) < 1e9 else None for v in values]
        return pa.table(
            {"x": pa.array(values, kind), "n": pa.array(range(len(values)), pa.int64())}
        )

    on, window = f"abs(l.x - r.x) <= {base}", ts.CountWindow(4)
    join = ts.StreamJoin(on, window=window, how=how)
    pushes = [(column(left), column(right)), (column(right), column(left))]
    found = [row for push in pushes for row in rows(join.push(*push))] + rows(join.flush())
    truth = oracle.join(pushes, on, window, how)
    assert len(found) == len(truth.pairs)
    assert not join.explain().as_dict()["residuals, evaluated on candidate pairs"]


# --- Widths of one side ---------------------------------------------------------------------------

WIDTHS = ["l.w", "r.w", "l.x / 100", "0.5 * r.x", "0.01 * abs(l.x) + 1", "-0.1 * l.x"]
KINDS = [pa.float64(), pa.float32(), pa.int64(), pa.uint64(), pa.decimal128(12, 2)]
EXTREME = [0.0, 5e-324, 1.0, -1.0, 0.1, 0.3, 100.0, 101.0, 2.0**53, -(2.0**62), 1e300]
OPEN = [float("inf"), float("-inf"), float("nan"), None]


def _numbers(values: list[Any], kind: Any) -> pa.Array:
    """As values of a type; what it does not have is NULL."""
    if pa.types.is_floating(kind):
        return pa.array(values, pa.float64()).cast(kind)
    least, most = (0, 1e9) if kind == pa.decimal128(12, 2) else (-1e19, 9e18)
    least = 0 if kind == pa.uint64() else least
    known = [v if v is not None and least <= v <= most else None for v in values]
    if pa.types.is_integer(kind):
        return pa.array([v if v is None else int(v) for v in known], kind)
    return pa.array([v if v is None else Decimal(str(round(v, 2))) for v in known], kind)


@pytest.mark.parametrize("kinds", [*((k, k) for k in KINDS), (KINDS[2], KINDS[0])], ids=str)
@given(width=st.sampled_from(WIDTHS), data=st.data())
def test_widths_of_one_side(kinds: Any, width: str, data: st.DataObject) -> None:
    """What is found around a value is all that a nested loop finds, whatever rounds."""
    values = st.lists(st.sampled_from(EXTREME + OPEN) | st.floats(90, 110), max_size=7)
    sides = []
    for kind in kinds:
        xs, ws = data.draw(values), data.draw(values)
        count = min(len(xs), len(ws))
        columns = {"x": _numbers(xs[:count], kind), "w": _numbers(ws[:count], kinds[0])}
        sides.append(pa.table({**columns, "n": pa.array(range(count), pa.int64())}))
    strict = data.draw(st.sampled_from(["<", "<="]))
    on = f"abs(l.x - r.x) {strict} {width}"
    try:
        truth = oracle.join([tuple(sides)], on, ts.Unbounded())
    except (DataError, OverflowError):
        return  # a difference beyond 64 bits
    join = ts.StreamJoin(on, window=ts.Unbounded(), output="pairs", tactic="ordered")
    found = [tuple(row.values()) for batch in join.push(*sides) for row in batch.to_pylist()]
    assert Counter(found) == Counter(truth.pairs)


def test_widths_that_are_times() -> None:
    at = pa.array([dt.datetime(2024, 1, 1, 0, minute) for minute in (0, 5, 20)])
    minutes = [4 * 60 * 10**6, 5 * 60 * 10**6, 2**63 - 1]
    spans = pa.array(minutes, pa.int64()).cast(pa.duration("us"))
    one = pa.table({"t": at, "w": spans})
    on = "abs(l.t - r.t) <= l.w"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ts.join(one, one, on, output="pairs")
    assert Counter(tuple(row.values()) for row in found.to_pylist()) == Counter(
        oracle.join([(one, one)], on, ts.Unbounded()).pairs
    )
    coarse = pa.table({"t": at.cast(pa.timestamp("s")), "w": spans})  # finer than the time
    with pytest.warns(NestedLoopWarning):
        assert ts.join(coarse, coarse, on).num_rows == found.num_rows


# --- Windows --------------------------------------------------------------------------------------

INSTANTS = st.lists(st.integers(0, 30), max_size=10)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0)])
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
@given(left=INSTANTS, right=INSTANTS)
def test_one_sided_windows(
    sizes: tuple[int, int], how: str, left: list[int], right: list[int]
) -> None:
    window = ts.TimeWindow(sizes, time="t", lateness=3)

    def of(ts_: list[int]) -> pa.Table:
        return pa.table(
            {"t": pa.array(ts_, pa.int64()), "n": pa.array(range(len(ts_)), pa.int64())}
        )

    pushes = [(of(left[:4]), of(right[:4])), (of(left[4:]), of(right[4:]))]
    join = ts.StreamJoin("l.n >= r.n", window=window, how=how)
    found = [row for push in pushes for row in rows(join.push(*push))] + rows(join.flush())
    assert len(found) == len(oracle.join(pushes, "l.n >= r.n", window, how).pairs)


def test_the_last_minute() -> None:
    window = ts.TimeWindow(("0 s", "1 minute"), time="t")
    noon = dt.datetime(2024, 1, 1, 12)
    join = ts.StreamJoin("l.x = r.x", window=window)
    at = [noon - dt.timedelta(seconds=s) for s in (61, 60, 0, -1)]
    list(join.push(right=table([1, 2, 3, 4], t=pa.array(at))))
    left = table([1, 2, 3, 4], t=pa.array([noon] * 4))
    assert sorted(row["x"] for row in rows(join.push(left=left))) == [2, 3]


def test_sizes_that_make_no_window() -> None:
    for size in ("0 s", ("0 s", "0 s"), 0, (0, 0)):
        with pytest.raises(WindowError, match="must be positive"):
            ts.TimeWindow(size, time="t")
    with pytest.raises(WindowError, match="must be zero or more"):
        ts.TimeWindow(("-1 s", "1 s"), time="t")
    with pytest.raises(WindowError, match="a slide needs positive sizes"):
        ts.TimeWindow(("0 s", "10 s"), time="t", slide="5 s")


@pytest.mark.parametrize("tactic", ["auto", "ordered", "ibwj", "panjoin", "nested-loop"])
def test_huge_count_windows(tactic: str) -> None:
    join = joined(window=ts.CountWindow(1 << 60), tactic=tactic)
    list(join.push(left=table([1, 2, 3])))
    assert pairs(join.push(right=table([3]))) == Counter({(2, 3): 1, (3, 3): 1})


# --- Spellings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        *(("left_outer", "left"), ("LEFT OUTER", "left"), ("rightouter", "right")),
        *(("outer", "full"), ("full_outer", "full"), ("left_semi", "semi"), ("leftanti", "anti")),
    ],
)
def test_modes(word: str, mode: str) -> None:
    assert ts.How.of(word).value == mode


def test_avg_is_the_mean() -> None:
    join = joined(aggregate={"a": ("r.x", "avg")})
    list(join.push(right=table([1, 2])))
    assert [row["a"] for row in rows(join.push(left=table([1])))] == [1.5]


def test_a_column_in_another_case() -> None:
    join = joined("l.X = r.x")
    with pytest.raises(PredicateError, match=r"has no column 'X'.*Did you mean 'x'\?"):
        join.push(left=table([1]))


def test_a_date_against_a_time_with_a_zone() -> None:
    schemas = (pa.schema([("d", pa.date32())]), pa.schema([("t", pa.timestamp("us", "UTC"))]))
    with pytest.raises(SchemaError, match=r"cast the timestamp to a date \(CAST"):
        ts.StreamJoin("l.d <= r.t", window=ts.CountWindow(1), schemas=schemas)
    ts.StreamJoin("l.d <= CAST(r.t AS DATE)", window=ts.CountWindow(1), schemas=schemas)


# --- Dates and times ------------------------------------------------------------------------------

DAY = dt.datetime(2024, 1, 2)
MOMENTS = [DAY + dt.timedelta(hours=at) for at in (-1, 0, 1)]


def kept(on: str | Any, kind: pa.DataType) -> list[int]:
    """The left rows that pass a filter."""
    moments = pa.array(MOMENTS, pa.timestamp("us", getattr(kind, "tz", None))).cast(
        kind, safe=False
    )
    both = pa.table({"x": [1, 1, 1], "n": [0, 1, 2], "t": moments})
    join = ts.StreamJoin(on, window=ts.CountWindow(9))
    list(join.push(left=both))
    return sorted(row["n"] for row in rows(join.push(right=pa.table({"x": [1]}))))


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC")])
@pytest.mark.parametrize(
    "text",
    [
        *("TIMESTAMP '2024-01-02 00:00:00'", "'2024-01-02 00:00:00'", "DATE '2024-01-02'"),
        *("'2024-01-02'", "TIMESTAMP '2024-01-02'", "CAST('2024-01-02' AS TIMESTAMP)"),
    ],
)
def test_literals_of_times(kind: pa.DataType, text: str) -> None:
    assert kept(f"l.x = r.x AND l.t >= {text}", kind) == [1, 2]
    assert kept(f"l.x = r.x AND {text} > l.t", kind) == [0]
    assert kept(f"l.x = r.x AND l.t BETWEEN {text} AND {text}", kind) == [1]


def test_literals_meet_a_column_in_its_own_zone() -> None:
    kind = pa.timestamp("us", "Europe/Berlin")
    assert kept("l.x = r.x AND l.t >= '2024-01-02 01:00:00'", kind) == [1, 2]
    assert kept("l.x = r.x AND l.t >= TIMESTAMP '2024-01-02 00:00:00Z'", kind) == [1, 2]
    assert kept("l.x = r.x AND l.t >= TIMESTAMP '2024-01-02 02:00:00+02:00'", kind) == [1, 2]


def test_literals_of_python() -> None:
    same = ts.left.x == ts.right.x
    for value in (DAY, DAY.date(), pa.scalar(DAY).as_py()):
        assert kept(same & (ts.left.t >= value), pa.timestamp("us")) == [1, 2]
    aware = DAY.replace(tzinfo=dt.UTC)
    assert kept(same & (ts.left.t >= aware), pa.timestamp("us", "UTC")) == [1, 2]
    assert kept(same & (ts.left.t - dt.timedelta(hours=1) >= DAY), pa.timestamp("us")) == [2]
    assert str(ts.left.t < aware) == "l.t < TIMESTAMP '2024-01-02 00:00:00+00:00'"


def test_dates() -> None:
    assert kept("l.x = r.x AND l.t = '2024-01-02'", pa.date32()) == [1, 2]
    assert kept("l.x = r.x AND l.t < DATE '2024-01-02'", pa.date32()) == [0]


def test_text_that_is_no_time() -> None:
    with pytest.raises(SchemaError, match="'soon' is not a timestamp; write it as"):
        kept("l.x = r.x AND l.t < 'soon'", pa.timestamp("us"))


# --- Intervals ------------------------------------------------------------------------------------

ENDS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=6)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.timestamp("s", "UTC")])
@given(left=ENDS, right=ENDS)
def test_overlaps_and_contains(kind: pa.DataType, left: list[Any], right: list[Any]) -> None:
    """Every pair, by the definition; intervals that end before they begin match nothing."""

    def of(ends: list[Any]) -> pa.Table:
        columns = [
            pa.array([e[at] for e in ends], pa.int32() if kind == pa.date32() else pa.int64())
            for at in (0, 1)
        ]
        return pa.table({"s": columns[0].cast(kind), "e": columns[1].cast(kind)})

    window = ts.CountWindow(100)
    found = ts.StreamJoin("overlaps(l.s, l.e, r.s, r.e)", window=window)
    expected = sum(a <= b and c <= d and max(a, c) <= min(b, d) for a, b in left for c, d in right)
    assert len(rows(found.push(of(left), of(right)))) == expected
    inside = ts.StreamJoin("contains(l.s, l.e, r.s)", window=window)
    expected = sum(a <= c <= b for a, b in left for c, _ in right)
    assert len(rows(inside.push(of(left), of(right)))) == expected


def test_intervals_in_python() -> None:
    l, r, f = ts.left, ts.right, ts.functions  # noqa: E741
    built = ts.Predicate.of(f.overlaps(l.s, l.e, r.s, r.e))
    assert built.terms == ts.Predicate.parse("OVERLAPS(l.s, l.e, r.s, r.e)").terms
    assert ts.Predicate.of(f.contains(l.s, l.e, r.x)).terms == (
        ts.Predicate.parse("l.s <= r.x AND r.x <= l.e").terms
    )


def test_a_shifted_band() -> None:
    join = joined("abs(l.x - r.x + 5) <= 3")
    assert not ts.Predicate.parse("abs(l.x - r.x + 5) <= 3").residuals
    list(join.push(left=table([10])))
    found = pairs(join.push(right=table([11, 12, 15, 18, 19])))
    assert found == Counter({(10, 12): 1, (10, 15): 1, (10, 18): 1})


def test_null_columns_and_booleans() -> None:
    join = joined("l.b = r.x", schemas=None)
    list(join.push(left=pa.table({"b": [True, False, None]})))
    assert len(rows(join.push(right=table([1, 0, 2])))) == 2


def test_data_that_does_not_fit_a_cast() -> None:
    join = joined("CAST(l.x AS TINYINT) = r.x")
    list(join.push(right=table([1])))
    with pytest.raises(DataError, match="CAST"):
        join.push(left=table([300]))


def ends(*pairs: tuple[Any, Any]) -> pa.Table:
    return pa.table({name: [pair[at] for pair in pairs] for at, name in enumerate("se")})


@pytest.mark.parametrize(
    ("on", "left", "right"),
    [
        ("overlaps(l.s, l.e, r.s, r.e)", 2, 1),
        ("contains(l.s, l.e, r.s)", 2, 0),
        ("l.s <= r.s AND r.s < l.e", 2, 0),
        ("contains(r.s, r.e, l.s)", 0, 1),
        ("l.s < r.e AND r.s < l.e", 0, 0),  # which says nothing of its ends
    ],
)
def test_intervals_that_end_before_they_begin_are_counted(on: str, left: int, right: int) -> None:
    sides = ends((1, 5), (5, 1), (3, 2), (4, 4), (None, 0)), ends((2, 3), (9, 0), (0, None))
    join = joined(on)
    list(join.push(*sides))
    finite = ts.join_iter(*sides, on)
    finite.to_table()
    for metrics in (join.metrics(), finite.metrics()):
        assert [metrics.sides[side].empty_intervals for side in ("left", "right")] == [left, right]
        assert metrics.empty_intervals == left + right
        assert metrics.sides["left"].null_keys == 1


def test_columns_of_type_null_as_payload() -> None:
    rows_ = pa.table({"x": [1, 2], "nothing": pa.nulls(2)})
    join = joined("l.x = r.x", how="full")
    list(join.push(left=rows_))
    found = rows(join.push(right=rows_.slice(0, 1))) + rows(join.flush())
    assert {"x": 1, "nothing": None, "x_right": 1, "nothing_right": None} in found
    assert len(found) == 2
    assert ts.join(rows_, rows_, "l.x = r.x").num_rows == 2
    for on in ("l.nothing = r.x", "l.x = r.x AND l.nothing > 1"):
        with pytest.raises(SchemaError, match="'nothing' of the left side has type null, and the"):
            joined(on).push(left=rows_)
        assert ts.join(rows_, rows_, on).num_rows == 0  # all rows are known: all values are NULL


def test_division_by_zero_and_logarithms_of_negatives_match_nothing() -> None:
    for on in ("l.x / r.x >= 0 AND l.x >= r.x", "ln(r.x) <= l.x AND l.x >= r.x", "l.x % r.x = l.x"):
        join = joined(on, tactic="nested-loop")
        list(join.push(left=table([5])))
        assert not rows(join.push(right=table([0]))), on

"""Intervals without an end: NULL lies beyond all values, on both sides, in every comparison."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import DataError, OptionError, PredicateError, RelationError

from ...scale import scaled

MOST, LEAST = 2**63 - 1, -(2**63)
ENDS = st.one_of(st.none(), st.integers(-2, 8), st.sampled_from([MOST - 1, LEAST + 1]))
# The condition, and the same in Python on (x, y, lo, hi), where None is an infinity by then.
CONDITIONS: list[tuple[str, Any]] = [
    ("l.x BETWEEN r.lo AND r.hi", lambda x, y, lo, hi: lo <= x <= hi),
    ("l.x >= r.lo AND l.x < r.hi", lambda x, y, lo, hi: lo <= x < hi),
    ("l.x > r.hi", lambda x, y, lo, hi: x > hi),
    ("l.x < r.lo", lambda x, y, lo, hi: x < lo),
    ("l.x = r.hi", lambda x, y, lo, hi: x == hi),
    ("l.x = r.lo AND l.y <= r.hi", lambda x, y, lo, hi: x == lo and y <= hi),
    ("l.x <= r.hi AND l.y >= r.hi", lambda x, y, lo, hi: x <= hi <= y),
    ("abs(l.x - r.hi) <= 2 AND l.y >= r.lo", lambda x, y, lo, hi: abs(x - hi) <= 2 and y >= lo),
    ("l.x <= r.hi AND l.y >= r.lo", lambda x, y, lo, hi: x <= hi and y >= lo),
]


def truth(on: str, rows: list[Any], intervals: list[Any], holds: Any) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for n, (x, y) in enumerate(rows):
        for m, (lo, hi) in enumerate(intervals):
            low, high = -np.inf if lo is None else lo, np.inf if hi is None else hi
            known = x is not None and (y is not None or "l.y" not in on)
            if known and holds(x, y, low, high):
                found[n, m] += 1
    return found


def joined(path: Path, table: pa.Table, stream: pa.Table, on: str, **more: Any) -> Counter[Any]:
    with (
        ts.Relation.build(
            path, table, ("lo", "hi"), 4096, open_ends=True, keep_empty=True
        ) as relation,
        ts.RelationJoin(relation, on, "1 MB", **more) as join,
    ):
        relation.check()
        batches = [*join.push(stream), *join.flush()]
    return Counter((row["n"], row.get("m")) for batch in batches for row in batch.to_pylist())


@settings(max_examples=scaled(60))
@given(
    st.sampled_from(CONDITIONS),
    st.lists(st.tuples(ENDS, ENDS), max_size=12),
    st.lists(st.tuples(ENDS, ENDS), max_size=8),
    st.sampled_from(["int64", "mixed", "large"]),
)
def test_an_open_end_lies_beyond_all_values(
    tmp_path_factory: pytest.TempPathFactory,
    condition: tuple[str, Any],
    intervals: list[Any],
    rows: list[Any],
    kind: str,
) -> None:
    if kind == "mixed":  # stored as int64, compared as floats
        rows = [tuple(None if v is None else max(-3, min(v, 9)) for v in row) for row in rows]
        intervals = [
            tuple(None if v is None else max(-3, min(v, 9)) for v in row) for row in intervals
        ]
    if kind == "large":
        rows = [*rows, (MOST, MOST), (LEAST, LEAST)]
    stored = pa.schema({"lo": pa.int64(), "hi": pa.int64(), "m": pa.int64()})
    of = pa.float64() if kind == "mixed" else pa.int64()
    table = pa.table(
        [[lo for lo, _ in intervals], [hi for _, hi in intervals], range(len(intervals))],
        schema=stored,
    )
    stream = pa.table(
        {
            "x": pa.array([x for x, _ in rows], of),
            "y": pa.array([y for _, y in rows], of),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    on, holds = condition
    path = tmp_path_factory.mktemp("open") / "r.rel"
    # abs(…) is exact only without overflow, as Python's is.
    assert joined(path, table, stream, on) == truth(on, rows, intervals, holds)


def test_dates_and_times_and_a_left_join(tmp_path: Path) -> None:
    day = dt.date
    table = pa.table(
        {
            "lo": [day(2024, 1, 1), day(2025, 1, 1), None],
            "hi": [day(2024, 12, 31), None, day(1999, 12, 31)],
            "m": [0, 1, 2],
        }
    )
    moments = [dt.datetime(2024, 6, 1, 12), dt.datetime(9999, 1, 1), dt.datetime(1, 1, 1)]
    moments += [dt.datetime(2000, 6, 1)]
    stream = pa.table({"t": pa.array(moments, pa.timestamp("s")), "n": range(4)})
    found = joined(tmp_path / "r.rel", table, stream, "l.t BETWEEN r.lo AND r.hi", how="left")
    assert found == Counter({(0, 0): 1, (1, 1): 1, (2, 2): 1, (3, None): 1})


def test_rows_come_back_with_their_nulls_and_are_changed_by_them(tmp_path: Path) -> None:
    table = pa.table({"lo": [None, 1, 5], "hi": [3, None, 7], "v": ["a", "b", "c"]})
    with ts.Relation.build(tmp_path / "r.rel", table, ("lo", "hi"), open_ends=True) as relation:
        assert relation.to_table().equals(table)
        assert (relation.null_keys, relation.open_ends, relation.empty_intervals) == (0, True, 0)
        relation.insert(pa.table({"lo": [9], "hi": pa.nulls(1, pa.int64()), "v": ["d"]}))
        relation.update(pa.table({"lo": pa.nulls(1, pa.int64()), "hi": [0], "v": ["A"]}))
        relation.check()
        relation.compact()
        relation.check()
        rows = relation.to_table().to_pylist()
        assert [(row["lo"], row["hi"], row["v"]) for row in rows] == [
            (None, 0, "A"),
            (1, None, "b"),
            (5, 7, "c"),
            (9, None, "d"),
        ]
        with ts.RelationJoin(relation, "l.x BETWEEN r.lo AND r.hi", "1 MB") as join:
            found = [*join.push(pa.table({"x": [-5, 100]})), *join.flush()]
        assert sorted((r["x"], r["v"]) for b in found for r in b.to_pylist()) == [
            (-5, "A"),
            (100, "b"),
            (100, "d"),
        ]


# --- Without open_ends --------------------------------------------------------------------------

OPEN = pa.table({"lo": [1, 2, None], "hi": [None, 5, None]})


def test_rows_without_an_end_are_not_left_out_silently(tmp_path: Path) -> None:
    says = "2 rows have an interval without an end: NULL is in lo in 1, hi in 2.*open_ends=True"
    with pytest.raises(RelationError, match=says):
        ts.Relation.build(tmp_path / "r.rel", OPEN, ("lo", "hi"))
    assert not (tmp_path / "r.rel").exists()
    with ts.Relation.build(tmp_path / "r.rel", OPEN.slice(1, 1), ("lo", "hi")) as relation:
        with pytest.raises(RelationError, match="2 of the rows .* lo in 1, hi in 2; nothing was"):
            relation.insert(OPEN)
        assert relation.version == 1
    path = tmp_path / "left.rel"
    with ts.Relation.build(path, OPEN, ("lo", "hi"), open_ends=False) as relation:
        assert (relation.rows, relation.null_keys) == (1, 2)


@pytest.mark.parametrize("on", ["l.x >= r.lo AND (r.hi IS NULL OR l.x < r.hi)"])
def test_a_condition_on_nulls_needs_rows_that_have_them(tmp_path: Path, on: str) -> None:
    with (
        ts.Relation.build(tmp_path / "no.rel", OPEN, ("lo", "hi"), open_ends=False) as relation,
        pytest.raises(PredicateError, match="r.hi IS NULL holds for no row.*open_ends=True"),
    ):
        ts.RelationJoin(relation, on)
    with (
        ts.Relation.build(tmp_path / "yes.rel", OPEN, ("lo", "hi"), open_ends=True) as relation,
        ts.RelationJoin(relation, on, "1 MB") as join,
    ):
        stream = pa.table({"x": [3, 1]})
        found = [row for b in (*join.push(stream), *join.flush()) for row in b.to_pylist()]
    assert sorted((row["x"], row["lo"] or 0, row["hi"]) for row in found) == [
        (1, 0, None),
        (1, 1, None),
        (3, 0, None),
        (3, 1, None),
        (3, 2, 5),
    ]


@pytest.mark.parametrize("on", ["l.x <> r.hi", "l.x = r.hi OR l.x = r.hi + 3"])
def test_conditions_that_are_unclear_at_an_open_end(tmp_path: Path, on: str) -> None:
    with (
        ts.Relation.build(tmp_path / "r.rel", OPEN, ("lo", "hi"), open_ends=True) as relation,
        pytest.raises(PredicateError, match="which is an open end here"),
    ):
        ts.RelationJoin(relation, on)


def test_values_that_stand_for_an_open_end(tmp_path: Path) -> None:
    table = pa.table({"lo": [1, 2], "hi": [MOST, 3]})
    with pytest.raises(DataError, match="'hi': 1 rows have the greatest value.*use NULL instead"):
        ts.Relation.build(tmp_path / "r.rel", table, ("lo", "hi"), open_ends=True)
    texts = pa.table({"lo": ["a"], "hi": ["b"]})
    with pytest.raises(OptionError, match="an interval of numbers or times; .* is of string"):
        ts.Relation.build(tmp_path / "r.rel", texts, ("lo", "hi"), open_ends=True)
    with pytest.raises(OptionError, match="open_ends=True is for intervals"):
        ts.Relation.build(tmp_path / "r.rel", table, "lo", open_ends=True)
    with pytest.raises(OptionError, match="True, False or None; got 'yes'"):
        ts.Relation.build(tmp_path / "r.rel", table, ("lo", "hi"), open_ends="yes")

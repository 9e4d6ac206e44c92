"""Spans of two key columns imply intervals, never too short ones, and only where they help."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream._jit.arrays import LEAST, MOST
from thetastream.boxes.binding import Binding, bind
from thetastream.boxes.spans import Span
from thetastream.side import Side

ANY = st.one_of(st.integers(-9, 9), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))


@given(rows=st.lists(st.tuples(ANY, ANY), min_size=1), edges=st.tuples(ANY, ANY))
def test_no_row_is_lost(rows: list[tuple[int, int]], edges: tuple[int, int]) -> None:
    apart = [beside - along for along, beside in rows]
    low, high = Span(min(apart), max(apart)).along(*(np.array([edge]) for edge in edges))
    for along, beside in rows:
        if edges[0] <= beside <= edges[1]:
            assert low[0] <= along <= high[0]


@given(rows=st.lists(st.tuples(ANY, ANY)))
def test_a_span_is_that_of_its_rows_or_none(rows: list[tuple[int, int]]) -> None:
    along, beside = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    span = Span.of(along, beside)
    if span is not None:
        apart = [row[1] - row[0] for row in rows]
        assert (span.least, span.most) == (min(apart), max(apart))
        assert 4 * (span.most - span.least) < max(along) - min(along)


def bound(on: str, rows: pa.Table) -> Binding:
    return bind(ts.Predicate.parse(on), None, dict.fromkeys(Side, rows.schema))


def spanned(on: str, rows: pa.Table) -> list[str]:
    """The fields of the right side, and what bounds them."""
    binding = bound(on, rows)
    keys = binding.keys(Side.RIGHT, rows.combine_chunks().to_batches()[0])
    return [str(field) for field in binding.spanned(Side.RIGHT, keys).fields(Side.RIGHT)]


def test_starts_and_ends_bound_each_other() -> None:
    rows = pa.table({"s": range(100), "e": range(3, 103)})
    assert spanned("l.s < r.e AND r.s < l.e", rows) == [
        "l.s < r.e, bounded by l.e > r.s",
        "l.e > r.s, bounded by l.s < r.e",
    ]


@pytest.mark.parametrize(
    ("on", "ends"),
    [
        ("l.s < r.e AND r.s < l.e", [*range(3, 102), 1000]),
        ("l.s < r.e AND r.s < l.e", [None] * 100),
        ("l.s = r.e AND abs(r.s - l.e) <= 3", range(3, 103)),
        ("l.s < r.s", range(100)),
    ],
    ids=["a long one", "NULL", "bounded already", "one column"],
)
def test_nothing_is_bounded_that_need_not_be(on: str, ends: list[int | None]) -> None:
    rows = pa.table({"s": pa.array(range(100)), "e": pa.array(ends, pa.int64())})
    assert not [field for field in spanned(on, rows) if "bounded by" in field]


def test_terms_on_one_expression_share_their_keys() -> None:
    rows = pa.table({"s": [3, 1, 2], "e": [4, 2, None]}).to_batches()[0]
    keys = bound("l.s >= r.s AND l.s < r.e", pa.table([rows["s"], rows["e"]], ["s", "e"]))
    left = keys.keys(Side.LEFT, rows)
    assert left.keys[0] is left.keys[1]
    _, ordered = left.by_key(1)
    assert ordered.keys[0] is ordered.keys[1]
    assert ordered.keys[0].tolist() == [1, 2, 3]
    assert keys.keys(Side.RIGHT, rows).null_keys == 1

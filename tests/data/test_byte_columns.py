"""Columns of strings: pairs compared where they lie, against plain Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.condition.expression import Column
from thetastream.condition.sql import parse
from thetastream.data import byte_columns
from thetastream.data.byte_columns import BytesColumn, BytesView, pair_mask
from thetastream.data.memory import bytes_of
from thetastream.data.rows import Ring
from thetastream.errors import DataError
from thetastream.side import Side

PARTS = [b"", b"a", b"b", b"\x00", b"\xff", b"abcdefgh", b"abcdefg", b"\xc3\xa9"]
VALUES = st.lists(st.sampled_from(PARTS), max_size=4).map(b"".join)
ROWS = st.lists(st.none() | VALUES, min_size=1, max_size=12)

CONDITIONS: dict[str, Callable[[bytes, bytes], bool]] = {
    "l.s = r.s": operator.eq,
    "l.s != r.s": operator.ne,
    "l.s < r.s": operator.lt,
    "l.s <= r.s": operator.le,
    "l.s > r.s": operator.gt,
    "r.s <= l.s": operator.ge,
    "starts_with(l.s, r.s)": bytes.startswith,
    "starts_with(r.s, l.s)": lambda a, b: b.startswith(a),
    "l.s < r.s OR l.s = r.s": operator.le,
    "l.s <= r.s AND l.s != r.s": operator.lt,
}


@pytest.mark.parametrize("on", CONDITIONS)
@pytest.mark.parametrize("ordered", [False, True])
@given(left=ROWS, right=ROWS, cut=st.integers(0, 5), data=st.data())
def test_pairs_are_compared(
    on: str, ordered: bool, left: list[Any], right: list[Any], cut: int, data: st.DataObject
) -> None:
    """A fresh batch with a stored column of which rows have left."""
    stored = BytesColumn(pa.binary(), 3, Ring, ordered=ordered)
    stored.append(pa.array([b"gone"] * cut + right[:2], pa.binary()))
    stored.append(pa.array(right[2:], pa.large_binary()))
    stored.expire(3 + cut)
    sides = BytesView.of(pa.array([None, *left], pa.binary())[1:]), stored.view()
    ats = st.lists(
        st.tuples(st.integers(0, len(left) - 1), st.integers(0, len(right) - 1)), max_size=20
    )
    pairs = data.draw(ats)
    ids = np.array(pairs, np.int64).reshape(-1, 2).T + np.array([[0], [3 + cut]])

    def find(column: Column) -> tuple[BytesView, Any]:
        return sides[column.side.position], np.ascontiguousarray(ids[column.side.position])

    mask = pair_mask(parse(on), find)
    assert mask is not None
    expected = [
        left[i] is not None and right[j] is not None and CONDITIONS[on](left[i], right[j])
        for i, j in pairs
    ]
    assert mask.tolist() == expected


def test_other_conditions_are_left_to_others() -> None:
    view = BytesView.of(pa.array(["a"]))
    at = np.zeros(1, np.int64)
    for text in (
        "l.s LIKE r.s",
        "upper(l.s) = r.s",
        "l.s = r.s OR l.s LIKE r.s",
        "NOT (l.s = r.s)",
    ):
        assert pair_mask(parse(text), lambda column: (view, at)) is None
    known = {Side.LEFT: (view, at), Side.RIGHT: None}
    assert pair_mask(parse("l.s = r.s"), lambda column: known[column.side]) is None


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_the_bytes_of_an_array_are_shared(kind: pa.DataType) -> None:
    words = pa.array(["x", "ab", None, "", "cde"], kind)
    for start, stop in ((0, 5), (1, 4), (2, 2), (4, 5)):
        part = words[start:stop]
        data, places = bytes_of(part)
        assert places[0] == 0
        assert len(places) == len(part) + 1
        found = [bytes(data[a:b]) for a, b in pairwise(places)]
        assert found == [
            v if isinstance(v, bytes) else (v or "").encode() for v in part.to_pylist()
        ]
    data, _ = bytes_of(pa.array(["kept alive" * 1000]))
    assert bytes(data[:10]) == b"kept alive"


def test_two_gigabytes_of_small_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of 32 bits have a limit, which is an error and no wrong answer."""
    monkeypatch.setattr(byte_columns, "_LIMIT", 5)
    ids = np.zeros(3, np.int64)
    with pytest.raises(DataError, match="more than 2 GiB together; cast .* to large_string"):
        BytesView.of(pa.array(["ab"])).take(ids)
    large = pa.array(["ab"], pa.large_string())
    assert BytesView.of(large).take(ids).to_pylist() == ["ab"] * 3

"""What stream rows ask: which values are keys, and rows that hold one that is none."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream import RelationJoin
from thetastream.data.batch import to_keys
from thetastream.errors import DataError
from thetastream.relation.join.matching import always_fits
from thetastream.schema import common_domain

from ..relation_cases import built, padded, rows_of, truth

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
STAMPS = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
TYPES = [
    *INTEGERS,
    *(pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(10, 2)),
    *(pa.date32(), pa.date64(), pa.time64("us"), pa.duration("s"), pa.duration("ns"), *STAMPS),
    *(pa.string(), pa.large_string(), pa.binary(), pa.binary(3), pa.string_view()),
]


def extremes(kind: pa.DataType) -> pa.Array:
    """The least and the greatest value of a type, some between, and a NULL."""
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return pa.array(["", "\U0010ffff", None], kind)
    if kind in (pa.binary(), pa.binary(3)):
        return pa.array([b"\x00\xff\x00", b"\xff" * 3, None], kind)
    if kind == pa.bool_():
        return pa.array([False, True, None], kind)
    if kind in (pa.float32(), pa.float64()):
        return pa.array([-np.inf, -0.0, 5e-324, np.inf, np.nan, None], kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal("-99999999.99"), Decimal("99999999.99"), None], kind)
    if kind == pa.date64():
        return pa.array([date(1, 1, 1), date(9999, 12, 31), None], kind)
    signed = not str(kind).startswith("u")
    bits = kind.bit_width
    word = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    if kind == pa.time64("us"):
        return pa.array([0, 86_399_999_999, None], pa.int64()).cast(kind)
    limits = np.iinfo(word)
    plain = pa.array(np.array([limits.min, 0, limits.max], word))
    return pa.concat_arrays([plain.view(kind), pa.nulls(1, kind)])


@given(st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_a_type_that_always_fits_has_no_value_that_does_not(
    left: pa.DataType, right: pa.DataType
) -> None:
    try:
        domain = common_domain(left, right, "key")
    except Exception:
        return
    if always_fits(left, domain):
        keys, valid = to_keys(extremes(left), domain)
        assert keys.size == len(extremes(left))
        assert valid is not None


@pytest.mark.parametrize(
    ("left", "right", "fits"),
    [
        (pa.int64(), pa.int64(), True),
        (pa.uint32(), pa.int64(), True),
        (pa.uint64(), pa.int64(), False),
        (pa.uint64(), pa.uint64(), True),
        (pa.int32(), pa.float64(), True),
        (pa.decimal128(10, 2), pa.float64(), False),
        (pa.int64(), pa.decimal128(10, 2), False),
        (pa.timestamp("s"), pa.timestamp("s"), True),
        (pa.timestamp("s"), pa.timestamp("ns"), False),
        (pa.timestamp("ns"), pa.timestamp("s"), True),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), True),
    ],
    ids=str,
)
def test_which_types_always_fit(left: pa.DataType, right: pa.DataType, fits: bool) -> None:
    assert always_fits(left, common_domain(left, right, "key")) is fits


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "too large": ("l.x = r.k", {"x": pa.array([2**63], pa.uint64())}),
    "sum": ("l.x + l.x = r.k", {"x": pa.array([2**62], pa.int64())}),
    "other term": ("l.y = r.k AND l.x < r.id", {"x": pa.array([2**63], pa.uint64())}),
    "condition": ("l.y = r.k AND l.x * 2 > 0", {"x": pa.array([2**62], pa.int64())}),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("call", ["push", "offer"])
def test_a_value_that_is_no_key_is_refused_before_anything_changes(
    tmp_path: Path, name: str, call: str
) -> None:
    on, columns = BAD[name]
    plain = padded({"k": list(range(100))})
    join = RelationJoin(built(tmp_path / "r.rel", plain), on, "1 MB")
    kind = columns["x"].type
    good = pa.table({"x": pa.array([3, 4], kind), "y": [3, 4]})
    batches = list(join.push(good))
    with pytest.raises(DataError):
        getattr(join, call)(pa.table({**columns, "y": [5]}))
    join.check()
    assert join.metrics().rows == 2
    batches += join.push(good)
    batches += join.flush()
    assert rows_of(batches) == truth(pa.concat_tables([good, good]), plain, on, "inner")


@pytest.mark.parametrize(
    "on",
    ["l.x = r.k AND l.y < r.v", "l.x = r.k AND l.y != r.v", "l.x = r.k AND l.y BETWEEN r.v AND 8"],
)
def test_terms_beside_the_key_are_checked_on_candidates(tmp_path: Path, on: str) -> None:
    rng = np.random.default_rng(7)
    plain = padded({"k": rng.integers(0, 30, 200).tolist(), "v": rng.integers(0, 9, 200).tolist()})
    rows = pa.table({"x": rng.integers(0, 30, 90), "y": rng.integers(0, 9, 90)})
    with RelationJoin(built(tmp_path / "r.rel", plain), on, "1 MB") as join:
        found = rows_of([*join.push(rows), *join.flush()])
    assert found == truth(rows, plain, on, "inner")

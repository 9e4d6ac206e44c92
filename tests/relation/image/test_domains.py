"""Intervals of compared values as intervals of stored keys."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.batch import to_keys
from thetastream.relation.image.domains import stored_interval
from thetastream.schema import common_domain

EDGES = [-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1025, 2**63 - 1]
WHOLE = st.one_of(st.sampled_from(EDGES), st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(
    st.floats(allow_nan=True), st.sampled_from([-(2.0**63), 2.0**63, 2.0**64, 0.5, -0.5, 3.0])
)
STORED = {
    "int64": (pa.int64(), WHOLE),
    "uint64": (
        pa.uint64(),
        st.one_of(st.sampled_from([0, 1, 2**53 + 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1)),
    ),
    "decimal": (
        pa.decimal128(18, 3),
        st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    ),
}


@pytest.mark.parametrize("name", STORED)
@given(data=st.data())
def test_floats(name: str, data: st.DataObject) -> None:
    kind, numbers = STORED[name]
    values = pa.array(data.draw(st.lists(numbers, min_size=1, max_size=6)), kind)
    bounds = pa.array(data.draw(st.lists(FLOATS, min_size=1, max_size=5)), pa.float64())
    _compare(values, bounds)


@pytest.mark.parametrize(
    ("kind", "other", "limit"),
    [
        (pa.date32(), pa.timestamp("s"), 10**6),
        (pa.timestamp("s"), pa.timestamp("us"), 10**6),
        (pa.int32(), pa.decimal128(12, 2), 10**4),
        (pa.decimal128(10, 1), pa.decimal128(10, 3), 10**4),
        (pa.uint64(), pa.int64(), 10**4),
        (pa.int16(), pa.int64(), 10**4),
        (pa.time32("s"), pa.time64("us"), 10**4),
    ],
    ids=str,
)
@given(data=st.data())
def test_whole_units(
    kind: pa.DataType, other: pa.DataType, limit: int, data: st.DataObject
) -> None:
    low = 0 if kind in (pa.uint64(), pa.time32("s")) else -50
    values = _units(data.draw(st.lists(st.integers(low, 50), min_size=1, max_size=6)), kind)
    least = 0 if pa.types.is_time(other) else -limit
    bounds = _units(data.draw(st.lists(st.integers(least, limit), min_size=1, max_size=6)), other)
    _compare(values, bounds)


def _units(numbers: list[int], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(n).scaleb(-kind.scale) for n in numbers], kind)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    if pa.types.is_temporal(kind):
        return pa.array(numbers, width).view(kind)
    return pa.array(numbers, kind)


def _compare(values: pa.Array, bounds: pa.Array) -> None:
    """Every value against every pair of bounds, in both domains."""
    stored = common_domain(values.type, values.type, "")
    compared = common_domain(values.type, bounds.type, "")
    own, _ = to_keys(values, stored)
    try:
        common, _ = to_keys(values, compared)
    except Exception:  # a value beyond the common domain: it may be in no interval
        assert values.type == pa.uint64()
        return
    edges = np.concatenate([to_keys(bounds, compared)[0], [-(2**63), 2**63 - 1]])
    lows, highs = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(edges, edges))
    found_low, found_high = stored_interval(stored, compared, lows, highs)
    expected = (lows <= common[:, None]) & (common[:, None] <= highs)
    found = (found_low <= own[:, None]) & (own[:, None] <= found_high)
    assert np.array_equal(found, expected)

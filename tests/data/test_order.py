"""Sorting keys: order and sorted keys, for keys near each other and far apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.order import argsorted

INT64 = np.iinfo(np.int64)
FAR = st.sampled_from([INT64.min, INT64.min + 1, -1, 0, 1, INT64.max - 1, INT64.max])


@given(st.lists(st.integers(-3, 3)) | st.lists(FAR) | st.lists(st.integers(2**61, 2**61 + 9)))
def test_order_and_sorted_keys(values: list[int]) -> None:
    keys = np.array(values, np.int64)
    keys.flags.writeable = False
    order, ascending = argsorted(keys)
    assert ascending.tolist() == sorted(values)
    assert keys[order].tolist() == ascending.tolist()
    assert sorted(order.tolist()) == list(range(len(values)))


@pytest.mark.parametrize("bits", [46, 60])
def test_many_keys_fit_into_one_number_or_not(bits: int) -> None:
    keys = np.random.default_rng(7).integers(-(1 << bits), 1 << bits, 1 << 16)
    order, ascending = argsorted(keys)
    assert np.array_equal(keys[order], ascending)
    assert np.array_equal(ascending, np.sort(keys))

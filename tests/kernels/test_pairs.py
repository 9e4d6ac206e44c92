"""Filtering pairs, against a list comprehension."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetastream.kernels import prepare
from thetastream.kernels.pairs import keep_within

prepare()

LOW, HIGH = -(2**63), 2**63 - 1
VALUES = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))


@given(
    st.lists(st.tuples(st.integers(0, 3), VALUES)),
    st.lists(st.tuples(VALUES, VALUES), min_size=4, max_size=4),
)
def test_keep_within(pairs: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    positions, rows = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    first, last = (np.array([window[i] for window in windows], np.int64) for i in (0, 1))
    kept = keep_within(positions, rows, first, last)
    found = list(zip(positions[:kept].tolist(), rows[:kept].tolist(), strict=True))
    assert found == [(p, r) for p, r in pairs if windows[p][0] <= r < windows[p][1]]

"""Filtering pairs, against a list comprehension."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.kernels.pairs import keep_inside, keep_within

from ...keys import HIGH, LOW

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


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), max_size=20),
    st.lists(st.tuples(*[st.integers(-1, 2)] * 2), min_size=8, max_size=8),
)
def test_keep_inside(pairs: list[tuple[int, int]], columns: list[tuple[int, int]]) -> None:
    """Rows 100 … 107 lie in a ring of 8; three boxes ask for two columns beside the first."""
    ids = [100 + row for _, row in pairs]
    ring = np.zeros((2, 8), np.int64)
    for row, both in enumerate(columns):
        ring[:, (100 + row) & 7] = both
    lows, highs = np.full((3, 3), 99), np.full((3, 3), -99)  # the first column is not looked at
    lows[1:], highs[1:] = [[-1, 0, 1], [0, LOW, 1]], [[2, 1, 1], [1, HIGH, 0]]
    positions, rows = (np.array(values, np.int64) for values in ([box for box, _ in pairs], ids))
    count = keep_inside(positions, rows, ring, 7, lows, highs)
    expected = [
        (box, 100 + row)
        for box, row in pairs
        if all(lows[c + 1, box] <= columns[row][c] <= highs[c + 1, box] for c in range(2))
    ]
    assert list(zip(positions[:count].tolist(), rows[:count].tolist(), strict=True)) == expected

"""Arms made disjoint, against sets of numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.boxes.kernels.arms import make_disjoint

from ...keys import HIGH, LOW

EDGE = st.one_of(st.integers(-4, 4), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
# Numbers that tell intervals with such edges apart.
PROBES = sorted({*range(-6, 7), LOW, LOW + 1, LOW + 2, HIGH - 2, HIGH - 1, HIGH})


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.lists(st.tuples(EDGE, EDGE), min_size=n, max_size=n), min_size=1, max_size=5
        )
    )
)
@example([[(LOW, HIGH), (LOW, HIGH)]])
@example([[(0, HIGH), (HIGH, HIGH), (LOW, 0)]])
@example([[(3, 1), (0, 2), (2, 1), (1, 2)]])
@example([[(0, 5), (1, 2), (4, 9)]])
def test_every_number_is_covered_once(rows: list[list[tuple[int, int]]]) -> None:
    both = np.array(rows, np.int64)
    lows = np.ascontiguousarray(both[:, :, 0].T)
    highs = np.ascontiguousarray(both[:, :, 1].T)
    make_disjoint(lows, highs)
    for i, row in enumerate(rows):
        for number in PROBES:
            before = any(low <= number <= high for low, high in row)
            after = sum(
                low <= number <= high for low, high in zip(lows[:, i], highs[:, i], strict=True)
            )
            assert after == before, (row, number)


def test_nothing_to_do() -> None:
    lows, highs = np.array([[1], [5]]), np.array([[3], [9]])
    make_disjoint(lows, highs)
    assert (lows.tolist(), highs.tolist()) == ([[1], [5]], [[3], [9]])
    empty = np.empty((2, 0), np.int64)
    make_disjoint(empty, empty)

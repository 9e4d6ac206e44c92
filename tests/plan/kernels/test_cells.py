"""Cells: floor division that never falls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.batch import float_keys
from thetastream.plan.kernels.cells import cell_ranges, cells_of_floats, cells_of_integers, quantize

from ...keys import HIGH, LOW

pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

INTEGERS = st.one_of(st.integers(-50, 50), st.integers(LOW, HIGH), st.sampled_from([LOW, HIGH]))


@given(st.lists(INTEGERS), st.one_of(st.integers(1, 9), st.integers(1, HIGH)))
def test_integers(keys: list[int], width: int) -> None:
    cells = np.empty(len(keys), np.int64)
    cells_of_integers(np.array(keys, np.int64), width, cells)
    assert cells.tolist() == [key // width for key in keys]


def cells_of(values: list[float], width: float) -> list[int]:
    cells = np.empty(len(values), np.int64)
    cells_of_floats(float_keys(np.array(values)), width, cells)
    return cells.tolist()


@given(st.lists(st.floats(-1e15, 1e15)), st.sampled_from([0.1, 0.25, 1.0, 7.5, 1e6]))
def test_floats(values: list[float], width: float) -> None:
    assert cells_of(values, width) == [math.floor(value / width) for value in values]


@given(st.lists(st.floats(), min_size=1), st.floats(5e-324, 1.7e308))
def test_floats_never_fall(values: list[float], width: float) -> None:
    numbers = sorted(value for value in values if not math.isnan(value))
    cells = cells_of([*numbers, math.nan], width)
    assert cells == sorted(cells)


def test_ends_are_held_inside_int64_and_nan_is_apart() -> None:
    found = cells_of([-math.inf, -1.7e308, -0.0, 0.0, 1.7e308, math.inf, math.nan], 1e-300)
    assert found[0] == found[1] == -found[4] == -found[5]
    assert found[2] == found[3] == 0
    assert found[6] > found[5] > 0


@given(st.lists(INTEGERS), INTEGERS, st.integers(0, 63), st.integers(1, 2**40))
def test_steps_are_held_at_the_ends(keys: list[int], base: int, shift: int, steps: int) -> None:
    found = np.empty(len(keys), np.int64)
    numbers = (np.int64(base), np.int64(shift), np.int64(steps))
    quantize(np.array(keys, np.int64), *numbers, found)
    above = [(max(key, base) - base) >> shift for key in keys]
    assert found.tolist() == [min(step, steps - 1) for step in above]


@given(
    st.lists(
        st.tuples(st.integers(-5, 5), st.integers(0, 3), INTEGERS, INTEGERS, st.booleans()),
    )
)
def test_a_range_in_every_cell(asked: list[tuple[int, int, int, int, bool]]) -> None:
    rows = [i for i, row in enumerate(asked) if row[4]]
    first = [asked[i][0] for i in rows]
    last = [asked[i][0] + asked[i][1] for i in rows]
    bottoms, tops = ([row[at] for row in asked] for at in (2, 3))
    base, shift, steps, prefixes = -40, 1, 50, 8
    expected = [
        (((cell + 4) % 8) * steps + low, ((cell + 4) % 8) * steps + high, i)
        for i, a, z in zip(rows, first, last, strict=True)
        for low, high in [
            [min((max(key, base) - base) >> shift, steps - 1) for key in (bottoms[i], tops[i])]
        ]
        for cell in range(a, z + 1)
    ]
    made = np.full((3, len(expected)), -7)
    arrays = [np.array(part, np.int64) for part in (rows, first, last, bottoms, tops)]
    fit = (np.int64(base), np.int64(shift), np.int64(steps), np.int64(prefixes))
    assert cell_ranges(*arrays, *fit, *made) == len(expected)
    assert list(zip(*made.tolist(), strict=True)) == expected

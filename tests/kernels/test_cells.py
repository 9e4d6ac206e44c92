"""Cells: floor division that never falls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.batch import float_keys
from thetastream.kernels import prepare
from thetastream.kernels.cells import cells_of_floats, cells_of_integers

pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]
prepare()

LOW, HIGH = -(2**63), 2**63 - 1
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

"""The last double whose sum stays below a bound, against trying its neighbours."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.data.batch import float_keys, keys_to_floats
from thetastream.data.kernels.floats import (
    NAN_KEY,
    NEGATIVE_INFINITY_KEY,
    POSITIVE_INFINITY_KEY,
    last_sum_at_most,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1.0, -1.0, 1e16, 5e-324, -5e-324, 1.7e308]),
)
ANY = st.one_of(FINITE, st.sampled_from([math.inf, -math.inf, math.nan]))
GUESS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))


def rank(value: float) -> tuple[bool, float]:
    """The total order: NaN above everything."""
    return (True, 0.0) if math.isnan(value) else (False, value + 0.0)


def holds(key: int, shift: float, bound: float, strict: bool) -> bool:
    total = float(keys_to_floats(np.array([key]))[0]) + shift
    return rank(total) < rank(bound) if strict else rank(total) <= rank(bound)


def last(shift: float, bound: float, strict: bool, guess: int | None = None) -> int:
    if guess is None:
        with np.errstate(all="ignore"):
            guess = int(float_keys(np.array([np.float64(bound) - shift]))[0])
    found = np.empty(1, np.int64)
    shifts, bounds = np.array([shift]), np.array([bound])
    last_sum_at_most(np.array([guess]), np.empty(1), np.empty(1), shifts, bounds, strict, found)
    return int(found[0])


@given(FINITE, ANY, st.booleans(), st.one_of(st.none(), GUESS))
@example(0.1, 0.3, False, None)
@example(1e16, 1.0, True, None)
@example(-1.7e308, math.inf, False, None)
@example(1.7e308, -math.inf, True, None)
@example(0.0, math.nan, False, 2**63 - 1)
@example(0.0, math.nan, True, -(2**63))
def test_the_last_one_holds_and_the_next_does_not(
    shift: float, bound: float, strict: bool, guess: int | None
) -> None:
    found = last(shift, bound, strict, guess)
    assert NEGATIVE_INFINITY_KEY - 1 <= found <= NAN_KEY
    # Sums never fall, so these two say it all.
    if found >= NEGATIVE_INFINITY_KEY:
        assert holds(found, shift, bound, strict)
    if found < NAN_KEY:
        assert not holds(found + 1, shift, bound, strict)


def test_nothing_is_below_minus_infinity() -> None:
    assert last(0.5, -math.inf, strict=True) == NEGATIVE_INFINITY_KEY - 1
    assert last(0.5, -math.inf, strict=False) == NEGATIVE_INFINITY_KEY


def test_everything_is_at_most_nan() -> None:
    assert last(0.5, math.nan, strict=False) == NAN_KEY
    assert last(0.5, math.nan, strict=True) == POSITIVE_INFINITY_KEY


def test_the_keys_of_the_ends() -> None:
    ends = float_keys(np.array([-math.inf, math.inf, math.nan]))
    assert ends.tolist() == [NEGATIVE_INFINITY_KEY, POSITIVE_INFINITY_KEY, NAN_KEY]

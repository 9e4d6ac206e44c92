from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.duration import Interval
from thetastream.errors import WindowError
from thetastream.side import Side
from thetastream.window import CountWindow, TimeWindow, saturating_add, saturating_multiply

from .keys import HIGH, LOW

SIDES = st.sampled_from(list(Side))
SLIDES = st.sampled_from([None, 1, 2, 3])


def held(value: int) -> int:
    return max(LOW, min(HIGH, value))


@given(st.integers(0, 40), st.integers(1, 4), st.integers(1, 4), SLIDES, SIDES)
def test_count_windows_follow_the_formula(
    count: int, left: int, right: int, slide: int | None, side: Side
) -> None:
    unit = slide or 1
    window = CountWindow((left * unit, right * unit), slide=slide)
    size = window.size(side)
    assert size == (left, right)[side.position] * unit
    oldest = window.oldest(count, side)
    for position in range(count):
        if slide is None:
            meets = position >= count - size
        else:
            meets = position // slide > (count - 1) // slide - size // slide
        assert meets == (position >= oldest)


@given(st.integers(-20, 20), st.integers(1, 4), st.integers(1, 4), SLIDES, SIDES)
def test_time_windows_follow_the_formula(
    time: int, left: int, right: int, slide: int | None, fresh: Side
) -> None:
    unit = slide or 1
    sizes = (left * unit, right * unit)
    bound = TimeWindow(sizes, time="t", slide=slide).bind(None)
    (low,), (high,) = bound.interval(np.array([time]), fresh)
    for other in range(-50, 50):
        l_time, r_time = (time, other) if fresh is Side.LEFT else (other, time)
        if slide is None:
            meets = l_time - sizes[1] <= r_time <= l_time + sizes[0]
        else:
            early, late = sorted((l_time, r_time))
            size = sizes[0] if l_time < r_time else sizes[1]
            meets = early // slide > late // slide - size // slide
        assert meets == (low <= other <= high), (other, low, high)


@given(st.integers(-20, 20), st.integers(1, 4), SLIDES, SIDES)
def test_expired_rows_meet_nothing_at_or_after_the_frontier(
    frontier: int, size: int, slide: int | None, side: Side
) -> None:
    bound = TimeWindow(size * (slide or 1), time="t", slide=slide).bind(None)
    edge = bound.expired_below(frontier, side)
    (low,), _ = bound.interval(np.array([frontier]), side.other)
    assert edge == low


@given(st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]), st.integers(1, 5), SLIDES, SIDES)
def test_time_windows_saturate_at_the_ends(
    time: int, size: int, slide: int | None, fresh: Side
) -> None:
    unit = slide or 1
    bound = TimeWindow(size * unit, time="t", slide=slide).bind(None)
    (low,), (high,) = bound.interval(np.array([time]), fresh)
    if slide is None:
        assert (low, high) == (held(time - size), held(time + size))
    else:
        slot = time // slide
        assert low == held((slot - size + 1) * slide)
        assert high in (held((slot + size) * slide - 1), HIGH - 1)


@given(st.sampled_from([LOW, -1, 0, 1, HIGH]), st.sampled_from([LOW, -5, 0, 5, HIGH]))
def test_saturating_arithmetic(value: int, amount: int) -> None:
    assert saturating_add(np.array([value]), amount)[0] == held(value + amount)
    if amount > 0:
        assert saturating_multiply(np.array([value]), amount)[0] == held(value * amount)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "at least 1"),
        ({"size": -3}, "at least 1"),
        ({"size": (1, 0)}, "at least 1"),
        ({"size": 2.0}, "whole number of rows"),
        ({"size": True}, "whole number of rows"),
        ({"size": (1, 2, 3)}, "one value or a pair"),
        ({"size": 5, "slide": 2}, "multiple of the slide"),
        ({"size": (4, 3), "slide": 2}, "multiple of the slide"),
        ({"size": 5, "slide": 0}, "at least 1"),
        ({"size": 5, "lateness": "5 s"}, "has no 'lateness'.*TimeWindow"),
        ({"size": 5, "order": ("a", "b", "c")}, "one value or a pair"),
    ],
)
def test_bad_count_windows(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WindowError, match=message):
        CountWindow(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "1 s"}, "needs the event-time column"),
        ({"size": "0 s", "time": "t"}, "must be positive"),
        ({"size": 0, "time": "t"}, "must be positive"),
        ({"size": "-1 s", "time": "t"}, "must be positive"),
        ({"size": "1 s", "time": "t", "lateness": "-1 s"}, "zero or more"),
        ({"size": "1 s", "time": "t", "lateness": 5}, "durations throughout"),
        ({"size": ("1 s", 5), "time": "t"}, "durations throughout"),
        ({"size": "soon", "time": "t"}, "cannot read 'soon'"),
        ({"size": "1 month", "time": "t"}, "no fixed length"),
        ({"size": 1.5, "time": "t"}, "must be a duration"),
        ({"size": "4 s", "time": "t", "slide": "3 s"}, "multiple of the slide"),
        ({"size": 5, "time": "t", "order": "o"}, "has no 'order'"),
        ({"size": 5, "time": ("a", "b", "c")}, "one value or a pair"),
    ],
)
def test_bad_time_windows(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WindowError, match=message):
        TimeWindow(**options)


def test_windows_are_values() -> None:
    assert CountWindow(5) == CountWindow((5, 5))
    assert hash(CountWindow(5)) == hash(CountWindow((5, 5)))
    assert CountWindow(5, order="o").order == ("o", "o")
    window = TimeWindow(("1 min", "30 s"), time=("a", "b"), lateness="5 s")
    assert window == TimeWindow(("60 s", "30 s"), time=("a", "b"), lateness="5000 ms")
    assert window.time == ("a", "b")
    assert window.in_durations
    assert not TimeWindow(5, time="t").in_durations
    assert TimeWindow("1 s", time="t").lateness == 0


def test_windows_say_what_they_are() -> None:
    assert str(CountWindow(6, slide=2)) == "count window of 6, slide 2"
    assert str(CountWindow((1, 2))) == "count window of 1 left, 2 right, exact"
    assert "10 minutes" in str(TimeWindow("10 minutes", time="t", lateness="5 s"))


def test_durations_become_key_units() -> None:
    window = TimeWindow(("2 s", "3 s"), time="t", lateness="1 s", slide="1 s")
    bound = window.bind(10**6)
    assert (bound.sizes, bound.lateness, bound.slide) == ((2000, 3000), 1000, 1000)
    with pytest.raises(WindowError, match="finer than the unit"):
        TimeWindow("1 ms", time="t").bind(10**9)
    assert TimeWindow(7, time="t").bind(None).sizes == (7, 7)
    assert window.sizes == (Interval(2 * 10**9), Interval(3 * 10**9))

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.duration import Interval


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1 ns", 1),
        ("1us", 1000),
        ("1µs", 1000),
        ("5 ms", 5 * 10**6),
        (" 5  s ", 5 * 10**9),
        ("1.5 h", 5400 * 10**9),
        ("1 hour 30 minutes", 5400 * 10**9),
        ("1 hour, 30 min", 5400 * 10**9),
        ("2 Weeks", 14 * 86_400 * 10**9),
        ("-1 d", -86_400 * 10**9),
        ("0 s", 0),
    ],
)
def test_text_is_read_exactly(text: str, nanoseconds: int) -> None:
    assert Interval.of(text).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be empty"),
        ("5", "cannot read '5'"),
        ("minutes", "cannot read"),
        ("5 parsecs", "unknown unit of time 'parsecs'"),
        ("1 month", "no fixed length"),
        ("2 years", "no fixed length"),
        ("0.1 ns", "finer than a nanosecond"),
        ("1 s and more", "cannot read"),
    ],
)
def test_bad_text_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Interval.of(text)


def test_only_text_timedeltas_and_intervals_are_durations() -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        Interval.of(5)  # type: ignore[arg-type]
    assert Interval.of(Interval(7)) == Interval(7)


@given(st.integers(-(10**20), 10**20).map(Interval))
def test_text_round_trips(interval: Interval) -> None:
    assert Interval.of(str(interval)) == interval
    assert (-interval).nanoseconds == -interval.nanoseconds


@given(st.timedeltas())
def test_timedeltas_are_exact(length: timedelta) -> None:
    assert Interval.of(length).nanoseconds == length // timedelta(microseconds=1) * 1000


def test_intervals_have_an_order() -> None:
    assert Interval.of("59 s") < Interval.of("1 min") < Interval.of("61 s")

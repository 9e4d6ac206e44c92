"""Durations: text, timedelta or nanoseconds as one exact value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

_UNITS: dict[str, int] = {
    "nanosecond": 1,
    "microsecond": 10**3,
    "millisecond": 10**6,
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": 3600 * 10**9,
    "day": 86400 * 10**9,
    "week": 7 * 86400 * 10**9,
}
_SHORT: dict[str, str] = {
    "ns": "nanosecond",
    "us": "microsecond",
    "µs": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*,?")


@dataclass(frozen=True, order=True, slots=True)
class Interval:
    """An exact length of time, in nanoseconds.

    >>> Interval.of("1 hour 30 minutes") == Interval.of("90 min")
    True
    >>> str(Interval.of("1500 ms"))
    '1500 milliseconds'
    """

    nanoseconds: int

    @classmethod
    def of(cls, value: str | timedelta | Interval) -> Interval:
        """Parse text such as ``10 minutes``, or convert a timedelta.

        Raises a ValueError that shows the accepted forms.
        """
        if isinstance(value, Interval):
            return value
        if isinstance(value, timedelta):
            seconds = value.days * 86400 + value.seconds
            return cls(seconds * 10**9 + value.microseconds * 1000)
        return cls(_parse(value))

    @classmethod
    def unit(cls, name: str) -> int:
        """Nanoseconds of one unit; ValueError for months and other units without a fixed length."""
        word = name.lower()
        word = _SHORT.get(word, word)
        if word.endswith("s") and word[:-1] in _UNITS:
            word = word[:-1]
        if word in _UNITS:
            return _UNITS[word]
        if word.rstrip("s") in ("month", "year", "quarter", "mon"):
            raise ValueError(f"{name!r} has no fixed length; write it in days or smaller units")
        raise ValueError(f"unknown unit of time {name!r}; use one of {', '.join(_UNITS)}")

    def __neg__(self) -> Interval:
        return Interval(-self.nanoseconds)

    def __str__(self) -> str:
        if not self.nanoseconds:
            return "0 seconds"
        for name, size in reversed(_UNITS.items()):
            if self.nanoseconds % size == 0:
                count = self.nanoseconds // size
                return f"{count} {name}{'' if abs(count) == 1 else 's'}"
        raise AssertionError("unreachable: every count is a multiple of one nanosecond")


def _parse(text: str) -> int:
    if not isinstance(text, str):
        raise ValueError(
            f"expected a duration such as '10 minutes' or a timedelta, got {text!r} "
            f"({type(text).__name__})"
        )
    total, at = Fraction(0), 0
    while at < len(text.rstrip()):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(
                f"cannot read {text!r} as a duration; write for example '10 minutes', '5 s' or "
                "'1 hour 30 minutes'"
            )
        total += Fraction(part.group(1)) * Interval.unit(part.group(2))
        at = part.end()
    if at == 0:
        raise ValueError("a duration cannot be empty; write for example '10 minutes'")
    if total.denominator != 1:
        raise ValueError(f"{text!r} is finer than a nanosecond")
    return int(total)

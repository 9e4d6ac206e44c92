"""Dates and timestamps as people write them: ``2024-01-31``, ``2024-01-31 08:15:00.5+01:00``."""

from __future__ import annotations

import re
from datetime import date, datetime

_DATE = re.compile(r"\s*(\d{4}-\d\d-\d\d)\s*")
_TIME = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?"
    r"\s*(Z|UTC|[+-]\d\d(?::?\d\d)?)?\s*",
    re.IGNORECASE,
)


def read_date(text: str) -> date:
    """A date; ValueError for anything else.

    >>> read_date("2024-02-29")
    datetime.date(2024, 2, 29)
    """
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a date; write it as '2024-01-31'")
    try:
        return date.fromisoformat(parts[1])
    except ValueError as error:
        raise ValueError(f"{text!r} is not a date: {error}") from None


def read_timestamp(text: str) -> datetime:
    """A timestamp, without a zone or with its offset; a date is midnight.

    >>> read_timestamp("2024-02-29 08:15:00.5")
    datetime.datetime(2024, 2, 29, 8, 15, 0, 500000)
    """
    if _DATE.fullmatch(text):
        day = read_date(text)
        return datetime(day.year, day.month, day.day)
    parts = _TIME.fullmatch(text)
    if parts is None:
        raise ValueError(
            f"{text!r} is not a timestamp; write it as '2024-01-31 08:15:00', with '+01:00' or 'Z' "
            "added for a time zone"
        )
    day_text, clock, fraction, zone = parts.groups()
    digits = (fraction or "0").ljust(9, "0")
    if digits[6:].strip("0"):
        raise ValueError(f"{text!r} is finer than a microsecond")
    offset = "+00:00" if zone and zone.upper() in ("Z", "UTC") else zone or ""
    try:
        return datetime.fromisoformat(f"{day_text} {_seconds(clock)}.{digits[:6]}{offset}")
    except ValueError as error:
        raise ValueError(f"{text!r} is not a timestamp: {error}") from None


def read_time(text: str) -> date:
    """A date, or a timestamp."""
    return read_date(text) if _DATE.fullmatch(text) else read_timestamp(text)


def _seconds(clock: str) -> str:
    return clock if clock.count(":") == 2 else clock + ":00"

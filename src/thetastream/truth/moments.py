"""Moments: dates and times as whole nanoseconds, and what CAST makes of a value.

Part of the oracle, and as plain: it knows values of one row, no arrays. Zones are UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from thetastream.condition.times import read_time, read_timestamp

DAY = 86_400 * 10**9


class Moment(NamedTuple):
    """A date, time, timestamp or duration in nanoseconds."""

    nanoseconds: int
    is_date: bool = False


def cast_value(value: Any, name: str) -> Any:
    """CAST between the kinds of values that this oracle knows, without their sizes."""
    if name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        at = read_timestamp(value) if isinstance(value, str) else value
        nanoseconds = moment_of(at).nanoseconds
        is_date = name == "DATE"
        return Moment(nanoseconds // DAY * DAY if is_date else nanoseconds, is_date)
    if name == "BOOLEAN":
        return bool(value)
    if name == "STRING":
        return str(value)
    if name in ("FLOAT", "DOUBLE"):
        return float(value)
    if name.startswith("DECIMAL"):
        scale = int(name.partition(",")[2].strip(") ") or 0)
        return Decimal(value).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return int(value)


def moment_of(value: Any) -> Moment:
    """A literal date or time as whole nanoseconds; zones are UTC."""
    if isinstance(value, Moment):
        return value
    is_date = not isinstance(value, datetime)
    whole = datetime(value.year, value.month, value.day) if is_date else value
    since = whole.replace(tzinfo=whole.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return Moment(
        (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000, is_date
    )


def read_text(a: Any, b: Any) -> tuple[Any, Any]:
    """A string that is compared with a date or timestamp is one."""
    if isinstance(a, str) and isinstance(b, Moment):
        return moment_of(read_time(a)), b
    if isinstance(b, str) and isinstance(a, Moment):
        return a, moment_of(read_time(b))
    return a, b

"""What the functions of a condition mean: plain Python over the values of one row.

Numbers are floats, whole numbers ints; times are ``(nanoseconds since 1970, whether it is a date)``
pairs. No argument is NULL: a NULL argument makes the result NULL. A result of None is NULL.
Floating functions are those of the C library, as in Arrow; where Python raises instead of
returning infinity or NaN, the value of C is returned.
"""

# ruff: noqa: D103 -- functions.py describes each of them

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

_DAY = 86_400 * 10**9
_NAN, _INF = math.nan, math.inf

Time = tuple[int, bool]


def _c(function: Callable[[float], float]) -> Callable[[Any], float]:
    """A function of the C library: NaN instead of a ValueError, infinity instead of an overflow."""

    def call(x: Any) -> float:
        try:
            return function(float(x))
        except ValueError:
            return _NAN
        except OverflowError:
            return -_INF if x < 0 and function is math.sinh else _INF

    return call


def _above(least: float, function: Callable[[float], float]) -> Callable[[Any], float | None]:
    """A logarithm: NULL for arguments that are not above ``least``."""
    return lambda x: None if x <= least else function(float(x))


sin, cos, tan = _c(math.sin), _c(math.cos), _c(math.tan)
asin, acos, atan = _c(math.asin), _c(math.acos), _c(math.atan)
sinh, cosh, tanh = _c(math.sinh), _c(math.cosh), _c(math.tanh)
asinh, acosh = _c(math.asinh), _c(math.acosh)
sqrt, exp, expm1 = _c(math.sqrt), _c(math.exp), _c(math.expm1)
ln, log2, log10 = _above(0, math.log), _above(0, math.log2), _above(0, math.log10)
log1p = _above(-1, math.log1p)


def atanh(x: Any) -> float:
    """±infinity at ±1."""
    return math.copysign(_INF, x) if abs(x) == 1 else _c(math.atanh)(x)


def atan2(y: Any, x: Any) -> float:
    return math.atan2(float(y), float(x))


def log(base: Any, x: Any) -> float | None:
    """The quotient of two natural logarithms."""
    above, below = ln(x), ln(base)
    if above is None or below is None:
        return None
    if below == 0:
        return _NAN if above == 0 or math.isnan(above) else math.copysign(_INF, above)
    return above / below


def power(x: Any, y: Any) -> float:
    """A square is a product, as in Spark."""
    base, exponent = float(x), float(y)
    if exponent == 2:
        return base * base
    odd = exponent.is_integer() and exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -_INF if base < 0 and odd else _INF
    except ValueError:
        if base != 0:
            return _NAN
        return math.copysign(_INF, base) if odd else _INF


def degrees(x: Any) -> float:
    return float(x) * (180.0 / math.pi)


def radians(x: Any) -> float:
    return float(x) * (math.pi / 180.0)


def pi() -> float:
    return math.pi


def e() -> float:
    return math.e


def sign(x: Any) -> float:
    value = float(x)
    return value if math.isnan(value) else float((value > 0) - (value < 0))


def rounded(x: Any, digits: int = 0) -> Any:
    """Halves away from zero. A float is scaled, rounded and scaled back."""
    if isinstance(x, int):
        return x
    if isinstance(x, Decimal):
        coarser = int(x.as_tuple().exponent) < -digits
        return x.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) if coarser else x
    if not math.isfinite(x):
        return x
    scaled = x * 10.0**digits
    if not math.isfinite(scaled) or scaled == math.floor(scaled):
        return x
    whole = math.floor(abs(scaled))
    nearest = math.copysign(float(whole + (abs(scaled) - whole >= 0.5)), scaled)
    return nearest / 10.0**digits


# --- Strings ------------------------------------------------------------------------------------


def octet_length(text: str) -> int:
    return len(text.encode())


def trim(text: str) -> str:
    return text.strip(" ")


def ltrim(text: str) -> str:
    return text.lstrip(" ")


def rtrim(text: str) -> str:
    return text.rstrip(" ")


def reverse(text: str) -> str:
    return text[::-1]


def substring(text: str, place: int, length: int | None = None) -> str:
    """As in Spark: place 0 is the first character too, a negative one counts from the end."""
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    end = len(text) if length is None else max(0, start + length)
    return text[max(0, start) : end]


def first(text: str, count: int) -> str:
    return text[: max(0, count)]


def last(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def repeat(text: str, count: int) -> str:
    return text * count


def replace(text: str, old: str, new: str) -> str:
    """An empty string is replaced nowhere."""
    return text.replace(old, new) if old else text


def starts_with(text: str, start: str) -> bool:
    return text.startswith(start)


def ends_with(text: str, end: str) -> bool:
    return text.endswith(end)


def contains(text: str, part: str) -> bool:
    return part in text


# --- Times --------------------------------------------------------------------------------------


def _civil(time: Time) -> tuple[int, int, int]:
    """Year, month and day of the proleptic Gregorian calendar, for any year."""
    days = time[0] // _DAY + 719_468  # since 0000-03-01
    era, of_era = divmod(days, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year_of_era + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970; the inverse of ``_civil``."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def year(time: Time) -> int:
    return _civil(time)[0]


def quarter(time: Time) -> int:
    return (_civil(time)[1] + 2) // 3


def month(time: Time) -> int:
    return _civil(time)[1]


def day(time: Time) -> int:
    return _civil(time)[2]


def weekday(time: Time) -> int:
    return (time[0] // _DAY + 3) % 7


def day_of_week(time: Time) -> int:
    return (weekday(time) + 1) % 7 + 1


def day_of_year(time: Time) -> int:
    return time[0] // _DAY - _days(year(time), 1, 1) + 1


def week(time: Time) -> int:
    """The ISO week: that of the Thursday of the same week."""
    thursday = (time[0] // _DAY - weekday(time) + 3) * _DAY, True
    return (day_of_year(thursday) - 1) // 7 + 1


def hour(time: Time) -> int:
    return time[0] % _DAY // (3600 * 10**9)


def minute(time: Time) -> int:
    return time[0] // (60 * 10**9) % 60


def second(time: Time) -> int:
    return time[0] // 10**9 % 60


def datediff(end: Time, start: Time) -> int:
    return end[0] // _DAY - start[0] // _DAY


def unix_seconds(time: Time) -> int:
    return time[0] // 10**9


def unix_millis(time: Time) -> int:
    return time[0] // 10**6


def unix_micros(time: Time) -> int:
    return time[0] // 10**3

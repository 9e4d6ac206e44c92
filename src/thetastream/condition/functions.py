"""The table of functions: what a condition may call, beside its operators.

One entry per function: its names, the kinds of its arguments, a line for the documentation, and
what it means, as plain Python over one row's values (``meaning.py``). The parser, the evaluation
over Arrow arrays (``data/functions.py``), the folding of constants, the oracle, the documentation
and the tests all read this table.

In Python, every function is an attribute of this module: ``functions.sin(left.x)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from thetastream.condition import meaning
from thetastream.condition.expression import Call, Expression, Function, Literal, literal
from thetastream.errors import PredicateError, suggest


@dataclass(frozen=True, slots=True)
class Entry:
    """A function of the table.

    ``takes`` names the arguments by kind, optional ones in brackets: ``number``, ``whole``,
    ``text``, ``time``, ``constant`` (a literal of any of these) or ``any``. ``arrow`` is Arrow's
    function over the same arguments, if that is all there is to do. ``meaning`` is None where the
    values' own types decide (``ABS``, ``COALESCE``).
    """

    function: Function
    takes: str
    summary: str
    example: str
    meaning: Callable[..., Any] | None = None
    arrow: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in SQL text."""
        return self.function.value

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of all arguments."""
        return tuple(word.strip("[].") for word in self.takes.split())

    @property
    def least(self) -> int:
        """The smallest number of arguments."""
        return sum(not word.startswith("[") for word in self.takes.split())

    @property
    def most(self) -> int | None:
        """The largest number of arguments; None if there is no limit."""
        return None if self.takes.endswith("...") else len(self.kinds)

    def kind(self, at: int) -> str:
        """The kind of an argument."""
        return self.kinds[min(at, len(self.kinds) - 1)]

    def refusal(self, count: int) -> str:
        """Why this many arguments are wrong; empty if they are not."""
        if self.least <= count and (self.most is None or count <= self.most):
            return ""
        if self.function is Function.LOG:
            return "LOG takes 2 arguments, LOG(base, x); write LN(x) or LOG10(x) for one"
        wanted = f"{self.least}" if self.most == self.least else f"{self.least} to {self.most}"
        wanted = f"at least {self.least}" if self.most is None else wanted
        plural = "" if wanted == "1" else "s"
        return f"{self.name} takes {wanted} argument{plural}; got {count}"


def _real(name: Function, arrow: str, summary: str, of: Callable[..., Any], *also: str) -> Entry:
    """A function of one number."""
    return Entry(name, "number", summary, f"{name.value}(l.x)", of, arrow, also)


F = Function
_ENTRIES = (
    Entry(F.ABS, "any", "the absolute value of a number or an interval", "ABS(l.x)"),
    _real(F.SIGN, "sign", "-1, 0 or 1", meaning.sign, "SIGNUM"),
    Entry(F.FLOOR, "number", "the largest whole number that is not above", "FLOOR(l.x)"),
    Entry(
        F.CEIL,
        "number",
        "the smallest whole number that is not below",
        "CEIL(l.x)",
        aliases=("CEILING",),
    ),
    Entry(
        F.ROUND,
        "number [constant]",
        "rounded to 0 to 15 decimal places (by default 0), halves away from zero",
        "ROUND(l.x, 2)",
        meaning.rounded,
    ),
    Entry(
        F.SQRT, "number", "the square root; NaN for a negative number", "SQRT(l.x)", meaning.sqrt
    ),
    _real(F.EXP, "exp", "e to the power of x", meaning.exp),
    _real(F.EXPM1, "expm1", "EXP(x) - 1, exact for small x", meaning.expm1),
    Entry(
        F.POWER,
        "number number",
        "x to the power of y",
        "POWER(l.x, 2)",
        meaning.power,
        aliases=("POW",),
    ),
    _real(F.LN, "ln", "the natural logarithm; NULL for x <= 0", meaning.ln),
    _real(F.LOG2, "log2", "the logarithm to base 2; NULL for x <= 0", meaning.log2),
    _real(F.LOG10, "log10", "the logarithm to base 10; NULL for x <= 0", meaning.log10),
    _real(F.LOG1P, "log1p", "LN(1 + x), exact for small x; NULL for x <= -1", meaning.log1p),
    Entry(
        F.LOG,
        "number number",
        "LOG(base, x): the logarithm of x; NULL if base or x is <= 0",
        "LOG(3, l.x)",
        meaning.log,
    ),
    _real(F.SIN, "sin", "the sine of an angle in radians", meaning.sin),
    _real(F.COS, "cos", "the cosine", meaning.cos),
    _real(F.TAN, "tan", "the tangent", meaning.tan),
    _real(F.ASIN, "asin", "the arc sine; NaN outside -1 to 1", meaning.asin),
    _real(F.ACOS, "acos", "the arc cosine; NaN outside -1 to 1", meaning.acos),
    _real(F.ATAN, "atan", "the arc tangent", meaning.atan),
    Entry(
        F.ATAN2,
        "number number",
        "the angle of the point (x, y): ATAN2(y, x)",
        "ATAN2(l.x, l.y)",
        meaning.atan2,
        "atan2",
    ),
    _real(F.SINH, "sinh", "the hyperbolic sine", meaning.sinh),
    _real(F.COSH, "cosh", "the hyperbolic cosine", meaning.cosh),
    _real(F.TANH, "tanh", "the hyperbolic tangent", meaning.tanh),
    _real(F.ASINH, "asinh", "the inverse hyperbolic sine", meaning.asinh),
    _real(F.ACOSH, "acosh", "the inverse hyperbolic cosine; NaN below 1", meaning.acosh),
    _real(F.ATANH, "atanh", "the inverse hyperbolic tangent; NaN outside -1 to 1", meaning.atanh),
    _real(F.DEGREES, "", "radians as degrees", meaning.degrees),
    _real(F.RADIANS, "", "degrees as radians", meaning.radians),
    Entry(F.PI, "", "the number π", "PI()", meaning.pi),
    Entry(F.E, "", "the number e", "E()", meaning.e),
    Entry(F.LEAST, "any any...", "the smallest argument; NULLs are skipped", "LEAST(l.x, l.y)"),
    Entry(
        F.GREATEST, "any any...", "the largest argument; NULLs are skipped", "GREATEST(l.x, l.y)"
    ),
    Entry(
        F.COALESCE,
        "any any...",
        "the first argument that is not NULL",
        "COALESCE(l.x, 0)",
        aliases=("IFNULL", "NVL"),
    ),
    Entry(F.LOWER, "text", "in lower case", "LOWER(l.s)", aliases=("LCASE",)),
    Entry(F.UPPER, "text", "in upper case", "UPPER(l.s)", aliases=("UCASE",)),
    Entry(
        F.LENGTH,
        "text",
        "the number of characters",
        "LENGTH(l.s)",
        aliases=("LEN", "CHAR_LENGTH", "CHARACTER_LENGTH"),
    ),
    Entry(
        F.OCTET_LENGTH,
        "text",
        "the number of bytes in UTF-8",
        "OCTET_LENGTH(l.s)",
        meaning.octet_length,
        "binary_length",
    ),
    Entry(F.CONCAT, "text text...", "all strings in a row, as with ||", "CONCAT(l.s, '-', l.s)"),
    Entry(F.TRIM, "text", "without spaces at both ends", "TRIM(l.s)", meaning.trim),
    Entry(F.LTRIM, "text", "without spaces at the start", "LTRIM(l.s)", meaning.ltrim),
    Entry(F.RTRIM, "text", "without spaces at the end", "RTRIM(l.s)", meaning.rtrim),
    Entry(
        F.REVERSE,
        "text",
        "the characters in reverse order",
        "REVERSE(l.s)",
        meaning.reverse,
        "utf8_reverse",
    ),
    Entry(
        F.SUBSTRING,
        "text whole [whole]",
        "the characters from a place (1 is the first, -1 the last), at most a given number",
        "SUBSTRING(l.s, 2, 3)",
        meaning.substring,
        aliases=("SUBSTR",),
    ),
    Entry(F.LEFT, "text whole", "the first characters", "LEFT(l.s, 2)", meaning.first),
    Entry(F.RIGHT, "text whole", "the last characters", "RIGHT(l.s, 2)", meaning.last),
    Entry(F.REPEAT, "text whole", "the string, repeated", "REPEAT(l.s, 2)", meaning.repeat),
    Entry(
        F.REPLACE,
        "text text text",
        "every occurrence of the second replaced by the third",
        "REPLACE(l.s, 'a', 'bc')",
        meaning.replace,
    ),
    Entry(
        F.STARTS_WITH,
        "text text",
        "whether it begins with the second; also for binary",
        "STARTSWITH(l.s, 'a')",
        meaning.starts_with,
        aliases=("STARTS_WITH",),
    ),
    Entry(
        F.ENDS_WITH,
        "text text",
        "whether it ends with the second; also for binary",
        "ENDSWITH(l.s, 'a')",
        meaning.ends_with,
        aliases=("ENDS_WITH",),
    ),
    Entry(
        F.CONTAINS,
        "text text",
        "whether the second occurs in it; also for binary",
        "CONTAINS(l.s, 'a')",
        meaning.contains,
    ),
    Entry(F.YEAR, "time", "the year", "YEAR(l.t)", meaning.year, "year"),
    Entry(F.QUARTER, "time", "the quarter, 1 to 4", "QUARTER(l.t)", meaning.quarter, "quarter"),
    Entry(F.MONTH, "time", "the month, 1 to 12", "MONTH(l.t)", meaning.month, "month"),
    Entry(
        F.WEEK,
        "time",
        "the ISO week, 1 to 53",
        "WEEKOFYEAR(l.t)",
        meaning.week,
        "iso_week",
        ("WEEK",),
    ),
    Entry(F.DAY, "time", "the day of the month", "DAY(l.t)", meaning.day, "day", ("DAYOFMONTH",)),
    Entry(
        F.DAYOFWEEK, "time", "1 for Sunday to 7 for Saturday", "DAYOFWEEK(l.t)", meaning.day_of_week
    ),
    Entry(
        F.WEEKDAY,
        "time",
        "0 for Monday to 6 for Sunday",
        "WEEKDAY(l.t)",
        meaning.weekday,
        "day_of_week",
    ),
    Entry(
        F.DAYOFYEAR,
        "time",
        "the day of the year, 1 to 366",
        "DAYOFYEAR(l.t)",
        meaning.day_of_year,
        "day_of_year",
    ),
    Entry(F.HOUR, "time", "the hour, 0 to 23", "HOUR(l.t)", meaning.hour, "hour"),
    Entry(F.MINUTE, "time", "the minute", "MINUTE(l.t)", meaning.minute, "minute"),
    Entry(F.SECOND, "time", "the whole second", "SECOND(l.t)", meaning.second, "second"),
    Entry(
        F.DATEDIFF,
        "time time",
        "days from the second to the first",
        "DATEDIFF(l.t, l.u)",
        meaning.datediff,
        aliases=("DATE_DIFF",),
    ),
    Entry(
        F.UNIX_SECONDS,
        "time",
        "whole seconds since 1970",
        "UNIX_SECONDS(l.t)",
        meaning.unix_seconds,
    ),
    Entry(
        F.UNIX_MILLIS,
        "time",
        "whole milliseconds since 1970",
        "UNIX_MILLIS(l.t)",
        meaning.unix_millis,
    ),
    Entry(
        F.UNIX_MICROS,
        "time",
        "whole microseconds since 1970",
        "UNIX_MICROS(l.t)",
        meaning.unix_micros,
    ),
)

TABLE: dict[Function, Entry] = {entry.function: entry for entry in _ENTRIES}
"""All functions, in the order of the documentation."""

_BY_NAME = {name: entry for entry in _ENTRIES for name in (entry.name, *entry.aliases)}
_OWN = ("OVERLAPS", "IF", "CAST", "EXTRACT", "MOD")


_INSTEAD = {
    "HAVERSINE ST_DISTANCE DISTANCE": "Write the distance out, as docs/functions.md does",
    "NOW CURRENT_DATE CURRENT_TIMESTAMP": "Compare with a constant, or use a time window",
    "MIN": "Write LEAST",
    "MAX": "Write GREATEST",
    "TRUNC TRUNCATE": "Write CAST(x AS BIGINT)",
    "STRLEN": "Write LENGTH",
    "TO_DATE": "Write CAST(x AS DATE)",
    "TO_TIMESTAMP": "Write CAST(x AS TIMESTAMP)",
    "DATEADD DATE_ADD": "Add an INTERVAL to a time, or whole days to a date",
}
"""What to write instead of functions of other dialects."""


def named(name: str) -> Entry | None:
    """The entry of a name, in any case; None if there is none."""
    return _BY_NAME.get(name.upper())


def unknown(name: str) -> str:
    """The message about a function that does not exist."""
    instead = next((words for words in _INSTEAD if name.upper() in words.split()), "")
    hint = f" {_INSTEAD[instead]}." if instead else suggest(name.upper(), [*_BY_NAME, *_OWN], 0.7)
    return (
        f"the function {name} is not supported.{hint} The functions are listed in "
        "docs/functions.md; one of your own can be passed as residual="
    )


def overlaps(start: Any, end: Any, other_start: Any, other_end: Any) -> Expression:
    """Whether two closed intervals share a point; one that ends before it begins shares none.

    >>> from thetastream.condition.expression import left, right
    >>> str(overlaps(left.s, left.e, right.s, right.e))
    'l.s <= l.e AND r.s <= r.e AND l.s <= r.e AND r.s <= l.e'
    """
    a, b, c, d = map(literal, (start, end, other_start, other_end))
    return (a <= b) & (c <= d) & (a <= d) & (c <= b)


def contains(start: Any, end: Any, value: Any = None) -> Expression:
    """Whether a closed interval contains a value; with two arguments, whether a string does."""
    if value is None:
        return Call(Function.CONTAINS, (literal(start), literal(end)))
    low, high, inner = map(literal, (start, end, value))
    return (low <= inner) & (inner <= high)


CASTS = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("BOOLEAN", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
)
"""The types that CAST takes; DECIMAL with precision and scale."""


def cast(value: Any, kind: str) -> Expression:
    """``CAST(value AS kind)``; the kind is a name of SQL, such as BIGINT or DECIMAL(9, 2).

    >>> from thetastream.condition.expression import left
    >>> str(cast(left.x, "bigint"))
    'CAST(l.x AS BIGINT)'
    """
    name = kind.upper().split("(")[0].strip()
    if name not in CASTS:
        raise PredicateError(
            f"CAST takes the types {', '.join(CASTS)}; got {kind}.{suggest(name, CASTS)}"
        )
    return Call(Function.CAST, (literal(value), Literal(kind.upper())))


def __getattr__(name: str) -> Callable[..., Expression]:
    entry = None if name.startswith("_") else named(name)
    if entry is None:
        raise AttributeError(
            f"thetastream.functions has no {name!r}.{suggest(name.upper(), _BY_NAME)}"
        )

    def call(*args: Any) -> Expression:
        if refusal := entry.refusal(len(args)):
            raise PredicateError(refusal)
        return Call(entry.function, tuple(map(literal, args)))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{entry.example}: {entry.summary}."
    return call

"""Sizes and durations of windows: parsing, checks, and arithmetic without overflow."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thetastream.duration import Interval
from thetastream.errors import WindowError

Array = NDArray[np.int64]
Length = str | timedelta | Interval | int
T = TypeVar("T")

MIN, MAX = -(2**63), 2**63 - 1


def pair(value: T | tuple[T, T], what: str) -> tuple[T, T]:
    """Accept one value, or a pair ``(left, right)``."""
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise WindowError(f"{what} must be one value or a pair (left, right); got {value!r}")
        return value[0], value[1]
    return value, value


def read_length(value: Length, what: str, least: int = 1) -> Interval | int:
    """A duration, or a whole number for integer time columns; at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, str | timedelta | Interval | int):
        raise WindowError(
            f"the {what} of a time window must be a duration such as '10 minutes', a timedelta, or "
            f"a whole number for integer time columns; got {value!r}"
        )
    try:
        length = value if isinstance(value, int) else Interval.of(value)
    except ValueError as error:
        raise WindowError(f"the {what} of a time window: {error}") from None
    if plain(length) < least:
        raise WindowError(
            f"the {what} of a time window must be {'positive' if least else 'zero or more'}; "
            f"got {value!r}"
        )
    return length


def plain(value: Interval | int) -> int:
    """A length as a number."""
    return value.nanoseconds if isinstance(value, Interval) else value


def whole(value: object, what: str) -> None:
    """Raise for anything but a positive whole number of rows."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise WindowError(f"{what} must be a whole number of rows; got {value!r}")
    if value < 1:
        raise WindowError(f"{what} must be at least 1; got {value}")


def multiple(sizes: tuple[int, ...], slide: int) -> None:
    """Raise for a size that is not a multiple of the slide."""
    if any(size % slide for size in sizes):
        raise WindowError(f"the size must be a multiple of the slide; got sizes {sizes}, {slide}")


def refuse(unknown: dict[str, object], kind: str, why: str) -> None:
    """Raise for unknown options of a window."""
    if unknown:
        raise WindowError(f"{kind} has no {', '.join(map(repr, unknown))}: {why}")


def text(kind: str, sizes: tuple[object, object], slide: object, note: str) -> str:
    """The description of a window."""
    size = str(sizes[0]) if sizes[0] == sizes[1] else f"{sizes[0]} left, {sizes[1]} right"
    parts = [f"{kind} window of {size}", f"slide {slide}" if slide else "exact", note]
    return ", ".join(part for part in parts if part)


def saturating_add(values: Array, amount: int) -> Array:
    """``values + amount``, clamped to int64.

    >>> saturating_add(np.array([2**63 - 1, 5]), 10).tolist()
    [9223372036854775807, 15]
    """
    if not MIN <= amount <= MAX:
        part = MAX if amount > 0 else MIN
        if abs(amount) >= 2**64:
            return np.full_like(values, part)
        return saturating_add(saturating_add(values, part), amount - part)
    step = np.int64(amount)
    if amount >= 0:
        return np.minimum(values, np.int64(MAX - amount)) + step
    return np.maximum(values, np.int64(MIN - amount)) + step


def saturating_multiply(values: Array, factor: int) -> Array:
    """``values * factor`` for a positive factor, clamped to int64."""
    top = MAX // factor
    products = np.clip(values, -top, top) * np.int64(factor)
    return np.where(values > top, MAX, np.where(values < -top, MIN, products)).astype(np.int64)

"""Checks of options. Each error says what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from numbers import Integral, Real
from typing import Any, TypeVar

from thetastream.errors import OptionError, suggest

Choice = TypeVar("Choice", bound=Enum)


def read_choice(kind: type[Choice], name: str, value: Any) -> Choice:
    """Read a member of an enum: the member itself, or its name in any case."""
    if isinstance(value, kind):
        return value
    known = [member.value for member in kind]
    if isinstance(value, str) and value.lower() in known:
        return kind(value.lower())
    raise unknown(name, value, known)


def unknown(name: str, value: Any, known: Iterable[str]) -> OptionError:
    """Build the error for a word that is not among the known ones."""
    words = list(known)
    hint = suggest(value, words) if isinstance(value, str) else ""
    return OptionError(f"{name} must be one of {', '.join(words)}; got {value!r}.{hint}")


def read_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Read a whole number within its limits, NumPy's included; booleans are not numbers."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise OptionError(f"{name} must be a whole number {limits}; got {value!r}")
    return int(value)


def read_number(name: str, value: Any) -> float:
    """Read a number; booleans are not numbers."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionError(f"{name} must be a number; got {value!r}")
    return float(value)


def read_flag(name: str, value: Any) -> bool:
    """Read True or False; other values do not stand for them."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False; got {value!r}")
    return value


def read_text(name: str, value: Any) -> str:
    """Read text."""
    if not isinstance(value, str):
        raise OptionError(f"{name} must be text; got {value!r}")
    return value


def read_columns(value: Any) -> tuple[str, ...] | None:
    """Read ``columns=``: names of output columns, or None for all of them."""
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise OptionError(
            f"columns must be a list of names of output columns, or None for all; got {value!r}"
        )
    names = tuple(value)
    if not names:
        raise OptionError("columns must name at least one output column, or be None for all")
    for name in names:
        if not isinstance(name, str):
            raise OptionError(f"columns must be names of output columns; got {name!r} among them")
    return names

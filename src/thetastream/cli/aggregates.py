"""Aggregates as words of the command line: ``n=count``, ``avg=mean(r.speed)``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from thetastream.errors import SchemaError

__all__ = ["read_options"]

_FORM = re.compile(r"\s*([^=]+?)\s*=\s*(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*")


def read_options(texts: Sequence[str] | None) -> dict[str, str | tuple[str, str]] | None:
    """What ``aggregate=`` of a join takes; None without any.

    >>> read_options(["n=count", "avg = mean(r.speed)"])
    {'n': 'count', 'avg': ('r.speed', 'mean')}
    """
    if not texts:
        return None
    found: dict[str, str | tuple[str, str]] = {}
    for text in texts:
        parts = _FORM.fullmatch(text)
        if parts is None:
            raise SchemaError(
                "--aggregate takes NAME=FUNCTION(r.COLUMN), such as avg=mean(r.speed), or "
                f"NAME=count; got {text!r}"
            )
        name, function, column = parts.groups()
        if name in found:
            raise SchemaError(f"two aggregates are called {name!r}; choose another name")
        found[name] = function if column in (None, "", "*") else (column, function)
    return found

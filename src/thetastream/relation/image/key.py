"""The columns of a relation's key, and the form in which users write them.

::

    "part"                                     one column
    ("lo", "hi")                               rows that hold over an interval
    ("region", ("day",))                       equality columns in front of a column
    ("region", ("valid_from", "valid_to"))     equality columns in front of an interval
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from thetastream.errors import OptionError


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Columns compared by equality, then a key column or the two of an interval.

    >>> KeyColumns.of(("region", ("lo", "hi")))
    KeyColumns(equal=('region',), ordered=('lo', 'hi'), open_ends=None)
    >>> print(KeyColumns.of(("region", ("lo", "hi"))))
    region, (lo, hi)
    """

    equal: tuple[str, ...]
    ordered: tuple[str, ...]
    open_ends: bool | None = None
    """In an interval, whether NULL is an open end; None: NULLs are refused."""

    @staticmethod
    def of(key: str | Sequence[Any] | KeyColumns) -> KeyColumns:
        """Read the key as the user writes it; see the module."""
        if isinstance(key, KeyColumns):
            return key
        parts: list[Any] = [key] if isinstance(key, str) else _listed(key)
        nested = bool(parts) and not isinstance(parts[-1], str)
        if nested:
            equal, ordered = parts[:-1], _listed(parts[-1])
        else:
            equal, ordered = [], parts
        names = [*equal, *ordered]
        if not 1 <= len(ordered) <= 2 or not all(isinstance(name, str) for name in names):
            raise OptionError(
                "key must be a column name, a pair of names ('lo', 'hi') for intervals, or columns "
                "compared by equality in front of one of both in parentheses: "
                f"('region', ('day',)), ('region', ('lo', 'hi')); got {key!r}"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            what = "a key" if equal else "an interval"
            raise OptionError(f"{what} needs different columns; got {twice!r} twice")
        return KeyColumns(tuple(equal), tuple(ordered))

    def with_ends(self, open_ends: bool | None) -> KeyColumns:
        """The same key with another meaning of NULL ends; OptionError if it is not an interval."""
        if open_ends is not None and not isinstance(open_ends, bool):
            raise OptionError(f"open_ends must be True, False or None; got {open_ends!r}")
        if open_ends and not self.is_interval:
            raise OptionError(
                f"open_ends=True is for intervals, key=('lo', 'hi'); got the key {self}, whose "
                "NULLs match nothing"
            )
        return replace(self, open_ends=open_ends)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return self.equal + self.ordered

    @property
    def sorted_by(self) -> tuple[str, ...]:
        """The columns that decide the order of rows."""
        return self.equal + self.ordered[:1]

    @property
    def is_interval(self) -> bool:
        """Whether rows hold over an interval."""
        return len(self.ordered) == 2

    @property
    def form(self) -> tuple[Any, ...]:
        """The key as the user writes it, always a tuple."""
        return (*self.equal, self.ordered) if self.equal else self.ordered

    def __str__(self) -> str:
        ordered = ", ".join(self.ordered)
        return f"{', '.join(self.equal)}, ({ordered})" if self.equal else ordered


def _listed(key: Any) -> list[Any]:
    return list(key) if isinstance(key, tuple | list) else [key]

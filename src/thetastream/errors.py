"""Every error thetastream raises on purpose.

::

    ThetastreamError
    ├── OptionError         an option: of a wrong kind, out of range, or at odds with another
    │   └── RegistryError   an unknown index or tactic, or a bad parameter of one
    ├── PredicateError      the join condition: unparsable, ambiguous side, empty band
    ├── WindowError         the window: size 0, bad duration, lateness on a count window
    ├── SchemaError         columns and types: missing, changed, of type null, not comparable
    ├── DataError           values: out of range for their key, overflow, a missing data folder
    ├── StateError          the order of calls and their surroundings: push after flush, a join
    │                       that failed halfway, a session without RocksDB
    └── RelationError       a table on disk: damaged, locked, too new, no room, a budget too small

Wording: what was expected, what came, what to do. Assertions are for our own mistakes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DataError",
    "IdleTasksWarning",
    "NestedLoopWarning",
    "OptionError",
    "PredicateError",
    "RegistryError",
    "RelationError",
    "SchemaError",
    "StateError",
    "ThetastreamError",
    "WindowError",
    "suggest",
]


class ThetastreamError(Exception):
    """The root: catch this to catch everything thetastream raises on purpose."""


class OptionError(ThetastreamError, ValueError):
    """An option has a wrong kind or a wrong value, or contradicts another option."""


class RegistryError(OptionError, KeyError):
    """No index or tactic of that name is registered, or a parameter of it is wrong."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class PredicateError(ThetastreamError, ValueError):
    """The join condition cannot be used. Points at the offending part when it is known.

    >>> print(PredicateError("no such side", text="x < r.y", start=0, end=1))
    no such side
      x < r.y
      ^
    """

    def __init__(self, message: str, text: str = "", start: int = -1, end: int = -1) -> None:
        self.message = message
        self.text = text
        self.span = (start, end) if 0 <= start < end else None
        super().__init__(self._render())

    def _render(self) -> str:
        if not self.text:
            return self.message
        if self.span is None or "\n" in self.text:
            return f"{self.message}\n  {self.text}"
        start, end = self.span
        return f"{self.message}\n  {self.text}\n  {' ' * start}{'^' * (end - start)}"


class WindowError(ThetastreamError, ValueError):
    """The window cannot be used."""


class SchemaError(ThetastreamError, TypeError):
    """Columns or types do not fit: missing, changed between pushes, or not comparable."""


class DataError(ThetastreamError, ValueError):
    """A value does not fit the key it must become, or data that was asked for is absent."""


class StateError(ThetastreamError, RuntimeError):
    """A call came at the wrong moment or place: a push after a flush, a session without RocksDB."""


class RelationError(ThetastreamError, RuntimeError):
    """A table on disk cannot be built, read or changed, or a join with it cannot be run so."""


class IdleTasksWarning(UserWarning):
    """Most tasks of a join's micro-batches on Spark have nothing to join, and still take time."""


class NestedLoopWarning(UserWarning):
    """No index serves the condition, so every row is compared with the whole window."""


def suggest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Give `` Did you mean …?`` for a misspelt word, or an empty string.

    >>> suggest("prise", ["price", "size"])
    " Did you mean 'price'?"
    """
    words = list(known)
    close = [each for each in words if each.lower() == word.lower()]
    close = close or difflib.get_close_matches(word, words, n=1, cutoff=likeness)
    return f" Did you mean {close[0]!r}?" if close else ""

"""A function of the user's own over candidate pairs: ``residual=f``.

``f(left, right)`` gets two Arrow record batches of equal length, row ``i`` of each being a pair,
and returns a boolean array: which pairs match. NULL does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thetastream.condition.expression import Column, Expression
from thetastream.errors import OptionError
from thetastream.side import Side

PairFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False, slots=True)
class Custom(Expression):
    """A call of the function; ``names`` are the columns of both sides, once they are known."""

    function: PairFunction
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @classmethod
    def of(cls, function: PairFunction) -> Custom:
        """OptionError for what cannot be called."""
        if not callable(function):
            raise OptionError(
                "residual must be a function f(left, right) that returns a boolean array for two "
                f"record batches of candidate pairs; got {function!r}"
            )
        return cls(function)

    def over(self, left: Sequence[str], right: Sequence[str]) -> Custom:
        """The same over these columns, unless they are known already."""
        known = self.names[0] or self.names[1]
        return self if known else replace(self, names=(tuple(left), tuple(right)))

    def key(self) -> tuple[Any, ...]:
        return (Custom, self.function, self.names)

    def walk(self) -> Iterator[Expression]:
        yield self
        for side in Side:
            yield from (Column(side, name) for name in self.names[side.position])

    def sides(self) -> frozenset[Side]:
        return frozenset(Side)

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __str__(self) -> str:
        return f"{self.name}(l, r)"

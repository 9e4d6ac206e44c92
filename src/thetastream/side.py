"""The two sides of a join, and the rows of each that a join mode keeps."""

from __future__ import annotations

from enum import Enum

from thetastream.options.checks import read_choice


class Side(Enum):
    """A side as a value: code takes ``side`` and uses ``side.other`` instead of twin functions.

    >>> Side.LEFT.other
    <Side.RIGHT: 'right'>
    """

    LEFT = "left"
    RIGHT = "right"

    # Every push uses sides as dict keys and asks for the other one: both without a Python call.
    __hash__ = object.__hash__
    other: Side
    """The opposite side."""

    @property
    def alias(self) -> str:
        """The name of this side in SQL text."""
        return str(self.value)[0]

    @property
    def position(self) -> int:
        """Index of this side in a ``(left, right)`` pair."""
        return 0 if self is Side.LEFT else 1


Side.LEFT.other, Side.RIGHT.other = Side.RIGHT, Side.LEFT


class How(Enum):
    """Which rows a join emits.

    >>> How.of("left").keeps(Side.LEFT), How.of("left").pairs
    (True, True)
    """

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @classmethod
    def of(cls, name: str | How) -> How:
        """Parse the name of a mode, also as Spark, pandas and SQL write it."""
        if isinstance(name, str):
            word = name.lower().replace("_", "").replace(" ", "")
            name = _SPELLINGS.get(word, name)
        return read_choice(cls, "how", name)

    @property
    def pairs(self) -> bool:
        """Whether matching pairs are emitted."""
        return self not in (How.SEMI, How.ANTI)

    def keeps(self, side: Side) -> bool:
        """Whether unmatched rows of the side are emitted (for anti: only those)."""
        return self in _KEEPS[side]

    def tracks(self, side: Side) -> bool:
        """Whether the engine must track which rows of the side have matched."""
        return self.keeps(side) or (self is How.SEMI and side is Side.LEFT)


_SPELLINGS = {
    "outer": "full",
    **{f"{name}outer": name for name in ("left", "right", "full")},
    **{f"left{name}": name for name in ("semi", "anti")},
}
_KEEPS = {
    Side.LEFT: frozenset({How.LEFT, How.FULL, How.ANTI}),
    Side.RIGHT: frozenset({How.RIGHT, How.FULL}),
}

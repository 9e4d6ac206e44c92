"""What a join was asked to do: plain values, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from thetastream.errors import SchemaError, StateError
from thetastream.predicate import Predicate
from thetastream.side import How, Side
from thetastream.tactic import read_tactic
from thetastream.window import CountWindow, TimeWindow, Window

__all__ = ["Query"]


@dataclass(frozen=True)
class Query:
    """Predicate, window, mode and options of a join.

    ``partitioned``: this engine is one of several, which share the rows of the join. ``led``: a
    pair is given only where its row of that side is at home; None when pairs meet once anyway.
    """

    predicate: Predicate
    window: Window
    how: How
    self_join: bool
    tactic: str
    suffix: str
    columns: tuple[str, ...] | None
    threads: int
    batch_rows: int
    partitioned: bool = False
    led: Side | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.window, CountWindow | TimeWindow):
            raise StateError(f"window must be a CountWindow or a TimeWindow; got {self.window!r}")
        for name in ("threads", "batch_rows"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise StateError(f"{name} must be a whole number of at least 1; got {value!r}")
        if self.columns is not None and not self.columns:
            raise SchemaError("columns must name at least one output column, or be None for all")
        read_tactic(self.tactic)

    @property
    def streams(self) -> tuple[Side, ...]:
        """The sides that are pushed; a self-join's one stream counts as left."""
        return (Side.LEFT,) if self.self_join else tuple(Side)

    def roles(self, stream: Side) -> tuple[Side, ...]:
        """The sides of a pair that rows of a stream can stand on."""
        return tuple(Side) if self.self_join else (stream,)

    def indexed(self, stream: Side) -> tuple[Side, ...]:
        """The roles in which a stream needs an index."""
        return (stream,) if self.mirrored else self.roles(stream)

    @cached_property
    def mirrored(self) -> bool:
        """Whether a self-join may find each pair once and give it in both orders."""
        if self.partitioned:
            return False  # the two orders may belong to different partitions
        sizes = self.window.sizes
        return self.self_join and self.predicate.is_symmetric and sizes[0] == sizes[1]

    @property
    def ranked(self) -> bool:
        """Whether arrival is decided by ranks, so that rows may have to wait for their turn."""
        ordered = isinstance(self.window, CountWindow) and self.window.order is not None
        return ordered and not self.self_join

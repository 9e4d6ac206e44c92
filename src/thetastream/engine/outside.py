"""What an engine is told with every push: facts that do not follow from the rows it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from thetastream._jit.arrays import Array
from thetastream.boxes.fresh import Fresh
from thetastream.side import Side


@dataclass(frozen=True, slots=True)
class Outside:
    """The world around a push.

    Rows with an event time below ``late`` are late. Once the push is over, no row below
    ``frontier`` can come any more. ``ranks`` are those of all rows that arrive with this push, in
    whichever partition. ``now`` is the time on the caller's clock, in seconds.
    """

    late: int | None = None
    frontier: int | None = None
    ranks: Mapping[Side, Array] = field(default_factory=dict)
    now: float = 0.0


class Tops:
    """The largest event time seen on each stream, and the frontier that follows from them.

    ``bound`` is the window in key units; None for windows without event time.
    """

    def __init__(self, streams: Iterable[Side], bound: Any) -> None:
        self._bound = bound
        self.largest: dict[Side, int | None] = dict.fromkeys(streams)

    def note(self, rows: Fresh) -> None:
        """Take note of arriving rows."""
        if self._bound is None:
            return
        times = rows.keys.known_times()
        if times.size:
            top, before = int(times.max()), self.largest[rows.side]
            self.largest[rows.side] = top if before is None else max(before, top)

    @property
    def frontier(self) -> int | None:
        """The smaller of all streams' largest event times, less the lateness; None before that."""
        known = [top for top in self.largest.values() if top is not None]
        if self._bound is None or len(known) < len(self.largest):
            return None
        return int(self._bound.frontier(min(known)))

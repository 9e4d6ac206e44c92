"""Facts that the caller supplies with every push, because stored rows do not show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from thetastream._jit.arrays import Array
from thetastream.boxes.fresh import Fresh
from thetastream.side import Side


@dataclass(frozen=True, slots=True)
class Outside:
    """Facts about the streams at one push.

    Rows with an event time below ``late`` are late. After the push, no row below ``frontier`` can
    arrive. ``ranks`` are those of all rows that arrive with this push, in any partition. ``now`` is
    the time on the caller's clock, in seconds.
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
        """Note the event times of arriving rows."""
        if self._bound is None:
            return
        times = rows.keys.known_times()
        if times.size:
            top, before = int(times.max()), self.largest[rows.side]
            self.largest[rows.side] = top if before is None else max(before, top)

    @property
    def frontier(self) -> int | None:
        """The least of the streams' largest times, less the lateness; None if a stream has none."""
        known = [top for top in self.largest.values() if top is not None]
        if self._bound is None or len(known) < len(self.largest):
            return None
        return int(self._bound.frontier(min(known)))

"""Clocks: the machine's, or a simulated one.

A simulated clock measures nothing: every read costs ``seek + blocks × transfer``, every row, pair
and block a fixed amount of processor time. So a figure is the same on any machine, at any load.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a device and a processor in seconds, for one block size."""

    seek: float
    """To reach the first block of a sequence: S in the paper."""
    transfer: float
    """To read one block of a sequence: T in the paper."""
    row: float = 2.5e-7
    """Processor time per stream row that is looked up."""
    pair: float = 4e-8
    """Processor time per pair of the answer, of some 120 bytes; both as measured here."""
    block: float = 4e-6
    """Processor time per block that is joined."""


# Blocks of 8 KiB. Disk: 7,200 rpm. Object store: one GET of a range per sequence.
PROFILES = {
    "disk": Costs(seek=8.5e-3, transfer=8192 / 150e6),
    "ssd": Costs(seek=9e-5, transfer=8192 / 500e6),
    "object-store": Costs(seek=2e-2, transfer=8192 / 80e6),
}


class Clock(Protocol):
    """The current time in seconds, which work may advance."""

    def now(self) -> float:
        """Seconds since some moment."""

    def charge(self, *, rows: int = 0, pairs: int = 0, blocks: int = 0) -> None:
        """Add the processor time of finished work."""


class RealClock:
    """The machine's clock: work takes the time it takes."""

    def now(self) -> float:
        return perf_counter()

    def charge(self, *, rows: int = 0, pairs: int = 0, blocks: int = 0) -> None:
        return


class SimulatedClock:
    """A clock that only charges advance."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def charge(self, *, rows: int = 0, pairs: int = 0, blocks: int = 0) -> None:
        costs = self.costs
        self._now += rows * costs.row + pairs * costs.pair + blocks * costs.block

    def wait_until(self, moment: float) -> None:
        """Advance to a moment, unless it has passed."""
        self._now = max(self._now, moment)

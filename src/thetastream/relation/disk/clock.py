"""Time as a join sees it: the machine's own, or accounted for.

With a simulated clock nothing that is measured enters: every read costs ``seek + blocks ×
transfer``, every row, pair and block a fixed share of processor time. So a figure is the same on
any machine, at any load.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Costs:
    """What a device and a processor cost, in seconds; blocks have ``block_bytes``."""

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


# Blocks of 8 KiB. Disk: 7,200 turns a minute. Object store: one GET of a range per sequence.
PROFILES = {
    "disk": Costs(seek=8.5e-3, transfer=8192 / 150e6),
    "ssd": Costs(seek=9e-5, transfer=8192 / 500e6),
    "object-store": Costs(seek=2e-2, transfer=8192 / 80e6),
}


class Clock(Protocol):
    """What time it is, in seconds; and what work is to be added to it."""

    def now(self) -> float:
        """Seconds since some moment."""

    def charge(self, *, rows: int = 0, pairs: int = 0, blocks: int = 0) -> None:
        """Account for the processor time of work that was done."""


class RealClock:
    """The machine's clock: work takes the time it takes."""

    def now(self) -> float:
        return perf_counter()

    def charge(self, *, rows: int = 0, pairs: int = 0, blocks: int = 0) -> None:
        return


class SimulatedClock:
    """Time that passes only where it is accounted for."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def charge(self, *, rows: int = 0, pairs: int = 0, blocks: int = 0) -> None:
        costs = self.costs
        self._now += rows * costs.row + pairs * costs.pair + blocks * costs.block

    def read(self, sequences: int, blocks: int) -> None:
        """Account for a read."""
        self._now += sequences * self.costs.seek + blocks * self.costs.transfer

    def wait_until(self, moment: float) -> None:
        """Let time pass without work; a moment that is over changes nothing."""
        self._now = max(self._now, moment)

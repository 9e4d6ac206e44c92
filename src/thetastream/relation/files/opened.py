"""Open block files: their devices, and how many snapshots use them.

Snapshots of one generation share its device, and the last of them closes it. So a snapshot remains
readable after the relation has been replaced on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from thetastream.relation.disk.clock import SimulatedClock
from thetastream.relation.disk.device import BlockFile, Device, Simulated, costs_of

DeviceFactory = Callable[[Path, int], Device]
"""Opens a block file, given its path and the size of a block."""


class Opened:
    """The block file of a generation, shared by its snapshots."""

    def __init__(self, device: Device) -> None:
        self.device, self.users = device, 1

    def leave(self) -> None:
        """Drop one user; the last one closes the device."""
        self.users -= 1
        if not self.users:
            self.device.close()


def device_factory(
    device: str | DeviceFactory | None, clock: SimulatedClock | None, direct: bool
) -> tuple[SimulatedClock | None, DeviceFactory]:
    """A function that opens block files, and the clock that is charged for their costs."""

    def real(path: Path, block_bytes: int) -> Device:
        return BlockFile(path, block_bytes, direct=direct)

    if device is None:
        return clock, real
    if callable(device):
        return clock, device
    profile = costs_of(device)
    simulated = SimulatedClock(profile) if clock is None else clock

    def accounted(path: Path, block_bytes: int) -> Device:
        return Simulated(real(path, block_bytes), simulated, costs_of(device, block_bytes))

    return simulated, accounted

"""Block files that are open: on which device, and for how many.

Snapshots of one generation share its device, which is closed behind the last of them; a relation
that has been replaced on disk is so read on by those who began with it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from thetastream.errors import RelationError, suggest
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.disk.device import BlockFile, Device, Simulated, costs_of

DeviceFactory = Callable[[Path, int], Device]
"""Opens a block file, given its path and the size of a block."""


class Opened:
    """The block file of a generation, shared by the snapshots that read it."""

    def __init__(self, device: Device) -> None:
        self.device, self.users = device, 1

    def leave(self) -> None:
        """One user fewer; the last one closes the device."""
        self.users -= 1
        if not self.users:
            self.device.close()


def device_factory(
    device: str | DeviceFactory | None, clock: SimulatedClock | None, direct: bool
) -> tuple[SimulatedClock | None, DeviceFactory]:
    """How block files are opened, and on which clock their cost is accounted for."""

    def real(path: Path, block_bytes: int) -> Device:
        return BlockFile(path, block_bytes, direct=direct)

    if device is None:
        return clock, real
    if callable(device):
        return clock, device
    if device not in PROFILES:
        raise RelationError(
            f"there is no device {device!r}; there are {', '.join(PROFILES)}."
            f"{suggest(str(device), PROFILES)}"
        )
    simulated = SimulatedClock(PROFILES[device]) if clock is None else clock

    def accounted(path: Path, block_bytes: int) -> Device:
        return Simulated(real(path, block_bytes), simulated, costs_of(device, block_bytes))

    return simulated, accounted

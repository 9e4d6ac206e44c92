"""What a reader sees: one pinned state of a relation.

A ``State`` is immutable: schema, facts, fences, and an *overlay* of blocks that updates have
written to the journal but not yet to the block file. A ``Snapshot`` is a state with a device to
read from. While one is open, the shared lock READERS keeps writers from changing blocks in place;
later snapshots see newer versions and generations. Snapshots of one generation share its device,
and the last of them closes it, so a snapshot remains readable after the relation has been replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from thetastream._jit.arrays import Array, Bytes
from thetastream.errors import RelationError, StateError
from thetastream.relation.disk.clock import SimulatedClock
from thetastream.relation.disk.device import BlockFile, Device, Simulated, costs_of
from thetastream.relation.files.fences import Facts, Fences, read_codings, read_index
from thetastream.relation.files.folder import AGAIN, Current, Folder
from thetastream.relation.files.journal import Journal
from thetastream.relation.files.overlay import Overlay
from thetastream.relation.image.layout import LeafLayout

DeviceFactory = Callable[[Path, int], Device]
"""Opens a block file, given its path and the size of a block."""


@dataclass(frozen=True, slots=True)
class State:
    """All that a reader needs; a change creates a new one."""

    current: Current
    layout: LeafLayout
    facts: Facts
    fences: Fences
    version: int
    """At least ``current.version``: the journal's records raise it."""
    overlay: Overlay

    @property
    def schema(self) -> pa.Schema:
        """Columns of the relation."""
        return self.layout.schema

    @property
    def index_bytes(self) -> int:
        """Bytes in memory of fences, overlay and codings."""
        return self.fences.nbytes + self.overlay.nbytes + self.layout.coding_bytes


def read_state(folder: Folder, current: Current) -> State:
    """The state that CURRENT names, without the journal; reads and checks the index file."""
    path = folder / current.index
    data = path.read_bytes()
    schema, facts, fences = read_index(data, current.index_bytes, current.index_checksum, str(path))
    check_block_file(folder / current.blocks, facts)
    layout = LeafLayout(schema, facts.columns, facts.block_bytes, read_codings(data, schema, facts))
    journal = Journal(folder / current.journal, current.generation)
    overlay = Overlay.empty(journal, facts.block_bytes)
    return State(current, layout, facts, fences, current.version, overlay)


def check_block_file(path: Path, facts: Facts) -> None:
    """RelationError if the block file is shorter than the relation needs."""
    size, needed = path.stat().st_size, facts.blocks * facts.block_bytes
    if size < needed:
        raise RelationError(
            f"the block file {str(path)!r} is cut short: expected {needed} bytes, found {size}; "
            f"{AGAIN}"
        )


class Snapshot:
    """A pinned state; a context manager. One thread at a time may read it."""

    def __init__(self, state: State, device: Device, release: Callable[[], None]) -> None:
        self.state, self.layout, self.fences = state, state.layout, state.fences
        self.version, self.device = state.version, device
        self._release: Callable[[], None] | None = release

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        """Read sequences of blocks, one after another, into the buffer.

        Blocks from the journal replace those of the block file, which is always long enough, even
        if its last blocks are in the journal only.
        """
        if self._release is None:
            raise StateError("the snapshot is closed; take a new one with relation.snapshot()")
        self.device.read(starts, counts, buffer)
        self.state.overlay.cover(starts, counts, buffer)

    @property
    def closed(self) -> bool:
        """Whether ``close`` has been called."""
        return self._release is None

    def close(self) -> None:
        """Release the state; repeated calls are harmless."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


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

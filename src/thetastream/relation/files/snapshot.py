"""What a reader sees: one state of a relation, pinned.

A ``State`` is immutable: schema, facts, fences, and an *overlay* of blocks that updates have
written to the journal and not yet to the block file. A ``Snapshot`` is a state with a device to
read from. While one is open the lock READERS is shared, so that nobody changes blocks in place;
new versions and new generations may come, and are seen by later snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import pyarrow as pa

from thetastream._jit.arrays import Array, Bytes
from thetastream.errors import RelationError, StateError
from thetastream.relation.disk.device import Device
from thetastream.relation.files.fences import Facts, Fences, read_index
from thetastream.relation.files.folder import Current, Folder
from thetastream.relation.image.layout import LeafLayout


class JournalOverlay(Protocol):
    """Blocks that lie in the journal: newer than those of the block file."""

    def cover(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        """Put the journal's blocks over what was read, one sequence behind the other."""

    def changed_since(self, version: int) -> Array:
        """Blocks that were written by a later version than the given one."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""


@dataclass(frozen=True, slots=True)
class State:
    """All that a reader must know; a change makes a new one."""

    current: Current
    layout: LeafLayout
    facts: Facts
    fences: Fences
    version: int
    """At least ``current.version``: records of the journal raise it."""
    overlay: JournalOverlay | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the relation."""
        return self.layout.schema

    @property
    def index_bytes(self) -> int:
        """Bytes in memory of fences and overlay."""
        return self.fences.nbytes + (0 if self.overlay is None else self.overlay.nbytes)


def read_state(folder: Folder, current: Current) -> State:
    """The state that CURRENT names, without the journal; reads and checks the index file."""
    path = folder / current.index
    data = path.read_bytes()
    schema, facts, fences = read_index(data, current.index_bytes, current.index_checksum, str(path))
    blocks = folder / current.blocks
    size, needed = blocks.stat().st_size, facts.blocks * facts.block_bytes
    if size < needed:
        raise RelationError(
            f"the block file {str(blocks)!r} is cut short: expected {needed} bytes, found {size}; "
            "restore the folder from a copy, or build the relation again"
        )
    layout = LeafLayout(schema, facts.key, facts.block_bytes)
    return State(current, layout, facts, fences, current.version)


class Snapshot:
    """A pinned state; a context manager. Reading it is for one thread at a time."""

    def __init__(self, state: State, device: Device, release: Callable[[], None]) -> None:
        self.state, self.layout, self.fences = state, state.layout, state.fences
        self.version, self.device = state.version, device
        self._release: Callable[[], None] | None = release

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        """Read sequences of blocks, one behind the other, into the buffer.

        Blocks that the journal holds are put over what the block file has. The file is as long as
        the relation even where all newer blocks are in the journal.
        """
        if self._release is None:
            raise StateError("the snapshot is closed; take a new one with relation.snapshot()")
        self.device.read(starts, counts, buffer)
        if self.state.overlay is not None:
            self.state.overlay.cover(starts, counts, buffer)

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._release is None

    def close(self) -> None:
        """Let go of the state; more than once is harmless."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

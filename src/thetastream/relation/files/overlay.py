"""Blocks that lie in the journal, put over what is read from the block file.

An overlay belongs to one version: it says for each block that a transaction has written since the
last fold where its newest image lies. Overlays never change; a transaction makes a new one, so
every open snapshot keeps its own (SSIJ, Section IV-E: before or after an update, never half).

Cost: 24 bytes per block in the journal; a search per sequence that is read, and one read of the
journal per run of blocks found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.relation.files.journal import Journal, Record
from thetastream.relation.files.splices import runs


@dataclass(frozen=True, slots=True)
class Overlay:
    """Where the newest images lie: arrays with one entry per block, ascending.

    ``position`` and ``sequence`` say how far the journal has been read.
    """

    journal: Journal
    block_bytes: int
    position: int
    sequence: int
    blocks: Array
    offsets: Array
    """Where the block begins in the journal."""
    versions: Array
    """The version that wrote it."""

    @staticmethod
    def empty(journal: Journal, block_bytes: int) -> Overlay:
        """An overlay of no blocks: nothing of the journal has been read."""
        none = np.empty(0, np.int64)
        return Overlay(journal, block_bytes, 0, 0, none, none, none)

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.blocks.nbytes * 3

    def passed(self, record: Record) -> Overlay:
        """The overlay after a record that says nothing new."""
        return replace(self, position=record.stop, sequence=record.sequence)

    def followed(self, record: Record) -> Overlay:
        """The overlay after a transaction: its images hide older ones."""
        contents = record.contents
        blocks = runs(contents.image_blocks, contents.image_spans)
        offsets = record.images_at + np.arange(len(blocks)) * self.block_bytes
        versions = np.full(len(blocks), contents.version)
        every = np.concatenate((blocks, self.blocks))
        newest, chosen = np.unique(every, return_index=True)  # the first of equal ones
        return replace(
            self.passed(record),
            blocks=newest,
            offsets=np.concatenate((offsets, self.offsets))[chosen],
            versions=np.concatenate((versions, self.versions))[chosen],
        )

    def changed_since(self, version: int) -> Array:
        """Blocks that were written by a later version than the given one."""
        return self.blocks[self.versions > version]

    def cover(self, starts: Array, counts: Array, buffer: NDArray[np.uint8]) -> None:
        """Put images over blocks that were read: sequences, one behind the other in the buffer."""
        if not len(self.blocks):
            return
        first = np.searchsorted(self.blocks, starts)
        stop = np.searchsorted(self.blocks, starts + counts)
        places = np.cumsum(counts) - counts
        for i in np.flatnonzero(first < stop).tolist():
            found = slice(int(first[i]), int(stop[i]))
            targets = self.blocks[found] - starts[i] + places[i]
            self._copy(targets, self.offsets[found], buffer.data)

    def _copy(self, targets: Array, offsets: Array, buffer: memoryview) -> None:
        """Copy blocks, those that lie together in both places by one read."""
        size = self.block_bytes
        apart = (np.diff(targets) != 1) | (np.diff(offsets) != size)
        cuts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(targets)]
        for low, high in pairwise(cuts):
            start = int(targets[low]) * size
            part = buffer[start : start + (high - low) * size]
            self.journal.read_image(int(offsets[low]), part)

"""Blocks in the journal, which replace those read from the block file.

An overlay belongs to one version. For each block that a transaction has written since the last
fold, it holds the place of the newest image. Overlays are immutable: a transaction creates a new
one, so every open snapshot keeps its own (SSIJ, Section IV-E: before or after an update, never
half).

Cost: 24 bytes per block in the journal; a search per sequence that is read, and one read of the
journal per run of blocks in it.
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

    The journal has been read up to ``position`` and record ``sequence``.
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
        """An overlay without blocks: nothing of the journal has been read."""
        none = np.empty(0, np.int64)
        return Overlay(journal, block_bytes, 0, 0, none, none, none)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.blocks.nbytes * 3

    def passed(self, record: Record) -> Overlay:
        """The overlay after an obsolete record."""
        return replace(self, position=record.stop, sequence=record.sequence)

    def followed(self, record: Record) -> Overlay:
        """The overlay after a transaction, whose images replace older ones."""
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
        """Blocks written by later versions than the given one."""
        return self.blocks[self.versions > version]

    def cover(self, starts: Array, counts: Array, buffer: NDArray[np.uint8]) -> None:
        """Overwrite blocks that were read, sequence after sequence in the buffer, with images."""
        if not len(self.blocks):
            return
        first = np.searchsorted(self.blocks, starts)
        stop = np.searchsorted(self.blocks, starts + counts)
        places = np.cumsum(counts) - counts
        for i in np.flatnonzero(first < stop).tolist():
            newer = slice(int(first[i]), int(stop[i]))
            targets = self.blocks[newer] - starts[i] + places[i]
            self._copy(targets, self.offsets[newer], buffer.data)

    def _copy(self, targets: Array, offsets: Array, buffer: memoryview) -> None:
        """Copy blocks; one read for those that are adjacent in both places."""
        size = self.block_bytes
        apart = (np.diff(targets) != 1) | (np.diff(offsets) != size)
        cuts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(targets)]
        for low, high in pairwise(cuts):
            start = int(targets[low]) * size
            part = buffer[start : start + (high - low) * size]
            self.journal.read_image(int(offsets[low]), part)

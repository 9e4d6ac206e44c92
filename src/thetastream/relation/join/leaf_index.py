"""The leaves that stream rows ask for, in one state of a relation.

The fences map each box to an interval of leaves. If the relation's rows are intervals, the greatest
upper end of a leaf, and of every 64 leaves (a zone), rules leaves out. All of it is in memory and
charged to the budget (SSIJ, Section III). An index is immutable: a later state has another one.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join.kernels.leaves import ZONE, ask, zones_of
from thetastream.relation.join.matching import RelationBoxes

_NONE = np.empty(0, np.int64)


class LeafIndex:
    """Leaves of a snapshot by key; ``ranged``: boxes bound upper ends of intervals too."""

    def __init__(self, snapshot: Snapshot, ranged: bool) -> None:
        self.snapshot = snapshot
        self.fences = snapshot.fences
        self.leaves = len(snapshot.fences)
        """Number of leaves."""
        self._greatest = self._zones = _NONE
        if ranged and self.fences.greatest is not None:
            self._greatest = np.array(self.fences.greatest)  # kernels take writable arrays
            self._zones = np.empty(-(-self._greatest.size // ZONE), np.int64)
            zones_of(self._greatest, self._zones)

    @property
    def nbytes(self) -> int:
        """Bytes of fences, overlay and zones."""
        return self.snapshot.state.index_bytes + self._greatest.nbytes + self._zones.nbytes

    def questions(self, boxes: RelationBoxes, asking: Array, first: Array, stop: Array) -> Array:
        """Questions of the boxes ``asking`` to their leaves ``[first, stop)``, in order."""
        questions = np.empty(int((stop - first).sum()), np.int64)
        cursor = np.array([0, -1])
        ranged = int(self._zones.size > 0)
        least, greatest, zones = boxes.least, self._greatest, self._zones
        count = ask(asking, first, stop, ranged, least, greatest, zones, cursor, questions)
        return questions[:count]

    def leaves_in(self, blocks: Array, version: int) -> Array:
        """The leaves in blocks; -1 for blocks that changed after a version or are free."""
        order = np.argsort(self.fences.blocks)
        now = self.fences.blocks[order]
        at = np.minimum(np.searchsorted(now, blocks), now.size - 1)
        same = now[at] == blocks if now.size else np.zeros(blocks.size, np.bool_)
        same &= ~np.isin(blocks, self.snapshot.state.overlay.changed_since(version))
        return np.where(same, order[at] if now.size else -1, -1)

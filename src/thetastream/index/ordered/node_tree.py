"""What the b-tree and the csb+tree share: nodes in flat arrays of words, rows in batches.

Their batch loops (``kernels/btree/rows.py``, ``kernels/csb/rows.py``) have the same names. Each
takes the arrays of the tree first, then its own arguments, then scratch arrays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.folding import Fold
from thetastream.index.ordered.kernels.lines import DEEPEST, RUN
from thetastream.index.ordered.ordered_index import OrderedIndex

PATH = 2 * DEEPEST
GROUP = 32  # rows of a batch that descend together


class NodeTree(OrderedIndex):
    """A tree of nodes in flat arrays. A subclass holds the arrays and makes them grow."""

    loops: ClassVar[Any]
    """The module of the batch loops."""
    inserting: ClassVar[tuple[int, ...]]
    """Sizes of the scratch arrays of ``insert_rows``."""
    deleting: ClassVar[tuple[int, ...]]
    """Sizes of the scratch arrays of ``delete_rows``."""

    @property
    @abstractmethod
    def _tree(self) -> tuple[Array, ...]:
        """The arrays of the tree, as the loops take them."""

    @abstractmethod
    def _grow(self) -> None:
        """Add at least as many nodes as one insert may need."""

    def _put(self, keys: Array, ids: Array) -> None:
        """One descent per row, in groups that wait for memory together."""
        scratch, done = [*_scratch(*self.inserting)], 0
        while done < keys.size:
            done = self.loops.insert_rows(*self._tree, keys, ids, done, *scratch)
            if done < keys.size:
                self._grow()

    def _take_out(self, keys: Array, ids: Array) -> int:
        return int(self.loops.delete_rows(*self._tree, keys, ids, *_scratch(*self.deleting)))

    def _find(self, keys: Array) -> Array:
        ids = np.empty(keys.size, np.int64)
        self.loops.find_rows(*self._tree, keys, ids, *_scratch(GROUP))
        return ids

    def _read(self, lows: Array, highs: Array, before: int, cursor: Array, *out: Array) -> int:
        boxes = (lows, highs, before, cursor)
        return int(self.loops.read_rows(*self._tree, *boxes, *_scratch(PATH, RUN, GROUP), *out))

    def _fold(self, lows: Array, highs: Array, before: int, fold: Fold) -> None:
        boxes = (lows, highs, before)
        self.loops.fold_boxes(*self._tree, *boxes, *_scratch(PATH, RUN, GROUP), *fold.arrays)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(part.nbytes for part in self._tree)


def _scratch(*sizes: int) -> Iterator[Array]:
    return (np.empty(size, np.int64) for size in sizes)

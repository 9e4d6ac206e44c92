"""A concurrent B⁺-tree with optimistic lock coupling: the baseline for the parallel join.

        version 4 ┌────────────┐
                  │ 40 │ 71    │          a reader remembers the version of a node, reads, and looks
                  └─┬────┬───┬─┘          again: unchanged → go on, changed → begin anew
        version 8   │    │   │ version 3 (odd): locked by a writer
              ┌─────▼┐ ┌─▼──┐ ┌▼───┐
              │ 3 5 9├─► 44 ├─► 71 │      a writer locks only the leaf it changes
              └──────┘ └────┘ └────┘

The paper compares PIM-Tree with the Bw-tree (Section 5, Figures 8a and 13c). We take optimistic
lock coupling instead (OLFIT, Cha et al., VLDB 2001, which the paper names; Leis et al. 2016): it is
the simpler design of the two, has no mapping table and no chains of deltas to collect, and its
readers write nothing to memory that others read. See ``kernels/optimistic.py``.

Invariants: those of a B⁺-tree, but leaves may be empty; no version is odd when nobody is at work.

Cost: a descent per insert, delete and search, as the B⁺-tree, plus the reading of versions. Leaves
are never joined. When nodes run out and most places in leaves are free, the tree is built anew from
its rows; otherwise there are made more nodes. Bytes: as a B⁺-tree, leaves less full when keys
drift.
"""

from __future__ import annotations

from typing import Any, ClassVar

from thetastream.index.registry import checked
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class OptimisticTree(TreeIndex):
    """A B⁺-tree that threads read without locks."""

    name: ClassVar[str] = "optimistic-tree"
    summary: ClassVar[str] = "concurrent B⁺-tree: versions instead of read locks"
    concurrent: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    def __init__(
        self, capacity: int = 1 << 20, columns: int = 1, slots: int = 32, fanout: int = 32
    ) -> None:
        super().__init__(capacity, columns, slots=slots, fanout=fanout)

    @classmethod
    def recipe(cls, window: int, slots: int = 32, fanout: int = 32, **settings: Any) -> Recipe:
        # Full inner nodes are split before it is known where the new child goes: four make two.
        checked(cls.name, slots=(slots, 2), fanout=(fanout, 4))
        return Recipe(
            layout.OPTIMISTIC, trees=1, tree_rows=window, slots=slots, fanout=fanout, fill=0.63
        )

"""A concurrent B⁺-tree with optimistic lock coupling: the baseline for the parallel join.

        version 4 ┌────────────┐
                  │ 40 │ 71    │          a reader notes the version of a node, reads, and checks
                  └─┬────┬───┬─┘          again: unchanged → continue, changed → restart
        version 8   │    │   │ version 3 (odd): locked by a writer
              ┌─────▼┐ ┌─▼──┐ ┌▼───┐
              │ 3 5 9├─► 44 ├─► 71 │      a writer locks only the leaf it changes
              └──────┘ └────┘ └────┘

The paper compares PIM-Tree with the Bw-tree (Section 5, Figures 8a and 13c). We use optimistic lock
coupling instead (OLFIT, Cha et al., VLDB 2001, which the paper names; Leis et al. 2016). It is the
simpler design: it has no mapping table and no delta chains to collect, and its readers write
nothing to shared memory. See ``kernels/optimistic.py``.

Invariants: those of a B⁺-tree, but leaves may be empty; no version is odd while no thread is
working.

Cost: a descent per insert, delete and search, as the B⁺-tree, plus reading versions. Leaves are
never joined. When nodes run out and most places in leaves are free, the tree is rebuilt from its
rows; otherwise it gets more nodes. Bytes: as a B⁺-tree, with emptier leaves when keys drift.
"""

from __future__ import annotations

from typing import ClassVar

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

    @classmethod
    def recipe(cls, window: int, slots: int = 32, fanout: int = 32) -> Recipe:
        # Full inner nodes are split before the new child's place is known, so they need four.
        checked(cls.name, slots=(slots, 2), fanout=(fanout, 4))
        return Recipe(
            layout.OPTIMISTIC, trees=1, tree_rows=window, slots=slots, fanout=fanout, fill=0.63
        )

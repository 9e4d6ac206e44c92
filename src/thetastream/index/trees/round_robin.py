"""Context-insensitive partitions: row ``id`` goes to B⁺-tree ``id % partitions``.

    ids    0 1 2 3 4 5 6 7        tree 0:  0 2 4 6        a search visits all trees,
                                  tree 1:  1 3 5 7        an insert or delete only one

This is how the low-latency handshake join, SplitJoin and BiStream divide a window among join cores
(PIM-Tree, Section 2.2.3): each core has a local index of its share and needs no locks, but every
core must look up every tuple.

Invariants: those of a B⁺-tree, per partition. Cost: insert and delete ``log(n / P)`` nodes, search
``P · log(n / P)``. Bytes: as a B⁺-tree.
"""

from __future__ import annotations

from typing import ClassVar

from thetastream.index.registry import checked
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class RoundRobin(TreeIndex):
    """``partitions`` B⁺-trees that take rows in turn."""

    name: ClassVar[str] = "round-robin"
    summary: ClassVar[str] = "partitions by arrival, a B⁺-tree each; a search visits all"
    concurrent: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    @classmethod
    def recipe(cls, window: int, partitions: int = 2, slots: int = 32, fanout: int = 32) -> Recipe:
        checked(cls.name, partitions=(partitions, 1), slots=(slots, 2), fanout=(fanout, 3))
        rows = -(-window // partitions)
        return Recipe(
            layout.ROBIN, trees=partitions, tree_rows=rows, slots=slots, fanout=fanout, fill=0.63
        )

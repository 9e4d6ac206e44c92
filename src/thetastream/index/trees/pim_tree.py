"""Partitioned in-memory merge tree (PIM-Tree): the ranges of T_S cut T_I into subindexes.

    T_S   level 0               [ 40 | ∞ ]
          level 1  = D_I   [ 14 | ∞ ]   [ 71 | ∞ ]        nodes at the insertion depth D_I …
                              │             │
    T_I                      B₀ ─────────► B₁             … each have a subindex of their range;
                           (4 9 15)      (44 90)          their leaf chains are linked
    run   3 5 6 9 14 │ 15 15 21 40 │ 41 50 66 71 │ 80 93

PIM-Tree, Section 3.3 and Appendix A.1–A.2. An insert goes down T_S to depth D_I and into the
B⁺-tree it finds there; a search goes down T_S, reads the run, then the subindex of the same node
and, along the chain, those behind it. Subindexes are small, because T_S divides the keys evenly
whatever their distribution. Each has a lock, so threads that touch different ranges do not block
each other (``parallel.py``). T_S never changes while it is read, so a descent needs no lock.

Errata: the loops of Algorithms 1 and 2 continue while the key is *greater* than the separator.
Algorithm 2 marks the last leaf of a subindex by a flag; here the first leaf is known by its number.

Invariants: those of an IM-Tree; subindex ``i`` holds keys in ``(last key of node i - 1, last key of
node i]``; its first leaf is leaf ``i`` of the arena; leaf chains are linked across subindexes.

Cost: insert ``D_I`` nodes of T_S and a descent of a small tree, and 1 / m merge steps; search a
descent of T_S and of a small tree. Bytes: as an IM-Tree, and a leaf per subindex.

``depth`` -1 means the lowest level of inner nodes, which the experiments show to be best
(Figure 8c): each subindex then covers ``leaf · run_fanout`` rows of T_S.
"""

from __future__ import annotations

from typing import ClassVar

from thetastream.index.trees.im_tree import merged_recipe
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class PimTree(TreeIndex):
    """An IM-Tree whose T_I is cut at ``depth`` of T_S."""

    name: ClassVar[str] = "pim-tree"
    summary: ClassVar[str] = "like im-tree, with a small B⁺-tree per range of the immutable one"
    concurrent: ClassVar[bool] = True
    tunable: ClassVar[tuple[str, ...]] = ("merge_ratio", "depth")

    @classmethod
    def recipe(
        cls,
        window: int,
        merge_ratio: float = 1 / 16,
        depth: int = -1,
        slots: int = 32,
        fanout: int = 32,
        leaf: int = 32,
        run_fanout: int = 16,
    ) -> Recipe:
        shape = (slots, fanout, leaf, run_fanout)
        return merged_recipe(cls.name, layout.PARTED, window, merge_ratio, depth, shape)

"""The classic B⁺-tree: rows are inserted and, when they expire, deleted one by one.

             ┌─────────────┐
             │  40 │ 71    │                 inner nodes: separators and explicit children
             └─┬─────┬───┬─┘
        ┌──────┘     │   └───────┐
    ┌───▼──────┐ ┌───▼──────┐ ┌──▼───────┐
    │ 3 5 9 14 ├─► 40 50 66 ├─► 71 80 93 │   leaves: keys and ids, linked from left to right
    └──────────┘ └──────────┘ └──────────┘

The baseline of PIM-Tree Section 2.2.1, in arrays (``kernels/forest.py``). A delete finds its row by
key, so a ring also stores keys by id.

Invariants: keys ascend along the chain of leaves; separators bound their children; all leaves have
the same depth; a leaf that falls below half is joined with a neighbour or shares its rows.

Cost for ``n`` rows: insert, delete and search take a descent of ``log n`` nodes each, whatever the
number of equal keys (rows leave in order of arrival, so the one to delete is the first of its
equals). Bytes: 16 per row over the fill of the leaves (about two thirds), and 16 for the ring.
"""

from __future__ import annotations

from typing import ClassVar

from thetastream.index.registry import checked
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class BPlusTree(TreeIndex):
    """A B⁺-tree with ``slots`` rows per leaf and ``fanout`` children per inner node."""

    name: ClassVar[str] = "b+tree"
    summary: ClassVar[str] = "classic B⁺-tree, rows inserted and deleted one by one"
    deletes: ClassVar[bool] = True

    @classmethod
    def recipe(cls, window: int, slots: int = 32, fanout: int = 32) -> Recipe:
        checked(cls.name, slots=(slots, 2), fanout=(fanout, 3))
        return Recipe(
            layout.SINGLE, trees=1, tree_rows=window, slots=slots, fanout=fanout, fill=0.63
        )

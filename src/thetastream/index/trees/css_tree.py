"""Immutable B⁺-tree in breadth-first order (CSS-Tree): an insert merges and builds it anew.

    level 0                    [ 40 | ∞ ]                  separators only: child j of node i is
    level 1          [ 14 | ∞ ]          [ 71 | ∞ ]        node i · fanout + j of the next level
    run    3 5 6 9 14 │ 15 15 21 40 │ 41 50 66 71 │ 80 93  leaves of ``leaf`` rows

PIM-Tree, Section 3.1 and Appendix A.3; Rao and Ross, CSS-Trees (VLDB 1999). Without references to
children a node holds more separators, and the tree is flatter. It is the immutable half of IM-Tree
and PIM-Tree; by itself it suits few, large inserts.

Invariants: keys of the run ascend; a separator is the last key below its child; the last child of a
level takes all that is above.

Cost for ``n`` rows: insert O(n + b log b) for b rows; search ``log_fanout(n / leaf)`` nodes and a
leaf; expire O(1), expired rows leave with the next insert. Bytes: 16 per row and 8 · fanout /
(fanout - 1) / ``leaf``, and what the run may grow by.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.registry import checked
from thetastream.index.runs.kernels import merge as merging
from thetastream.index.runs.kernels.merge import merge
from thetastream.index.trees.kernels import css
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import build_run
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class CssTree(TreeIndex):
    """A sorted run with a directory of ``fanout``, over leaves of ``leaf`` rows."""

    name: ClassVar[str] = "css-tree"
    summary: ClassVar[str] = "immutable B⁺-tree in breadth-first order; an insert builds it anew"
    per_tuple: ClassVar[bool] = False

    def __init__(
        self, capacity: int = 1 << 20, columns: int = 1, leaf: int = 32, fanout: int = 16
    ) -> None:
        super().__init__(capacity, columns, leaf=leaf, fanout=fanout)
        prepare(merging)

    @classmethod
    def recipe(cls, window: int, leaf: int = 32, fanout: int = 16, **settings: Any) -> Recipe:
        checked(cls.name, leaf=(leaf, 1), fanout=(fanout, 2))
        return Recipe(layout.SINGLE, runs=1, run_rows=window, run_leaf=leaf, run_fanout=fanout)

    def insert(self, keys: Array, ids: Array) -> None:
        """O(n + b log b) for b rows among n."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        self._questions.settle()
        ids = np.ascontiguousarray(ids, np.int64)
        before = int(self._facts[layout.BEFORE])
        self._beside.add(matrix, ids, before)
        order = np.argsort(matrix[0], kind="stable")
        facts, runs = self._pool.run(0), self._pool.store.runs
        old = slice(int(facts[css.START]), int(facts[css.START] + facts[css.COUNT]))
        total = old.stop - old.start + ids.size
        merged = np.empty(total, np.int64), np.empty(total, np.int64)
        count = merge(runs.keys[old], runs.ids[old], matrix[0][order], ids[order], before, *merged)
        if count > facts[css.ROOM]:
            facts[css.COUNT] = 0
            self._pool.grow_run(0, count + count // 8)
            facts, runs = self._pool.run(0), self._pool.store.runs
        new = slice(int(facts[css.START]), int(facts[css.START]) + count)
        runs.keys[new], runs.ids[new] = merged[0][:count], merged[1][:count]
        facts[css.COUNT] = count
        build_run(self._pool.store, 0)
        self._merges += 1
        self._merged_rows += count

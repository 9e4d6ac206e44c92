"""Immutable B⁺-tree in breadth-first order (CSS-Tree): every insert merges and rebuilds it.

    level 0                    [ 40 | ∞ ]                  separators only: child j of node i is
    level 1          [ 14 | ∞ ]          [ 71 | ∞ ]        node i · fanout + j of the next level
    run    3 5 6 9 14 │ 15 15 21 40 │ 41 50 66 71 │ 80 93  leaves of ``leaf`` rows

PIM-Tree, Section 3.1 and Appendix A.3; Rao and Ross, CSS-Trees (VLDB 1999). Without references to
children a node holds more separators, and the tree is flatter. It is the immutable half of IM-Tree
and PIM-Tree; used alone, it suits few, large inserts.

Invariants: keys of the run ascend; a separator is the last key below its child; the last child of a
level takes all that is above.

Cost for ``n`` rows: insert O(n + b log b) for b rows; search ``log_fanout(n / leaf)`` nodes and a
leaf; expire O(1), the next insert removes expired rows. Bytes: 16 per row and 8 · fanout /
(fanout - 1) / ``leaf``, and spare room for the run to grow.
"""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.registry import checked
from thetastream.index.runs.kernels import merge as merging
from thetastream.index.runs.kernels.merge import merge_runs
from thetastream.index.trees.kernels import css
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import build_run
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class CssTree(TreeIndex):
    """A sorted run with a directory of ``fanout``, over leaves of ``leaf`` rows."""

    name: ClassVar[str] = "css-tree"
    summary: ClassVar[str] = "immutable B⁺-tree in breadth-first order; an insert rebuilds it"
    per_tuple: ClassVar[bool] = False
    kernels: ClassVar[tuple[ModuleType, ...]] = (*TreeIndex.kernels, merging)

    @classmethod
    def recipe(cls, window: int, leaf: int = 32, fanout: int = 16) -> Recipe:
        checked(cls.name, leaf=(leaf, 1), fanout=(fanout, 2))
        return Recipe(layout.SINGLE, runs=1, run_rows=window, run_leaf=leaf, run_fanout=fanout)

    def _add(self, keys: Array, ids: Array) -> None:
        """O(n + b log b) for b rows among n."""
        order = np.argsort(keys, kind="stable")
        facts, runs = self._pool.run(0), self._pool.store.runs
        start, stop = int(facts[css.START]), int(facts[css.START] + facts[css.COUNT])
        total = stop - start + ids.size
        merged = np.empty((1, total), np.int64), np.empty(total, np.int64)
        old = runs.keys.reshape(1, -1), runs.ids, start, stop
        new = keys[order].reshape(1, -1), ids[order], 0, ids.size
        count = merge_runs(*old, *new, int(self._facts[layout.BEFORE]), *merged)
        if count > facts[css.ROOM]:
            facts[css.COUNT] = 0
            self._pool.grow_run(0, count + count // 8)
            facts, runs = self._pool.run(0), self._pool.store.runs
        target = slice(int(facts[css.START]), int(facts[css.START]) + count)
        runs.keys[target], runs.ids[target] = merged[0][0, :count], merged[1][:count]
        facts[css.COUNT] = count
        build_run(self._pool.store, 0)
        self._merges += 1
        self._merged_rows += count

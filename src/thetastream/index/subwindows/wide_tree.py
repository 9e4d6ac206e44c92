"""A subwindow in a wide B⁺-tree: unsorted leaves in an LLAT under a small tree of their bounds.

The WiB⁺-Tree index consists of these. The loops are in ``kernels/wib``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar
from weakref import WeakSet

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream.index.base import Pair, chunks
from thetastream.index.runs.kernels.ranges import BLOCK
from thetastream.index.subwindows.kernels import llat, wib
from thetastream.index.subwindows.kernels.llat import Llat
from thetastream.index.subwindows.partitioned import check_table, dump_table, new_table
from thetastream.index.subwindows.subwindow import Subwindow, SubwindowView
from thetastream.index.trees.kernels import forest
from thetastream.index.trees.kernels.forest import Forest
from thetastream.index.trees.pool import new_forest

FILL = 0.69
"""How full leaves are on average when they are cut in halves: ln 2."""


class WideTree(Subwindow):
    """Rows in about ``parts`` leaves of ``ceil(size / parts / FILL)`` places."""

    kind: ClassVar[str] = "wib-tree"

    def __init__(self, size: int, parts: int, fanout: int, sorted_leaves: bool) -> None:
        super().__init__(size)
        width = max(2, math.ceil(size / parts / FILL))
        entries = 2 + math.ceil(1.7 * size / width)
        self.table = new_table(entries, width, 0)
        self.tree = _tree(2 + 2 * entries // fanout, 4 + 4 * entries // fanout**2, fanout)
        self.sorted_leaves = sorted_leaves
        self._path = np.zeros(2 * forest.MOST_LEVELS + 1, np.int64)
        self._views: WeakSet[_View] = WeakSet()
        wib.open_tree(self.tree, self.table, self._path)

    def insert(self, keys: Array, ids: Array) -> None:
        """A step or two in the nodes of bounds and a write per row; O(1) amortised for cuts."""
        self._detach()
        done, scratch = 0, np.empty(BLOCK, np.int64)
        while done < ids.size:
            done = wib.insert_rows(
                self.tree, self.table, keys, ids, done, int(self.sorted_leaves), self._path, scratch
            )
            if self._path[-1] == wib.NO_ENTRIES:
                self.table = _longer(self.table)
            elif self._path[-1] == wib.NO_NODES:
                self.tree = _larger(self.tree)
        self.rows += ids.size

    def _detach(self) -> None:
        """Cuts move rows, so open readers continue with a copy."""
        copy: tuple[Forest, Llat] | None = None
        for view in list(self._views):
            if view.readers:
                copy = copy or (
                    Forest(*(part.copy() for part in self.tree)),
                    Llat(*(part.copy() for part in self.table)),
                )
                view.arrays = copy
                self._views.discard(view)

    def views(self, before: int, after: int) -> list[SubwindowView]:
        view = _View(before, after, self)
        self._views.add(view)
        return [view]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (*self.table, *self.tree))

    def dump(self) -> Pair:
        return dump_table(self.table, self.rows)

    def leaves(self) -> Pair:
        """Upper bounds and first entries of the leaves, in order."""
        bounds, firsts = [], []
        node = int(self.tree.trees[forest.ROOT])
        for _ in range(int(self.tree.trees[forest.HEIGHT])):
            node = int(self.tree.children[node, 0])
        while node >= 0:
            size = int(self.tree.sizes[node])
            bounds.append(self.tree.keys[node, :size])
            firsts.append(self.tree.ids[node, :size])
            node = int(self.tree.nexts[node])
        return np.concatenate(bounds), np.concatenate(firsts)

    def check(self) -> None:
        bounds, firsts = self.leaves()
        assert np.all(bounds[:-1] < bounds[1:]), "bounds ascend, none occurs twice"
        assert bounds[-1] == MOST, "the last leaf is open"
        assert self.table.facts[llat.ROWS] == self.rows
        for at, keys in enumerate(check_table(self.table, firsts)):
            assert np.all(keys <= bounds[at])
            assert at == 0 or np.all(keys > bounds[at - 1])
            alone = self.table.nexts[firsts[at]] < 0 or np.all(keys == keys[0])
            assert alone, "only a leaf of one key outgrows its entry"
            assert not self.sorted_leaves or np.all(keys[:-1] <= keys[1:])


class _View(SubwindowView):
    """The tree itself; a copy of it, once it changes while it is being read."""

    __slots__ = ("_owner", "arrays", "readers")

    def __init__(self, before: int, after: int, owner: WideTree) -> None:
        super().__init__(before, after)
        self.arrays: tuple[Forest, Llat] | None = None
        self.readers = 0
        self._owner = owner

    def read(self, lows: Array, highs: Array, limit: int) -> Iterator[Pair]:
        scratch = np.empty(2 * BLOCK, np.int64)

        def step(cursor: Array, filled: int, positions: Array, ids: Array) -> int:
            tree, table = self.arrays or (self._owner.tree, self._owner.table)
            return wib.probe_rows(
                tree, table, lows, highs, self.before, self.after, cursor, filled, positions, ids,
                scratch,
            )  # fmt: skip

        self.readers += 1
        try:
            yield from chunks(lows.size, limit, np.array([0, -1, 0, 0, 0]), step)
        finally:
            self.readers -= 1


def _tree(leaves: int, inners: int, fanout: int) -> Forest:
    """An empty B⁺-tree of bounds: one tree in one arena."""
    tree = new_forest(leaves, inners, (fanout, fanout), trees=1, arenas=1)
    tree.arenas[forest.LEAF_END], tree.arenas[forest.INNER_END] = leaves, inners
    return tree


def _larger(tree: Forest) -> Forest:
    """With half as many nodes again."""
    leaves, inners = tree.sizes.size, tree.widths.size
    larger = _tree(leaves + leaves // 2 + 4, inners + inners // 2 + 8, int(tree.shape[0]))
    for name in ("keys", "ids", "sizes", "nexts"):
        getattr(larger, name)[:leaves] = getattr(tree, name)
    for name in ("seps", "children", "widths", "ranks"):
        getattr(larger, name)[:inners] = getattr(tree, name)
    ends = larger.arenas[forest.LEAF_END], larger.arenas[forest.INNER_END]
    larger.arenas[:] = tree.arenas
    larger.arenas[forest.LEAF_END], larger.arenas[forest.INNER_END] = ends
    larger.trees[:] = tree.trees
    return larger


def _longer(table: Llat) -> Llat:
    """With a quarter as many entries again."""
    entries, width = table.sizes.size, int(table.facts[llat.WIDTH])
    longer = new_table(entries + entries // 4 + 2, width, int(table.facts[llat.USED]))
    longer.facts[llat.ROWS] = table.facts[llat.ROWS]
    for old, new in zip(table[:-1], longer[:-1], strict=True):
        new[: old.size] = old
    return longer

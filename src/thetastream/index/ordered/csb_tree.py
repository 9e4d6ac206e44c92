"""The cache-sensitive B⁺-tree, full variant: one child reference per node.

       ┌──────────────┐
       │ ● │ 40 │ 71  │                              ● is the first child; the others follow it
       └─┬────────────┘
    ┌────▼─────┬──────────┬──────────┬─ ─ ─ ─ ┐
    │ 3 5 9 14 │ 40 50 66 │ 71 80 93 │  free   │   a node group, with room for all children
    └──────────┴──────────┴──────────┴─ ─ ─ ─ ┘

Rao and Ross's tree as Ordered Indexing, Section 4.1, compares it, in two flat arrays of words
(``kernels/csb/nodes.py``, ``change.py``): groups of leaves and groups of inner nodes. Without the
references to all its children a node has more keys per cache line, so the tree is flatter than a
B⁺-tree of that node size; the price is memory, as a group is allocated full.

Invariants: rows ascend by (key, id) from leaf to leaf; separators bound their children, both ends
included; all leaves have the same depth; but for the root no leaf is empty; free places hold the
largest integer; every group is in the tree or in the list of freed ones.

Cost for ``n`` rows: insert and look-up a descent of ``log n`` nodes; a split moves half a group.
Delete a descent and a step per leaf with older rows of the same key; rows are deleted lazily, as
the authors do: a leaf stays, however few rows it has, until it is empty. Bytes: 16 per row over the
fill of leaves and of groups, each about two thirds when keys come at random.
"""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.index.folding import Fold
from thetastream.index.ordered.kernels import csb as kernels
from thetastream.index.ordered.kernels.csb import nodes as csb
from thetastream.index.ordered.kernels.csb.rows import (
    clear,
    delete_rows,
    find_rows,
    fold_boxes,
    insert_rows,
    read_rows,
)
from thetastream.index.ordered.kernels.lines import DEEPEST, LEAD, RUN
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.registry import checked, refused

_TOGETHER = 32  # rows of a batch that go down together


class CsbTree(OrderedIndex):
    """A CSB⁺-tree with ``keys`` separators per inner node and as many rows per leaf.

    One less than a multiple of eight fills cache lines.
    """

    name: ClassVar[str] = "csb+tree"
    summary: ClassVar[str] = "cache-sensitive B⁺-tree, children of a node side by side in a group"
    kernels: ClassVar[ModuleType | None] = kernels

    def __init__(self, capacity: int = 1 << 20, columns: int = 1, keys: int = 15) -> None:
        checked(self.name, keys=(keys, 2))
        if keys >= csb.MANY:
            raise refused(self.name, f"keys must be below {csb.MANY}; got {keys}")
        super().__init__(capacity, columns, keys=keys)
        area, leaf = csb.shape_of(keys)
        self._facts = np.zeros(csb.FACTS, np.int64)
        self._facts[[csb.KEYS, csb.AREA, csb.LEAF_STRIDE]] = keys, area, leaf
        self._clear()

    # --- Changing -------------------------------------------------------------------------------

    def _put(self, keys: Array, ids: Array) -> None:
        """A descent per row, several of them together."""
        path, nodes, done = _path(), _nodes(), 0
        while done < keys.size:
            done = insert_rows(*self._tree, keys, ids, done, path, nodes)
            if done < keys.size:
                self._grow()

    def _take_out(self, keys: Array, ids: Array) -> int:
        return int(delete_rows(*self._tree, keys, ids, _path(), np.empty(RUN, np.int64)))

    def _clear(self) -> None:
        """O(1); memory is given back."""
        facts = self._facts
        # One node of each array is kept free for what is on its way to a group.
        self._inners = np.zeros(LEAD + int(facts[csb.AREA]), np.int64)
        self._leaves = np.zeros(LEAD + int(facts[csb.LEAF_STRIDE]), np.int64)
        facts[[csb.HEIGHT, csb.LEAF_TOP, csb.INNER_TOP]] = 0
        self._grow()
        clear(*self._tree)

    def _grow(self) -> None:
        """More groups where an insert may need some: a third of those there are."""
        facts = self._facts
        words, most = int(facts[csb.LEAF_STRIDE]), int(facts[csb.KEYS] + 1)
        for array, nodes, groups, top, end in (
            (self._leaves, words * most, 1, csb.LEAF_TOP, csb.LEAF_END),
            (self._inners, int(facts[csb.AREA]) * most, int(facts[csb.HEIGHT]) + 1,
             csb.INNER_TOP, csb.INNER_END),
        ):  # fmt: skip
            if array.size - facts[top] < groups * nodes:
                held = array.size // nodes
                # In place where the system can: nodes are known by their offsets, and nobody else
                # holds the array.
                array.resize(array.size + max(held // 3, groups) * nodes, refcheck=False)
            facts[end] = array.size

    @property
    def _tree(self) -> tuple[Array, Array, Array]:
        return self._inners, self._leaves, self._facts

    # --- Asking ---------------------------------------------------------------------------------

    def _find(self, keys: Array) -> Array:
        found = np.empty(keys.size, np.int64)
        find_rows(*self._tree, keys, found, _nodes())
        return found

    def _read(
        self,
        lows: Array,
        highs: Array,
        before: int,
        cursor: Array,
        positions: Array,
        keys: Array,
        ids: Array,
    ) -> int:
        run = np.empty(RUN, np.int64)
        return int(
            read_rows(
                *self._tree,
                lows,
                highs,
                before,
                cursor,
                _path(),
                run,
                _nodes(),
                positions,
                keys,
                ids,
            )
        )

    def _fold(self, lows: Array, highs: Array, before: int, fold: Fold) -> None:
        run = np.empty(RUN, np.int64)
        fold_boxes(*self._tree, lows, highs, before, _path(), run, _nodes(), *fold.arrays)

    def _rows(self) -> tuple[Array, Array]:
        boxes, keys, ids = np.empty((3, self._held), np.int64)
        every = np.array([LEAST]), np.array([MOST])
        self._read(*every, LEAST, np.array([0, 0, -1]), boxes, keys, ids)
        return keys, ids

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def _held(self) -> int:
        return int(self._facts[csb.ROWS])

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(part.nbytes for part in self._tree)

    def check(self) -> None:
        super().check()
        check_csb(*self._tree)


def _path() -> Array:
    return np.empty(2 * DEEPEST, np.int64)


def _nodes() -> Array:
    return np.empty(_TOGETHER, np.int64)


def check_csb(inners: Array, leaves: Array, facts: Array) -> None:
    """Assert that a tree is sound, node by node."""
    groups: tuple[list[int], list[int]] = ([], [])  # of leaves, of inner nodes
    root, height = int(facts[csb.ROOT]), int(facts[csb.HEIGHT])
    groups[height > 0].append(root)
    rows = _check_node(inners, leaves, facts, root, 0, (LEAST, MOST), groups)
    assert rows == facts[csb.ROWS], "rows are counted"
    if height:
        assert inners[root] % csb.MANY >= 1, "a root that is not a leaf has two children"
    most, area, leaf = int(facts[csb.KEYS]) + 1, int(facts[csb.AREA]), int(facts[csb.LEAF_STRIDE])
    for held, words, stride, top, free in (
        (groups[0], leaves, leaf, csb.LEAF_TOP, csb.LEAF_FREE),
        (groups[1], inners, area, csb.INNER_TOP, csb.INNER_FREE),
    ):
        every = list(range(LEAD + stride, int(facts[top]), most * stride))
        group = int(facts[free])
        while group >= 0 and len(held) <= len(every):
            held.append(group)
            group = int(words[group])
        assert sorted(held) == every, "no group is lost or shared"
        assert facts[top] <= words.size


def _check_node(
    inners: Array, leaves: Array, facts: Array, node: int, depth: int, bounds: tuple[int, int],
    groups: tuple[list[int], list[int]],
) -> int:  # fmt: skip
    """Assert the part of a tree below a node; gives its rows."""
    height, area = int(facts[csb.HEIGHT]), int(facts[csb.AREA])
    words = leaves if depth == height else inners
    size = int(words[node]) if depth == height else int(words[node]) % csb.MANY
    assert size <= facts[csb.KEYS]
    assert np.all(words[node + 1 + size : node + area] == MOST), "free places hold the largest"
    keys = words[node + 1 : node + 1 + size].tolist()
    assert keys == sorted(keys) and all(bounds[0] <= key <= bounds[1] for key in keys)
    if depth == height:
        assert size or not depth, "no leaf but the root is empty"
        return size
    group, last = int(words[node]) // csb.MANY, depth + 1 == height
    groups[not last].append(group)
    edges, stride = [bounds[0], *keys, bounds[1]], int(facts[csb.LEAF_STRIDE]) if last else area
    return sum(
        _check_node(
            inners, leaves, facts, group + c * stride, depth + 1, (edges[c], edges[c + 1]), groups
        )
        for c in range(size + 1)
    )

"""The cache-sensitive B⁺-tree, full variant: one child reference per node.

       ┌──────────────┐
       │ ● │ 40 │ 71  │                              ● is the first child; the others follow it
       └─┬────────────┘
    ┌────▼─────┬──────────┬──────────┬─ ─ ─ ─ ┐
    │ 3 5 9 14 │ 40 50 66 │ 71 80 93 │  free   │   a node group, with room for all children
    └──────────┴──────────┴──────────┴─ ─ ─ ─ ┘

Rao and Ross's tree as compared in Ordered Indexing, Section 4.1, in two flat arrays of words
(``kernels/csb/nodes.py``, ``change.py``): groups of leaves and groups of inner nodes. A node that
stores one child reference instead of all of them has more keys per cache line, so the tree is
flatter than a B⁺-tree of that node size. The price is memory: a group is allocated at full size.

Invariants: rows ascend by (key, id) from leaf to leaf; separators bound their children, both ends
included; all leaves have the same depth; no leaf except the root is empty; free places hold the
largest integer; every group is in the tree or in the free list.

Cost for ``n`` rows: insert and look-up take one descent of ``log n`` nodes; a split moves half a
group. Delete takes one descent plus a step per leaf with older rows of the same key. As in the
original, deletion is lazy: a leaf stays until it is empty. Bytes: 16 per row divided by the fill of
leaves and of groups, each about two thirds for random keys.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.index.ordered.kernels import csb as kernels
from thetastream.index.ordered.kernels.csb import nodes as csb
from thetastream.index.ordered.kernels.csb import rows
from thetastream.index.ordered.kernels.lines import LEAD, RUN
from thetastream.index.ordered.node_tree import GROUP, PATH, NodeTree
from thetastream.index.registry import checked, refused


class CsbTree(NodeTree):
    """A CSB⁺-tree with ``keys`` separators per inner node and as many rows per leaf.

    One less than a multiple of eight fills whole cache lines.
    """

    name: ClassVar[str] = "csb+tree"
    summary: ClassVar[str] = "cache-sensitive B⁺-tree, children of a node side by side in a group"
    kernels: ClassVar[ModuleType | None] = kernels
    loops: ClassVar[Any] = rows
    inserting: ClassVar[tuple[int, ...]] = (PATH, GROUP)
    deleting: ClassVar[tuple[int, ...]] = (PATH, RUN)

    def __init__(self, capacity: int = 1 << 20, columns: int = 1, keys: int = 15) -> None:
        checked(self.name, keys=(keys, 2))
        if keys >= csb.MANY:
            raise refused(self.name, f"keys must be below {csb.MANY}; got {keys}")
        super().__init__(capacity, columns, keys=keys)
        area, leaf = csb.shape_of(keys)
        self._facts = np.zeros(csb.FACTS, np.int64)
        self._facts[[csb.KEYS, csb.AREA, csb.LEAF_STRIDE]] = keys, area, leaf
        self._clear()

    @property
    def _tree(self) -> tuple[Array, ...]:
        return self._inners, self._leaves, self._facts

    def _clear(self) -> None:
        """O(1); frees the memory."""
        facts = self._facts
        # One node of each array is reserved for a node on its way to a group.
        self._inners = np.zeros(LEAD + int(facts[csb.AREA]), np.int64)
        self._leaves = np.zeros(LEAD + int(facts[csb.LEAF_STRIDE]), np.int64)
        facts[[csb.HEIGHT, csb.LEAF_TOP, csb.INNER_TOP]] = 0
        self._grow()
        rows.clear(*self._tree)

    def _grow(self) -> None:
        """Add a third of the present groups wherever an insert may need some."""
        facts = self._facts
        most, height = int(facts[csb.KEYS] + 1), int(facts[csb.HEIGHT])
        for array, stride, groups, top, end in (
            (self._leaves, csb.LEAF_STRIDE, 1, csb.LEAF_TOP, csb.LEAF_END),
            (self._inners, csb.AREA, height + 1, csb.INNER_TOP, csb.INNER_END),
        ):
            words = int(facts[stride]) * most
            if array.size - facts[top] < groups * words:
                # In place where the system can: nodes are known by their offsets, and nothing else
                # refers to the array.
                more = max(array.size // words // 3, groups)
                array.resize(array.size + more * words, refcheck=False)
            facts[end] = array.size

    @property
    def _held(self) -> int:
        return int(self._facts[csb.ROWS])

    def check(self) -> None:
        super().check()
        check_csb(*self._tree)


def check_csb(inners: Array, leaves: Array, facts: Array) -> None:
    """Assert that a tree is sound, node by node."""
    groups: tuple[list[int], list[int]] = ([], [])  # of leaves, of inner nodes
    root, height = int(facts[csb.ROOT]), int(facts[csb.HEIGHT])
    groups[height > 0].append(root)
    count = _check_node(inners, leaves, facts, root, 0, (LEAST, MOST), groups)
    assert count == facts[csb.ROWS], "rows are counted"
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
    """Check the subtree of a node; returns its number of rows."""
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

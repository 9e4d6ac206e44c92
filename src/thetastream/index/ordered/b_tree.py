"""The classical B-tree: rows in inner nodes as well as in leaves.

                ┌────────────┐
                │  14 │ 66   │               every row is stored once, in a node of any level
                └─┬─────┬──┬─┘
        ┌─────────┘     │  └────────┐
    ┌───▼───┐ ┌─────────▼───┐ ┌─────▼────┐
    │ 3 5 9 │ │ 15 21 40 50 │ │ 71 80 93 │
    └───────┘ └─────────────┘ └──────────┘

The B-tree of Ordered Indexing, Section 4.1 (after Bayer and McCreight), in one flat array of words
(``kernels/btree/nodes.py``, ``change.py``). A walk over a range alternates between leaves and
single rows of inner nodes, so leaves need no links.

Invariants: rows ascend by (key, id) in the order of the walk; all leaves have the same depth; nodes
are at least half full, except the root and the right edge; free places hold the largest integer.

Cost for ``n`` rows: insert, look-up and delete each take one descent of ``log n`` nodes, however
many keys are equal, because the id breaks ties. Bytes: 16 per row divided by the fill of the nodes,
which is about two thirds for random keys.

Why not the B⁺-tree? Its separators are stored beside its rows, so ranges touch leaves only, and its
window deletes expired rows one by one. The B-tree is here for comparison, as in the paper.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream.index.ordered.kernels import btree as kernels
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.kernels.btree import rows
from thetastream.index.ordered.kernels.lines import LEAD
from thetastream.index.ordered.node_tree import GROUP, PATH, NodeTree
from thetastream.index.registry import checked


class BTree(NodeTree):
    """A B-tree with nodes of ``node_bytes`` bytes, rounded down to whole cache lines."""

    name: ClassVar[str] = "b-tree"
    summary: ClassVar[str] = "classical B-tree, rows in inner nodes as well as in leaves"
    kernels: ClassVar[ModuleType | None] = kernels
    loops: ClassVar[Any] = rows
    inserting: ClassVar[tuple[int, ...]] = (PATH, 3, GROUP)
    deleting: ClassVar[tuple[int, ...]] = (PATH,)

    def __init__(self, capacity: int = 1 << 20, columns: int = 1, node_bytes: int = 512) -> None:
        checked(self.name, node_bytes=(node_bytes, 192))
        super().__init__(capacity, columns, node_bytes=node_bytes)
        facts = np.zeros(btree.FACTS, np.int64)
        stride, leaf, inner = btree.shape_of(node_bytes)
        facts[[btree.STRIDE, btree.LEAF_AREA, btree.INNER_AREA]] = stride, leaf, inner
        facts[[btree.LEAF, btree.INNER]] = leaf - 1, inner - 1
        self._facts = facts
        self._clear()

    @property
    def _tree(self) -> tuple[Array, ...]:
        return self._words, self._facts

    def _clear(self) -> None:
        """O(1); frees the memory."""
        self._words = np.zeros(LEAD, np.int64)
        self._facts[btree.HEIGHT] = 0
        self._grow()
        rows.clear(*self._tree)

    def _grow(self) -> None:
        """Add a third of the present nodes, and at least as many as an insert may need."""
        stride, height = int(self._facts[btree.STRIDE]), int(self._facts[btree.HEIGHT])
        nodes = (self._words.size - LEAD) // stride
        nodes += max(nodes // 3, height + 2)
        # In place where the system can: nodes are known by their offsets, and nothing else refers
        # to the array. (A new array could use huge pages, good for look-ups, but costs a copy.)
        self._words.resize(LEAD + nodes * stride, refcheck=False)
        self._facts[btree.END] = self._words.size

    @property
    def _held(self) -> int:
        return int(self._facts[btree.ROWS])

    def check(self) -> None:
        super().check()
        check_btree(*self._tree)


def check_btree(words: Array, facts: Array) -> None:
    """Assert that a tree is sound, node by node."""
    nodes: list[int] = []
    entries: list[tuple[int, int]] = []
    _check_node(words, facts, int(facts[btree.ROOT]), 0, True, nodes, entries)
    assert entries == sorted(entries), "rows are in order of (key, id)"
    assert len(entries) == facts[btree.ROWS], "rows are counted"
    free = int(facts[btree.FREE])
    while free >= 0 and len(nodes) * facts[btree.STRIDE] <= facts[btree.TOP]:
        nodes.append(free)
        free = int(words[free])
    every = range(LEAD, int(facts[btree.TOP]), int(facts[btree.STRIDE]))
    assert sorted(nodes) == list(every), "no node is lost or shared"
    assert facts[btree.TOP] <= facts[btree.END] == words.size


def _check_node(
    words: Array, facts: Array, node: int, depth: int, edge: bool, nodes: list[int],
    entries: list[tuple[int, int]],
) -> None:  # fmt: skip
    inner, size = depth < facts[btree.HEIGHT], int(words[node])
    area = int(facts[btree.INNER_AREA if inner else btree.LEAF_AREA])
    room = int(facts[btree.INNER if inner else btree.LEAF])
    nodes.append(node)
    assert size <= room
    assert size >= (room // 2 if not edge else 1 if inner or depth else 0), "nodes are half full"
    assert np.all(words[node + 1 + size : node + area] == MOST), "free places hold the largest"
    keys, ids = words[node + 1 :][:size].tolist(), words[node + area :][:size].tolist()
    if not inner:
        entries += zip(keys, ids, strict=True)
        return
    children = words[node + 2 * area - 1 :][: size + 1].tolist()
    for c, child in enumerate(children):
        last = c == size
        _check_node(words, facts, child, depth + 1, edge and last, nodes, entries)
        if not last:
            entries.append((keys[c], ids[c]))

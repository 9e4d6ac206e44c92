"""The classical B-tree: rows in inner nodes as well as in leaves.

                ┌────────────┐
                │  14 │ 66   │               every row is stored once, in a node of any level
                └─┬─────┬──┬─┘
        ┌─────────┘     │  └────────┐
    ┌───▼───┐ ┌─────────▼───┐ ┌─────▼────┐
    │ 3 5 9 │ │ 15 21 40 50 │ │ 71 80 93 │
    └───────┘ └─────────────┘ └──────────┘

The B-tree of Ordered Indexing, Section 4.1 (after Bayer and McCreight), in one flat array of words
(``kernels/btree/nodes.py``, ``change.py``). A walk over a range takes leaves and single rows of
inner nodes in turns; leaves need no links.

Invariants: rows ascend by (key, id) in the order of the walk; all leaves have the same depth; but
for the root and the right edge, nodes are at least half full; free places hold the largest integer.

Cost for ``n`` rows: insert, look-up and delete a descent of ``log n`` nodes each, whatever the
number of equal keys: of equal keys the id decides. Bytes: 16 per row over the fill of the nodes,
about two thirds when keys come at random.

Why not the B⁺-tree? That one has separators beside its rows, so that ranges need leaves only, and
its window deletes row by row as rows expire. This one is here to be compared with, as in the paper.
"""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.index.folding import Fold
from thetastream.index.ordered.kernels import btree as kernels
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.kernels.btree.rows import (
    clear,
    delete_rows,
    find_rows,
    fold_boxes,
    insert_rows,
    read_rows,
)
from thetastream.index.ordered.kernels.lines import DEEPEST, LEAD, RUN
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.registry import checked

_TOGETHER = 32  # rows of a batch that go down together


class BTree(OrderedIndex):
    """A B-tree with nodes of ``node_bytes`` bytes, rounded down to whole cache lines."""

    name: ClassVar[str] = "b-tree"
    summary: ClassVar[str] = "classical B-tree, rows in inner nodes as well as in leaves"
    kernels: ClassVar[ModuleType | None] = kernels

    def __init__(self, capacity: int = 1 << 20, columns: int = 1, node_bytes: int = 512) -> None:
        checked(self.name, node_bytes=(node_bytes, 192))
        super().__init__(capacity, columns, node_bytes=node_bytes)
        facts = np.zeros(btree.FACTS, np.int64)
        stride, leaf, inner = btree.shape_of(node_bytes)
        facts[[btree.STRIDE, btree.LEAF_AREA, btree.INNER_AREA]] = stride, leaf, inner
        facts[[btree.LEAF, btree.INNER]] = leaf - 1, inner - 1
        self._facts = facts
        self._clear()

    # --- Changing -------------------------------------------------------------------------------

    def _put(self, keys: Array, ids: Array) -> None:
        """A descent per row, in groups that wait for memory together."""
        path, nodes, fresh = _path(), _nodes(), np.empty(3, np.int64)
        done = 0
        while done < keys.size:
            done = insert_rows(self._words, self._facts, keys, ids, done, path, fresh, nodes)
            if done < keys.size:
                self._grow()

    def _take_out(self, keys: Array, ids: Array) -> int:
        return int(delete_rows(self._words, self._facts, keys, ids, _path()))

    def _clear(self) -> None:
        """O(1); memory is given back."""
        self._words = np.zeros(LEAD, np.int64)
        self._facts[btree.HEIGHT] = 0
        self._grow()
        clear(self._words, self._facts)

    def _grow(self) -> None:
        """More nodes: a third of those there are, and at least what an insert may need."""
        stride, height = int(self._facts[btree.STRIDE]), int(self._facts[btree.HEIGHT])
        nodes = (self._words.size - LEAD) // stride
        nodes += max(nodes // 3, height + 2)
        # In place where the system can: nodes are known by their offsets, and nobody else holds it.
        # (New arrays could lie in huge pages, which look-ups like, but they are filled by copying.)
        self._words.resize(LEAD + nodes * stride, refcheck=False)
        self._facts[btree.END] = self._words.size

    # --- Asking ---------------------------------------------------------------------------------

    def _find(self, keys: Array) -> Array:
        found = np.empty(keys.size, np.int64)
        find_rows(self._words, self._facts, keys, found, _nodes())
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
                self._words, self._facts, lows, highs, before, cursor, _path(), run, _nodes(),
                positions, keys, ids,
            )
        )  # fmt: skip

    def _fold(self, lows: Array, highs: Array, before: int, fold: Fold) -> None:
        run = np.empty(RUN, np.int64)
        fold_boxes(
            self._words, self._facts, lows, highs, before, _path(), run, _nodes(), *fold.arrays
        )

    def _rows(self) -> tuple[Array, Array]:
        boxes, keys, ids = np.empty((3, self._held), np.int64)
        every = np.array([LEAST]), np.array([MOST])
        self._read(*every, LEAST, np.array([0, 0, -1]), boxes, keys, ids)
        return keys, ids

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def _held(self) -> int:
        return int(self._facts[btree.ROWS])

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._words.nbytes + self._facts.nbytes

    def check(self) -> None:
        super().check()
        check_btree(self._words, self._facts)


def _path() -> Array:
    return np.empty(2 * DEEPEST, np.int64)


def _nodes() -> Array:
    return np.empty(_TOGETHER, np.int64)


def check_btree(words: Array, facts: Array) -> None:
    """Assert that a tree is sound, node by node."""
    nodes: list[int] = []
    rows: list[tuple[int, int]] = []
    _check_node(words, facts, int(facts[btree.ROOT]), 0, True, nodes, rows)
    assert rows == sorted(rows), "rows are in order of (key, id)"
    assert len(rows) == facts[btree.ROWS], "rows are counted"
    free = int(facts[btree.FREE])
    while free >= 0 and len(nodes) * facts[btree.STRIDE] <= facts[btree.TOP]:
        nodes.append(free)
        free = int(words[free])
    every = range(LEAD, int(facts[btree.TOP]), int(facts[btree.STRIDE]))
    assert sorted(nodes) == list(every), "no node is lost or shared"
    assert facts[btree.TOP] <= facts[btree.END] == words.size


def _check_node(
    words: Array, facts: Array, node: int, depth: int, edge: bool, nodes: list[int],
    rows: list[tuple[int, int]],
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
        rows += zip(keys, ids, strict=True)
        return
    children = words[node + 2 * area - 1 :][: size + 1].tolist()
    for c, child in enumerate(children):
        last = c == size
        _check_node(words, facts, child, depth + 1, edge and last, nodes, rows)
        if not last:
            rows.append((keys[c], ids[c]))

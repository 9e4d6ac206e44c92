"""A tree in flat arrays beside a sorted list of its rows, and reading in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thetastream.index.ordered.b_tree import BTree, check_btree
from thetastream.index.ordered.csb_tree import CsbTree, check_csb
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.node_tree import NodeTree

from ....keys import Pair, edges, int64


def read_in_pieces(
    read: Callable[..., int], boxes: Sequence[Pair], before: int, room: int
) -> list[tuple[int, ...]]:
    """All (box, key, id), read with ``room`` places, again and again."""
    lows, highs = edges(boxes)
    cursor, rows = int64([0, 0, -1]), []
    while cursor[0] < len(boxes):
        out = np.empty((3, room), np.int64)
        filled = read(lows, highs, before, cursor, *out)
        assert filled == room or cursor[0] == len(boxes)
        rows += list(zip(*out[:, :filled].tolist(), strict=True))
    return rows


def rows_inside(
    rows: Sequence[Pair], boxes: Sequence[Pair], before: int
) -> list[tuple[int, int, int]]:
    """What reading should return: every box against every (key, id)."""
    return [
        (box, key, row)
        for box, (low, high) in enumerate(boxes)
        for key, row in rows
        if low <= key <= high and row >= before
    ]


class Tree:
    """A tree of few keys per node, and the rows that it should hold."""

    def __init__(self, index: NodeTree, check: Callable[..., None]) -> None:
        self.index = index
        self._check = check
        self.model: list[Pair] = []
        self.issued = 0

    def insert(self, keys: Sequence[int]) -> None:
        keys = sorted(keys)
        ids = range(self.issued, self.issued + len(keys))
        self.index._put(int64(keys), int64(ids))
        self.issued += len(keys)
        self.model = sorted([*self.model, *zip(keys, ids, strict=True)])

    def delete(self, rows: Sequence[Pair]) -> int:
        deleted = self.index._take_out(*edges(rows))
        self.model = [row for row in self.model if row not in set(rows)]
        return deleted

    def newest(self, keys: Sequence[int]) -> list[int]:
        return [max((row for key, row in self.model if key == one), default=-1) for one in keys]

    def check(self) -> None:
        self._check(*self.index._tree)
        keys, ids = self.index._rows()
        assert list(zip(keys.tolist(), ids.tolist(), strict=True)) == self.model

    def fact(self, which: int) -> int:
        return int(self.index._tree[-1][which])


def b_tree(leaf: int = 2, inner: int = 2) -> Tree:
    """A B-tree whose nodes are smaller than their room."""
    index = BTree(node_bytes=192)
    index._facts[[btree.LEAF, btree.INNER]] = leaf, inner
    return Tree(index, check_btree)


def csb_tree(keys: int = 2) -> Tree:
    return Tree(CsbTree(keys=keys), check_csb)

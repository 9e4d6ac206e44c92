"""What the B-tree and the CSB⁺-tree share: any node size, sweeps of expired rows."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

from thetastream.index.ordered.b_tree import BTree
from thetastream.index.ordered.csb_tree import CsbTree
from thetastream.index.ordered.node_tree import NodeTree

Tree = TypeVar("Tree", bound=NodeTree)
SIZES = [
    *((BTree, {"node_bytes": size}) for size in (192, 320, 768, 4096)),
    *((CsbTree, {"keys": size}) for size in (2, 7, 15, 40, 255)),
]


def filled(kind: type[Tree], rows: int, **settings: int) -> Tree:
    index, random = kind(**settings), np.random.default_rng(3)
    step = rows // 16
    for at in range(0, rows, step):
        ids = np.arange(at, min(rows, at + step))
        index.insert(random.integers(0, 2**40, ids.size), ids)
    return index


@pytest.mark.parametrize(("kind", "settings"), SIZES)
def test_any_node_size(kind: type[NodeTree], settings: dict[str, int]) -> None:
    index = filled(kind, 2000, **settings)
    index.check()
    keys, ids = index.dump()
    assert index.remove(keys[0, ::2], ids[::2]) == 1000
    index.check()
    assert index.find(keys[0]).tolist() == np.where(ids % 2, ids, -1).tolist()


@pytest.mark.parametrize(
    ("kind", "settings"), [(BTree, {"node_bytes": 192}), (CsbTree, {"keys": 3})]
)
def test_expired_rows_are_swept(kind: type[NodeTree], settings: dict[str, int]) -> None:
    index = kind(**settings)
    for at in range(0, 400, 10):
        index.insert(np.arange(10) * 37 % 11, np.arange(at, at + 10))
        index.expire(at - 50)
        index.check()
        assert index._held <= 130
    assert index.statistics["sweeps"] > 3
    index.expire(10**6)
    assert index._held == len(index) == 0

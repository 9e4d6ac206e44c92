"""The B-tree as an index: bytes, expiry, what is refused, what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from thetastream._jit.compiling import ENABLED
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.ordered.b_tree import BTree, check_btree
from thetastream.index.ordered.kernels.btree import nodes as btree


def filled(rows: int, **settings: int) -> BTree:
    index, random = BTree(**settings), np.random.default_rng(3)
    step = rows // 16
    for at in range(0, rows, step):
        ids = np.arange(at, min(rows, at + step))
        index.insert(random.integers(0, 2**40, ids.size), ids)
    return index


def test_parameters() -> None:
    index = create("b-tree", node_bytes=256)
    assert index.parameters == {"capacity": 1 << 20, "columns": 1, "node_bytes": 256}
    assert index.statistics == {"sweeps": 0}


def test_nodes_that_are_too_small() -> None:
    with pytest.raises(RegistryError, match="b-tree: node_bytes must be at least 192; got 191"):
        create("b-tree", node_bytes=191)


def test_bytes_per_row() -> None:
    rows = 1 << (16 if ENABLED else 12)
    index = filled(rows)
    used = 8 * int(index._facts[btree.TOP])
    assert 16 / 0.85 < used / rows < 16 / 0.6, "nodes are about two thirds full"
    assert used <= index.nbytes < 1.5 * used, "nodes that are not used yet count"


@pytest.mark.parametrize("node_bytes", [192, 320, 768, 4096])
def test_any_node_size(node_bytes: int) -> None:
    index = filled(2000, node_bytes=node_bytes)
    index.check()
    keys, ids = index.dump()
    assert index.remove(keys[0, ::2], ids[::2]) == 1000
    index.check()
    assert index.find(keys[0]).tolist() == np.where(ids % 2, ids, -1).tolist()


def test_expired_rows_are_swept() -> None:
    index = BTree(node_bytes=192)
    for at in range(0, 400, 10):
        index.insert(np.arange(10) * 37 % 11, np.arange(at, at + 10))
        index.expire(at - 50)
        index.check()
        assert index._held <= 130
    assert index.statistics["sweeps"] > 3
    index.expire(10**6)
    assert index._held == len(index) == 0


def test_a_damaged_tree_is_noticed() -> None:
    index = filled(500)
    words, facts = index._words, index._facts
    root = int(facts[btree.ROOT])
    for at, value in ((root, 1 + words[root]), (root + 1, 2**62), (btree.ROWS, 7)):
        place = facts if at == btree.ROWS else words
        before = int(place[at])
        place[at] = value
        with pytest.raises(AssertionError):
            check_btree(words, facts)
        place[at] = before
    check_btree(words, facts)

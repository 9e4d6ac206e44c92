"""The CSB⁺-tree as an index: bytes, expiry, what is refused, what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from thetastream._jit.compiling import ENABLED
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.ordered.csb_tree import CsbTree, check_csb
from thetastream.index.ordered.kernels.csb import nodes as csb


def filled(rows: int, **settings: int) -> CsbTree:
    index, random = CsbTree(**settings), np.random.default_rng(3)
    step = rows // 16
    for at in range(0, rows, step):
        ids = np.arange(at, min(rows, at + step))
        index.insert(random.integers(0, 2**40, ids.size), ids)
    return index


def test_parameters() -> None:
    index = create("csb+tree", keys=7)
    assert index.parameters == {"capacity": 1 << 20, "columns": 1, "keys": 7}
    assert index.statistics == {"sweeps": 0}


@pytest.mark.parametrize(
    ("keys", "message"), [(1, "must be at least 2; got 1"), (256, "must be below 256; got 256")]
)
def test_nodes_that_cannot_be(keys: int, message: str) -> None:
    with pytest.raises(RegistryError, match=f"csb\\+tree: keys {message}"):
        create("csb+tree", keys=keys)


def test_bytes_per_row() -> None:
    rows = 1 << (16 if ENABLED else 12)
    index = filled(rows)
    used = 8 * int(index._facts[csb.LEAF_TOP] + index._facts[csb.INNER_TOP])
    assert 24 < used / rows < 48, "leaves and groups are about two thirds full each"
    assert used <= index.nbytes < 1.5 * used, "groups that are not used yet count"


@pytest.mark.parametrize("keys", [2, 7, 15, 40, 255])
def test_any_node_size(keys: int) -> None:
    index = filled(2000, keys=keys)
    index.check()
    held, ids = index.dump()
    assert index.remove(held[0, ::2], ids[::2]) == 1000
    index.check()
    assert index.find(held[0]).tolist() == np.where(ids % 2, ids, -1).tolist()


def test_expired_rows_are_swept() -> None:
    index = CsbTree(keys=3)
    for at in range(0, 400, 10):
        index.insert(np.arange(10) * 37 % 11, np.arange(at, at + 10))
        index.expire(at - 50)
        index.check()
        assert index._held <= 130
    assert index.statistics["sweeps"] > 3
    index.expire(10**6)
    assert index._held == len(index) == 0


def test_a_damaged_tree_is_noticed() -> None:
    index = filled(100)
    inners, leaves, facts = index._tree
    assert facts[csb.HEIGHT] == 1
    root = int(facts[csb.ROOT])
    leaf = int(inners[root]) // csb.MANY
    for place, at, value in (
        (inners, root + 1, 2**62),
        (leaves, leaf, 0),
        (leaves, leaf + 1, 2**62),
        (facts, csb.ROWS, 7),
        (facts, csb.LEAF_FREE, leaf),
    ):
        before = int(place[at])
        place[at] = value
        with pytest.raises(AssertionError):
            check_csb(inners, leaves, facts)
        place[at] = before
    check_csb(inners, leaves, facts)

"""The B-tree and the CSB⁺-tree as indexes: settings, any node size, bytes, sweeps, damage."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest

from thetastream._jit.compiling import ENABLED
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.ordered.b_tree import BTree, check_btree
from thetastream.index.ordered.csb_tree import CsbTree, check_csb
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.kernels.csb import nodes as csb
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


@pytest.mark.parametrize(
    ("name", "settings"), [("b-tree", {"node_bytes": 256}), ("csb+tree", {"keys": 7})]
)
def test_parameters(name: str, settings: dict[str, int]) -> None:
    index = create(name, **settings)
    assert index.parameters == {"capacity": 1 << 20, "columns": 1, **settings}
    assert index.statistics == {"sweeps": 0}


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("b-tree", {"node_bytes": 191}, "b-tree: node_bytes must be at least 192; got 191"),
        ("csb+tree", {"keys": 1}, r"csb\+tree: keys must be at least 2; got 1"),
        ("csb+tree", {"keys": 256}, r"csb\+tree: keys must be below 256; got 256"),
    ],
)
def test_nodes_that_cannot_be(name: str, settings: dict[str, int], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        create(name, **settings)


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


@pytest.mark.parametrize(
    ("kind", "tops", "least", "most"),
    [
        (BTree, [btree.TOP], 16 / 0.85, 16 / 0.6),
        (CsbTree, [csb.LEAF_TOP, csb.INNER_TOP], 24, 48),
    ],
)
def test_bytes_per_row(kind: type[Tree], tops: list[int], least: float, most: float) -> None:
    rows = 1 << (16 if ENABLED else 12)
    index = filled(kind, rows)
    used = 8 * int(index._tree[-1][tops].sum())
    assert least < used / rows < most, "nodes, leaves and groups are about two thirds full"
    assert used <= index.nbytes < 1.5 * used, "what is not used yet counts"


def test_a_damaged_b_tree_is_noticed() -> None:
    words, facts = filled(BTree, 500)._tree
    root = int(facts[btree.ROOT])
    damages = [(words, root, 1 + words[root]), (words, root + 1, 2**62), (facts, btree.ROWS, 7)]
    notice(damages, check_btree, words, facts)


def test_a_damaged_csb_tree_is_noticed() -> None:
    inners, leaves, facts = filled(CsbTree, 100)._tree
    assert facts[csb.HEIGHT] == 1
    root = int(facts[csb.ROOT])
    leaf = int(inners[root]) // csb.MANY
    damages = [
        (inners, root + 1, 2**62),
        (leaves, leaf, 0),
        (leaves, leaf + 1, 2**62),
        (facts, csb.ROWS, 7),
        (facts, csb.LEAF_FREE, leaf),
    ]
    notice(damages, check_csb, inners, leaves, facts)


def notice(damages: list[tuple[Any, int, int]], check: Any, *tree: Any) -> None:
    """Write each value over one that is right: the check fails, and passes once it is undone."""
    for place, at, value in damages:
        before = int(place[at])
        place[at] = value
        with pytest.raises(AssertionError):
            check(*tree)
        place[at] = before
    check(*tree)

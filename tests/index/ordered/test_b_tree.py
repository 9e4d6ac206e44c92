"""The B-tree as an index: bytes, rejected settings, reported settings."""

from __future__ import annotations

import pytest

from thetastream._jit.compiling import ENABLED
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.ordered.b_tree import BTree, check_btree
from thetastream.index.ordered.kernels.btree import nodes as btree

from .test_node_tree import filled


def test_parameters() -> None:
    index = create("b-tree", node_bytes=256)
    assert index.parameters == {"capacity": 1 << 20, "columns": 1, "node_bytes": 256}
    assert index.statistics == {"sweeps": 0}


def test_nodes_that_are_too_small() -> None:
    with pytest.raises(RegistryError, match="b-tree: node_bytes must be at least 192; got 191"):
        create("b-tree", node_bytes=191)


def test_bytes_per_row() -> None:
    rows = 1 << (16 if ENABLED else 12)
    index = filled(BTree, rows)
    used = 8 * int(index._facts[btree.TOP])
    assert 16 / 0.85 < used / rows < 16 / 0.6, "nodes are about two thirds full"
    assert used <= index.nbytes < 1.5 * used, "nodes that are not used yet count"


def test_a_damaged_tree_is_noticed() -> None:
    index = filled(BTree, 500)
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

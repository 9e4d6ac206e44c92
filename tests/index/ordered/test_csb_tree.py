"""The CSB⁺-tree as an index: bytes, rejected settings, reported settings."""

from __future__ import annotations

import pytest

from thetastream._jit.compiling import ENABLED
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.ordered.csb_tree import CsbTree, check_csb
from thetastream.index.ordered.kernels.csb import nodes as csb

from .test_node_tree import filled


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
    index = filled(CsbTree, rows)
    used = 8 * int(index._facts[csb.LEAF_TOP] + index._facts[csb.INNER_TOP])
    assert 24 < used / rows < 48, "leaves and groups are about two thirds full each"
    assert used <= index.nbytes < 1.5 * used, "groups that are not used yet count"


def test_a_damaged_tree_is_noticed() -> None:
    index = filled(CsbTree, 100)
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

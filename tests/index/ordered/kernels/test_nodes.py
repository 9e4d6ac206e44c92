"""What the kernels of the B-tree and the CSB⁺-tree share: any steps, cursors, equal keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream._jit.compiling import ENABLED
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.kernels.csb import nodes as csb

from ....keys import HIGH, KEYS, LOW, Pair, int64
from .node_trees import Tree, b_tree, csb_tree, read_in_pieces, rows_inside

LONG = 3000 if ENABLED else 300  # without the compiler a step takes a hundred times as long
ROOMS = [(2, 2), (3, 2), (2, 3), (3, 4), (7, 7)]  # rows of a leaf, of an inner node
SIZES = [2, 3, 4, 7, 8]
TREES: dict[str, Callable[[], Tree]] = {
    **{f"b-tree-{leaf}-{inner}": partial(b_tree, leaf, inner) for leaf, inner in ROOMS},
    **{f"csb-{keys}": partial(csb_tree, keys) for keys in SIZES},
}
HEIGHTS = {"b-tree": btree.HEIGHT, "csb": csb.HEIGHT}
any_tree = pytest.mark.parametrize("name", TREES)
both = pytest.mark.parametrize("tree", [b_tree, csb_tree])


@any_tree
@given(steps=st.lists(st.tuples(st.lists(KEYS, max_size=12), st.data()), max_size=6))
def test_inserts_and_deletes(name: str, steps: list[tuple[list[int], st.DataObject]]) -> None:
    tree = TREES[name]()
    for keys, data in steps:
        tree.insert(keys)
        tree.check()
        if tree.model:
            gone = data.draw(st.lists(st.sampled_from(tree.model), unique=True))
            assert tree.delete(gone) == len(gone)
            tree.check()
        assert tree.index._find(int64(range(-4, 5))).tolist() == tree.newest(range(-4, 5))


@both
@given(
    keys=st.lists(KEYS, max_size=40),
    boxes=st.lists(st.tuples(KEYS, KEYS), max_size=4),
    before=st.integers(0, 40),
    room=st.integers(1, 7),
)
def test_ranges_in_pieces(
    tree: Callable[[], Tree], keys: list[int], boxes: list[Pair], before: int, room: int
) -> None:
    made = tree()
    made.insert(keys)
    found = read_in_pieces(made.index._read, boxes, before, room)
    assert found == rows_inside(made.model, boxes, before)


@pytest.mark.parametrize("name", ["b-tree-3-2", "csb-3"])
@given(st.lists(KEYS, max_size=40), st.lists(KEYS, max_size=40))
def test_the_newest_of_a_key(name: str, keys: list[int], asked: list[int]) -> None:
    tree = TREES[name]()
    tree.insert(keys[: len(keys) // 2])
    tree.insert(keys[len(keys) // 2 :])
    assert tree.index._find(int64(asked)).tolist() == tree.newest(asked)


@any_tree
def test_a_long_life(name: str) -> None:
    random, tree = np.random.default_rng(0), TREES[name]()
    for _ in range(LONG // 100):
        tree.insert(random.integers(0, LONG, 60).tolist())
        gone = random.permutation(len(tree.model))[: random.integers(0, 100)]
        assert tree.delete([tree.model[at] for at in gone]) == gone.size
        tree.check()
    tree.insert(range(60))
    assert tree.delete(list(tree.model)) >= 60
    tree.check()
    (height,) = (fact for kind, fact in HEIGHTS.items() if name.startswith(kind))
    assert tree.fact(height) == 0, "an empty tree is a leaf"


@both
def test_rows_that_are_not_there(tree: Callable[[], Tree]) -> None:
    made = tree()
    made.insert([1, 1, 2, 3, 3, 3])
    assert made.delete([(1, 7), (2, 0), (9, 9), (LOW, 0), (HIGH, 5)]) == 0
    made.check()

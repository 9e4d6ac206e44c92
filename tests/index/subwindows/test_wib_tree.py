"""WiB⁺-Tree: entries stay few whatever the keys, sorted leaves answer alike, room grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.subwindows.kernels import llat
from thetastream.index.subwindows.wib_tree import WibTree
from thetastream.index.subwindows.wide_tree import FILL, WideTree

from ...keys import HIGH, KEYS, LOW, pairs_of


def grown(keys: Sequence[int], width: int, batch: int = 1, fanout: int = 8) -> WideTree:
    """A tree with leaves of ``width`` places that took the keys in batches."""
    size = len(keys)
    tree = WideTree(size, max(1, round(size / (FILL * width))), fanout, sorted_leaves=False)
    for at in range(0, size, batch):
        part = np.sort(np.array(keys[at : at + batch], np.int64))
        tree.insert(part, np.arange(at, at + part.size))
    tree.check()
    assert tree.rows == size
    return tree


def entries(tree: WideTree) -> int:
    return int(tree.table.facts[llat.USED])


def width_of(tree: WideTree) -> int:
    return int(tree.table.facts[llat.WIDTH])


def around(heavy: int, light: Sequence[int], every: int) -> list[int]:
    """A heavy key, a light one after every few rows of it."""
    keys: list[int] = []
    for key in light:
        keys += [heavy] * every + [key]
    return keys


HEAVY = {
    "one key": [5] * 2000,
    "two keys": [5, 6] * 1000,
    "two keys, one after the other": [5] * 1000 + [6] * 1000,
    "three keys": [5, 7, 6] * 700,
    "a heavy key, ascending neighbours above": around(0, range(1, 300), 7),
    "a heavy key, descending neighbours above": around(0, range(300, 0, -1), 7),
    "a heavy key, ascending neighbours below": around(0, range(-300, 0), 7),
    "a heavy key, descending neighbours below": around(0, range(-1, -300, -1), 7),
    "a heavy key, neighbours on both sides closing in": around(
        0, [sign * at for at in range(150, 0, -1) for sign in (1, -1)], 7
    ),
    "a heavy key, neighbours on both sides going away": around(
        0, [sign * at for at in range(1, 150) for sign in (1, -1)], 7
    ),
    "heavy keys side by side": [key // 40 for key in range(2000)],
    "heavy keys, coming back": [key % 17 for key in range(2000)],
    "the ends": [LOW, HIGH, LOW + 1, HIGH - 1] * 500,
}


@pytest.mark.parametrize("batch", [1, 3, 64, 1000])
@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("keys", HEAVY.values(), ids=HEAVY)
def test_heavy_keys_keep_the_entries_few(keys: list[int], width: int, batch: int) -> None:
    """A leaf in three may be nearly empty beside a heavy key; full ones cannot be exceeded."""
    tree = grown(keys, width, batch)
    heavy = sum(keys.count(key) >= width for key in set(keys))
    assert entries(tree) <= 3 * len(keys) / width_of(tree) + 3 * heavy + 2
    bounds, _ = tree.leaves()
    assert bounds.size <= 2 * len(set(keys)) + 1


@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("order", ["shuffled", "ascending", "descending"])
def test_light_keys_fill_leaves_by_half_at_least(order: str, batch: int) -> None:
    keys = np.arange(5000)
    keys = {"shuffled": np.random.default_rng(1).permutation(keys), "ascending": keys}.get(
        order, keys[::-1]
    )
    tree = grown(keys.tolist(), 16, batch)
    assert entries(tree) <= 2 * keys.size / width_of(tree) + 1


@given(st.lists(st.lists(KEYS, max_size=10), max_size=8), st.integers(1, 3))
@example([[5] * 10, [4], [3], [2], [1], [6], [7]], 1)
@example([[HIGH] * 5, [HIGH - 1] * 5, [LOW] * 5], 3)
def test_room_grows_on_demand(batches: list[list[int]], size: int) -> None:
    """A tree made for a row or three takes any number of them."""
    tree = WideTree(size, 1, 3, sorted_leaves=False)
    first, stored = 0, []
    for batch in batches:
        keys = np.sort(np.array(batch, np.int64))
        tree.insert(keys, np.arange(first, first + keys.size))
        stored += keys.tolist()
        first += keys.size
        tree.check()
    keys, ids = tree.dump()
    assert sorted(zip(ids.tolist(), keys.tolist(), strict=True)) == list(enumerate(stored))


def test_entries_and_nodes_grow() -> None:
    """Ten times the rows that it was made for."""
    tree = WideTree(300, 100, 3, sorted_leaves=False)
    before = tree.table.sizes.size, tree.tree.sizes.size, tree.tree.widths.size
    keys = np.random.default_rng(2).integers(0, 10**6, 3000)
    for at in range(0, 3000, 50):
        tree.insert(np.sort(keys[at : at + 50]), np.arange(at, at + 50))
        tree.check()
    after = tree.table.sizes.size, tree.tree.sizes.size, tree.tree.widths.size
    assert all(a > b for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize("keys", [range(4000), range(4000, 0, -1), [7] * 2000 + [*range(2000)]])
def test_sorted_leaves_answer_alike(keys: Sequence[int]) -> None:
    both = [
        WibTree(capacity=4000, subwindows=2, partitions=40, fanout=5, sorted_leaves=is_sorted)
        for is_sorted in (False, True)
    ]
    random = np.random.default_rng(3)
    order = random.permutation(len(keys))
    rows = np.array(keys)[order]
    for at in range(0, rows.size, 100):
        for index in both:
            index.insert(rows[at : at + 100], np.arange(at, at + 100))
    lows = random.integers(-10, 4000, 200)
    answers = []
    for index in both:
        index.expire(500)
        index.check()
        answers.append(sorted(pairs_of(index.probe(lows, lows + 25))))
    assert answers[0] == answers[1]
    wanted = sum(np.count_nonzero((rows[500:] >= low) & (rows[500:] <= low + 25)) for low in lows)
    assert len(answers[0]) == wanted > 0


def test_values_that_increase_are_divided_well() -> None:
    """What a RaP-Table cannot do: leaves stay narrow though every batch lies above all before."""
    index = WibTree(capacity=1 << 13, subwindows=4)
    for at in range(0, 1 << 14, 1 << 9):
        index.expire(at - (1 << 13))
        index.insert(np.arange(at, at + (1 << 9)), np.arange(at, at + (1 << 9)))
    for link in index._links:
        tree = link.part.inside
        assert isinstance(tree, WideTree)
        assert tree.leaves()[0].size >= tree.rows / width_of(tree)
    index.check()


def test_a_reader_in_the_middle_goes_on_with_a_copy() -> None:
    index = WibTree(capacity=1000, subwindows=1, partitions=100, fanout=3)
    index.insert(np.arange(50), np.arange(50))
    answer = index.probe(np.array([0]), np.array([99]), limit=3)
    head = next(answer)[1].tolist()
    tree = index._links[0].part.inside
    assert isinstance(tree, WideTree)
    index.insert(np.arange(300) % 60, np.arange(50, 350))  # cuts leaves
    rest = [row for _, ids in answer for row in ids.tolist()]
    assert sorted(head + rest) == list(range(50))
    assert len(head) == 3
    index.check()


def test_bytes() -> None:
    """16 per place, 69 % of the places used, as the paper's B⁺-trees."""
    window = 1 << 15
    index = create("wib-tree", capacity=window, subwindows=1)
    random = np.random.default_rng(4)
    for at in range(0, window, 1 << 10):
        index.insert(random.integers(0, 2**40, 1 << 10), np.arange(at, at + (1 << 10)))
    assert 16 * window < index.nbytes < 32 * window


@pytest.mark.parametrize("fanout", [2, 0, -5])
def test_inner_nodes_have_three_children_at_least(fanout: int) -> None:
    with pytest.raises(RegistryError, match=f"fanout must be at least 3; got {fanout}"):
        create("wib-tree", fanout=fanout)

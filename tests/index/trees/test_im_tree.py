"""The IM-Tree: merges when they are due, in place, and counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.index.trees.im_tree import ImTree
from thetastream.index.trees.kernels import css
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pim_tree import PimTree

from .small_pools import run_rows

SMALL = {"slots": 2, "fanout": 3, "leaf": 1, "run_fanout": 2}
KINDS = pytest.mark.parametrize("kind", [ImTree, PimTree])


def run(index: ImTree | PimTree) -> list[int]:
    """Ids in T_S in its order, expired ones too."""
    return [row for _, row in run_rows(index._pool)]


@KINDS
@given(
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    window=st.integers(1, 40),
    ratio=st.sampled_from([1 / 64, 1 / 8, 0.3, 1 / 2, 1, 2]),
)
def test_merges_are_as_many_as_they_should(
    kind: type[ImTree], cuts: list[int], window: int, ratio: float
) -> None:
    """⌊inserts / (m · w)⌋ merges of what is alive, however the rows are cut into inserts."""
    index = kind(capacity=window, merge_ratio=ratio, **SMALL)
    limit = max(1, round(ratio * window))
    rows = merged = last = 0
    for cut in cuts:
        cut = min(cut, window)
        before = max(0, rows + cut - window)
        index.expire(before)
        index.insert(np.arange(rows, rows + cut) % 11, np.arange(rows, rows + cut))
        index.check()
        for done in range(rows // limit + 1, (rows + cut) // limit + 1):
            last = max(0, done * limit - before)
            merged += last
        rows += cut
        assert index.statistics == {"merges": rows // limit, "merged_rows": merged}
        assert index._facts[layout.YOUNG] == rows % limit
        assert len(run(index)) == last


@KINDS
def test_expired_rows_stay_until_the_next_merge(kind: type[ImTree]) -> None:
    index = kind(capacity=8, merge_ratio=0.5, **SMALL)
    index.insert(np.array([3, 1, 2, 1]), np.arange(4))
    assert run(index) == [1, 3, 2, 0]
    index.insert(np.array([1, 0]), np.array([4, 5]))
    index.expire(3)
    assert (len(index), run(index)) == (3, [1, 3, 2, 0])
    index.insert(np.array([9, 1]), np.array([6, 7]))
    assert run(index) == [5, 3, 4, 7, 6], "equal keys stay in order of arrival"
    index.expire(100)
    assert (len(index), len(run(index))) == (0, 5)
    index.insert(np.zeros(4, np.int64), np.arange(100, 104))
    assert run(index) == [100, 101, 102, 103]
    index.check()


def arrays(index: ImTree) -> list[NDArray[np.int64]]:
    store = index._pool.store
    return [*store.forest, *store.runs]


@KINDS
@pytest.mark.parametrize("ratio", [1 / 16, 1 / 4, 1])
def test_a_window_of_the_expected_size_is_merged_in_place(kind: type[ImTree], ratio: float) -> None:
    window, random = 1 << 10, np.random.default_rng(0)
    index = kind(capacity=window, merge_ratio=ratio)
    first = arrays(index)
    step = 32
    for at in range(0, 5 * window, step):
        index.insert(random.integers(0, 10**6, step), np.arange(at, at + step))
        index.expire(at + step - window)
        assert len(index) == min(at + step, window)
    assert index.statistics["merges"] == 5 / ratio
    assert all(old is new for old, new in zip(first, arrays(index), strict=True)), "no new memory"
    index.check()


@KINDS
def test_more_rows_than_expected_get_more_room(kind: type[ImTree]) -> None:
    index = kind(capacity=16, merge_ratio=0.25, **SMALL)
    rooms = set()
    for row in range(600):
        index.insert(np.array([row * 7 % 31]), np.array([row]))
        rooms.add(int(index._pool.run(0)[css.ROOM]))
    index.check()
    assert len(index) == 600
    assert 2 < len(rooms) < 40, "now and then, not at every merge"
    # T_I grows along, so that merging does not become all that is done.
    assert index._facts[layout.LIMIT] > 4
    assert index.statistics["merges"] < 600 / 4
    index.expire(590)
    index.insert(np.arange(8), np.arange(600, 608))
    index.check()
    assert len(index) == 18


@KINDS
def test_young_rows_are_fewer_than_the_limit(kind: type[ImTree]) -> None:
    index = kind(capacity=64, merge_ratio=1 / 8, **SMALL)
    for at in range(0, 200, 5):
        index.expire(at + 5 - 64)
        index.insert(np.full(5, at), np.arange(at, at + 5))
        assert index._facts[layout.YOUNG] == (at + 5) % 8
    index = kind(capacity=3, merge_ratio=1 / 16)
    index.insert(np.arange(4), np.arange(4))
    assert (index._facts[layout.YOUNG], index.statistics["merges"]) == (0, 4), "at least one row"


def test_bytes_follow_the_ratio() -> None:
    window, sizes = 1 << 14, []
    for ratio in (1 / 64, 1 / 16, 1 / 4, 1):
        index = ImTree(capacity=window, merge_ratio=ratio)
        for at in range(0, 3 * window, 1 << 10):
            index.expire(at + (1 << 10) - window)
            index.insert(
                np.random.default_rng(at).integers(0, 10**9, 1 << 10), np.arange(at, at + (1 << 10))
            )
        sizes.append(index.nbytes / window)
    assert sizes == sorted(sizes)
    assert 16 < sizes[0] < 18
    assert sizes[1] < 21
    assert sizes[-1] < 48

"""Merging sorted runs, against a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.kernels import prepare
from thetastream.kernels.merge import merge, merge_columns, merge_to_back, merge_to_front

prepare()

Row = tuple[int, int]  # key, id
LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
FEW, MANY = st.lists(KEYS, max_size=4), st.lists(KEYS, max_size=30)


def runs(old: list[int], new: list[int]) -> tuple[list[Row], list[Row]]:
    """Two sorted runs; ids ascend with arrival, not with keys."""
    older = sorted((key, at) for at, key in enumerate(old))
    newer = sorted((key, len(old) + at) for at, key in enumerate(new))
    return older, newer


def expected(older: list[Row], newer: list[Row], before: int) -> list[Row]:
    merged = sorted([*older, *newer], key=lambda row: row[0])  # stable: old rows first
    return [row for row in merged if row[1] >= before]


def arrays(rows: list[Row]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    keys, ids = np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.int64)
    return keys, ids


@pytest.mark.parametrize("swapped", [False, True])
@given(MANY, st.one_of(FEW, MANY), st.integers(0, 40))
@example([], [], 0)
@example([1], [], 0)
@example([], [1], 0)
@example([0] * 20, [0], 3)
def test_merge_is_a_stable_sort_without_the_expired(
    swapped: bool, old: list[int], new: list[int], before: int
) -> None:
    if swapped:
        old, new = new, old
    older, newer = runs(old, new)
    keys, ids = np.full(len(old) + len(new), -7), np.full(len(old) + len(new), -7)
    size = merge(*arrays(older), *arrays(newer), before, keys, ids)
    found = list(zip(keys[:size].tolist(), ids[:size].tolist(), strict=True))
    assert found == expected(older, newer, before)


@pytest.mark.parametrize("lengths", [(1000, 3), (100, 25), (100, 26), (40, 1000), (512, 512)])
def test_long_and_short_runs(lengths: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    old, new = (random.integers(0, 300, length).tolist() for length in lengths)
    older, newer = runs(old, new)
    for before in (0, 17, lengths[0], sum(lengths)):
        keys, ids = np.empty(sum(lengths), np.int64), np.empty(sum(lengths), np.int64)
        size = merge(*arrays(older), *arrays(newer), before, keys, ids)
        found = list(zip(keys[:size].tolist(), ids[:size].tolist(), strict=True))
        assert found == expected(older, newer, before)


@given(MANY, MANY, st.integers(0, 40), st.integers(1, 3))
def test_columns_go_with_their_row(old: list[int], new: list[int], before: int, width: int) -> None:
    older, newer = runs(old, new)

    def matrix(rows: list[Row]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        keys, ids = arrays(rows)
        return np.stack([keys, *(ids * 10 + c for c in range(1, width))]), ids

    total = len(old) + len(new)
    keys, ids = np.full((width, total), -7), np.full(total, -7)
    size = merge_columns(*matrix(older), *matrix(newer), before, keys, ids)
    found = list(zip(keys[0, :size].tolist(), ids[:size].tolist(), strict=True))
    assert found == expected(older, newer, before)
    for c in range(1, width):
        assert keys[c, :size].tolist() == (ids[:size] * 10 + c).tolist()


@pytest.mark.parametrize("to_front", [True, False])
@given(
    st.lists(st.integers(-3, 3), max_size=12),
    st.lists(st.integers(-3, 3), max_size=6),
    st.integers(0, 18),
    st.integers(0, 3),
)
def test_merging_in_place_gives_the_same_run(
    to_front: bool, old: list[int], new: list[int], before: int, spare: int
) -> None:
    old_keys, new_keys = np.array(sorted(old), np.int64), np.array(sorted(new), np.int64)
    old_ids, new_ids = np.arange(len(old)), np.arange(len(new)) + len(old)
    total = len(old) + len(new)
    keys, ids = np.empty(total, np.int64), np.empty(total, np.int64)
    length = merge(old_keys, old_ids, new_keys, new_ids, before, keys, ids)
    gap = len(new) + spare
    room, room_ids = np.full(gap + len(old), 99), np.full(gap + len(old), 99)
    start = gap if to_front else 0
    room[start : start + len(old)], room_ids[start : start + len(old)] = old_keys, old_ids
    place = (room, room_ids, start, start + len(old), new_keys, new_ids, before)
    first, size = (0, merge_to_front(*place)) if to_front else (merge_to_back(*place), length)
    assert size == length
    assert to_front or first == room.size - length
    assert room[first : first + length].tolist() == keys[:length].tolist()
    assert room_ids[first : first + length].tolist() == ids[:length].tolist()

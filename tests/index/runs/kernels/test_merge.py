"""Merging sorted runs, against a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.index.runs.kernels.merge import merge_runs, merge_to_back

from ....keys import KEYS, Array

Row = tuple[int, int]  # key, id
Place = tuple[Array, Array, int, int]
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
    keys, ids = np.full((1, len(old) + len(new)), -7), np.full(len(old) + len(new), -7)
    size = merge_runs(*matrix(older, 1, 0), *matrix(newer, 1, 0), before, keys, ids)
    agree(keys[:, :size], ids[:size], expected(older, newer, before))


def matrix(rows: list[Row], width: int, gap: int) -> Place:
    """Rows of ``width`` columns, with other things before and behind them."""
    keys, ids = arrays(rows)
    held, held_ids = np.full((width, len(rows) + 2 * gap), -7), np.full(len(rows) + 2 * gap, -7)
    held[:, gap : gap + len(rows)] = np.stack([keys, *(ids * 10 + c for c in range(1, width))])
    held_ids[gap : gap + len(rows)] = ids
    return held, held_ids, gap, gap + len(rows)


def agree(keys: Array, ids: Array, merged: list[Row]) -> None:
    assert list(zip(keys[0].tolist(), ids.tolist(), strict=True)) == merged
    for c, column in enumerate(keys[1:], 1):
        assert column.tolist() == (ids * 10 + c).tolist()


@given(MANY, st.one_of(FEW, MANY), st.integers(0, 40), st.integers(1, 5), st.integers(0, 2))
def test_columns_go_with_their_row(
    old: list[int], new: list[int], before: int, width: int, gap: int
) -> None:
    older, newer = runs(old, new)
    total = len(old) + len(new)
    keys, ids = np.full((width, total), -7), np.full(total, -7)
    places = (*matrix(older, width, gap), *matrix(newer, width, 2 - gap))
    size = merge_runs(*places, before, keys, ids)
    agree(keys[:, :size], ids[:size], expected(older, newer, before))


@pytest.mark.parametrize("lengths", [(1000, 3), (100, 25), (100, 26), (40, 1000), (512, 512)])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_long_and_short_runs_of_columns(width: int, lengths: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    older, newer = runs(*(random.integers(0, 300, length).tolist() for length in lengths))
    for before in (0, 17, lengths[0], sum(lengths)):
        keys, ids = np.empty((width, sum(lengths)), np.int64), np.empty(sum(lengths), np.int64)
        places = (*matrix(older, width, 1), *matrix(newer, width, 0))
        size = merge_runs(*places, before, keys, ids)
        agree(keys[:, :size], ids[:size], expected(older, newer, before))


@pytest.mark.parametrize("to_front", [True, False])
@given(
    st.lists(st.integers(-3, 3), max_size=12),
    st.lists(st.integers(-3, 3), max_size=6),
    st.integers(0, 18),
    st.integers(0, 3),
    st.integers(1, 5),
)
def test_merging_in_place_gives_the_same_run(
    to_front: bool, old: list[int], new: list[int], before: int, spare: int, width: int
) -> None:
    older, newer = runs(old, new)
    merged = expected(older, newer, before)
    gap = len(new) + spare
    held, held_ids, start, stop = matrix(older, width, gap)
    if to_front:
        keys, ids = np.ascontiguousarray(held[:, :stop]), held_ids[:stop].copy()
        size = merge_runs(keys, ids, start, stop, *matrix(newer, width, 1), before, keys, ids)
        assert size == len(merged)
        agree(keys[:, :size], ids[:size], merged)
    else:
        keys, ids = np.ascontiguousarray(held[:, start:]), held_ids[start:].copy()
        first = merge_to_back(keys, ids, 0, len(old), *matrix(newer, width, 1), before)
        assert ids.size - first == len(merged)
        agree(keys[:, first:], ids[first:], merged)

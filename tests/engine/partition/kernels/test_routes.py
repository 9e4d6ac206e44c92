"""Rows to partitions: marks and lists against sets of Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.engine.partition.kernels.routes import (
    count_targets,
    list_homes,
    list_targets,
    mark,
    mark_cells,
)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

EDGES = [-(2**63), -(2**63) + 1, -7, -1, 0, 1, 5, 2**62, 2**63 - 2, 2**63 - 1]
CELLS = st.one_of(st.integers(-20, 20), st.sampled_from(EDGES))


def listed(words: np.ndarray, home: list[int], count: int) -> list[tuple[int, int, bool]]:
    counts = np.zeros(64 * words.shape[0], np.int64)
    count_targets(words, counts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows, copies = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.bool_)
    list_targets(words, np.array(home, np.int64), starts[:-1].copy(), rows, copies)
    assert not counts[count:].any()
    targets = np.repeat(np.arange(counts.size), counts)
    return list(zip(rows.tolist(), targets.tolist(), copies.tolist(), strict=True))


@given(st.integers(1, 130), st.lists(st.tuples(CELLS, CELLS, st.booleans()), max_size=12))
def test_cells_go_to_every_partition_between(
    count: int, asked: list[tuple[int, int, bool]]
) -> None:
    asked = [(min(a, b), max(a, b), wanted) for a, b, wanted in asked]
    words = np.zeros((-(-count // 64), len(asked)), np.uint64)
    first, last = (np.array([row[i] for row in asked], np.int64) for i in (0, 1))
    mark_cells(first, last, np.array([row[2] for row in asked], np.bool_), count, words)
    expected = set()
    for row, (low, high, wanted) in enumerate(asked):
        if wanted:
            cells = range(low, min(high, low + count - 1) + 1)
            expected |= {(row, cell % count) for cell in cells}
    found = listed(words, [-1] * len(asked), count)
    assert {(row, target) for row, target, _ in found} == expected
    assert len(found) == len(expected)
    for row in {row for row, _ in expected}:
        homes = [target for r, target, copy in found if r == row and not copy]
        assert homes == [min(target for r, target in expected if r == row)]


@given(st.integers(1, 130), st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=12))
def test_a_mark_twice_is_one_place(count: int, asked: list[tuple[int, bool]]) -> None:
    targets = np.array([target % count for target, _ in asked], np.int64)
    wanted = np.array([want for _, want in asked], np.bool_)
    words = np.zeros((-(-count // 64), len(asked)), np.uint64)
    for _ in range(2):
        mark(targets, wanted, words)
    found = listed(words, targets.tolist(), count)
    expected = [
        (i, int(t)) for i, (t, want) in enumerate(zip(targets, wanted, strict=True)) if want
    ]
    assert sorted((row, target) for row, target, _ in found) == expected
    assert not any(copy for _, _, copy in found)
    assert [target for _, target, _ in found] == sorted(target for _, target, _ in found)


@given(st.integers(1, 130), st.lists(st.integers(0, 200), max_size=20))
def test_rows_that_stay_at_home_are_listed_in_order(count: int, asked: list[int]) -> None:
    homes = np.array([home % count for home in asked], np.int64)
    counts, rows = np.bincount(homes, minlength=count), np.empty(homes.size, np.int64)
    edges = np.concatenate([[0], np.cumsum(counts)])
    list_homes(homes, edges[:-1].copy(), rows)
    for home in range(count):
        found = rows[edges[home] : edges[home + 1]].tolist()
        assert found == np.flatnonzero(homes == home).tolist()

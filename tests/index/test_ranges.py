"""Answers as records ⟨start, end⟩, of every structure that gives them."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import Index, create, names, structure
from thetastream.index.base import Ranges
from thetastream.testing.index_checks import tiny

from ..keys import BOXES, STEPS, Pair, Rows, edges, pair_counts

RANGED = [name for name in names() if structure(name).ranged]
OTHERS = [name for name in names() if not structure(name).ranged]


def asked(index: Index, boxes: list[Pair]) -> Ranges:
    return index.ranges(*edges(boxes))


def check_records(ranges: Ranges, live: dict[int, int]) -> None:
    assert np.all(np.diff(ranges.boxes) >= 0)
    assert np.all(ranges.starts < ranges.stops)
    assert sorted(row for ids in ranges.ids for row in ids.tolist()) == sorted(live)
    for ids in ranges.ids:
        keys = [live[row] for row in ids.tolist()]
        assert keys == sorted(keys)
    for run, stop in zip(ranges.runs.tolist(), ranges.stops.tolist(), strict=True):
        assert stop <= ranges.ids[run].size
    one_each = set(zip(ranges.boxes.tolist(), ranges.runs.tolist(), strict=True))
    assert len(one_each) == len(ranges), "one record per box and run"


def test_there_are_structures_that_give_ranges() -> None:
    assert "sorted-runs" in RANGED


@pytest.mark.parametrize("name", RANGED)
@given(steps=STEPS)
def test_the_records_stand_for_the_matches(name: str, steps: list[list[int] | int]) -> None:
    index, rows = tiny(name)(1), Rows()
    for step in steps:
        rows.step(index, step)
        ranges = asked(index, BOXES)
        check_records(ranges, rows.live)
        matches = rows.matches()
        assert pair_counts(ranges.pairs(64), 64) == matches
        counts = ranges.counts(len(BOXES))
        assert counts.tolist() == [sum(at == b for at, _ in matches) for b in range(len(BOXES))]
        assert ranges.matches == matches.total()
        assert index.counts(*edges(BOXES)).tolist() == counts.tolist()
        few = BOXES[1:2]  # few matches: live rows are counted one by one
        assert index.counts(*edges(few)).tolist() == [rows.matches(few).total()]


@pytest.mark.parametrize("name", RANGED)
@given(steps=STEPS, at=st.integers(0, 19))
def test_ranges_are_a_snapshot(name: str, steps: list[list[int] | int], at: int) -> None:
    index, rows = tiny(name)(1), Rows()
    held: list[tuple[Ranges, list[list[int]], Counter[Pair]]] = []
    for turn, step in enumerate(steps):
        rows.step(index, step)
        if turn == at % len(steps):
            ranges = asked(index, BOXES)
            held.append((ranges, [ids.tolist() for ids in ranges.ids], rows.matches()))
    for ranges, ids, matches in held:
        assert [part.tolist() for part in ranges.ids] == ids
        assert pair_counts(ranges.pairs(64), 64) == matches
        index.check()


@pytest.mark.parametrize("window", [1000, 1 << 16])
@pytest.mark.parametrize("name", RANGED)
def test_a_snapshot_outlives_merges_of_long_runs(name: str, window: int) -> None:
    """Held for a few inserts at a time: in between, runs may be merged where they lie."""
    index = create(name, capacity=1 << 16)
    keys = np.random.default_rng(1).integers(0, 100, 20_000)
    boxes = [(10, 20), (0, 100)]
    held: Ranges | None = None
    rows = Rows()
    for step, start in enumerate(range(0, keys.size, 64)):
        index.insert(keys[start : start + 64], np.arange(start, min(start + 64, keys.size)))
        index.expire(start - window)
        if step % 5 == 0:
            stored = range(max(0, start - window), min(start + 64, keys.size))
            held, rows = asked(index, boxes), Rows({row: int(keys[row]) for row in stored})
        elif step % 5 == 3:
            assert held is not None
            assert held.matches == rows.matches(boxes).total()
            assert sorted(row for ids in held.ids for row in ids.tolist()) == list(rows.live)
            for ids in held.ids:
                assert np.all(np.diff(keys[ids]) >= 0)
            held = None


@pytest.mark.parametrize("name", RANGED)
@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_chunks_are_bounded_and_read_lazily(name: str, limit: int) -> None:
    index = create(name, capacity=100)
    index.insert(np.zeros(50, np.int64), np.arange(50))
    index.insert(np.zeros(3, np.int64), np.arange(50, 53))
    ranges = asked(index, [(0, 0), (5, 6), (-1, 1)])
    sizes = [ids.size for _, ids in ranges.pairs(limit)]
    assert sum(sizes) == 106
    assert all(size == limit for size in sizes[:-1])
    assert 0 < sizes[-1] <= limit
    assert pair_counts(ranges.pairs(limit), limit) == Counter(
        (box, row) for box in (0, 2) for row in range(53)
    )


@pytest.mark.parametrize("name", RANGED)
def test_the_size_of_an_answer_does_not_grow_with_the_matches(name: str) -> None:
    """2^34 matches, in no more than a record per box and run; reading a part of them is cheap."""
    index = create(name, capacity=1 << 17)
    index.insert(np.zeros(1 << 17, np.int64), np.arange(1 << 17))
    boxes = 1 << 17
    ranges = index.ranges(np.zeros(boxes, np.int64), np.zeros(boxes, np.int64))
    assert ranges.matches == 1 << 34
    assert len(ranges) == boxes * len(ranges.ids)
    assert np.all(ranges.counts(boxes) == 1 << 17)
    assert sum(ids.size for _, ids in islice(ranges.pairs(1000), 3)) == 3000


@pytest.mark.parametrize("name", RANGED)
def test_nothing_stored_and_nothing_asked(name: str) -> None:
    index = create(name, capacity=8)
    none = np.empty(0, np.int64)
    empty = asked(index, BOXES)
    assert len(empty) == empty.matches == 0
    assert not list(empty.pairs())
    assert empty.counts(len(BOXES)).tolist() == [0] * len(BOXES)
    index.insert(np.array([1, 2]), np.array([0, 1]))
    assert len(index.ranges(none, none)) == 0
    index.expire(2)
    assert len(asked(index, BOXES)) == 0


@pytest.mark.parametrize("name", OTHERS)
def test_other_structures_say_who_gives_ranges(name: str) -> None:
    index = create(name, capacity=8)
    with pytest.raises(RegistryError, match="keeps no sorted arrays.*sorted-runs"):
        asked(index, BOXES)


@pytest.mark.parametrize("name", RANGED)
def test_several_key_columns_have_no_ranges(name: str) -> None:
    index = create(name, capacity=8, columns=2)
    box = np.zeros((2, 1), np.int64)
    with pytest.raises(RegistryError, match="over 2 key columns.*use probe"):
        index.ranges(box, box)


@pytest.mark.parametrize("name", names())
def test_details_are_plain_values(name: str) -> None:
    assert isinstance(create(name, capacity=8).details, dict)

"""BI-Sort: merging in place and in pieces, records written out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.index.subwindows.kernels import bisort

from ....keys import HIGH, KEYS, LOW, Pair, drained, int64

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

SORTED = st.lists(KEYS, max_size=14).map(sorted)


def stable(old: Sequence[int], new: Sequence[int]) -> tuple[list[int], list[int]]:
    """Keys and ids of a merge in which old rows go before new ones."""
    keys = int64([*old, *new])
    order = np.argsort(keys, kind="stable")
    return keys[order].tolist(), order.tolist()


# --- Merging ------------------------------------------------------------------------------------


@given(SORTED, SORTED, st.integers(0, 3))
@example([], [], 0)
@example([1], [], 0)
@example([], [1], 0)
@example([0] * 9, [0] * 3, 0)
@example([LOW, HIGH], [LOW, HIGH], 1)
def test_merging_in_place_is_a_stable_sort(old: list[int], new: list[int], spare: int) -> None:
    total = len(old) + len(new)
    keys, ids = np.full(total + spare, 99), np.full(total + spare, 99)
    keys[: len(old)], ids[: len(old)] = old, np.arange(len(old))
    new_ids = np.arange(len(old), total)
    assert bisort.merge_in_place(keys, ids, len(old), int64(new), new_ids) == total
    assert (keys[:total].tolist(), ids[:total].tolist()) == stable(old, new)
    assert keys[total:].tolist() == ids[total:].tolist() == [99] * spare


@given(SORTED, SORTED)
@example([0] * 5, [0] * 5)
@example([], [0, 0])
@example([0, 0], [])
def test_pieces_of_any_size_make_the_same_merge(old: list[int], new: list[int]) -> None:
    total = len(old) + len(new)
    inputs = (int64(old), np.arange(len(old)), len(old), int64(new), np.arange(len(old), total))
    wanted = stable(old, new)
    for start in range(total + 1):
        for stop in range(start, total + 1):
            keys, ids = np.full(total, 99), np.full(total, 99)
            used = bisort.merge_piece(*inputs, keys, ids, start, stop)
            assert used == sum(row < len(old) for row in wanted[1][:stop])
            assert keys[start:stop].tolist() == wanted[0][start:stop]
            assert ids[start:stop].tolist() == wanted[1][start:stop]
            outside = [*range(start), *range(stop, total)]
            assert np.all(keys[outside] == 99)


@given(SORTED, SORTED, st.integers(0, 3))
def test_where_a_piece_begins(old: list[int], new: list[int], spare: int) -> None:
    """Rows behind ``size`` are not there."""
    room = int64([*old, *[LOW] * spare])
    ids = stable(old, new)[1]
    for place in range(len(old) + len(new) + 1):
        found = bisort.co_rank(room, len(old), int64(new), place)
        assert found == sum(row < len(old) for row in ids[:place])


@pytest.mark.parametrize("sizes", [(1000, 1), (1000, 300), (3, 1000), (512, 512)])
def test_long_arrays(sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    old, new = (np.sort(random.integers(0, 400, size)).tolist() for size in sizes)
    total = sum(sizes)
    keys, ids = np.empty(total, np.int64), np.empty(total, np.int64)
    keys[: len(old)], ids[: len(old)] = old, np.arange(len(old))
    bisort.merge_in_place(keys, ids, len(old), int64(new), np.arange(len(old), total))
    assert (keys.tolist(), ids.tolist()) == stable(old, new)
    inputs = (int64(old), np.arange(len(old)), len(old), int64(new), np.arange(len(old), total))
    for pieces in (1, 2, 7):
        keys, ids = np.full(total, -7), np.full(total, -7)
        edges = np.linspace(0, total, pieces + 1).astype(int).tolist()
        for start, stop in pairwise(edges):
            bisort.merge_piece(*inputs, keys, ids, start, stop)
        assert (keys.tolist(), ids.tolist()) == stable(old, new)


# --- Writing records out ------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=40),
    st.integers(0, 9), st.integers(0, 12), st.sampled_from([1, 2, 3, 1000]),
)  # fmt: skip
@example([(0, 0), (3, 5), (0, 0)], 0, 12, 5)
@example([(9, 5)], 9, 9, 1)
def test_records_are_written_in_bounded_chunks(
    records: list[Pair], before: int, after: int, room: int
) -> None:
    """Ranges of rows whose ids are anything but sorted, cut by an interval of ids."""
    ids = np.random.default_rng(5).permutation(14)
    starts = int64([start for start, _ in records])
    stops = starts + int64([length for _, length in records])
    after = max(before, after)
    found = drained(
        lambda cursor, *out: bisort.expand(starts, stops, ids, before, after, cursor, 0, *out),
        len(records),
        room,
        [0, -1],
    )
    assert found == [
        (box, row)
        for box, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True))
        for row in ids[start:stop].tolist()
        if before <= row < after
    ]

"""Burst tries in arrays: bytes and pointers, searches, walks, stopping for want of room."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.index.ordered.burst_trie import _check, _empty
from thetastream.index.ordered.kernels.burst import nodes as burst
from thetastream.index.ordered.kernels.burst.changes import copy_trie, put_rows
from thetastream.index.ordered.kernels.burst.rows import dump_rows, read_rows

from ....keys import HIGH, LOW
from .node_trees import read_in_pieces, rows_inside

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

KEYS = st.one_of(
    st.integers(-3, 3), st.integers(LOW, HIGH), st.sampled_from([LOW, HIGH, 2**32, -(2**32), 256])
)


@given(a=KEYS, b=KEYS)
def test_bytes_are_in_the_order_of_the_keys(a: int, b: int) -> None:
    def bytes_of(key: int) -> list[int]:
        return [int(burst.byte_of(np.int64(key), level)) for level in range(7, -1, -1)]

    assert (bytes_of(a) < bytes_of(b)) == (a < b)
    if a != b:
        level = int(burst.highest(np.int64(a) ^ np.int64(b)))
        assert bytes_of(a)[: 7 - level] == bytes_of(b)[: 7 - level]
        assert bytes_of(a)[7 - level] != bytes_of(b)[7 - level]
        assert burst.above(np.int64(a), level) == burst.above(np.int64(b), level)


@given(keys=st.lists(KEYS, max_size=20), key=KEYS)
def test_searches(keys: list[int], key: int) -> None:
    pool = np.array([HIGH, *sorted(keys), LOW], np.int64)
    found = burst.count_below(pool, 1, len(keys), np.int64(key))
    assert found == bisect_left(sorted(keys), key)
    assert burst.count_upto(pool, 1, len(keys), np.int64(key)) == bisect_right(sorted(keys), key)


def test_rooms_grow_by_half_at_most() -> None:
    rooms = burst.ROOMS[: np.searchsorted(burst.ROOMS, 2**40)]
    assert rooms[:9].tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24]
    assert np.all(rooms[1:] > rooms[:-1])
    assert np.all(rooms[2:] <= 1.5 * rooms[1:-1])


@pytest.mark.parametrize("words", [0, 6, 40])
def test_an_insert_that_finds_no_room_stops_and_goes_on(words: int) -> None:
    """After any stop the trie holds the rows before the cursor."""
    random = np.random.default_rng(words)
    keys = np.sort(random.integers(-(2**33), 2**33, 60))
    ids, cursor, path = np.arange(60), np.zeros(1, np.int64), np.empty(burst.PATH, np.int64)
    trie, stops = _empty(words, 2, 2), set()
    while (status := put_rows(trie, keys, ids, cursor)) != burst.DONE:
        stops.add(status)
        found_keys, found_ids = np.empty((2, int(cursor[0])), np.int64)
        assert dump_rows(trie, path, found_keys, found_ids) == cursor[0]
        assert found_ids.tolist() == ids[: cursor[0]].tolist()
        wanted = int(trie.facts[burst.WANTED]) if status == burst.NO_ROOM else 0
        nodes = int(trie.facts[burst.NODES]) + 2 + (status == burst.NO_NODES)
        larger = _empty(int(trie.facts[burst.LIVE]) + wanted, nodes, 2)
        copy_trie(trie, larger, path)
        trie = larger
    assert stops == {burst.NO_ROOM, burst.NO_NODES}
    _check(trie, 2)
    found_keys, found_ids = np.empty((2, 60), np.int64)
    assert dump_rows(trie, path, found_keys, found_ids) == 60
    assert found_keys.tolist() == keys.tolist()


@given(
    keys=st.lists(KEYS, max_size=30),
    boxes=st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=4),
    before=st.integers(0, 30),
    room=st.integers(1, 4),
)
def test_reading_goes_on_where_it_stopped(
    keys: list[int], boxes: list[tuple[int, int]], before: int, room: int
) -> None:
    keys = sorted(keys)
    trie, path = _empty(4096, 256, 2), np.empty(burst.PATH, np.int64)
    ids = np.arange(len(keys))
    held = np.array(keys, np.int64)
    assert put_rows(trie, held, ids, np.zeros(1, np.int64)) == burst.DONE
    found = read_in_pieces(
        lambda lows, highs, before, cursor, *out: read_rows(
            trie, lows, highs, before, cursor, path, *out
        ),
        boxes,
        before,
        room,
    )
    assert found == rows_inside([*zip(keys, range(len(keys)), strict=True)], boxes, before)

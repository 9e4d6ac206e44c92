"""Burst trie: bursts, skipped bytes, equal keys, deletion, moves; against a sorted list."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream._jit.compiling import ENABLED
from thetastream.data.number_columns import Values
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.ordered.burst_trie import BurstTrie
from thetastream.index.ordered.kernels.burst import nodes as layout

from ...keys import HIGH, LOW, Pair, edges, inside, int64, pairs_of

# Keys that differ in any byte, alone and together, on both sides of zero, and many equal ones.
BYTES = st.sampled_from([0, 0, 1, 2, 255])
KEYS = st.one_of(
    st.integers(-3, 3),
    st.lists(BYTES, min_size=8, max_size=8).map(
        lambda held: int.from_bytes(bytes(held), "big", signed=True)
    ),
    st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]),
)
ROWS = st.lists(KEYS, max_size=12)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), ROWS),
        st.tuples(st.just("insert"), ROWS),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 40), max_size=8)),
        st.tuples(st.just("ask"), st.lists(st.tuples(KEYS, KEYS), max_size=4)),
    ),
    max_size=12,
)


class Both:
    """A trie and a sorted list of its rows."""

    def __init__(self, container: int = 2) -> None:
        self.index = BurstTrie(capacity=4, container=container)
        self.rows: list[Pair] = []
        self.issued = 0

    def insert(self, keys: list[int]) -> None:
        ids = range(self.issued, self.issued + len(keys))
        self.issued += len(keys)
        self.index.insert(int64(keys), int64(ids))
        self.rows = sorted([*self.rows, *zip(keys, ids, strict=True)])

    def remove(self, places: list[int]) -> None:
        """Rows at places of the list, some of them twice, and one that was never there."""
        gone = {self.rows[at] for at in places if at < len(self.rows)}
        asked = [self.rows[at] for at in places if at < len(self.rows)] + [(0, self.issued)]
        found = self.index.remove(*edges(asked))
        assert found == len(gone)
        self.rows = [row for row in self.rows if row not in gone]

    def ask(self, boxes: list[Pair]) -> None:
        lows, highs = edges(boxes)
        held = [[row for row in self.rows if low <= row[0] <= high] for low, high in boxes]
        assert pairs_of(self.index.probe(lows, highs, limit=3), 3) == inside(self.rows, boxes)
        assert self.index.map(lows, highs).tolist() == [len(rows) for rows in held]
        ids = self.index.map(lows, highs, "sum").filled(0).tolist()
        assert ids == [sum(row for _, row in rows) for rows in held]
        newest = dict(self.rows)
        assert self.index.find(lows).tolist() == [newest.get(low, -1) for low, _ in boxes]

    def check(self) -> None:
        self.index.check()
        keys, ids = self.index._rows()
        assert list(zip(keys.tolist(), ids.tolist(), strict=True)) == self.rows


@pytest.mark.parametrize("container", [1, 2, 5])
@given(steps=STEPS)
def test_any_history(container: int, steps: list[tuple[str, Any]]) -> None:
    both = Both(container)
    for what, value in steps:
        getattr(both, what)(value)
        both.check()
    both.ask([(LOW, HIGH), (0, 0), (-1, 1), (HIGH, LOW)])
    both.remove(list(range(len(both.rows))))
    both.check()
    assert both.index._trie.tables[0] == 0


@given(keys=st.lists(KEYS, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=5))
def test_cutting_a_batch_changes_nothing(keys: list[int], cuts: list[int]) -> None:
    whole, parts = Both(3), Both(3)
    whole.insert(keys)
    edges = [0, *sorted(cut for cut in cuts if cut <= len(keys)), len(keys)]
    for start, stop in pairwise(edges):
        parts.insert(keys[start:stop])
    parts.check()
    assert parts.rows == whole.rows


def tables(index: BurstTrie) -> int:
    return int(index.details["tables"])


def test_a_container_bursts_when_it_is_full() -> None:
    both = Both(4)
    both.insert([1, 2, 3, 4])
    assert tables(both.index) == 0
    both.insert([5])
    assert tables(both.index) == 1
    both.check()


def test_bytes_that_are_all_the_same_cost_no_table() -> None:
    both = Both(4)
    both.insert([0x1234_5678_9ABC_0000 + at for at in range(200)])
    assert tables(both.index) == 1, "the root stands at the last byte"
    both.insert([0x1234_5678_0000_0000 + at for at in range(200)])
    assert tables(both.index) == 3, "one above the two, at byte 3"
    both.insert([-7])
    assert tables(both.index) == 4
    both.check()
    both.ask([(0x1234_5678_0000_0010, 0x1234_5678_9ABC_0003), (-9, 0), (LOW, HIGH)])


def test_keys_of_32_bits_have_four_levels_at_most() -> None:
    random = np.random.default_rng(3)
    index = BurstTrie(container=1)
    keys = random.integers(0, 2**32, 2000 if ENABLED else 200)
    index.insert(keys, np.arange(keys.size))
    pointer, levels = int(index._trie.tables[0]), []
    while pointer < 0:
        node, level = (-pointer - 1) >> 3, (-pointer - 1) & 7
        table = index._trie.tables[256 * node : 256 * node + 256]
        levels.append(level)
        pointer = int(table[np.flatnonzero(table)[0]])
    assert levels[0] == 3
    assert levels == sorted(set(levels), reverse=True)
    index.check()


def test_equal_keys_grow_a_container_and_leave_it_from_the_front() -> None:
    both = Both(2)
    many = 3000 if ENABLED else 100
    both.insert([7] * many)
    both.insert([7] * 10)
    assert tables(both.index) == 0
    both.check()
    both.insert([8])
    assert tables(both.index) == 1
    for _ in range(3):
        both.remove(list(range(many // 4)))
        both.check()
        both.insert([7] * 5)
        both.check()
    both.ask([(7, 7), (8, 8), (0, 9)])


def test_memory_follows_the_rows() -> None:
    random = np.random.default_rng(5)
    index = BurstTrie(container=8)
    keys = random.integers(-(2**20), 2**20, 4000 if ENABLED else 400)
    ids = np.arange(keys.size)
    for part in np.split(ids, 40):
        index.insert(keys[part], part)
    full = index.nbytes
    assert 16 * keys.size <= full
    assert index.statistics["moves"] > 1
    index.check()
    assert index.remove(keys[100:], ids[100:]) == keys.size - 100
    index.check()
    assert index._trie.pool.nbytes < full / 4
    index.expire(keys.size)
    assert index.nbytes < 20_000


def test_an_expired_row_is_neither_found_nor_counted() -> None:
    both = Both(2)
    both.insert([5, 5, 6, 7, 9, 9])
    both.index.expire(2)
    assert both.index.find(int64([5, 6, 9, 4])).tolist() == [-1, 2, 5, -1]
    values = Values(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]))
    assert both.index.map(5, 9, "sum", values) == 60.0
    assert [ids.tolist() for _, ids in both.index.scan(5, 9)] == [[2, 3, 4, 5]]


def test_blocks_are_reused() -> None:
    """Rows that come and go in a steady state need no more memory."""
    index = BurstTrie(container=4)
    keys = np.arange(64)
    index.insert(keys, keys)
    sizes = set()
    for turn in range(1, 12):
        index.remove(keys, keys + 64 * (turn - 1))
        index.insert(keys, keys + 64 * turn)
        sizes.add(index._trie.facts[layout.LIVE])
        index.check()
    assert len(sizes) == 1


def test_bad_parameters() -> None:
    with pytest.raises(RegistryError, match="container must be at least 1; got 0"):
        create("burst-trie", container=0)

"""Kernels of the radix trie: the arena, and random histories on tiny domains against a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.errors import StateError
from thetastream.index.ordered.kernels.trie import arena
from thetastream.index.ordered.kernels.trie.arena import bin_of, release, take, units_of
from thetastream.index.ordered.kernels.trie.build import extend_list
from thetastream.index.ordered.kernels.trie.insertion import distinct
from thetastream.index.ordered.kernels.trie.nodes import MOST_ROWS, NONE, list_of
from thetastream.index.ordered.radix_trie import RadixTrie
from thetastream.index.ordered.trie_invariants import check_trie

from ....scale import scaled
from .node_trees import read_in_pieces, rows_inside

Keys = Callable[[np.random.Generator, int], Any]
TINY = {"run": 4, "linear": 3, "full": 32}

DOMAINS: dict[str, Keys] = {
    "few": lambda rng, n: rng.integers(-6, 6, n),
    "one byte": lambda rng, n: rng.integers(-100, 100, n),
    "two bytes": lambda rng, n: rng.integers(0, 3000, n),
    "apart": lambda rng, n: (rng.integers(-3, 3, n) << 40) + rng.integers(-300, 300, n),
    "edges": lambda rng, n: rng.choice([-(2**63), 2**63 - 1, 0, -1, 1, 255, 256, -256], n),
    "wide": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
    "one key": lambda rng, n: np.full(n, 7),
    "ascending": lambda rng, n: np.sort(rng.integers(0, 1 << 20, n)),
}


class Model:
    """Rows as a dictionary from id to key."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.issued = 0

    def table(self) -> tuple[Any, Any]:
        ids = np.array(list(self.rows), np.int64)
        keys = np.array(list(self.rows.values()), np.int64)
        order = np.lexsort([ids, keys])
        return keys[order], ids[order]


def change(index: RadixTrie, model: Model, rng: np.random.Generator, keys: Keys, n: int) -> None:
    """Insert or delete some rows, in the trie and in the model."""
    if not model.rows or rng.random() < 0.5:
        fresh = keys(rng, int(rng.integers(1, n + 1)))
        ids = np.arange(model.issued, model.issued + fresh.size)
        index.insert(fresh, ids)
        model.rows.update(zip(ids.tolist(), fresh.tolist(), strict=True))
        model.issued += fresh.size
        return
    share = 1.0 if rng.random() < 0.1 else rng.random()
    ids = rng.permutation(np.array(list(model.rows)))[: int(share * len(model.rows)) + 1]
    old = np.array([model.rows.pop(row) for row in ids.tolist()])
    assert index.remove(old, ids) == ids.size
    assert index.remove(old, ids) == 0, "they are gone"


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("thresholds", [{}, TINY, {"run": 40, "linear": 8, "full": 64}])
def test_random_histories(domain: str, thresholds: dict[str, int]) -> None:
    rng, keys = np.random.default_rng(len(domain)), DOMAINS[domain]
    index, model = RadixTrie(**thresholds), Model()
    for step in range(30):
        change(index, model, rng, keys, 400 if step % 3 else 3)
        index.check()
        held, ids = model.table()
        got = index._rows()
        assert np.array_equal(got[0], held)
        assert np.array_equal(got[1], ids)
        asked = np.concatenate([held[:50], keys(rng, 50)])
        at = np.searchsorted(held, asked, side="right") - 1
        newest = [
            int(ids[a]) if a >= 0 and held[a] == key else -1
            for a, key in zip(at.tolist(), asked.tolist(), strict=True)
        ]
        assert index.find(asked).tolist() == newest


@settings(max_examples=scaled(60), deadline=None)
@given(st.lists(st.lists(st.integers(-3, 700), max_size=60), max_size=6), st.integers(1, 9))
def test_reads_go_on_where_they_stopped(batches: list[list[int]], room: int) -> None:
    index, rows = RadixTrie(**TINY), []
    for batch in batches:
        keys = np.array(batch, np.int64)
        index.insert(keys, np.arange(len(rows), len(rows) + keys.size))
        rows += batch
    boxes = [(-3, 700), (300, 200), (5, 40), (256, 256)]
    found = read_in_pieces(index._read, boxes, 2, room)
    assert found == rows_inside(sorted((key, row) for row, key in enumerate(rows)), boxes, 2)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), st.randoms())
@settings(max_examples=scaled(60), deadline=None)
def test_arena_gives_everything_back(sizes: list[int], rng: Any) -> None:
    """Blocks do not overlap, neighbours join, and in the end nothing is left over."""
    index = RadixTrie()
    index._facts[arena.NEED] = 100_000
    index._grow()
    trie, held = index._trie, {}
    for words in sizes:
        units = units_of(words)
        assert words <= 2 * units < 9 * words / 8 + 4
        at = int(take(trie, units))
        assert at > 0
        assert at % 2 == 0
        for other, size in held.items():
            assert at + 2 * units <= other or other + 2 * size <= at
        held[at] = units
        trie.words[at : at + 2 * units] = -1
        if rng.random() < 0.4:
            at = rng.choice(list(held))
            release(trie, at, held.pop(at))
    free = int(trie.facts[arena.TOP]) - 1 - sum(held.values())
    assert trie.facts[arena.FREE] == free
    for at in rng.sample(list(held), len(held)):
        release(trie, at, held.pop(at))
    assert (trie.facts[arena.TOP], trie.facts[arena.FREE]) == (1, 0)
    check_trie(trie)


def test_bins_ascend() -> None:
    """A block of a higher bin is larger; sizes of blocks are the smallest of their bins."""
    bins = [int(bin_of(units)) for units in range(1, 5000)]
    assert bins == sorted(bins)
    assert bins[-1] < arena.BINS
    for words in range(1, 9000, 7):
        units = int(units_of(words))
        assert units == 1 or bins[units - 2] < bins[units - 1]


def test_no_block_is_an_answer_too() -> None:
    trie = RadixTrie()._trie
    assert take(trie, 10_000) == -1
    assert trie.facts[arena.NEED] == 10_000


def test_a_key_with_too_many_rows() -> None:
    """Nothing is written, and NEED tells it from a lack of room."""
    index = RadixTrie()
    full = list_of(1, MOST_ROWS, 26)
    assert extend_list(index._trie, full, np.array([5]), 0, 1) == NONE
    assert index._facts[arena.NEED] == -1
    with pytest.raises(StateError, match="67,108,863 rows of one key"):
        index._grow()


def test_distinct_marks_rows_of_equal_keys() -> None:
    keys, ids = np.array([3, 3, 3, 8, 9, 9], np.uint64), np.arange(10, 16)
    entries, values = np.empty(6, np.uint64), np.empty(6, np.int64)
    assert distinct(keys, ids, entries, values) == 3
    assert entries[:3].tolist() == [3, 8, 9]
    assert values[:3].tolist() == [~0, 13, ~4]

"""RaP-Table: rebounding search, inserts, probes in bounded chunks, and Algorithm 1."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream._jit.compiling import ENABLED
from thetastream.index.subwindows.kernels import llat, rap
from thetastream.index.subwindows.kernels.llat import Llat
from thetastream.index.subwindows.partitioned import check_table, new_table

from ....keys import HIGH, KEYS, LOW, Pair, drained, edges, inside, int64

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

CUTS = st.lists(KEYS, max_size=5).map(sorted)
BOXES = st.lists(st.tuples(KEYS, KEYS), max_size=6)


# --- Searching ----------------------------------------------------------------------------------


@given(st.lists(KEYS, max_size=12).map(sorted), KEYS)
@example([], 0)
@example([HIGH] * 3, HIGH)
@example([LOW] * 3, LOW)
def test_a_search_may_start_anywhere(values: list[int], key: int) -> None:
    for at in range(len(values) + 1):
        found = rap.rebound(int64(values), len(values), at, np.int64(key))
        assert found == bisect_right(values, key)


@pytest.mark.parametrize("size", [1, 2, 3, 31, 64, 1000])
def test_long_steps_rebound(size: int) -> None:
    values = np.arange(size) * 2
    for key in {-1, 0, 1, size // 3, size, 2 * size - 3, 2 * size - 2, 2 * size}:
        for at in {0, 1, size // 2, size - 1, size}:
            found = rap.rebound(values, size, at, np.int64(key))
            assert found == np.searchsorted(values, key, "right")


@given(CUTS, st.lists(KEYS, max_size=20))
def test_keys_in_any_order_find_their_partition(cuts: list[int], keys: list[int]) -> None:
    at = 0
    for key in keys:
        at = rap.rebound(int64(cuts), len(cuts), at, np.int64(key))
        assert at == bisect_right(cuts, key)


# --- Inserting and probing ----------------------------------------------------------------------


def table_of(cuts: Sequence[int], keys: Sequence[int], width: int, first: int = 0) -> Llat:
    parts = len(cuts) + 1
    table = new_table(parts + len(keys), width, parts)
    ids = np.arange(first, first + len(keys))
    done = rap.insert_rows(table, int64(cuts), int64(keys), ids, np.empty(rap.BLOCK, np.int64))
    assert done == len(keys) == table.facts[llat.ROWS]
    return table


def expected(
    cuts: Sequence[int], keys: Sequence[int], boxes: Sequence[Pair], before: int, after: int
) -> list[Pair]:
    """Box by box, partition by partition, rows in the order in which they came."""
    rows = sorted(
        ((key, row) for row, key in enumerate(keys)),
        key=lambda row: (bisect_right(cuts, row[0]), row[1]),
    )
    return inside(rows, boxes, before, after)


def probed(
    table: Llat, cuts: Sequence[int], boxes: Sequence[Pair], before: int, after: int, room: int
) -> list[Pair]:
    scratch = np.empty(2 * rap.BLOCK, np.int64)
    asked = (table, int64(cuts), *edges(boxes), before, after)
    return drained(
        lambda cursor, *out: rap.probe_rows(*asked, cursor, 0, *out, scratch),
        len(boxes),
        room,
        [0, -1, 0, 0],
    )


@given(
    CUTS, st.lists(KEYS, max_size=25), st.integers(1, 4), BOXES, st.integers(0, 6),
    st.integers(0, 25), st.sampled_from([1, 2, 3, 1000]),
)  # fmt: skip
@example([0], [0, 0, -1, 1], 1, [(LOW, HIGH)], 0, 25, 1)
@example([], [], 1, [(LOW, HIGH), (3, 2)], 0, 25, 1)
@example([0], [HIGH, LOW], 1, [(HIGH, LOW), (HIGH, HIGH), (LOW, LOW)], 0, 25, 2)
def test_probes_against_a_nested_loop(
    cuts: list[int], keys: list[int], width: int, boxes: list[Pair], before: int, after: int,
    room: int,
) -> None:  # fmt: skip
    table = table_of(cuts, keys, width)
    found = check_table(table, np.arange(len(cuts) + 1))
    assert [part.tolist() for part in found] == [
        [key for key in keys if bisect_right(cuts, key) == part] for part in range(len(cuts) + 1)
    ]
    after = max(before, after)
    answer = probed(table, cuts, boxes, before, after, room)
    assert answer == expected(cuts, keys, boxes, before, after)


@pytest.mark.parametrize("width", [1, 31, 32, 33, 70, 400])
@pytest.mark.parametrize("room", [1, 33, 64, 5000])
def test_long_entries_are_read_in_blocks(width: int, room: int) -> None:
    """Blocks without a hit, with one at either end, cut short by the end of an entry."""
    count = 300 if ENABLED else 120
    keys = np.random.default_rng(1).permutation(count)
    keys[::50] = 7
    boxes = [(7, 7), (0, 3), (count - 1, HIGH), (50, 90), (LOW, HIGH), (1000, 2000)]
    cuts = [40, 41, 200]
    for before, after in ((0, count), (17, 60), (count, count)):
        answer = probed(table_of(cuts, keys.tolist(), width), cuts, boxes, before, after, room)
        assert answer == expected(cuts, keys.tolist(), boxes, before, after)


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_more_boxes_and_rows_than_a_block(order: str) -> None:
    count = 3 * rap.BLOCK + 5
    numbers = np.arange(count)
    if order == "descending":
        numbers = numbers[::-1].copy()
    elif order == "shuffled":
        numbers = np.random.default_rng(2).permutation(count)
    cuts = list(range(0, count, 7))
    keys = numbers.tolist()
    boxes = [(key - 2, key + 2) for key in keys]
    table = table_of(cuts, keys, 3)
    for room in (1, 100, 10_000):
        answer = probed(table, cuts, boxes, 0, count, room)
        assert answer == expected(cuts, keys, boxes, 0, count)


def test_a_large_first_id() -> None:
    cuts, first = [3], 2**62
    table = table_of(cuts, [1, 5, 3], 1, first)
    answer = probed(table, cuts, [(0, 9)], first + 1, first + 3, 1)
    assert answer == [(0, first + 1), (0, first + 2)]


# --- Algorithm 1 --------------------------------------------------------------------------------


def listing(counts: list[int], lows: list[int], highs: list[int], parts: int) -> list[Fraction]:
    """Algorithm 1 with its errata, in exact numbers: j from 1, and the offset ``min_i``."""
    total = sum(counts)
    seen, i, j = 0, -1, 1
    balance = Fraction(total, parts)
    splitters: list[Fraction] = []
    while seen < total:
        i += 1
        before, seen = seen, seen + counts[i]
        while before < balance <= seen and j < parts:
            share = (balance - before) / counts[i]
            splitters.append(lows[i] + share * (highs[i] - lows[i]))
            j += 1
            balance += Fraction(total, parts)
    return splitters


def histograms(cuts: Sequence[int], keys: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    held: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
    for key in keys:
        held[bisect_right(cuts, key)].append(key)
    return (
        [len(part) for part in held],
        [min(part, default=HIGH) for part in held],
        [max(part, default=LOW) for part in held],
    )


def adjusted(cuts: Sequence[int], keys: Sequence[int], parts: int) -> list[int]:
    found = np.full(parts - 1, -7)
    total = rap.adjust(*map(int64, histograms(cuts, keys)), found)
    assert total == len(keys)
    return found.tolist()


@given(
    st.lists(st.integers(-60, 60), max_size=6).map(sorted),
    st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    st.integers(1, 7),
)
@example([0], [1, 1, 1, 1], 4)
@example([], [5], 7)
@example([0, 0, 0], [-1, 1], 3)
def test_adjusting_is_the_listing_with_its_errata(
    cuts: list[int], keys: list[int], parts: int
) -> None:
    """A splitter is a key, the first of the partition behind it: the listing's value rounded up."""
    found = adjusted(cuts, keys, parts)
    exact = listing(*histograms(cuts, keys), parts)
    assert len(found) == len(exact) == parts - 1
    assert all(a <= b for a, b in pairwise(found))
    for splitter, wanted in zip(found, exact, strict=True):
        assert wanted - Fraction(1, 10**6) <= splitter <= wanted + 1 + Fraction(1, 10**6)
        assert min(keys) <= splitter <= max(keys)


def test_the_example_of_figure_3() -> None:
    """16 rows in 4 partitions: bal_2 = 8 lies in (5, 10], so in the third partition."""
    counts, lows, highs = int64([2, 3, 5, 6]), int64([0, 10, 20, 30]), int64([9, 19, 29, 39])
    splitters = np.empty(3, np.int64)
    assert rap.adjust(counts, lows, highs, splitters) == 16
    assert 10 + 9 * 2 / 3 <= splitters[0] <= 10 + 9 * 2 / 3 + 1
    assert 20 + 9 * 3 / 5 <= splitters[1] <= 20 + 9 * 3 / 5 + 1
    assert 30 + 9 * 2 / 6 <= splitters[2] <= 30 + 9 * 2 / 6 + 1


@given(st.lists(KEYS, max_size=4).map(sorted), st.lists(KEYS, min_size=1), st.integers(1, 7))
@example([HIGH], [LOW, HIGH - 1, HIGH, HIGH], 2)
@example([], [LOW, HIGH], 7)
@example([LOW + 1], [LOW, LOW, HIGH, HIGH], 2)
def test_adjusting_extreme_keys(cuts: list[int], keys: list[int], parts: int) -> None:
    """A partition may be as wide as all integers; new splitters lie among its keys, in order."""
    found = adjusted(cuts, keys, parts)
    exact = listing(*histograms(cuts, keys), parts)
    assert all(a <= b for a, b in pairwise(found))
    for splitter, wanted in zip(found, exact, strict=True):
        assert abs(splitter - wanted) <= 2**12 + 1, "as exact as a float of 64 bits"
        assert min(keys) <= splitter <= max(keys)


@pytest.mark.parametrize("parts", [2, 8, 64])
def test_even_keys_are_cut_evenly_at_once(parts: int) -> None:
    """Evenly spread keys in one partition: one adjustment does."""
    keys = list(range(-32_000, 32_000, 1000))
    counts = histograms(adjusted([], keys, parts), keys)[0]
    assert max(counts) - min(counts) <= 1

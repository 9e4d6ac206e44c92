"""Sets of ids per term: bits, prefixes, lists and hash tables, against Python's own sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.index.permuted.kernels.term_rows import collect_term, least_id, meet_term, parts_of
from thetastream.index.permuted.kernels.term_sets import (
    AND,
    AND_NOT,
    FILLED,
    HASHED,
    SCANNED,
    SKIP,
    add_ids,
    emit_lists,
    extract,
    meet_lists,
    meet_prefixes,
    meet_sets,
    open_boxes,
    set_pairs,
    set_prefixes,
)
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Pool

from ....keys import HIGH, KEYS, LOW, edges, int64
from ...trees.small_pools import chain, insert, merged, small

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

KINDS = {
    "b+tree": small(layout.SINGLE, tree_rows=200),
    "round-robin": small(layout.ROBIN, trees=3, tree_rows=200),
    "im-tree": merged(layout.SINGLE, tree_rows=60, rows=60, limit=10),
    "B-chain": chain(4, immutable=False, tree_rows=60, limit=20),
    "IB-chain": chain(4, immutable=True, tree_rows=60, run_rows=60, limit=20),
}
ROWS = st.lists(KEYS, max_size=30)
BOXES = st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=5)


def sets_of(bits: NDArray[np.uint64], base: int) -> list[set[int]]:
    """The ids of each set; the word behind is left out."""
    found = [np.unpackbits(row[:-1].view(np.uint8), bitorder="little") for row in bits]
    return [set((np.flatnonzero(row) + base).tolist()) for row in found]


def bits_of(sets: list[set[int]], base: int, words: int) -> NDArray[np.uint64]:
    bits = np.zeros((len(sets), words + 1), np.uint64)
    for row, ids in zip(bits, sets, strict=True):
        add_ids(np.array(sorted(ids), np.int64), base, row[None])
    return bits


def filled(kind: str, keys: list[int], first: int) -> Pool:
    """A pool of rows with ids from ``first`` on."""
    pool = Pool([KINDS[kind]])
    insert(pool, 0, keys, first)
    return pool


# --- Bits ---------------------------------------------------------------------------------------


def test_a_bit_stands_at_its_id() -> None:
    bits = np.zeros((1, 4), np.uint64)
    add_ids(int64([64, 67, 127, 128, 255]), 64, bits)
    assert bits[0].tolist() == [0b1001 | 1 << 63, 1, 1 << 63, 0]


def test_ids_out_of_range_go_to_the_last_word() -> None:
    bits = np.zeros((2, 3), np.uint64)
    set_pairs(int64([0, 1, 1, 0, 1]), int64([63, 64, 300, 70, -5]), int64([1, 0]), 64, bits)
    assert sets_of(bits, 64) == [{64}, {70}]
    assert all(bits[:, 2])


def test_boxes_with_an_empty_interval_stay_closed() -> None:
    lows = np.array([[9, 1, 5, LOW], [0, 2, 1, HIGH]])
    highs = np.array([[9, 0, 5, HIGH], [0, 2, 0, HIGH]])
    opened = np.full(3, 7)
    assert open_boxes(lows, highs, 1, opened) == 1
    assert opened.tolist() == [0, 0, 1]


@given(
    st.lists(st.tuples(*[st.sets(st.integers(64, 200))] * 2, st.integers(0, 2), st.booleans()),
             min_size=1, max_size=4),
)  # fmt: skip
def test_sets_are_combined_as_they_say(boxes: list[tuple[set[int], set[int], int, bool]]) -> None:
    bits = bits_of([own for own, *_ in boxes], 64, 3)
    sets = bits_of([other for _, other, *_ in boxes], 64, 3)
    how, opened = int64(h for *_, h, _ in boxes), int64(o for *_, o in boxes)
    assert meet_sets(bits, sets, how, opened) == opened.sum()
    for i, (own, other, way, was_open) in enumerate(boxes):
        expected = {AND: own & other, AND_NOT: own - other, SKIP: own}[way] if was_open else own
        assert sets_of(bits, 64)[i] == expected
        assert opened[i] == (was_open and (way == SKIP or bool(expected)))
        if was_open and way != SKIP:
            assert not sets[i].any(), "a set that was used is empty again"


@given(
    st.lists(st.tuples(st.sets(st.integers(128, 330)), st.booleans()), max_size=4),
    st.integers(1, 9),
    st.integers(0, 3),
)
@example([({128, 191, 192}, True)], 3, 0)
def test_bits_become_pairs_in_order(
    boxes: list[tuple[set[int], bool]], room: int, before: int
) -> None:
    bits = bits_of([ids for ids, _ in boxes], 128, 4)
    bits[:, -1] = 1  # never read
    opened, cursor, tally = int64(o for _, o in boxes), np.zeros(2, np.int64), np.zeros(3, int)
    spots, pairs, filled = np.empty(5, np.int64), [], min(before, room - 1)
    while True:
        positions, rows = np.full(room, -1), np.full(room, -1)
        stop = extract(bits, opened, 7, 128, cursor, spots, filled, positions, rows, tally)
        pairs += zip(positions[filled:stop].tolist(), rows[filled:stop].tolist(), strict=True)
        assert np.all(rows[:filled] == -1), "what is there is left alone"
        if cursor[0] == len(boxes):
            break
        assert stop == room, "only full arrays end a call"
        filled = 0
    assert pairs == [(7 + i, id_) for i, (ids, o) in enumerate(boxes) if o for id_ in sorted(ids)]
    assert tally[SCANNED] == 4 * sum(opened), "each word counts once"


# --- Prefixes -----------------------------------------------------------------------------------


@given(ROWS, BOXES, st.integers(1, 7), st.sampled_from([0, 64]))
def test_prefixes_give_what_intervals_hold(
    keys: list[int], boxes: list[tuple[int, int]], step: int, base: int
) -> None:
    order = np.argsort(np.array(keys, np.int64), kind="stable")
    ordered = np.array(keys, np.int64)[order]
    places = (order + 3).astype(np.uint32)
    prefixes = np.empty((-(-len(keys) // step) + 1, 2), np.uint64)
    set_prefixes(places, step, prefixes)
    assert sets_of(prefixes, 0) == [set(places[: j * step].tolist()) for j in range(len(prefixes))]
    lows, highs = edges([(0, 0), *boxes])
    opened, tally = np.ones(len(boxes), np.int64), np.zeros(3, np.int64)
    opened[-1] = 0
    bits = bits_of([set(range(base + 3, base + 3 + len(keys)))] * len(boxes), base, 1)
    left = meet_prefixes(ordered, places, step, prefixes, lows, highs, 1, opened, bits, tally)
    assert left == opened.sum()
    for i, (low, high) in enumerate(boxes[:-1]):
        inside = {base + 3 + at for at, key in enumerate(keys) if low <= key <= high}
        assert sets_of(bits, base)[i] == inside if opened[i] else not inside
    assert len(sets_of(bits, base)[-1]) == len(keys), "a closed box stays as it was"
    assert tally[FILLED] <= 2 * step * len(boxes)


# --- Trees and runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(keys=ROWS, boxes=BOXES, clean=st.booleans())
def test_a_term_is_met(
    kind: str, keys: list[int], boxes: list[tuple[int, int]], clean: bool
) -> None:
    pool = filled(kind, keys, 70)
    base = 64 if clean else 128  # rows below 128 have expired
    boxes = [box for box in boxes if box[0] <= box[1]]
    lows, highs = edges([(0, 0), *boxes])
    live = {70 + at for at in range(len(keys)) if 70 + at >= base}
    bits, spare = bits_of([live] * len(boxes), base, 2), np.zeros((1, 3), np.uint64)
    opened, tally = np.ones(len(boxes), np.int64), np.zeros(3, np.int64)
    left = meet_term(*parts_of(pool.store), lows, highs, 1, base, clean, opened, bits, spare, tally)
    assert left == opened.sum()
    assert not spare[0, :-1].any()
    for i, (low, high) in enumerate(boxes):
        inside = {70 + at for at, key in enumerate(keys) if low <= key <= high} & live
        assert sets_of(bits, base)[i] == inside
        assert opened[i] == bool(inside) or (low, high) == (LOW, HIGH)
    assert not clean or tally[FILLED] <= sum(len(keys) for low, high in boxes)


@pytest.mark.parametrize("kind", KINDS)
def test_the_smaller_side_is_set(kind: str) -> None:
    pool = filled(kind, list(range(36)), 0)
    spare, opened = np.zeros((1, 2), np.uint64), np.ones(1, np.int64)
    for low, high, most in [(0, 3, 4), (2, HIGH, 8), (LOW, 30, 10), (1, 34, 8), (LOW, HIGH, 0)]:
        bits, tally = bits_of([set(range(36))], 0, 1), np.zeros(3, np.int64)
        meet_term(
            *parts_of(pool.store), int64([low]), int64([high]), 0, 0, 1, opened, bits, spare, tally
        )
        assert sets_of(bits, 0) == [set(range(max(0, low), min(35, high) + 1))]
        assert tally[FILLED] <= most


def test_closed_boxes_are_passed_over() -> None:
    pool, tally = filled("b+tree", [1, 2], 0), np.zeros(3, np.int64)
    bits, opened = bits_of([{0, 1}], 0, 1), np.zeros(1, np.int64)
    spare = np.zeros((1, 2), np.uint64)
    assert (
        meet_term(
            *parts_of(pool.store), int64([5]), int64([9]), 0, 0, 1, opened, bits, spare, tally
        )
        == 0
    )
    assert sets_of(bits, 0) == [{0, 1}]
    assert not tally.any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_id_may_have_expired(kind: str) -> None:
    assert least_id(filled(kind, [], 5).store) == HIGH
    pool = filled(kind, [3, 1, 2] * 7, 5)
    pool.side(0)[layout.BEFORE] = 9
    assert least_id(pool.store) == 5


# --- Lists --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(keys=ROWS, boxes=BOXES, before=st.sampled_from([LOW, 0, 9]))
def test_lists_hold_the_live_rows_of_open_boxes(
    kind: str, keys: list[int], boxes: list[tuple[int, int]], before: int
) -> None:
    pool, opened = filled(kind, keys, 2), np.ones(len(boxes), np.int64)
    opened[-1] = 0
    boxes = [(min(box), max(box)) for box in boxes]
    lows, highs = edges([(0, 0), *boxes])
    ends, ids = np.empty(len(boxes), np.int64), np.empty(len(keys) * len(boxes) + 1, np.int64)
    count = collect_term(*parts_of(pool.store), lows, highs, 1, before, opened, ends, ids)
    assert count == ends[-1]
    start = 0
    for (low, high), stop, wanted in zip(boxes, ends.tolist(), opened, strict=True):
        inside = {2 + at for at, key in enumerate(keys) if low <= key <= high and 2 + at >= before}
        assert set(ids[start:stop].tolist()) == (inside if wanted else set())
        assert stop - start == (len(inside) if wanted else 0), "each once"
        start = stop


LISTS = st.lists(st.tuples(*[st.lists(st.integers(100, 140), unique=True)] * 2), max_size=4)


@given(LISTS, st.sampled_from([1, 41, 4096]))
def test_lists_are_intersected(boxes: list[tuple[list[int], list[int]]], span: int) -> None:
    table, epoch = np.zeros(512, np.uint64), np.zeros(1, np.int64)
    for _ in range(3):  # the table is not cleared in between
        ids, others = (int64(i for box in boxes for i in box[n]) for n in (0, 1))
        ends, other_ends = (
            np.cumsum([len(box[n]) for box in boxes], dtype=np.int64) for n in (0, 1)
        )
        opened, found = np.ones(len(boxes), np.int64), np.empty(ids.size + 1, np.int64)
        tally = np.zeros(3, np.int64)
        count = meet_lists(
            ids, ends, others, other_ends, 100, span, table, epoch, opened, found, tally
        )
        start = 0
        for i, (a, b) in enumerate(boxes):
            got = found[start : ends[i]].tolist()
            assert sorted(got) == sorted(set(a) & set(b))
            assert opened[i] == bool(got)
            start = int(ends[i])
        assert count == start
        assert tally[HASHED] == sum(min(len(a), len(b)) for a, b in boxes if a and b)


@given(st.lists(st.lists(st.integers(0, 99), max_size=5), max_size=4), st.integers(1, 6))
def test_lists_become_pairs(lists: list[list[int]], room: int) -> None:
    ids, ends = int64(i for one in lists for i in one), np.cumsum([len(one) for one in lists])
    cursor, pairs = np.zeros(2, np.int64), []
    while cursor[0] < len(lists):
        positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
        stop = emit_lists(ids, ends.astype(np.int64), 3, cursor, 0, positions, rows)
        pairs += zip(positions[:stop].tolist(), rows[:stop].tolist(), strict=True)
        assert stop == room or cursor[0] == len(lists)
    assert pairs == [(3 + i, id_) for i, one in enumerate(lists) for id_ in one]

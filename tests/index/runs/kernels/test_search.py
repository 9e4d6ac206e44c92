"""Routers and probes in bounded chunks, against bisection and nested loops."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.index.runs.kernels.scan import scan
from thetastream.index.runs.kernels.search import build_router, probe_boxes, probe_run

from ....keys import HIGH, KEYS, LOW, Array, Pair, drained, edges, inside, int64
from ...index_boxes import boxed, brute

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

Box = list[Pair]  # one inclusive interval per key column

EXTREMES = [LOW, LOW + 1, -(2**62), -1, 0, 1, 2**62, HIGH - 1, HIGH]
WIDE = st.one_of(st.integers(-20, 20), st.sampled_from(EXTREMES), st.integers(LOW, HIGH))


def router_of(keys: Array, slots: int) -> tuple[np.int64, np.int64, NDArray[np.int32]]:
    """Low edge, shift and router of about ``slots`` entries."""
    low, high = int(keys[0]), int(keys[-1])
    shift = max(0, (high - low).bit_length() - slots.bit_length())
    router = np.empty(((high - low) >> shift) + 2, np.int32)
    build_router(keys, np.int64(low), np.int64(shift), router)
    return np.int64(low), np.int64(shift), router


# --- Routers ------------------------------------------------------------------------------------


@given(st.lists(WIDE, min_size=1, max_size=40), st.integers(1, 64))
@example([LOW, HIGH], 64)
@example([HIGH] * 9, 4)
def test_a_router_entry_is_the_start_of_its_slot(keys: list[int], slots: int) -> None:
    array = int64(sorted(keys))
    low, shift, router = router_of(array, slots)
    own = [(key - int(low)) >> int(shift) for key in array.tolist()]
    assert router.tolist() == [bisect_left(own, slot) for slot in range(router.size)]
    assert router[-1] == array.size


def test_the_picture_of_the_module() -> None:
    router = np.empty(4, np.int32)
    build_router(int64([3, 5, 6, 9, 14, 15, 15, 21]), np.int64(3), np.int64(3), router)
    assert router.tolist() == [0, 4, 7, 8]


# --- One key column -----------------------------------------------------------------------------


def compare(keys: list[int], boxes: list[Pair], slots: int, before: int, room: int) -> None:
    """Assert that the kernel finds what a nested loop finds; row ids count down along the keys."""
    array = int64(sorted(keys))
    ids = np.arange(array.size)[::-1].copy()
    run = (array, ids, *router_of(array, slots), *edges(boxes), before)
    found = drained(
        lambda cursor, *out: probe_run(*run, cursor, 0, *out), len(boxes), room, [0, -1]
    )
    assert found == inside(zip(array.tolist(), ids.tolist(), strict=True), boxes, before)


@given(
    st.lists(WIDE, min_size=1, max_size=40),
    st.lists(st.tuples(WIDE, WIDE), max_size=12),
    st.integers(1, 64),
    st.integers(0, 40),
    st.integers(1, 60),
)
@example([LOW, HIGH], [(LOW, HIGH), (HIGH, HIGH), (LOW, LOW), (HIGH, LOW)], 64, 0, 1)
@example([HIGH] * 40, [(HIGH, HIGH), (LOW, HIGH), (LOW, HIGH - 1)], 4, 3, 7)
@example([LOW] * 40, [(LOW, LOW), (LOW, HIGH), (LOW + 1, HIGH)], 4, 3, 40)
def test_probe_run(keys: list[int], boxes: list[Pair], slots: int, before: int, room: int) -> None:
    compare(keys, boxes, slots, before, room)


def test_long_slots_are_searched_by_halves() -> None:
    # One outlier makes all other keys share a slot, longer than what is walked through.
    keys = [*range(0, 2000, 2), 2**60]
    boxes = [(low, low + width) for low in range(-3, 2005, 91) for width in (0, 1, 50, 2**61)]
    compare(keys, boxes, 4, 0, 1000)


def test_more_boxes_than_a_block() -> None:
    random = np.random.default_rng(1)
    keys = random.integers(-500, 500, 300).tolist()
    lows = random.integers(-600, 600, 700).tolist()
    for room in (1, 256, 5000):
        compare(keys, [(low, low + 5) for low in lows], 40, 10, room)


def test_pairs_go_behind_what_is_there() -> None:
    keys, ids = int64([1, 2, 3, 4]), int64([4, 5, 6, 7])
    positions, rows, cursor = np.full(5, -7), np.full(5, -7), int64([0, -1])
    filled = probe_run(
        keys, ids, *router_of(keys, 2), int64([1]), int64([4]), 0, cursor, 3, positions, rows
    )
    assert (filled, rows.tolist()) == (5, [-7, -7, -7, 4, 5])
    assert cursor.tolist() == [0, 2]


# --- Several key columns ------------------------------------------------------------------------


@st.composite
def stored(draw: st.DrawFn) -> tuple[Array, list[Box]]:
    """A key matrix, sometimes longer than the blocks of 64 that are tested at once, and boxes."""
    columns, boxes = draw(st.integers(2, 3)), draw(st.integers(0, 4))
    base = draw(st.lists(st.tuples(*[KEYS] * columns), min_size=1, max_size=9))
    times = draw(st.sampled_from([1, 8, 40]))
    asked = [
        draw(st.lists(st.tuples(KEYS, KEYS), min_size=columns, max_size=columns))
        for _ in range(boxes)
    ]
    return np.ascontiguousarray(int64(base * times).T), asked


def agree(keys: Array, asked: list[Box], before: int, room: int) -> None:
    """Assert that the kernel finds what a nested loop finds."""
    keys = np.ascontiguousarray(keys[:, np.argsort(keys[0], kind="stable")])
    ids = np.arange(keys.shape[1])[::-1].copy()
    held, held_ids = np.full((keys.shape[0], ids.size + 5), HIGH), np.full(ids.size + 5, -1)
    place = (3, 3 + ids.size)
    held[:, slice(*place)], held_ids[slice(*place)] = keys, ids
    router = router_of(keys[0], 8)
    run = (held, held_ids, *place, *router, *boxed(asked, keys.shape[0]), before)
    found = drained(
        lambda cursor, *out: probe_boxes(*run, cursor, 0, *out), len(asked), room, [0, -1]
    )
    assert found == brute(keys, ids, *boxed(asked, keys.shape[0]), before)


@given(stored(), st.integers(0, 40), st.integers(1, 200))
def test_probe_boxes(case: tuple[Array, list[Box]], before: int, room: int) -> None:
    agree(*case, before, room)


@pytest.mark.parametrize("at", [0, 63, 64, 65, 127, 128, 191, 9_000, 9_999])
def test_blocks_do_not_hide_a_single_hit(at: int) -> None:
    keys = np.zeros((2, 10_000), np.int64)
    keys[0], keys[1, at] = np.arange(10_000), HIGH
    for room in (1, 8):
        agree(keys, [[(0, 20_000), (HIGH, HIGH)], [(0, 20_000), (LOW, -1)]], 0, room)


@pytest.mark.parametrize("room", [1, 63, 64, 65, 1000])
def test_hits_in_long_intervals_are_resumed(room: int) -> None:
    keys = np.stack([np.zeros(600, np.int64), np.arange(600) % 7, np.arange(600) % 5])
    agree(
        keys,
        [[(0, 0), (3, 4), (0, 4)], [(0, 0), (4, 3), (0, 4)], [(-1, 1), (0, 6), (2, 2)]],
        100,
        room,
    )


@given(stored(), st.integers(1, 200))
def test_scan(case: tuple[Array, list[Box]], room: int) -> None:
    keys, asked = case
    ids = np.arange(keys.shape[1]) + 100
    lows, highs = boxed(asked, keys.shape[0])
    found = drained(
        lambda cursor, *out: scan(keys, ids, lows, highs, cursor, 0, *out), len(asked), room, [0, 0]
    )
    assert found == brute(keys, ids, lows, highs)

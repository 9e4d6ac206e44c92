"""Routers and probes in bounded chunks, against bisection and nested loops."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.index.runs.kernels.scan import scan
from thetastream.index.runs.kernels.search import build_router, probe_boxes, probe_run

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

Array = NDArray[np.int64]
Pair = tuple[int, int]
Box = list[tuple[int, int]]  # one inclusive interval per key column

LOW, HIGH = -(2**63), 2**63 - 1
EXTREMES = [LOW, LOW + 1, -(2**62), -1, 0, 1, 2**62, HIGH - 1, HIGH]
KEYS = st.one_of(st.integers(-20, 20), st.sampled_from(EXTREMES), st.integers(LOW, HIGH))
TINY = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))


def int64(values: list[int]) -> Array:
    return np.array(values, np.int64)


def router_of(keys: Array, slots: int) -> tuple[np.int64, np.int64, NDArray[np.int32]]:
    """Low edge, shift and router of about ``slots`` entries."""
    low, high = int(keys[0]), int(keys[-1])
    shift = max(0, (high - low).bit_length() - slots.bit_length())
    router = np.empty(((high - low) >> shift) + 2, np.int32)
    build_router(keys, np.int64(low), np.int64(shift), router)
    return np.int64(low), np.int64(shift), router


def read(call: Callable[[Array, Array, Array], int], boxes: int, room: int, at: int) -> list[Pair]:
    """Call again and again with ``room`` places until all boxes are done."""
    cursor, found = int64([0, at]), []
    for _ in range(100_000):
        if cursor[0] >= boxes:
            return found
        positions, rows = np.full(room, -7), np.full(room, -7)
        filled = call(cursor, positions, rows)
        assert 0 <= filled <= room
        assert filled == room or cursor[0] == boxes
        found += list(zip(positions[:filled].tolist(), rows[:filled].tolist(), strict=True))
    raise AssertionError("the cursor does not reach the end")


# --- Routers ------------------------------------------------------------------------------------


@given(st.lists(KEYS, min_size=1, max_size=40), st.integers(1, 64))
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


def probed(
    keys: list[int], boxes: list[tuple[int, int]], slots: int, before: int, room: int
) -> tuple[list[Pair], list[Pair]]:
    """What the kernel finds and what it should find; row ids count down along the keys."""
    array = int64(sorted(keys))
    ids = np.arange(array.size)[::-1].copy()
    lows, highs = int64([low for low, _ in boxes]), int64([high for _, high in boxes])
    run = (array, ids, *router_of(array, slots), lows, highs, before)
    found = read(
        lambda cursor, positions, rows: probe_run(*run, cursor, 0, positions, rows),
        len(boxes),
        room,
        -1,
    )
    expected = [
        (box, int(row))
        for box, (low, high) in enumerate(boxes)
        for key, row in zip(array.tolist(), ids.tolist(), strict=True)
        if low <= key <= high and row >= before
    ]
    return found, expected


@given(
    st.lists(KEYS, min_size=1, max_size=40),
    st.lists(st.tuples(KEYS, KEYS), max_size=12),
    st.integers(1, 64),
    st.integers(0, 40),
    st.integers(1, 60),
)
@example([LOW, HIGH], [(LOW, HIGH), (HIGH, HIGH), (LOW, LOW), (HIGH, LOW)], 64, 0, 1)
@example([HIGH] * 40, [(HIGH, HIGH), (LOW, HIGH), (LOW, HIGH - 1)], 4, 3, 7)
@example([LOW] * 40, [(LOW, LOW), (LOW, HIGH), (LOW + 1, HIGH)], 4, 3, 40)
def test_probe_run(
    keys: list[int], boxes: list[tuple[int, int]], slots: int, before: int, room: int
) -> None:
    found, expected = probed(keys, boxes, slots, before, room)
    assert found == expected


def test_long_slots_are_searched_by_halves() -> None:
    # One outlier makes all other keys share a slot, longer than what is walked through.
    keys = [*range(0, 2000, 2), 2**60]
    boxes = [(low, low + width) for low in range(-3, 2005, 91) for width in (0, 1, 50, 2**61)]
    found, expected = probed(keys, boxes, 4, 0, 1000)
    assert found == expected


def test_more_boxes_than_a_block() -> None:
    random = np.random.default_rng(1)
    keys = random.integers(-500, 500, 300).tolist()
    lows = random.integers(-600, 600, 700).tolist()
    for room in (1, 256, 5000):
        found, expected = probed(keys, [(low, low + 5) for low in lows], 40, 10, room)
        assert found == expected


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
    base = draw(st.lists(st.tuples(*[TINY] * columns), min_size=1, max_size=9))
    times = draw(st.sampled_from([1, 8, 40]))
    asked = [
        draw(st.lists(st.tuples(TINY, TINY), min_size=columns, max_size=columns))
        for _ in range(boxes)
    ]
    return np.ascontiguousarray(int64(base * times).T), asked


def edges(asked: list[Box], columns: int) -> tuple[Array, Array]:
    both = np.array(asked, np.int64).reshape((len(asked), columns, 2))
    return np.ascontiguousarray(both[:, :, 0].T), np.ascontiguousarray(both[:, :, 1].T)


def nested(keys: Array, ids: Array, asked: list[Box], before: int) -> list[Pair]:
    rows = keys.T.tolist()
    return [
        (b, int(ids[j]))
        for b, box in enumerate(asked)
        for j, row in enumerate(rows)
        if ids[j] >= before
        and all(low <= key <= high for key, (low, high) in zip(row, box, strict=True))
    ]


def boxed(keys: Array, asked: list[Box], before: int, room: int) -> None:
    """Assert that the kernel finds what a nested loop finds."""
    keys = np.ascontiguousarray(keys[:, np.argsort(keys[0], kind="stable")])
    ids = np.arange(keys.shape[1])[::-1].copy()
    held, held_ids = np.full((keys.shape[0], ids.size + 5), HIGH), np.full(ids.size + 5, -1)
    place = (3, 3 + ids.size)
    held[:, slice(*place)], held_ids[slice(*place)] = keys, ids
    router = router_of(keys[0], 8)
    run = (held, held_ids, *place, *router, *edges(asked, keys.shape[0]), before)
    found = read(
        lambda cursor, positions, rows: probe_boxes(*run, cursor, 0, positions, rows),
        len(asked),
        room,
        -1,
    )
    assert found == nested(keys, ids, asked, before)


@given(stored(), st.integers(0, 40), st.integers(1, 200))
def test_probe_boxes(case: tuple[Array, list[Box]], before: int, room: int) -> None:
    boxed(*case, before, room)


@pytest.mark.parametrize("at", [0, 63, 64, 65, 127, 128, 191, 9_000, 9_999])
def test_blocks_do_not_hide_a_single_hit(at: int) -> None:
    keys = np.zeros((2, 10_000), np.int64)
    keys[0], keys[1, at] = np.arange(10_000), HIGH
    for room in (1, 8):
        boxed(keys, [[(0, 20_000), (HIGH, HIGH)], [(0, 20_000), (LOW, -1)]], 0, room)


@pytest.mark.parametrize("room", [1, 63, 64, 65, 1000])
def test_hits_in_long_intervals_are_resumed(room: int) -> None:
    keys = np.stack([np.zeros(600, np.int64), np.arange(600) % 7, np.arange(600) % 5])
    boxed(
        keys,
        [[(0, 0), (3, 4), (0, 4)], [(0, 0), (4, 3), (0, 4)], [(-1, 1), (0, 6), (2, 2)]],
        100,
        room,
    )


@given(stored(), st.integers(1, 200))
def test_scan(case: tuple[Array, list[Box]], room: int) -> None:
    keys, asked = case
    ids = np.arange(keys.shape[1]) + 100
    lows, highs = edges(asked, keys.shape[0])
    found = read(
        lambda cursor, positions, rows: scan(keys, ids, lows, highs, cursor, 0, positions, rows),
        len(asked),
        room,
        0,
    )
    assert found == nested(keys, ids, asked, 0)

"""PO-Join's loops: offsets, and every way to find the rows inside boxes, by itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.index.permuted.kernels.permute import BLOCK
from thetastream.index.permuted.kernels.pojoin import (
    AT,
    BOX,
    READ,
    SET,
    STATE,
    offsets,
    scan_ranks,
)
from thetastream.index.permuted.kernels.sweeping import sweep, travel
from thetastream.index.permuted.permuted import Permuted

# Differences of unsigned numbers wrap on purpose; only plain Python warns of it.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

LEAST, MOST = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(0, 5), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))


@given(st.lists(KEYS, min_size=1, max_size=80), st.lists(KEYS, max_size=70))
@example([MOST], [LEAST, MOST])
@example([LEAST], [LEAST, MOST])
def test_offsets_count_the_keys_before_an_edge(keys: list[int], edges: list[int]) -> None:
    held, asked = np.sort(np.array([keys], np.int64)), np.array([edges], np.int64)
    starts, stops = np.empty_like(asked), np.empty_like(asked)
    offsets(held, asked, asked, starts, stops)
    assert starts[0].tolist() == np.searchsorted(held[0], asked[0], "left").tolist()
    assert stops[0].tolist() == np.searchsorted(held[0], asked[0], "right").tolist()


def intervals(
    one: Permuted, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts, stops = np.empty_like(lows), np.empty_like(lows)
    offsets(one.keys, lows, highs, starts, stops)
    return starts, stops


WAYS = ["scan", "fill", *((c, f) for c in range(3) for f in range(3) if not f or f != c > 0)]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("room", [1, 7, 4096])
def test_every_way_finds_the_rows_inside(way: str | tuple[int, int], room: int) -> None:
    random = np.random.default_rng(room)
    for rows in (1, 64, 65, 700, 5000 if room > 1 else 128):
        matrix = random.integers(0, 9, (3, rows))
        one = Permuted.build(matrix, np.arange(rows))
        lows = random.integers(-1, 9, (3, 40))
        highs = lows + random.integers(-1, 8, (3, 40))
        lows[random.random((3, 40)) < 0.3] = LEAST
        highs[random.random((3, 40)) < 0.3] = MOST
        before = rows // 3
        state = np.zeros(STATE, np.int64)
        state[AT] = -1
        found: Counter[tuple[int, int]] = Counter()
        starts, stops = intervals(one, lows, highs)
        held = (one.ids, one.places, one.ranks)
        bits, words = np.zeros((2, rows // BLOCK + 2), np.uint64), np.zeros((2, 3), np.uint64)
        column, further = (-1, 0) if isinstance(way, str) else way
        order = random.permutation(40)
        while state[BOX] < 40:
            positions, ids = np.empty(room, np.int64), np.empty(room, np.int64)
            out = (state, 0, positions, ids)
            if way == "scan":
                filled = scan_ranks(*held, one.zones, one.groups, starts, stops, before, *out)
            else:
                asked = (starts, stops, order, column, further, before)
                filled = sweep(*held, *asked, bits, words, *out)
            found.update(zip(positions[:filled].tolist(), ids[:filled].tolist(), strict=True))
        expected: Counter[tuple[int, int]] = Counter()
        for box in range(40):
            low, high = lows[:, box, None], highs[:, box, None]
            inside = ((low <= matrix) & (matrix <= high)).all(axis=0)
            expected.update((box, int(row)) for row in np.flatnonzero(inside) if row >= before)
        assert found == expected
        assert state[READ] > 0 or not expected


def test_a_sweep_sets_each_bit_once_where_intervals_grow() -> None:
    one = Permuted.build(
        np.random.default_rng(1).permuted([range(500)] * 2, axis=1), np.arange(500)
    )
    highs = np.stack([np.arange(0, 500, 5), np.full(100, MOST)])
    starts, stops = intervals(one, np.full((2, 100), LEAST), highs)
    state, moves = np.zeros(STATE, np.int64), np.empty(2, np.int64)
    state[AT] = -1
    order = np.arange(100)
    bits, words = np.zeros((1, 9), np.uint64), np.zeros((1, 1), np.uint64)
    room = np.empty(50_000, np.int64), np.empty(50_000, np.int64)
    held = (one.ids, one.places, one.ranks, starts, stops, order)
    sweep(*held, 0, 0, 0, bits, words, state, 0, *room)
    assert state[SET] == 496, "one per row up to the largest box"
    travel(starts, stops, order, 0, moves)
    assert moves.tolist() == [496, 2 * 496 - 1], "back again, all but the least box is cleared"
    backwards = moves.copy()
    travel(starts, stops, order[::-1].copy(), 0, backwards)
    assert backwards.tolist() == moves[::-1].tolist()

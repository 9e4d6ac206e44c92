"""Counting on samples: as nested loops count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.plan.kernels.sampling import count_inside, count_met, shares_inside

from ...keys import Array

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-6, 7, shape)


def inside(keys: Array, lows: Array, highs: Array) -> NDArray[np.bool_]:
    """Whether each key is in an interval of each box: ``(boxes, keys)``."""
    arms = (lows[:, :, None] <= keys) & (keys <= highs[:, :, None])
    return np.asarray(arms.any(axis=0))


@given(SEEDS, st.integers(1, 3), st.integers(0, 20), st.integers(1, 6))
def test_pairs_inside(seed: int, fields: int, rows: int, boxes: int) -> None:
    keys = drawn(seed, fields, rows)
    keys = np.ascontiguousarray(keys[:, np.argsort(keys[0])])
    lows = np.full((fields, 2, boxes), 1)
    highs = np.zeros_like(lows)
    lows[:, 0], highs[:, 0] = drawn(seed + 1, fields, boxes), drawn(seed + 2, fields, boxes)
    lows[:, 1] = np.maximum(highs[:, 0], lows[:, 0]) + 2  # arms do not overlap
    highs[:, 1] = lows[:, 1] + drawn(seed + 3, fields, boxes)
    counts = np.zeros(1, np.int64)
    count_inside(keys, lows, highs, counts)
    every = np.ones((boxes, rows), np.bool_)
    for field in range(fields):
        every &= inside(keys[field], lows[field], highs[field])
    assert counts[0] == np.count_nonzero(every)


@given(SEEDS, st.integers(1, 24), st.integers(1, 6), st.integers(1, 5))
def test_blocks_met(seed: int, rows: int, boxes: int, length: int) -> None:
    keys, beside = np.sort(drawn(seed, rows)), drawn(seed + 1, rows)
    heads = np.arange(0, rows, length)
    first, last = keys[heads], keys[np.append(heads[1:], rows) - 1]
    least, most = np.minimum.reduceat(beside, heads), np.maximum.reduceat(beside, heads)
    low, bottom = drawn(seed + 2, 1, boxes), drawn(seed + 3, 1, boxes)
    high, top = low + drawn(seed + 4, 1, boxes), bottom + drawn(seed + 5, 1, boxes)
    counts = np.zeros(2, np.int64)
    count_met(first, last, least, most, low, high, bottom, top, counts)
    full = (low <= high)[0][:, None]
    within = (low[0][:, None] <= last) & (first <= high[0][:, None]) & full
    meets = (bottom[0][:, None] <= most) & (least <= top[0][:, None])
    assert counts.tolist() == [np.count_nonzero(within), np.count_nonzero(within & meets)]


@given(SEEDS, st.integers(1, 24))
def test_whole_sample_and_nothing(seed: int, rows: int) -> None:
    keys = np.sort(drawn(seed, rows))
    found = np.empty(2)
    lows, highs = np.array([[-100, 5]]), np.array([[100, 4]])
    shares_inside(keys, lows, highs, found)
    assert found.tolist() == [1.0, 0.0]


def test_shares_are_interpolated_between_keys() -> None:
    keys = np.arange(0, 1000, 10)
    found = np.empty(4)
    lows, highs = np.array([[100, 102, 500, 503]]), np.array([[199, 103, 500, 503]])
    shares_inside(keys, lows, highs, found)
    assert found == pytest.approx([0.1, 0.002, 0.001, 0.001]), "also far below one sample row"


@given(SEEDS, st.integers(1, 60))
def test_keys_that_are_all_there_are_counted(seed: int, rows: int) -> None:
    keys = np.sort(np.random.default_rng(seed).integers(0, 5, rows))
    held = np.unique(keys)
    whole = keys[(keys >= held[0]) & (keys <= held[-1])]
    inner = held[1:-1]
    found = np.empty(inner.size)
    shares_inside(whole, inner[None].copy(), inner[None].copy(), found)
    spread = np.diff(held)
    for at, key in enumerate(inner):
        if spread[at] == spread[at + 1] == 1:  # neighbours without a gap
            assert found[at] * rows == pytest.approx(np.count_nonzero(keys == key))


def test_arms_add_up() -> None:
    keys = np.arange(0, 1000, 10)
    found = np.empty(1)
    shares_inside(keys, np.array([[-9], [501]]), np.array([[499], [9999]]), found)
    assert found[0] == pytest.approx(1.0, abs=0.01)

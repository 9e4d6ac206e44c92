"""Nodes as lines of a flat array: counting among free places, moving words, noting rows passed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetastream._jit.arrays import MOST
from thetastream.index.ordered.kernels.lines import (
    BLOCK,
    COUNT,
    ID_AT,
    KEY_AT,
    RUN,
    count_below,
    count_upto,
    emit,
    fill,
    move_down,
    move_up,
)

from ....keys import HIGH, LOW

KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, HIGH - 1, HIGH]))


def node(header: int, keys: list[int], before: int) -> Any:
    """Words with a node of two lines somewhere in them."""
    words = np.full(before + 3 * BLOCK, -7, np.int64)
    words[before] = header
    words[before + 1 : before + 2 * BLOCK] = MOST
    words[before + 1 : before + 1 + len(keys)] = sorted(keys)
    return words


@given(st.lists(KEYS, max_size=15), KEYS, st.integers(0, 2**40), st.integers(0, 9))
def test_counts(keys: list[int], key: int, header: int, before: int) -> None:
    words = node(header, keys, before)
    assert count_below(words, before, 2 * BLOCK, key) == sum(held < key for held in keys)
    found = count_upto(words, before, 2 * BLOCK, key, len(keys))
    assert found == sum(held <= key for held in keys)


@given(st.integers(0, 8), st.integers(0, 8), st.integers(-2, 10))
def test_moves(source: int, target: int, size: int) -> None:
    words = np.arange(20)
    move = move_up if target >= source else move_down
    move(words, source, target, size)
    expected = list(range(20))
    expected[target : target + max(size, 0)] = range(source, source + max(size, 0))
    assert words.tolist() == expected


def test_places_that_are_not_taken() -> None:
    words = np.zeros(6, np.int64)
    fill(words, 1, 3)
    fill(words, 5, -1)
    assert words.tolist() == [0, MOST, MOST, MOST, 0, 0]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=7), st.integers(1, 9), st.integers(0, 7))
def test_rows_given_and_noted(keys: list[int], room: int, before: int) -> None:
    """Row ``i`` has id ``i``; those below ``before`` are passed and not given."""
    keys = sorted(keys)
    words = np.array([*keys, *range(len(keys))], np.int64)
    run, cursor = np.zeros(RUN, np.int64), np.array([4, 0, -1])
    run[[KEY_AT, ID_AT, COUNT]] = 0, len(keys), len(keys)
    out, filled = np.empty((3, room), np.int64), 0
    while run[COUNT] and filled < room:
        filled = emit(words, run, 4, before, cursor, filled, *out)
    wanted = [(4, key, row) for row, key in enumerate(keys) if row >= before][:room]
    assert list(zip(*out[:, :filled].tolist(), strict=True)) == wanted
    passed = len(keys) - int(run[COUNT])
    assert cursor.tolist() == [4, keys[passed - 1], keys[:passed].count(keys[passed - 1])]

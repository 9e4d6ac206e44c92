"""Each unit against NumPy: mergers, indexer, partitioners, probers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.index.subwindows.opencl import MainArray, OpenclDevice, find

from ....keys import HIGH, LOW, MORE_KEYS, Array, Pair, edges

KEYS = st.lists(MORE_KEYS, min_size=1, max_size=40)
UNITS = st.integers(1, 9)  # more than there is work for, too
PARTITIONS = st.integers(0, 45)  # more than there are rows, too


def matrix(keys: list[int], first: int, lines: int = 2) -> Array:
    """Sorted rows: keys, and lines beside them that tell rows apart."""
    numbers = np.arange(first, first + len(keys))
    return np.stack([np.sort(np.array(keys, np.int64)), *(numbers * at for at in range(1, lines))])


def main_array(keys: list[int], partitions: int = 0) -> MainArray:
    return MainArray.of(find(), matrix(keys, 0), partitions)


@given(KEYS, KEYS, st.integers(1, 4), UNITS)
@example([HIGH] * 5, [LOW, HIGH], 2, 3)
def test_mergers(ours: list[int], others: list[int], lines: int, units: int) -> None:
    older, newer = matrix(ours, 0, lines), matrix(others, len(ours), lines)
    both = np.concatenate([older, newer], axis=1)
    merged = MainArray.of(find(), older).merged(newer, units=units)
    expected = both[:, np.argsort(both[0], kind="stable")]  # on ties the older rows go first
    assert np.array_equal(merged.rows, expected)
    assert (merged.size, merged.lines) == (len(ours) + len(others), lines)


@given(KEYS, PARTITIONS)
def test_the_indexer(keys: list[int], partitions: int) -> None:
    held = main_array(keys, partitions)
    assert np.array_equal(held.index, held.rows[0, :: held.width])
    assert held.partitions == held.index.size
    if partitions:
        assert held.partitions <= min(partitions, len(keys))
    assert held.nbytes == held.rows.nbytes + held.index.nbytes


@given(KEYS, PARTITIONS, st.lists(st.tuples(MORE_KEYS, MORE_KEYS), min_size=1, max_size=12), UNITS)
def test_partitioners(keys: list[int], partitions: int, boxes: list[Pair], units: int) -> None:
    held, device, (lows, highs) = main_array(keys, partitions), find(), edges(boxes)
    buffer = held.targets(device.put(lows), device.put(highs), len(boxes), units)
    targets = device.get(buffer, 2, len(boxes))
    found = np.searchsorted(held.index, lows), np.searchsorted(held.index, highs, "right")
    assert np.array_equal(targets, np.maximum(np.stack(found) - 1, 0))


@given(
    KEYS,
    PARTITIONS,
    st.lists(st.tuples(MORE_KEYS, MORE_KEYS), min_size=1, max_size=12),
    UNITS,
    st.booleans(),
)
@example([0] * 40, 40, [(0, 0), (LOW, HIGH), (HIGH, LOW)], 1, True)
@example([0] * 40, 1, [(1, 1), (-1, -1), (0, 0)], 1, False)
def test_probers(
    keys: list[int], partitions: int, boxes: list[Pair], units: int, in_order: bool
) -> None:
    held, device = main_array(keys, partitions), find()
    lows, highs = edges(sorted(boxes) if in_order else boxes)
    buffer = held.places(device.put(lows), device.put(highs), len(boxes), units)
    starts, stops = device.get(buffer, 2, len(boxes))
    assert np.array_equal(starts, np.searchsorted(held.rows[0], lows))
    assert np.array_equal(stops, np.searchsorted(held.rows[0], highs, "right"))
    assert np.array_equal(
        np.maximum(stops - starts, 0),
        [sum(low <= key <= high for key in keys) for low, high in zip(lows, highs, strict=True)],
    )


def grouped(size: int) -> OpenclDevice:
    """A device whose units run in groups, as those of a graphics card do."""
    device = copy.copy(find())
    device.group, device.units = size, 4 * size
    return device


@pytest.mark.parametrize("group", [1, 64])
def test_many_rows_by_many_units(group: int) -> None:
    device, random = grouped(group), np.random.default_rng(7)
    keys = [np.sort(random.integers(LOW, HIGH, size) >> shift) for size, shift in
            ((5000, 0), (9000, 0), (3, 0), (7000, 55))]  # fmt: skip
    rows = [np.stack([column, np.arange(column.size)]) for column in keys]
    held = MainArray.of(device, rows[0], 100)
    for more in rows[1:]:
        held = held.merged(more, 100)
    everything = np.sort(np.concatenate(keys))
    assert np.array_equal(held.rows[0], everything)
    assert held.width == -(-everything.size // 100)
    lows = random.integers(LOW // 2, HIGH // 2, 6000)
    highs = lows + (1 << 58)
    for order in (np.arange(6000), np.argsort(lows)):
        sent = device.put(lows[order]), device.put(highs[order])
        starts, stops = device.get(held.places(*sent, 6000), 2, 6000)
        assert np.array_equal(starts, np.searchsorted(everything, lows[order]))
        assert np.array_equal(stops, np.searchsorted(everything, highs[order], "right"))


def test_what_was_read_stays_when_the_main_array_goes() -> None:
    held = main_array(list(range(40)))
    rows = held.rows
    del held
    for first in range(200):
        main_array([first] * 40)
    assert rows[0].tolist() == list(range(40))

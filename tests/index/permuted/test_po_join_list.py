"""PO-Join's list of structures: the work of a probe, merges of neighbours, expiry, bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ...keys import HIGH, LOW, Array
from ..index_boxes import boxed, held, inserted, pairs, po_join, random_boxes

WAYS = ("auto", "fill", "sweep", "scan")


# --- Work that is counted -------------------------------------------------------------------------


def asked(probing: str, lows: Array, highs: Array, rows: int = 1000) -> dict[str, float]:
    """What the statistics say after one probe of one structure of random rows."""
    index = po_join(probing=probing)
    index.insert(np.random.default_rng(8).integers(0, 10_000, (2, rows)), np.arange(rows))
    pairs(index, lows, highs)
    return index.statistics


@pytest.mark.parametrize("probing", WAYS[1:])
def test_boxes_are_counted_by_the_way_that_answers_them(probing: str) -> None:
    lows, highs = random_boxes(np.random.default_rng(1), 70, 10_000)
    counts = asked(probing, lows, highs)
    assert {way: counts[f"{way}s"] for way in WAYS[1:]} == {
        **dict.fromkeys(WAYS[1:], 0),
        probing: 70,
    }
    assert counts["words_scanned"] > 0
    assert (counts["bits_set"] > 0) == (probing != "scan")


def test_auto_answers_every_box_once() -> None:
    lows, highs = random_boxes(np.random.default_rng(1), 70, 10_000)
    counts = asked("auto", lows, highs)
    assert counts["fills"] + counts["sweeps"] + counts["scans"] == 70


@pytest.mark.parametrize("rows", [100, 1000])
@pytest.mark.parametrize("column", [0, 1])
def test_a_sweep_of_one_sided_boxes_sets_every_bit_once(rows: int, column: int) -> None:
    """All boxes together: at most n bits, where fills set some of them for every box."""
    random = np.random.default_rng(9)
    lows, highs = np.full((2, 300), LOW), np.full((2, 300), HIGH)
    highs[column] = random.integers(0, 10_000, 300)
    lows[1 - column] = random.integers(0, 10_000, 300)
    swept, filled = (asked(way, lows, highs, rows) for way in ("sweep", "fill"))
    assert 0 < swept["bits_set"] <= rows
    assert filled["bits_set"] > 10 * rows


def test_a_fill_sets_the_narrower_interval_only() -> None:
    """As many bits as rows lie in the narrower of the two intervals."""
    keys = np.stack([np.arange(1000), np.random.default_rng(3).permutation(1000)])
    index = po_join(probing="fill")
    index.insert(keys, np.arange(1000))
    boxes = [((10, 19), (0, 899)), ((0, 899), (10, 14)), ((0, 499), (0, 499)), ((0, 9), (5, 4))]
    before = 0.0
    for box, bits in zip(boxes, (10, 5, 500, 0), strict=True):
        pairs(index, *boxed([box]))
        assert index.statistics["bits_set"] - before == bits
        before = index.statistics["bits_set"]


def test_a_scan_reads_no_block_whose_zone_is_outside() -> None:
    """Keys that rise together: of a thousand rows in the interval of one, one block is read."""
    index = po_join(probing="scan")
    index.insert(np.stack([np.arange(1000), np.arange(1000)]), np.arange(1000))
    assert len(pairs(index, *boxed([((LOW, 990), (988, HIGH))]))) == 3
    assert index.statistics["words_scanned"] == 1


def test_few_boxes_are_not_swept() -> None:
    lows, highs = random_boxes(np.random.default_rng(1), 1, 10_000)
    assert asked("auto", lows, highs)["sweeps"] == 0


# --- The list -------------------------------------------------------------------------------------


def test_without_a_ratio_every_insert_is_a_structure() -> None:
    index = inserted(po_join(ratio=0), 5, 1, 1, 9)
    assert held(index) == [5, 1, 1, 9]
    assert (index.statistics["runs"], index.statistics["merges"]) == (4, 0)
    assert index.statistics["merged_rows"] == 0


def test_neighbours_of_like_size_are_merged() -> None:
    index = inserted(po_join(ratio=2), 1, 1, 1)
    assert held(index) == [3]  # 1 → 1 + 1 → 2 + 1
    assert (index.statistics["merges"], index.statistics["merged_rows"]) == (2, 5)
    assert index.statistics["merge_seconds"] > 0
    index = inserted(po_join(ratio=2), 40, 9, 4)
    assert held(index) == [40, 9, 4]
    assert index.statistics["merges"] == 0
    index.insert(np.zeros((2, 3), np.int64), np.arange(53, 56))
    assert held(index) == [40, 16], "4 + 3, then 9"
    index.check()


@pytest.mark.parametrize("ratio", [2, 4])
def test_structures_are_few(ratio: int) -> None:
    """For batches of 16 in a window of 2,048 at most log(128) + 2, by the ratio."""
    index = po_join(ratio=ratio)
    most, random = 0.0, np.random.default_rng(1)
    for first in range(0, 6400, 16):
        index.insert(random.integers(0, 99, (2, 16)), np.arange(first, first + 16))
        index.expire(first + 16 - 2048)
        most = max(most, index.statistics["runs"])
    index.check()
    assert len(index) == 2048
    assert 1 < most <= np.log(128) / np.log(ratio) + 2
    per_row = index.statistics["merged_rows"] / 6400
    assert 0 < per_row <= (ratio + 1) / 2 * (np.log(128) / np.log(ratio) + 2)


@pytest.mark.parametrize("ratio", [0, 1, 4])
def test_structures_leave_whole(ratio: int) -> None:
    index = inserted(po_join(ratio=ratio), 80, 10)
    kept = index._structures[1]  # type: ignore[attr-defined]
    index.expire(80)
    assert index._structures == (kept,), "the other is not touched"  # type: ignore[attr-defined]
    assert index.statistics["merged_rows"] == 0
    index.expire(90)
    assert (len(index), index.nbytes, index.statistics["runs"]) == (0, 0, 0)
    index.check()


def test_expired_rows_are_passed_over_until_their_structure_leaves() -> None:
    index = inserted(po_join(ratio=0), 10, 10)
    index.expire(7)
    index.check()
    assert (len(index), held(index)) == (13, [10, 10])
    assert sorted(row for _, row in pairs(index, *boxed([((0, 9), (0, 9))]))) == [*range(7, 20)]
    index.expire(3)
    assert len(index) == 13, "expiry never goes back"


def test_half_expired_structures_are_written_anew() -> None:
    index = inserted(po_join(ratio=4), 10)
    full = index.nbytes
    index.expire(5)
    assert (len(index), held(index)) == (5, [10])
    index.expire(6)
    assert (len(index), held(index)) == (4, [4])
    assert index.nbytes < full
    index.check()


def test_rows_that_expire_before_they_are_inserted_are_not_found() -> None:
    index = po_join()
    index.expire(5)
    index.insert(np.zeros((2, 4), np.int64), np.arange(4))
    assert len(index) == 0
    index.insert(np.zeros((2, 4), np.int64), np.arange(4, 8))
    index.check()
    assert sorted(pairs(index, *boxed([((LOW, HIGH), (LOW, HIGH))]))) == [(0, 5), (0, 6), (0, 7)]


@pytest.mark.parametrize(("columns", "most"), [(2, 34.0), (3, 51.0), (4, 68.0)])
def test_bytes_per_row(columns: int, most: float) -> None:
    """Keys, ids, ranks both ways, zones: well below the 40 that two columns may take."""
    index = po_join(columns)
    index.insert(np.random.default_rng(1).integers(0, 9, (columns, 1 << 14)), np.arange(1 << 14))
    assert 16 * columns <= index.nbytes / (1 << 14) <= most

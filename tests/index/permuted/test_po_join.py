"""PO-Join by itself: every way of probing, permutation and ranks, answers, threads."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thetastream.errors import DataError, RegistryError
from thetastream.index import Index, create
from thetastream.index.permuted.permuted import Permuted, Way

from ...keys import HIGH, KEYS, LOW
from ...scale import scaled
from ..index_boxes import (
    boxed,
    brute,
    fed,
    held,
    inserted,
    matrix,
    pairs,
    po_join,
    random_boxes,
    slide,
    walk,
    with_threads,
)  # fmt: skip

WAYS = ("auto", "fill", "sweep", "scan")
PAIRS = st.tuples(KEYS, KEYS)
STEPS = st.lists(
    st.one_of(
        st.lists(PAIRS, max_size=12),  # insert these
        st.lists(PAIRS, max_size=12),
        st.integers(1, 9),  # expire so many
    ),
    max_size=12,
)
BOXES = st.lists(st.tuples(PAIRS, PAIRS), min_size=1, max_size=6)


# --- Every way gives the same ---------------------------------------------------------------------


@pytest.mark.parametrize("probing", WAYS)
@pytest.mark.parametrize("ratio", [0, 2])
@given(steps=STEPS, boxes=BOXES, limit=st.sampled_from([1, 3, 65_536]))
@example(steps=[[(0, 0)] * 9, [(0, 0)], 6], boxes=[((LOW, HIGH), (LOW, HIGH))], limit=1)
@example(
    steps=[[(HIGH, LOW)] * 3, [(LOW, HIGH)], 2, [(0, HIGH)]],
    boxes=[((HIGH, HIGH), (LOW, LOW)), ((LOW, 0), (HIGH, HIGH)), ((0, -1), (LOW, HIGH))],
    limit=2,
)
def test_every_step_is_that_of_a_list(
    ratio: int, probing: str, steps: list[Any], boxes: Any, limit: int
) -> None:
    walk(po_join(ratio=ratio, probing=probing), steps, boxes, limit)


@pytest.mark.parametrize("probing", WAYS)
def test_every_box_over_every_row(probing: str) -> None:
    """All boxes over five values per column, on all rows over them, each row twice."""
    values = (LOW, -1, 0, 1, HIGH)
    rows = [*product(values, values)] * 2
    order = np.random.default_rng(2).permutation(len(rows))
    keys, ids = matrix(rows)[:, order], np.arange(len(rows))
    index = po_join(probing=probing)
    index.insert(keys, ids)
    intervals = [*product(values, values)]  # empty ones among them
    lows, highs = boxed([*product(intervals, intervals)])
    assert sorted(pairs(index, lows, highs)) == brute(keys, ids, lows, highs)


@pytest.mark.parametrize("probing", WAYS)
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097])
@pytest.mark.parametrize("domain", [2, 100_000])
def test_words_and_their_edges(probing: str, rows: int, domain: int) -> None:
    """Structures whose bit arrays end at, before and behind a word."""
    random = np.random.default_rng(rows)
    keys, ids = random.integers(0, domain, (2, rows)), np.arange(rows)
    index = po_join(probing=probing)
    index.insert(keys, ids)
    index.check()
    lows, highs = random_boxes(random, 60, domain)
    assert sorted(pairs(index, lows, highs)) == brute(keys, ids, lows, highs)


@pytest.mark.parametrize("probing", WAYS)
@pytest.mark.parametrize("columns", [1, 3, 4])
@settings(max_examples=scaled(25))
@given(data=st.data())
def test_any_number_of_columns(probing: str, columns: int, data: st.DataObject) -> None:
    row = st.tuples(*[KEYS] * columns)
    inserts = data.draw(st.lists(st.lists(row, max_size=10), max_size=5))
    boxes = data.draw(st.lists(st.tuples(*[PAIRS] * columns), min_size=1, max_size=5))
    index = po_join(columns, ratio=data.draw(st.sampled_from([0, 2])), probing=probing)
    keys = fed(index, inserts)
    lows, highs = boxed(boxes, columns)
    expected = brute(keys, np.arange(keys.shape[1]), lows, highs)
    assert sorted(pairs(index, lows, highs)) == expected


@pytest.mark.parametrize("probing", WAYS)
@pytest.mark.parametrize("columns", [2, 3])
def test_a_window_that_slides(probing: str, columns: int) -> None:
    """Batches of all sizes, boxes in bulk, structures partly expired."""
    random = np.random.default_rng(4)
    for ratio, domain in product((0, 4), (3, 500)):
        index = po_join(columns, ratio=ratio, probing=probing)
        slide(index, (1, 300, 70, 64, 2, 500, 128, 5, 90), random, domain, 50)


@pytest.mark.parametrize("probing", WAYS)
@pytest.mark.parametrize("limit", [1, 2, 63, 64, 65, 1000])
def test_output_is_resumed(probing: str, limit: int) -> None:
    """Any limit gives the same pairs in the same order, in full chunks or nearly so."""
    random = np.random.default_rng(6)
    index = po_join(ratio=0, probing=probing)
    for first in (0, 150, 300):
        index.insert(random.integers(0, 20, (2, 150)), np.arange(first, first + 150))
    lows, highs = random_boxes(random, 20, 20)
    whole = pairs(index, lows, highs)
    assert len(whole) > 1000
    assert pairs(index, lows, highs, limit) == whole


@pytest.mark.parametrize("rows", [9, 300])
@pytest.mark.parametrize(
    ("column", "further"), [(0, 0), (1, 0), (3, 0), (1, 2), (2, 1), (1, 3), (3, 2)]
)
def test_any_column_is_swept_alone_or_beside_another(
    monkeypatch: pytest.MonkeyPatch, column: int, further: int, rows: int
) -> None:
    """Whatever is estimated: each column, any order of boxes, a second column or none."""
    random = np.random.default_rng(12)
    lows, highs = random_boxes(random, 40, 12, 4)
    order = random.permutation(40)
    way = Way("sweep", column, order, further)
    monkeypatch.setattr(Permuted, "way", lambda *_: way)
    index = po_join(4, ratio=0)
    keys = random.integers(0, 12, (4, rows))
    index.insert(keys, np.arange(rows))
    expected = brute(keys, np.arange(rows), lows, highs)
    assert expected
    for limit in (1, 7, 65_536):
        assert sorted(pairs(index, lows, highs, limit)) == expected
    index.expire(rows // 3)
    assert sorted(pairs(index, lows, highs)) == [p for p in expected if p[1] >= rows // 3]


def test_a_third_column_that_hardly_moves_is_swept_beside_the_second() -> None:
    """As event times do: all boxes of a batch ask for nearly the same ones."""
    random = np.random.default_rng(13)
    keys = np.stack([*random.integers(0, 10_000, (2, 2000)), np.arange(2000)])
    index = po_join(3, probing="sweep")
    index.insert(keys, np.arange(2000))
    lows, highs = np.full((3, 200), LOW), np.full((3, 200), HIGH)
    highs[0] = random.integers(5000, 10_000, 200)
    lows[1] = np.sort(random.integers(2000, 3000, 200))
    lows[2] = np.arange(1800, 2000)
    assert sorted(pairs(index, lows, highs)) == brute(keys, np.arange(2000), lows, highs)
    (one,) = index._structures  # type: ignore[attr-defined]
    starts = np.stack([np.searchsorted(k, low) for k, low in zip(one.keys, lows, strict=True)])
    stops = np.stack(
        [np.searchsorted(k, high, "right") for k, high in zip(one.keys, highs, strict=True)]
    )
    way = one.way(starts, stops, "sweep")
    assert {way.column, way.further} == {1, 2}


def test_boxes_in_any_order_and_one_by_one() -> None:
    """A sweep sorts its boxes; nobody sees it."""
    random = np.random.default_rng(7)
    index = po_join(probing="sweep")
    keys = random.integers(0, 50, (2, 300))
    index.insert(keys, np.arange(300))
    lows, highs = random_boxes(random, 40, 50)
    together = sorted(pairs(index, lows, highs))
    alone = [
        (box, row)
        for box in range(40)
        for _, row in pairs(index, lows[:, box : box + 1].copy(), highs[:, box : box + 1].copy())
    ]
    assert sorted(alone) == together
    order = random.permutation(40)
    turned = pairs(index, lows[:, order].copy(), highs[:, order].copy())
    assert sorted((int(order[box]), row) for box, row in turned) == together


# --- Permutation and offsets: an example by hand --------------------------------------------------

# Section 3.4 and Figure 5, with rows of our own: Q1 asks R.power < S.power AND R.cool > S.cool.
R = {1: (1800, 3500), 2: (2600, 1600), 3: (900, 2000), 4: (1300, 4100)}
S = {1: (1100, 1500), 2: (2000, 2600), 3: (1300, 3600), 4: (2500, 4000)}


def stored(rows: dict[int, tuple[int, int]], probing: str = "fill") -> Index:
    index = po_join(probing=probing)
    index.insert(matrix([*rows.values()]), np.array([*rows]))
    return index


def test_orders_and_permutations_by_hand() -> None:
    """Places by power, ranks by cool; the paper counts from 1."""
    (one,) = stored(S)._structures  # type: ignore[attr-defined]
    assert one.ids.tolist() == [1, 3, 2, 4]
    assert one.keys.tolist() == [[1100, 1300, 2000, 2500], [1500, 2600, 3600, 4000]]
    assert one.places.tolist() == [[0, 2, 1, 3]]
    assert one.ranks.tolist() == [[0, 2, 1, 3]]
    (one,) = stored(R)._structures  # type: ignore[attr-defined]
    assert one.ids.tolist() == [3, 4, 1, 2]
    assert one.places.tolist() == [[3, 0, 2, 1]], "r2, first by cool, is the fourth by power"
    assert one.ranks.tolist() == [[1, 3, 2, 0]]


@pytest.mark.parametrize("probing", WAYS)
def test_a_probe_by_hand(probing: str) -> None:
    """r asks power > 1400 and cool < 3000 of S; s asks power < 2700 and cool > 2100 of R."""
    index = stored(S, probing)
    assert pairs(index, *boxed([((1401, HIGH), (LOW, 2999))])) == [(0, 2)]
    back = stored(R, probing)
    assert sorted(pairs(back, *boxed([((LOW, 2699), (2101, HIGH))]))) == [(0, 1), (0, 4)]
    if probing == "fill":
        assert index.statistics["bits_set"] == 2, "places 0 and 2, or 2 and 3"
        assert back.statistics["bits_set"] == 2


@pytest.mark.parametrize("probing", WAYS)
def test_equal_keys_and_strict_edges(probing: str) -> None:
    """An edge stands before or behind all keys that are equal to it."""
    index = po_join(probing=probing)
    index.insert(matrix([(5, 5), (5, 6), (6, 5), (6, 6), (5, 5)]), np.arange(5))
    asked = {
        "a < 6 and b < 6": ((LOW, 5), (LOW, 5)),
        "a <= 6 and b < 6": ((LOW, 6), (LOW, 5)),
        "a > 5 and b >= 5": ((6, HIGH), (5, HIGH)),
        "a > 6 and b >= 5": ((7, HIGH), (5, HIGH)),
        "a = 5 and b = 5": ((5, 5), (5, 5)),
    }
    found: list[list[int]] = [[] for _ in asked]
    for box, row in pairs(index, *boxed([*asked.values()])):
        found[box].append(row)
    assert [sorted(rows) for rows in found] == [[0, 4], [0, 2, 4], [2, 3], [], [0, 4]]


# --- Answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("probing", WAYS)
def test_an_answer_is_a_snapshot(probing: str) -> None:
    index = inserted(po_join(ratio=1, probing=probing), 100, 10)
    whole = boxed([((LOW, HIGH), (LOW, HIGH))])
    unread = index.probe(*whole)
    answer = iter(index.probe(*whole, limit=7))
    seen = [ids.tolist() for _, ids in islice(answer, 2)]
    index.insert(np.zeros((2, 50), np.int64), np.arange(110, 160))
    index.expire(140)
    rest = [ids.tolist() for _, ids in answer]
    assert sorted(row for chunk in seen + rest for row in chunk) == [*range(110)]
    for chunks in (unread, unread.again()):
        assert sorted(row for _, ids in chunks for row in ids.tolist()) == [*range(110)]


def test_the_caller_keeps_its_arrays() -> None:
    for keys in (np.array([[1, 2, 3], [6, 5, 4]]), np.array([[3, 1, 2], [4, 5, 6]])):
        index, ids = po_join(), np.arange(3)
        index.insert(keys, ids)
        keys[:], ids[:] = 77, 99
        assert sorted(row for _, row in pairs(index, *boxed([((0, 9), (0, 9))]))) == [0, 1, 2]
        index.check()


@pytest.mark.parametrize("probing", WAYS)
def test_no_rows_and_no_boxes(probing: str) -> None:
    index = po_join(probing=probing)
    nothing = np.empty((2, 0), np.int64)
    index.insert(nothing, np.empty(0, np.int64))
    assert held(index) == []
    assert pairs(index, *boxed([((0, 1), (0, 1))])) == []
    index.insert(np.zeros((2, 3), np.int64), np.arange(3))
    assert pairs(index, nothing, nothing) == []


@pytest.mark.parametrize("workers", [2, 3])
def test_threads_over_the_list(workers: int) -> None:
    for probing in WAYS:
        alone, several = (po_join(ratio=0, probing=probing, workers=w) for w in (1, workers))
        with_threads(alone, several, 50, 10)


def test_bad_parameters_and_shapes() -> None:
    for bad in ({"ratio": -1}, {"workers": 0}, {"columns": 0}):
        with pytest.raises(RegistryError, match="at least"):
            create("po-join", **bad)
    with pytest.raises(RegistryError, match=r"probing must be one of .*Did you mean 'sweep'\?"):
        create("po-join", probing="sweeps")
    index = po_join(2)
    with pytest.raises(DataError, match=r"2 key column\(s\); got an array of shape"):
        index.insert(np.zeros((3, 4), np.int64), np.arange(4))
    assert index.parameters["ratio"] == 4
    assert index.parameters["probing"] == "auto"


def test_check_can_fail() -> None:
    index: Any = inserted(po_join(), 40)
    (one,) = index._structures
    swapped = one.places.copy()
    swapped[0, [0, 1]] = swapped[0, [1, 0]]
    broken = {
        "every column must ascend": {"keys": np.ascontiguousarray(one.keys[:, ::-1])},
        "ranks undo places": {"places": swapped},
        "an id may occur once": {"ids": np.full(40, one.last)},
    }
    for message, fields in broken.items():
        index._structures = (replace(one, **fields),)
        with pytest.raises(AssertionError, match=message):
            index.check()
    for structures in ((one, one), (replace(one, zones=one.zones + 1),)):
        index._structures = structures
        with pytest.raises(AssertionError):
            index.check()

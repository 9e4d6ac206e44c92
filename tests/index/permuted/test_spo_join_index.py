"""The structure ``spo-join``: a mutable part, merges at a threshold, structures that leave."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import Index, create
from thetastream.index.permuted import spo_join as spo_join_module

from ...keys import HIGH, KEYS, LOW
from ...scale import scaled
from ..index_boxes import brute, pairs, random_boxes, slide, walk, with_threads

PAIRS = st.tuples(KEYS, KEYS)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"slide": 8, "elements": 4},
    {"ratio": 0},
    {"probing": "sweep"},
    {"probing": "fill", "intersect": "hash"},
    {"probing": "scan", "workers": 2},
    {"background": True},
    {"background": True, "workers": 2, "ratio": 0},
]


def spo_join(capacity: int = 64, columns: int = 2, **parameters: Any) -> Index:
    return create("spo-join", capacity=capacity, columns=columns, **parameters)


def everything(index: Index) -> list[int]:
    whole = np.full((index.columns, 1), LOW), np.full((index.columns, 1), HIGH)
    return [row for _, row in pairs(index, *whole)]


# --- Exact in any setting -------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(SETTINGS)))
@settings(max_examples=scaled(40))
@given(
    steps=st.lists(
        st.one_of(st.lists(PAIRS, max_size=9), st.lists(PAIRS, max_size=2), st.integers(1, 9)),
        max_size=16,
    ),
    boxes=st.lists(st.tuples(PAIRS, PAIRS), min_size=1, max_size=5),
    limit=st.sampled_from([1, 3, 65_536]),
    capacity=st.sampled_from([4, 32, 200]),
)
def test_every_step_is_that_of_a_list(
    number: int, steps: list[Any], boxes: Any, limit: int, capacity: int
) -> None:
    walk(spo_join(capacity, **SETTINGS[number]), steps, boxes, limit)


@pytest.mark.parametrize("number", range(len(SETTINGS)))
@pytest.mark.parametrize("columns", [2, 3])
def test_a_window_that_slides(number: int, columns: int) -> None:
    """Batches of all sizes: into the mutable part, or a structure of their own at once."""
    random = np.random.default_rng(4)
    for domain, capacity in product((3, 500), (64, 2000)):
        index = spo_join(capacity, columns, **SETTINGS[number])
        sizes = (1, 30, 7, 300, 3, 2, 1, 64, 20, 20, 500, 9, 5, 90)
        slide(index, sizes, random, domain, 40)


@pytest.mark.parametrize("columns", [1, 4])
def test_any_number_of_columns(columns: int) -> None:
    random = np.random.default_rng(columns)
    index = spo_join(100, columns, slide=20)
    keys = random.integers(0, 6, (columns, 300))
    for first in range(0, 300, 3):
        index.insert(keys[:, first : first + 3].copy(), np.arange(first, first + 3))
    index.check()
    lows, highs = random_boxes(random, 60, 6, columns)
    assert sorted(pairs(index, lows, highs)) == brute(keys, np.arange(300), lows, highs)


# --- Merges at a threshold ------------------------------------------------------------------------


def threshold_of(index: Any) -> int:
    return int(index.details["merge threshold"])


def parts(index: Index) -> tuple[list[int], int]:
    """Rows of each structure, and of the mutable part."""
    said = index.details
    return list(said["rows in structures"]), int(said["rows in the mutable part"])


def fed(index: Index, rows: int, batch: int = 1) -> Index:
    """Insert so many rows behind those that are there, in batches."""
    first = next_id(index)
    for at in range(first, first + rows, batch):
        ids = np.arange(at, min(at + batch, first + rows))
        index.insert(np.stack([ids * 7 % 5, -ids]), ids)
        index.check()
    return index


def next_id(index: Index) -> int:
    ids = index.dump()[1]
    return int(ids[-1]) + 1 if ids.size else 0


@pytest.mark.parametrize(
    ("given_", "threshold"),
    [
        ({"slide": 100}, 100),
        ({"slide": 10_000}, 3334),
        ({"slide": 10_000, "elements": 1}, 10_000),
        ({"slide": 100, "elements": 4}, 25),
        ({"slide": 10, "elements": 4}, 3),
        ({"slide": 2, "elements": 8}, 1),
        ({}, 100),
        ({"elements": 5}, 20),
    ],
)
def test_the_threshold_is_a_slide_or_a_part_of_it(given_: Any, threshold: int) -> None:
    """Without a slide, a sixteenth of the window."""
    assert threshold_of(spo_join(1600, **given_)) == threshold


def test_a_slide_of_rows_becomes_a_structure() -> None:
    index = fed(spo_join(1000, slide=20, ratio=0), 19)
    assert parts(index) == ([], 19)
    fed(index, 1)
    assert parts(index) == ([20], 0)
    fed(index, 45)
    assert parts(index) == ([20, 20, 20], 5)
    assert index.statistics["runs"] == 4
    assert everything(index) != []


def test_elements_divide_the_slide() -> None:
    index = fed(spo_join(1000, slide=20, elements=4, ratio=0), 43)
    assert parts(index) == ([5] * 8, 3)


def test_neighbours_are_merged() -> None:
    index = fed(spo_join(1000, slide=10, ratio=4), 100)
    structures, young = parts(index)
    assert (sum(structures), young) == (100, 0)
    assert len(structures) <= 3
    assert index.statistics["merges"] > 0
    assert index.statistics["merged_rows"] > 0
    assert index.statistics["merge_seconds"] > 0


def test_large_batches_become_structures_at_once() -> None:
    """From a quarter of the threshold on, behind what was in the mutable part before."""
    index = fed(spo_join(1000, slide=40, ratio=0), 9, batch=9)
    assert parts(index) == ([], 9)
    fed(index, 10, batch=10)
    assert parts(index) == ([9, 10], 0)
    fed(index, 300, batch=300)
    assert parts(index) == ([9, 10, 300], 0)


def test_structures_leave_whole_and_rows_exactly() -> None:
    index = fed(spo_join(1000, slide=20, ratio=0), 70)
    for before, structures, young in (
        (19, [20, 20, 20], 10),  # 19 rows are passed over
        (20, [20, 20], 10),
        (59, [20], 10),
        (60, [], 10),
        (65, [], 5),
        (70, [], 0),
    ):
        index.expire(before)
        index.check()
        assert parts(index) == (structures, young)
        assert sorted(everything(index)) == [*range(before, 70)]
        assert len(index) == 70 - before
    fed_again = np.arange(70, 90)
    index.insert(np.stack([fed_again, fed_again]), fed_again)
    index.check()
    assert sorted(everything(index)) == [*range(70, 90)]


@pytest.mark.parametrize("ratio", [0, 4])
def test_a_window_by_slides_holds_so_many_structures(ratio: int) -> None:
    """Ten slides in a window: ten structures of the paper's list, fewer when merged."""
    index = spo_join(200, slide=20, ratio=ratio)
    most = 0
    for first in range(0, 800, 5):
        fed(index, 5, batch=4)
        slide = (first + 5 - 1) // 20
        index.expire(max(0, 20 * (slide - 10 + 1)))
        most = max(most, len(parts(index)[0]))
    assert most == 10 if ratio == 0 else most <= 4
    assert len(index) == 200


def test_what_expired_in_the_mutable_part_does_not_count() -> None:
    index = fed(spo_join(1000, slide=20, ratio=0), 15)
    index.expire(10)
    fed(index, 14)
    assert parts(index) == ([], 19)
    fed(index, 1)
    assert parts(index) == ([20], 0)
    assert sorted(everything(index)) == [*range(10, 30)]


@pytest.mark.parametrize("slide", [4, 100])
def test_rows_that_expire_before_they_are_inserted_are_not_found(slide: int) -> None:
    index = spo_join(1000, slide=slide)
    index.expire(5)
    index.insert(np.zeros((2, 4), np.int64), np.arange(4))
    index.check()
    assert (len(index), everything(index)) == (0, [])
    index.insert(np.zeros((2, 4), np.int64), np.arange(4, 8))
    index.check()
    assert sorted(everything(index)) == [5, 6, 7]


# --- Merges in the background ---------------------------------------------------------------------


class Job:
    """Work that is done when somebody asks for its result, or says so."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._found: list[Any] = []

    def done(self) -> bool:
        return bool(self._found)

    def result(self) -> Any:
        if not self._found:
            self._found.append(self._work())
        return self._found[0]


class Later:
    """A thread that does nothing by itself: merges end when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, work: Callable[[], Any]) -> Job:
        self.jobs.append(Job(work))
        return self.jobs[-1]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    thread = Later()
    monkeypatch.setattr(spo_join_module, "_merger", lambda: thread)
    return thread


def asserted(index: Index, first: int, stop: int) -> None:
    """Exactly the rows from first to stop are held, each of them once."""
    index.check()
    assert len(index) == stop - first
    assert sorted(everything(index)) == [*range(first, stop)]
    keys, ids = index.dump()
    assert ids.tolist() == [*range(first, stop)]
    assert np.array_equal(keys, np.stack([ids * 7 % 5, -ids]))


def test_rows_that_come_during_a_merge_are_found_once(later: Later) -> None:
    index = fed(spo_join(1000, slide=20, ratio=0, background=True), 20)
    assert [job.done() for job in later.jobs] == [False]
    asserted(index, 0, 20)
    fed(index, 7)
    asserted(index, 0, 27)
    later.jobs[0].result()
    asserted(index, 0, 27)  # done, but nobody has looked yet
    fed(index, 1)
    asserted(index, 0, 28)
    assert parts(index) == ([20], 8)


def test_one_merge_at_a_time(later: Later) -> None:
    """A second one that is due waits for the first."""
    index = fed(spo_join(1000, slide=20, ratio=0, background=True), 40)
    assert [job.done() for job in later.jobs] == [True, False]
    asserted(index, 0, 40)
    fed(index, 30, batch=30)  # a structure of its own, behind those that are being merged
    assert [job.done() for job in later.jobs] == [True, True]
    assert parts(index) == ([20, 20, 30], 0)
    asserted(index, 0, 70)


@pytest.mark.parametrize("ratio", [0, 4])
def test_rows_that_expire_during_a_merge_are_gone(later: Later, ratio: int) -> None:
    index = fed(spo_join(1000, slide=20, ratio=ratio, background=True), 45)
    for before in (3, 20, 23):
        index.expire(before)
        asserted(index, before, 45)
    later.jobs[-1].result()
    asserted(index, 23, 45)
    fed(index, 1)
    asserted(index, 23, 46)


def test_all_rows_may_expire_during_a_merge(later: Later) -> None:
    index = fed(spo_join(1000, slide=20, background=True), 25)
    index.expire(22)
    asserted(index, 22, 25)
    later.jobs[-1].result()
    fed(index, 4)
    asserted(index, 22, 29)


def test_an_answer_stays_while_a_merge_ends(later: Later) -> None:
    index = fed(spo_join(1000, slide=20, ratio=0, background=True), 27)
    whole = np.full((2, 1), LOW), np.full((2, 1), HIGH)
    opened, unread = iter(index.probe(*whole, limit=4)), index.probe(*whole)
    found = [next(opened)[1].tolist()]
    later.jobs[0].result()
    fed(index, 13)
    index.expire(25)
    found += [ids.tolist() for _, ids in opened]
    assert sorted(row for chunk in found for row in chunk) == [*range(27)]
    for _ in range(2):
        assert sorted(row for _, ids in unread.again() for row in ids.tolist()) == [*range(27)]


def test_a_merging_thread_under_load() -> None:
    """The real thread: rows come, go and are asked for while it works."""
    index = spo_join(2000, slide=150, ratio=4, background=True)
    for first in range(0, 6000, 10):
        ids = np.arange(first, first + 10)
        index.insert(np.stack([ids * 7 % 5, -ids]), ids)
        before = max(0, first + 10 - 700)
        index.expire(before)
        if first % 7 == 0:
            assert sorted(everything(index)) == [*range(before, first + 10)]
    asserted(index, 5300, 6000)


# --- Words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [2, 3])
def test_threads_over_the_list(workers: int) -> None:
    alone, several = (spo_join(1000, slide=50, ratio=0, workers=w) for w in (1, workers))
    with_threads(alone, several, 8, 65)


def test_bad_parameters() -> None:
    for bad in ({"slide": -1}, {"elements": -1}, {"ratio": -1}, {"workers": 0}):
        with pytest.raises(RegistryError, match="at least"):
            create("spo-join", columns=2, **bad)
    with pytest.raises(RegistryError, match="intersect must be one of bits, .*; got 'and'"):
        create("spo-join", columns=2, intersect="and")
    with pytest.raises(RegistryError, match="probing must be one of"):
        create("spo-join", columns=2, probing="hash")
    index = spo_join(slide=30, elements=2)
    given_ = {name: index.parameters[name] for name in ("slide", "elements", "intersect")}
    assert given_ == {"slide": 30, "elements": 2, "intersect": "bits"}


def test_bytes_per_row() -> None:
    """At most 40 bytes per stored row with two terms, mutable part and all."""
    index = spo_join(1 << 15)
    random = np.random.default_rng(1)
    for first in range(0, 1 << 15, 1 << 8):
        keys = random.integers(0, 2**31, (2, 1 << 8))
        index.insert(keys, np.arange(first, first + (1 << 8)))
    assert 32 <= index.nbytes / (1 << 15) <= 40


def test_check_can_fail() -> None:
    index: Any = fed(spo_join(1000, slide=20, ratio=0), 50)
    index._structures = index._structures[::-1]
    with pytest.raises(AssertionError, match="in order of ids"):
        index.check()
    index = fed(spo_join(1000, slide=20), 19)
    index._mutable.insert(np.zeros((2, 1), np.int64), np.array([19]))
    with pytest.raises(AssertionError, match="at δ rows"):
        index.check()

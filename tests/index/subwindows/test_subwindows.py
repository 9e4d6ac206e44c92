"""A chain that chooses what is inside: by expected cost, with its reasons; answers stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import Index, create
from thetastream.index.subwindows.rule import Expected, crowding, decide
from thetastream.index.subwindows.subwindows import Subwindows
from thetastream.prices.batches import Prices

from ...keys import Array
from ...scale import scaled

SIZE = 1 << 12  # rows of a subwindow
LARGE = 1 << 18
DOMAIN = 10**6
KINDS = {"bi-sort", "rap-table", "wib-tree"}


@pytest.fixture(autouse=True)
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prices that are delivered, whatever this machine was calibrated to."""
    create("subwindows")  # compiles, in the usual place
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))


def chain(size: int = SIZE, **parameters: str | int) -> Subwindows:
    index = create("subwindows", capacity=2 * size, subwindows=2, **parameters)
    assert isinstance(index, Subwindows)
    return index


def feed(index: Index, keys: Array, batch: int, first: int = 0, wide: int | None = 0) -> int:
    """Insert in batches and expire what leaves the window; probe too, unless ``wide`` is None."""
    for at in range(0, keys.size, batch):
        part = keys[at : at + batch]
        if wide is not None:
            for _ in index.probe(part - wide, part + wide):
                pass
        index.insert(part, np.arange(first + at, first + at + part.size))
        index.expire(first + at + part.size - index.capacity)
    index.check()
    return first + keys.size


def kinds(index: Index) -> list[str]:
    return [part["structure"] for part in index.details["subwindows"]]


def reasons(index: Index) -> list[str]:
    return [part["why"] for part in index.details["subwindows"]]


def random_keys(count: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, DOMAIN, count)


def jumping_keys(count: int, size: int) -> Array:
    """Every subwindow has a range of its own."""
    return random_keys(count) + np.arange(count) // size % 7 * 10 * DOMAIN


# --- The rule -----------------------------------------------------------------------------------


def test_large_batches_are_for_bi_sort() -> None:
    index = chain()
    feed(index, random_keys(3 * SIZE), 1024)
    assert set(kinds(index)) == {"bi-sort"}
    assert "rows per insert 1,024, boxes per row 1, matches" in reasons(index)[-1]
    assert index.statistics["switches"] == 0


def test_small_batches_of_steady_keys_are_for_the_rap_table() -> None:
    index = chain()
    feed(index, random_keys(5 * SIZE), 16)
    assert set(kinds(index)) == {"rap-table"}
    assert "most of the difference is for a probe of one array" in reasons(index)[-1]
    assert index.statistics["switches"] == 1, "the spread of keys was not known at first"
    assert 60 < index.details["observed rows per partition"] < 80


def test_small_batches_of_increasing_keys_are_not() -> None:
    index = chain()
    feed(index, np.arange(5 * SIZE) * 100, 16)
    assert set(kinds(index)) == {"bi-sort"}
    assert index.details["observed rows per partition"] > 0.9 * SIZE
    costs = index.details["expected ns per row"]
    assert costs["rap-table"] > costs["wib-tree"] > costs["bi-sort"]


def test_many_matches_are_for_bi_sort() -> None:
    index = chain()
    feed(index, random_keys(4 * SIZE), 64, wide=DOMAIN // 8)
    assert set(kinds(index)) == {"bi-sort"}
    observed = index.details["observed matches per box and full subwindow"]
    assert 0.6 * SIZE / 4 < observed < SIZE / 4, "less at the edges, and of those that expire"


def test_rows_that_nobody_asks_for_are_for_partitions() -> None:
    """A box per row is expected at first; then the inserts decide."""
    index = chain(LARGE)
    feed(index, random_keys(3 * LARGE), 1024, wide=None)
    assert kinds(index) == ["wib-tree", "rap-table"]
    assert "boxes per row 0," in reasons(index)[-1]
    assert "the spread of keys is not known yet" in reasons(index)[0]
    assert index.statistics["switches"] == 2


def test_drifting_keys_that_are_seldom_asked_for_are_for_the_wib_tree() -> None:
    index, keys = chain(LARGE), jumping_keys(3 * LARGE, LARGE)
    for at in range(0, keys.size, 1024):
        part = keys[at : at + 1024]
        for _ in index.probe(part[:2], part[:2]):
            pass
        index.insert(part, np.arange(at, at + 1024))
    assert kinds(index) == ["bi-sort", "wib-tree", "wib-tree"]
    assert f"rows per partition {LARGE:,}" in reasons(index)[-1]
    assert index.details["observed boxes per row"] == pytest.approx(1 / 512, abs=1e-3)


def test_a_rap_table_takes_no_more_rows_once_keys_crowd() -> None:
    index = chain()
    first = feed(index, random_keys(3 * SIZE + SIZE // 2), 16)
    assert kinds(index)[-1] == "rap-table"
    feed(index, DOMAIN + np.arange(SIZE) * 10, 16, first)
    *_, closed, newest = index.details["subwindows"]
    assert closed["structure"] == "rap-table"
    assert SIZE / 2 < closed["rows"] < 0.7 * SIZE, "it had room"
    assert newest["structure"] == "bi-sort"
    assert "rows per partition 4,096" in newest["why"]
    assert len(index) == 2 * SIZE


def test_rows_by_time_stay_exact_when_a_subwindow_closes_early() -> None:
    """Late rows, rows that expire by time, and a RaP-Table that keys begin to crowd into."""
    rng, index, now, older = np.random.default_rng(1), chain(), 0, -1
    keys, times = np.empty(0, np.int64), np.empty(0, np.int64)
    for push in range(900):
        rising = push > 650
        fresh = rng.integers(0, DOMAIN, 16) // (1000 if rising else 1) + push * 2000 * rising
        at = now + rng.integers(-900 if push % 5 == 0 else 0, 30, 16)
        since = max(0, keys.size - 4 * SIZE)
        shift = np.array([0, since])
        met = np.abs(keys[since:] - fresh[:, None]) <= 99
        found = [np.stack(part, axis=1) for part in index.probe(fresh - 99, fresh + 99)]
        got = {tuple(pair) for part in found for pair in part.tolist()}
        must = np.argwhere(met & (times[since:] >= older)) + shift
        assert {tuple(pair) for pair in must.tolist()} <= got
        assert got <= {tuple(pair) for pair in (np.argwhere(met) + shift).tolist()}
        index.insert(fresh, np.arange(keys.size, keys.size + 16), times=at)
        keys, times, now = np.append(keys, fresh), np.append(times, at), now + 16
        if push % 4 == 0:
            older = now - 2 * SIZE
            index.expire_older(older)
        if push % 30 == 0:
            index.check()
    closed = {part["structure"]: part["rows"] for part in index.details["subwindows"][:-1]}
    assert closed["rap-table"] < SIZE


def test_the_costs_of_all_structures_are_shown() -> None:
    index = chain()
    assert "expected ns per row" not in index.details
    assert index.details["subwindows"] == []
    feed(index, random_keys(10), 10)
    shown = index.details["expected ns per row"]
    assert shown["rap-table"] == "the spread of keys is not known yet"
    assert shown["bi-sort"] < shown["wib-tree"]
    assert index.details["rule"] == "the structure that is expected to cost least per stored row"
    feed(index, random_keys(2 * SIZE), 1024, 10)
    shown = index.details["expected ns per row"]
    assert set(shown) == KINDS
    assert "ns per row expected" in reasons(index)[-1]
    assert "in a rap-table" in reasons(index)[-1], "the next best"


@pytest.mark.parametrize(
    ("size", "batch", "boxes", "matches", "crowd", "kind"),
    [
        (1 << 12, 1, 1.0, 1.0, 66.0, "rap-table"),
        (1 << 14, 64, 1.0, 1.0, 66.0, "rap-table"),
        (1 << 16, 16, 1.0, 1.0, 66.0, "rap-table"),
        (1 << 16, 1024, 1.0, 1.0, 66.0, "bi-sort"),
        (1 << 16, 16, 1.0, 1.0, 1e4, "bi-sort"),
        (1 << 16, 16, 1.0, 1024.0, 66.0, "bi-sort"),
        (1 << 18, 1024, 1 / 16, 1.0, 66.0, "rap-table"),
        (1 << 18, 1024, 1 / 16, 1.0, 1e5, "wib-tree"),
        (1 << 18, 1 << 15, 1 / 16, 1.0, 1e5, "bi-sort"),
    ],
)
def test_the_rule_picks_what_was_measured_to_be_fastest(
    size: int, batch: int, boxes: float, matches: float, crowd: float, kind: str
) -> None:
    found = decide(Expected(size, batch, boxes, batch, matches, crowd), Prices())
    assert found.kind == kind


def test_the_paper_s_example_of_the_rule() -> None:
    """One subwindow of 8 M rows: inserts of BI-Sort are the bottleneck unless batches are large."""
    for exponent, kind in ((10, "wib-tree"), (12, "wib-tree"), (16, "bi-sort")):
        traffic = Expected(1 << 23, 1 << exponent, matches=1.0, subwindows=1)
        assert decide(traffic, Prices()).kind == kind


@settings(max_examples=scaled(60))
@given(
    size=st.integers(1, 1 << 24),
    batch=st.floats(0, 1 << 24),
    boxes=st.floats(0, 1 << 10),
    asked=st.floats(0, 1 << 20),
    matches=st.floats(0, 1 << 24),
    crowd=st.none() | st.floats(0, 1 << 24),
)
def test_the_cheapest_is_chosen_and_crowds_cost(
    size: int, batch: float, boxes: float, asked: float, matches: float, crowd: float | None
) -> None:
    traffic = Expected(size, batch, boxes, asked, matches, crowd)
    found = decide(traffic, Prices())
    assert found.costs[found.kind] == min(found.costs.values()) >= 0
    assert ("rap-table" in found.costs) == (crowd is not None)
    worse = decide(Expected(size, batch, boxes, asked, matches, (crowd or 0) + 1), Prices())
    assert worse.costs["rap-table"] >= found.costs.get("rap-table", 0)
    assert worse.costs["wib-tree"] == found.costs["wib-tree"]


@settings(max_examples=scaled(30))
@given(st.lists(st.integers(0, 20), min_size=2, max_size=50), st.sets(st.integers(0, 20)))
def test_crowding_counts_the_rows_that_share_a_partition(keys: list[int], cuts: set[int]) -> None:
    """Over all pairs of different rows; a random sample of them tells the same on average."""
    places = [sum(cut <= key for cut in cuts) for key in keys]
    pairs = sum(a == b for i, a in enumerate(places) for j, b in enumerate(places) if i != j)
    found = crowding(np.array(keys), np.array(sorted(cuts), np.int64), 700)
    assert found == pytest.approx(700 * pairs / len(keys) / (len(keys) - 1))


# --- Changes ------------------------------------------------------------------------------------


def story() -> Iterator[tuple[Array, int, int]]:
    """Keys, batch size and half the width of boxes, changing from phase to phase."""
    yield random_keys(3 * SIZE, 2), 16, 10  # → rap-table
    yield random_keys(2 * SIZE, 3), 1024, 10  # → bi-sort
    yield random_keys(3 * SIZE, 4), 16, 10  # → rap-table
    yield np.arange(3 * SIZE) * 10**4, 16, 10  # → bi-sort


def test_the_structure_changes_with_the_traffic() -> None:
    index, first = chain(), 0
    ends = []
    for keys, batch, wide in story():
        first = feed(index, keys, batch, first, wide)
        ends.append(kinds(index)[-1])
    assert ends == ["rap-table", "bi-sort", "rap-table", "bi-sort"]
    assert index.statistics["switches"] >= 4
    assert index.statistics["merges"] > 0, "those of dropped subwindows are counted too"
    assert len(index) == 2 * SIZE


@pytest.mark.parametrize(("threads", "workers"), [(1, 1), (2, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("seed", range(2))
def test_a_change_of_structure_changes_no_answer(threads: int, workers: int, seed: int) -> None:
    """Whatever stands next to whatever: the structures change at random."""
    random = np.random.default_rng(seed)
    index, size, first = chain(256, threads=threads, workers=workers), 256, 0
    keys = np.concatenate([random_keys(6 * size, seed), np.arange(6 * size) * 500])
    seen = set()
    while first < keys.size:
        index.inside = random.choice(["auto", "bi-sort", "rap-table", "wib-tree", "nested-loop"])
        fresh = keys[first : first + random.integers(1, 200)]
        found = sorted(
            pair
            for positions, ids in index.probe(fresh - 5000, fresh + 5000)
            for pair in zip(positions.tolist(), ids.tolist(), strict=True)
        )
        stored = np.arange(max(0, first - 2 * size), first)
        boxes, places = np.nonzero(np.abs(fresh[:, None] - keys[stored][None, :]) <= 5000)
        assert found == sorted(zip(boxes.tolist(), stored[places].tolist(), strict=True))
        index.insert(fresh, np.arange(first, first + fresh.size))
        first += fresh.size
        index.expire(first - 2 * size)
        index.check()
        seen.update(kinds(index))
    assert len(seen) >= 3


# --- One kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["bi-sort", "rap-table", "wib-tree", "nested-loop"])
def test_the_structure_can_be_fixed(inside: str) -> None:
    index, first = chain(256, inside=inside), 0
    for keys, batch in ((random_keys(1024), 16), (np.arange(1024) * 10**4, 300)):
        first = feed(index, keys, batch, first)
        assert set(kinds(index)) == {inside}
    assert reasons(index) == ["as asked for"] * len(reasons(index))
    assert index.statistics["switches"] == 0
    assert index.parameters["inside"] == inside
    assert index.details["rule"] == f"{inside}, as asked for"


@pytest.mark.parametrize("inside", ["bisort", "", "llat", "subwindows"])
def test_what_cannot_be_inside(inside: str) -> None:
    with pytest.raises(RegistryError, match="inside must be auto, bi-sort, rap-table") as raised:
        create("subwindows", inside=inside)
    assert ("did you mean" in str(raised.value).lower()) == (inside == "bisort")

"""A chain that chooses what is inside: the paper's rule, its reasons, and that answers stay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from thetastream.errors import RegistryError
from thetastream.index import Index, create
from thetastream.index.subwindows import subwindows
from thetastream.index.subwindows.subwindows import MANY, Subwindows

Array = NDArray[np.int64]
SIZE = 1024  # rows of a subwindow


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule at the size of a test: a batch of 256 rows is large, eight matches are many."""
    monkeypatch.setattr(subwindows, "BUFFER", 1)
    monkeypatch.setattr(subwindows, "MOVES", 2)
    monkeypatch.setattr(subwindows, "MANY", 8.0)


def chain(**parameters: str | int) -> Subwindows:
    index = create("subwindows", capacity=2 * SIZE, subwindows=2, **parameters)
    assert isinstance(index, Subwindows)
    return index


def feed(index: Index, keys: Array, batch: int, first: int, wide: int | None = 0) -> int:
    """Insert in batches and expire what leaves the window; probe too, unless ``wide`` is None."""
    for at in range(0, keys.size, batch):
        part = keys[at : at + batch]
        if wide is not None:
            for _ in index.probe(part - wide, part + wide):
                pass
        index.insert(part, np.arange(first + at, first + at + part.size))
        index.expire(first + at + part.size - 2 * SIZE)
        index.check()
    return first + keys.size


def kinds(index: Index) -> list[str]:
    return [part["structure"] for part in index.details["subwindows"]]


def reasons(index: Index) -> list[str]:
    return [part["why"] for part in index.details["subwindows"]]


def random_keys(count: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, 10**6, count)


# --- The rule -----------------------------------------------------------------------------------


def test_large_batches_are_for_bi_sort() -> None:
    index = chain()
    feed(index, random_keys(3 * SIZE), 256, 0)
    assert set(kinds(index)) == {"bi-sort"}
    assert reasons(index)[-1] == "batches of 256 rows move 4.0 rows per row"
    assert index.statistics["switches"] == 0


def test_small_batches_of_steady_keys_are_for_the_rap_table() -> None:
    index = chain()
    feed(index, random_keys(6 * SIZE), 64, 0)
    assert set(kinds(index)) == {"rap-table"}
    assert "small batches (64 rows)" in reasons(index)[-1]
    assert "keys are steady (error 0." in reasons(index)[-1]
    assert index.statistics["switches"] == 1, "the first ones were wib-trees"


def test_what_is_not_known_is_for_the_wib_tree() -> None:
    index = chain()
    feed(index, random_keys(SIZE + 1), 64, 0)
    assert kinds(index) == ["wib-tree", "wib-tree"], "one subwindow says nothing of a change"
    assert all("not known yet" in why for why in reasons(index))


def test_increasing_keys_are_for_the_wib_tree() -> None:
    index = chain()
    feed(index, np.arange(6 * SIZE) * 100, 64, 0)
    assert set(kinds(index)) == {"wib-tree"}
    assert "keys drift (error 1." in reasons(index)[-1]
    assert index.statistics["switches"] == 0


def test_many_matches_are_for_bi_sort() -> None:
    index = chain()
    feed(index, random_keys(6 * SIZE), 64, 0, wide=60_000)
    assert set(kinds(index)) == {"bi-sort"}
    assert reasons(index)[-1].endswith("matches per box")
    observed = index.details["observed matches per box and full subwindow"]
    assert 0.6 * SIZE * 0.12 < observed < 1.4 * SIZE * 0.12


def test_ranges_of_no_interest_are_not_asked_for() -> None:
    """Nobody probes: only the batches decide."""
    index = chain()
    feed(index, random_keys(6 * SIZE), 64, 0, wide=None)
    assert set(kinds(index)) == {"rap-table"}
    assert "few matches per box (0.0)" in reasons(index)[-1]


def story() -> Iterator[tuple[Array, int, int]]:
    """Keys, batch size and half the width of boxes, changing from phase to phase."""
    yield random_keys(4 * SIZE, 2), 64, 10  # → rap-table
    yield random_keys(2 * SIZE, 3), 512, 10  # → bi-sort
    yield np.arange(3 * SIZE) * 10**4, 64, 10  # → wib-tree
    yield random_keys(4 * SIZE, 4), 64, 10  # → rap-table
    yield random_keys(3 * SIZE, 5), 64, 10**5  # → bi-sort


def test_the_structure_changes_with_the_traffic() -> None:
    index, first = chain(), 0
    ends = []
    for keys, batch, wide in story():
        first = feed(index, keys, batch, first, wide)
        ends.append(kinds(index)[-1])
    assert ends == ["rap-table", "bi-sort", "wib-tree", "rap-table", "bi-sort"]
    assert index.statistics["switches"] >= 5
    assert index.statistics["merges"] > 0, "those of dropped subwindows are counted too"
    assert len(index) == 2 * SIZE


@pytest.mark.parametrize(("threads", "workers"), [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_a_change_of_structure_changes_no_answer(threads: int, workers: int) -> None:
    index = chain(threads=threads, workers=workers)
    keys = np.concatenate([part for part, _, _ in story()])
    first, seen = 0, set()
    for part, batch, wide in story():
        for at in range(0, part.size, batch):
            fresh = part[at : at + batch]
            found = sorted(
                pair
                for positions, ids in index.probe(fresh - wide, fresh + wide)
                for pair in zip(positions.tolist(), ids.tolist(), strict=True)
            )
            stored = np.arange(max(0, first - 2 * SIZE), first)
            inside = np.abs(fresh[:, None] - keys[stored][None, :]) <= wide
            boxes, places = np.nonzero(inside)
            assert found == sorted(zip(boxes.tolist(), stored[places].tolist(), strict=True))
            index.insert(fresh, np.arange(first, first + fresh.size))
            first += fresh.size
            index.expire(first - 2 * SIZE)
            seen.update(kinds(index))
    assert seen == {"rap-table", "bi-sort", "wib-tree"}


def test_the_rule_is_told() -> None:
    details = chain().details
    assert details["rule"].startswith("bi-sort for 8 matches per box, or batches that move at most")
    assert details["subwindows"] == []


def test_the_paper_s_example_of_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """One subwindow of 8 M rows: a batch of 64 k is large. No row is stored for that."""
    monkeypatch.undo()
    index = create("subwindows", capacity=1 << 23, subwindows=1)
    assert isinstance(index, Subwindows)
    for batch, kind in ((1 << 12, "wib-tree"), (1 << 15, "wib-tree"), (1 << 16, "bi-sort")):
        index.observed.batch = batch
        assert index._chosen(1 << 23)[0] == kind
    index.observed.batch = 1
    index.observed.selectivity = MANY
    assert index._chosen(1 << 23)[0] == "bi-sort"


# --- One kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["bi-sort", "rap-table", "wib-tree", "nested-loop"])
def test_the_structure_can_be_fixed(inside: str) -> None:
    index, first = chain(inside=inside), 0
    for keys, batch, wide in story():
        first = feed(index, keys, batch, first, wide)
        assert set(kinds(index)) == {inside}
    assert reasons(index) == ["as asked for"] * len(reasons(index))
    assert index.statistics["switches"] == 0
    assert index.parameters["inside"] == inside


@pytest.mark.parametrize("inside", ["bisort", "", "llat", "subwindows"])
def test_what_cannot_be_inside(inside: str) -> None:
    with pytest.raises(RegistryError, match="inside must be auto, bi-sort, rap-table") as raised:
        create("subwindows", inside=inside)
    assert ("did you mean" in str(raised.value).lower()) == (inside == "bisort")

"""Chains of subwindows of every kind, beside a list: any steps, any number of threads and workers.

Everything is shrunk, so that subwindows fill, leaves are cut and buffers overflow all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from thetastream.index import Index, create
from thetastream.index.subwindows import bi_sorted

from ...keys import HIGH, LOW, Array, Pair, pairs_of

EXTREMES = np.array([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH])
STRUCTURES: dict[str, dict[str, Any]] = {
    "bi-sort": {"buffer": 3},
    "llat": {"sigma": 1.01},
    "rap-table": {"sigma": 1.01, "memory": 2},
    "wib-tree": {"fanout": 3},
    "subwindows": {},
}
SHARES = list(product((1, 2), (1, 2, 3)))  # threads, workers


@pytest.fixture(autouse=True)
def merges_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads merge even the smallest batch."""
    monkeypatch.setattr(bi_sorted, "_ALONE", 1)


@dataclass
class Walk:
    """Random steps on an index and a list; the same ones for the same seed."""

    index: Index
    seed: int
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    issued: int = 0
    before: int = 0
    told: list[list[Pair]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.open: list[tuple[Iterator[tuple[Array, Array]], list[Pair], list[Pair]]] = []

    def step(self) -> None:
        what = self.random.integers(0, 10)
        if what < 5:
            self.insert(int(self.random.integers(0, 9)))
        elif what < 7:
            self.expire(int(self.random.integers(0, 20)))
        else:
            self.ask(int(self.random.integers(0, 6)))
        while len(self.open) > 3:
            self.finish(self.open.pop(0))
        self.index.check()
        assert len(self.index) == len(self.rows)

    def end(self) -> None:
        for held in self.open:
            self.finish(held)
        keys, ids = self.index.dump()
        assert ids.tolist() == sorted(self.rows)
        assert [tuple(row) for row in keys.T.tolist()] == [self.rows[row] for row in ids.tolist()]

    def _keys(self, count: int) -> Array:
        shape = (self.index.columns, count)
        if self.random.integers(0, 4) == 0:
            return self.random.choice(EXTREMES, shape)
        if self.random.integers(0, 4) == 0:  # values that run away
            return np.sort(self.random.integers(self.issued, self.issued + 9, shape))
        return self.random.integers(-3, 4, shape)

    def insert(self, count: int) -> None:
        keys = self._keys(count)
        ids = np.arange(self.issued, self.issued + count)
        self.rows.update(zip(ids.tolist(), map(tuple, keys.T.tolist()), strict=True))
        order = self.random.permutation(count)
        self.index.insert(keys[:, order], ids[order])
        self.issued += count

    def expire(self, left: int) -> None:
        self.before = max(self.before, self.issued - left)
        self.index.expire(self.before)
        self.rows = {row: keys for row, keys in self.rows.items() if row >= self.before}

    def ask(self, boxes: int) -> None:
        """Probe and read the answer; or a few chunks of it, and leave it open."""
        lows, highs = self._keys(boxes), self._keys(boxes)
        if self.random.integers(0, 2):
            lows, highs = np.minimum(lows, highs), np.maximum(lows, highs)
        answer = self.index.probe(lows, highs, limit=int(self.random.integers(1, 5)))
        wanted = [
            (box, row)
            for box in range(boxes)
            for row, keys in self.rows.items()
            if np.all(lows[:, box] <= keys) and np.all(keys <= highs[:, box])
        ]
        if self.random.integers(0, 2):
            self.told.append(pairs_of(answer))
            assert sorted(self.told[-1]) == sorted(wanted)
        else:
            found = pairs_of(islice(answer, int(self.random.integers(0, 3))))
            self.open.append((answer, found, sorted(wanted)))

    def finish(self, held: tuple[Iterator[tuple[Array, Array]], list[Pair], list[Pair]]) -> None:
        answer, found, wanted = held
        found += pairs_of(answer)
        assert sorted(found) == wanted


def walked(index: Index, seed: int, steps: int) -> list[list[Pair]]:
    walk = Walk(index, seed)
    for _ in range(steps):
        walk.step()
    walk.end()
    return walk.told


@pytest.mark.parametrize("partitions", [1, 2, 3, 4])
@pytest.mark.parametrize("subwindows", [1, 2, 3])
@pytest.mark.parametrize("name", STRUCTURES)
def test_any_steps_with_any_threads_and_workers(
    name: str, subwindows: int, partitions: int
) -> None:
    """What a list says; and the same rows in the same order, whoever computes them."""
    shape = {"subwindows": subwindows, "partitions": partitions, **STRUCTURES[name]}
    seed = 10 * subwindows + partitions
    answers = []
    for threads, workers in SHARES:
        index = create(name, capacity=10, threads=threads, workers=workers, **shape)
        answers.append(walked(index, seed, 70))
    assert all(told == answers[0] for told in answers[1:])
    assert sum(map(len, answers[0])) > 20, "the walk must find something"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("name", STRUCTURES)
def test_long_walks(name: str, columns: int, seed: int) -> None:
    shape = {"subwindows": 1 + seed % 3, "partitions": seed % 4, **STRUCTURES[name]}
    walked(create(name, capacity=6 + 9 * (seed % 3), columns=columns, **shape), seed, 120)


@pytest.mark.parametrize("seed", range(4))
def test_long_walks_with_sorted_leaves(seed: int) -> None:
    walked(create("wib-tree", capacity=30, subwindows=2, fanout=3, sorted_leaves=True), seed, 120)


@pytest.mark.parametrize("inside", ["bi-sort", "rap-table", "wib-tree", "nested-loop"])
def test_long_walks_of_a_chain_of_one_kind(inside: str) -> None:
    index = create("subwindows", capacity=20, subwindows=3, inside=inside, partitions=3)
    walked(index, 5, 120)
    assert index.statistics["switches"] == 0


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_window_of_many_more_rows_than_the_capacity(name: str) -> None:
    """Subwindows are made larger, so that there are never many."""
    index = create(name, capacity=4, subwindows=2, **STRUCTURES[name])
    for at in range(0, 600, 5):
        index.insert(np.arange(at, at + 5) % 7, np.arange(at, at + 5))
    index.check()
    assert len(index) == 600
    assert index.statistics["runs"] <= 2 * 2 * 8  # two per doubling of the window
    index.expire(600)
    assert len(index) == index.statistics["runs"] == 0


@pytest.mark.parametrize("name", STRUCTURES)
def test_whole_subwindows_leave(name: str) -> None:
    index = create(name, capacity=12, subwindows=3, **STRUCTURES[name])
    index.insert(np.arange(10), np.arange(10))
    rows = [part["rows"] for part in index.details["subwindows"]]
    assert rows == [4, 4, 2]
    index.expire(3)
    assert [part["rows"] for part in index.details["subwindows"]] == [4, 4, 2], "one is alive"
    assert len(index) == 7
    index.expire(4)
    assert [part["rows"] for part in index.details["subwindows"]] == [4, 2]
    bytes_before = index.nbytes
    index.expire(10)
    assert index.details["subwindows"] == []
    assert index.nbytes < bytes_before


@pytest.mark.parametrize("name", STRUCTURES)
def test_an_answer_may_be_read_twice_and_by_two_readers(name: str) -> None:
    index = create(name, capacity=40, subwindows=2, **STRUCTURES[name])
    index.insert(np.arange(30) % 5, np.arange(30))
    answer = index.probe(np.array([1, 0]), np.array([3, 0]), limit=2)
    one, two = answer.again(), answer.again()
    first = pairs_of(islice(one, 2))
    index.insert(np.arange(60) % 5, np.arange(30, 90))
    second = pairs_of(islice(two, 3))
    index.expire(50)
    wanted = sorted(
        [(0, row) for row in range(30) if 1 <= row % 5 <= 3]
        + [(1, row) for row in range(30) if row % 5 == 0]
    )
    assert sorted(first + pairs_of(one)) == wanted
    assert sorted(second + pairs_of(two)) == wanted
    assert sorted(pairs_of(answer.again())) == wanted
    index.check()

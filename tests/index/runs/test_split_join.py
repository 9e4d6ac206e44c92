"""SplitJoin: rows dealt in turn, tested by threads, joined in a fixed order."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.runs import nested_loop, split_join
from thetastream.index.runs.split_join import SplitJoin
from thetastream.testing import INDEX_CHECKS, IndexCheck

from ...keys import Pair, pairs_of


def filled(workers: int, keys: list[int]) -> SplitJoin:
    index = SplitJoin(8, 1, workers)
    index.insert(np.array(keys), np.arange(len(keys)))
    return index


def pairs(index: SplitJoin, low: int, high: int, limit: int = 100) -> list[Pair]:
    return pairs_of(index.probe(np.array([low]), np.array([high]), limit=limit), limit)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
def test_battery(monkeypatch: pytest.MonkeyPatch, workers: int, check: IndexCheck) -> None:
    """With blocks written anew all the time, and workers that wait after three pairs."""
    monkeypatch.setattr(split_join, "_LEAST", 2)
    monkeypatch.setattr(split_join, "_AHEAD", 2)
    check.run(lambda columns: SplitJoin(4, columns, workers), 0.3)


def test_rows_are_dealt_in_turn() -> None:
    index = SplitJoin(workers=3)
    for start, stop in [(0, 4), (4, 5), (5, 9)]:
        index.insert(np.arange(start, stop)[::-1].copy(), np.arange(start, stop)[::-1].copy())
    held = [[ids.tolist() for _, ids in part.blocks] for part in index._parts]
    assert held == [[[0, 3, 6]], [[1, 4, 7]], [[2, 5, 8]]]
    index.check()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_order_is_always_the_same(workers: int) -> None:
    index = filled(workers, [7] * 20)
    expected = [(0, row) for first in range(workers) for row in range(first, 20, workers)]
    for limit in (1, 3, 100):
        assert all(pairs(index, 7, 7, limit) == expected for _ in range(3))


def test_workers_go_on_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_join, "_AHEAD", 2)
    index = filled(2, [7] * 12)
    found = [row for _, row in pairs(index, 7, 7, limit=3)]
    assert found == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


def test_every_worker_has_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both scan at the same time: each waits for the other."""
    meeting, scan = threading.Barrier(2, timeout=20), nested_loop.scan

    def together(*args: Any) -> int:
        meeting.wait()
        return scan(*args)

    monkeypatch.setattr(nested_loop, "scan", together)
    assert Counter(pairs(filled(2, [1, 2, 3, 4]), 2, 4)) == Counter([(0, 1), (0, 2), (0, 3)])


def test_an_error_in_a_worker_reaches_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(nested_loop, "scan", broken)
    with pytest.raises(ZeroDivisionError):
        pairs(filled(2, [1, 2, 3, 4]), 2, 4)


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 3), st.integers(1, 50))
def test_blocks_are_written_anew_now_and_then(sizes: list[int], workers: int, window: int) -> None:
    index, first = SplitJoin(100, 1, workers), 0
    for size in sizes:
        index.insert(np.arange(first, first + size), np.arange(first, first + size))
        first += size
        index.expire(first - window)
        index.check()
        assert len(index) == min(window, first)
    assert index.nbytes <= 16 * (2 * window + 2 * workers + max([0, *sizes]))


def test_few_moves_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_join, "_LEAST", 4)
    moved, merged = 0, split_join._merged

    def counted(older: Any, newer: Any, before: int) -> Any:
        nonlocal moved
        moved += older[1].size if older[1].size > 64 else 0
        return merged(older, newer, before)

    monkeypatch.setattr(split_join, "_merged", counted)
    index = SplitJoin(512, 1, 2)
    for row in range(4096):
        index.insert(np.array([row]), np.array([row]))
        index.expire(row - 512)
    assert 0 < moved < 40 * 4096
    index.check()


def test_settings() -> None:
    index = create("split-join", capacity=7, columns=2, workers=3)
    assert index.parameters == {"capacity": 7, "columns": 2, "workers": 3}
    with pytest.raises(RegistryError, match="workers must be at least 1; got 0"):
        SplitJoin(workers=0)


def test_check_can_fail() -> None:
    index = filled(2, [1, 2, 3, 4])
    index._parts[0]._fresh = index._parts[1]._fresh
    with pytest.raises(AssertionError, match="an id may occur once"):
        index.check()

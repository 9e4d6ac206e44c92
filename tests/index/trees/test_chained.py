"""The chained index: a subindex per interval of arrival, dropped whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from thetastream.index.trees.chained import Chained
from thetastream.index.trees.kernels import store as layout

from .small_pools import run_rows, tree_rows

SMALL = {"slots": 2, "fanout": 3, "leaf": 1, "run_fanout": 2}
BOTH = pytest.mark.parametrize("immutable", [True, False], ids=["IB-chain", "B-chain"])


def subindexes(index: Chained) -> list[list[int]]:
    """Ids per subindex, oldest first, the active one last; expired rows too."""
    facts, pool, found = index._facts, index._pool, []
    for number in range(facts[layout.RUNS_LOW], facts[layout.RUNS_HIGH]):
        found.append(run_rows(pool, int(number % facts[layout.RUNS_SLOTS])))
    for number in range(facts[layout.TREES_LOW], facts[layout.TREES_HIGH]):
        found.append(tree_rows(pool, int(number % facts[layout.TREES_SLOTS])))
    return [sorted(row for _, row in rows) for rows in found]


def slid(index: Chained, rows: int, window: int, step: int = 1, span: int = 50) -> Iterator[int]:
    """Slide a window over the index; gives how many rows came so far, after every step."""
    keys = np.random.default_rng(3).integers(0, span, rows)
    for at in range(0, rows, step):
        index.expire(at + step - window)
        index.insert(keys[at : at + step], np.arange(at, min(at + step, rows)))
        index.check()
        yield min(at + step, rows)


@BOTH
def test_subindexes_are_intervals_of_arrival(immutable: bool) -> None:
    index = Chained(capacity=6, length=3, immutable=immutable, **SMALL)
    index.insert(np.array([7, 7, 1, 0, 9, 9, 4]), np.arange(7))
    assert subindexes(index) == [[0, 1, 2], [3, 4, 5], [6]]
    assert index.statistics == {"merges": 2, "merged_rows": 6}
    index.expire(2)
    assert subindexes(index) == [[0, 1, 2], [3, 4, 5], [6]], "one row of the oldest is alive"
    index.expire(3)
    assert subindexes(index) == [[3, 4, 5], [6]]
    index.insert(np.array([2, 2]), np.array([7, 8]))
    assert subindexes(index) == [[3, 4, 5], [6, 7, 8], []]
    index.check()


@BOTH
@pytest.mark.parametrize("length", [2, 3, 4, 9])
@pytest.mark.parametrize("window", [24, 25])
def test_a_chain_covers_its_window(length: int, window: int, immutable: bool) -> None:
    index = Chained(capacity=window, length=length, immutable=immutable, **SMALL)
    share = -(-window // (length - 1))
    for rows in slid(index, 200, window):
        held = subindexes(index)
        ids = [row for part in held for row in part]
        assert ids == list(range(rows - len(ids), rows)), "in order of arrival, nothing missing"
        assert len(ids) < window + share, "up to a subindex of expired rows"
        assert all(len(part) == share for part in held[:-1])
        assert len(held) <= length + immutable
        assert index.statistics["merges"] == rows // share
        assert index.statistics["merged_rows"] == rows // share * share
    assert index._facts[layout.LIMIT] == share


@BOTH
def test_the_active_subindex_grows_on_until_the_oldest_expires(immutable: bool) -> None:
    index = Chained(capacity=8, length=2, immutable=immutable, **SMALL)
    for at in range(0, 100, 10):
        index.insert(np.arange(10) % 4, np.arange(at, at + 10))
        index.check()
    archived = 2 if immutable else 1
    assert [len(part) for part in subindexes(index)] == [8] * archived + [100 - 8 * archived]
    assert index.statistics["merges"] == archived
    index.expire(8)
    index.insert(np.array([3]), np.array([100]))
    index.check()
    held = subindexes(index)
    assert held[-1] == [], "it was archived as soon as there was a place"
    assert [row for part in held for row in part] == list(range(8, 101))
    index.expire(101)
    index.check()
    assert len(index) == 0
    for rows in slid(Chained(capacity=8, immutable=immutable, **SMALL), 60, 40, step=7):
        assert rows <= 60, "a window of five times the capacity"


@BOTH
def test_long_inserts_are_cut(immutable: bool) -> None:
    one = Chained(capacity=10, length=3, immutable=immutable, **SMALL)
    two = Chained(capacity=10, length=3, immutable=immutable, **SMALL)
    keys = np.random.default_rng(1).integers(0, 9, 14)
    one.insert(keys, np.arange(14))
    for row in range(14):
        two.insert(keys[row : row + 1], np.array([row]))
    assert (
        subindexes(one)
        == subindexes(two)
        == [
            [0, 1, 2, 3, 4],
            [5, 6, 7, 8, 9],
            [10, 11, 12, 13],
        ]
    )


def test_bytes() -> None:
    window = 1 << 14
    for length, immutable, least, most in [
        (2, True, 32, 64),
        (9, True, 18, 26),
        (9, False, 26, 36),
    ]:
        index = Chained(capacity=window, length=length, immutable=immutable)
        for _ in slid(index, 2 * window, window, step=1 << 11, span=10**9):
            pass
        assert least * window < index.nbytes < most * window


def test_the_default_is_an_immutable_chain_of_two() -> None:
    parameters = Chained().parameters
    assert (parameters["length"], parameters["immutable"]) == (2, True)

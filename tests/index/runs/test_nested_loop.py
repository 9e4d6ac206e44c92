"""The baseline index by itself."""

from __future__ import annotations

import numpy as np
import pytest

from thetastream.errors import DataError, RegistryError
from thetastream.index import create
from thetastream.index.runs.nested_loop import NestedLoop

from ...keys import int64
from ..index_boxes import pairs


def filled(keys: list[int]) -> NestedLoop:
    index = NestedLoop(capacity=4)
    index.insert(np.array(keys), np.arange(len(keys)))
    return index


def test_rows_are_found_in_arrival_order() -> None:
    index = filled([7, 3, 9, 3])
    assert pairs(index, int64([3, 8, 5]), int64([3, 99, 4])) == [(0, 1), (0, 3), (1, 2)]
    assert len(index) == 4
    index.check()


def test_ids_may_come_in_any_order_within_an_insert() -> None:
    index = NestedLoop()
    index.insert(np.array([30, 10, 20]), np.array([2, 0, 1]))
    index.check()
    keys, ids = index.dump()
    assert (keys.tolist(), ids.tolist()) == ([[10, 20, 30]], [0, 1, 2])


def test_expiry_gives_memory_back() -> None:
    index = filled(list(range(1000)))
    assert index.nbytes == 16_000
    index.expire(0)
    assert len(index) == 1000
    index.expire(990)
    assert (len(index), index.nbytes) == (10, 160)
    assert index._ids.base is None, "a view would keep the expired rows allocated"
    index.expire(5000)
    assert (len(index), index.nbytes) == (0, 0)
    assert pairs(index, int64([0]), int64([999])) == []
    index.check()


def test_an_answer_is_a_snapshot() -> None:
    index = filled([1, 2, 3])
    answer = iter(index.probe(np.array([0]), np.array([9]), limit=2))
    first = next(answer)
    index.insert(np.array([4]), np.array([3]))
    index.expire(2)
    assert [first[1].tolist(), *(ids.tolist() for _, ids in answer)] == [[0, 1], [2]]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_chunks_keep_the_limit(limit: int) -> None:
    index = filled([5] * 7)
    sizes = [p.size for p, _ in index.probe(np.array([5, 6, 5]), np.array([5, 6, 5]), limit=limit)]
    assert sum(sizes) == 14
    assert max(sizes) <= limit


def test_several_columns() -> None:
    index = NestedLoop(columns=2)
    index.insert(np.array([[1, 1, 2], [5, 6, 5]]), np.arange(3))
    answer = index.probe(np.array([[1], [5]]), np.array([[1], [5]]))
    assert [ids.tolist() for _, ids in answer] == [[0]]
    with pytest.raises(DataError, match=r"2 key column\(s\); got an array of shape \(3,\)"):
        index.insert(np.arange(3), np.arange(3))


def test_it_is_registered() -> None:
    index = create("nested-loop", capacity=7, columns=3)
    assert isinstance(index, NestedLoop)
    assert index.parameters == {"capacity": 7, "columns": 3}
    assert index.statistics == {}
    for bad in ({"capacity": 0}, {"columns": 0}):
        with pytest.raises(RegistryError, match="at least 1"):
            create("nested-loop", **bad)


def test_check_can_fail() -> None:
    index = filled([1, 2])
    index._ids = np.array([1, 1])
    with pytest.raises(AssertionError, match="ids must ascend"):
        index.check()

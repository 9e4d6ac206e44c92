"""Incremental deletion: the battery over ordered structures, rows that leave one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import create, names, registry, structure
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.slotted.incremental import Incremental
from thetastream.testing import INDEX_CHECKS, IndexCheck

from ..index_plain import Plain

ORDERED = [name for name in names() if issubclass(structure(name), OrderedIndex)]
KEYS = st.integers(-2, 2)


@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("inner", ["plain", *ORDERED])
def test_the_battery(inner: str, check: IndexCheck) -> None:
    check.run(lambda columns: Incremental(4, columns, inner), 0.25)


class Counting(Plain):
    """Notes what is deleted, and whether a sweep was needed."""

    def __init__(self, capacity: int = 4, columns: int = 1) -> None:
        super().__init__(capacity, columns)
        self.removed: list[tuple[int, int]] = []

    def _take_out(self, keys: Any, ids: Any) -> int:
        self.removed += zip(keys.tolist(), ids.tolist(), strict=True)
        return super()._take_out(keys, ids)


@given(st.lists(st.tuples(st.lists(KEYS, max_size=6), st.integers(0, 3), st.integers(0, 8))))
def test_rows_are_deleted_one_by_one(batches: list[tuple[list[int], int, int]]) -> None:
    """Each row once, with its key, in the order of arrival; gaps in ids included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._STRUCTURES, "counting", Counting)
        index = Incremental(4, 1, "counting")
    inside = index._index
    assert isinstance(inside, Counting)
    rows: list[tuple[int, int]] = []
    issued = before = 0
    for keys, gap, kept in batches:
        fresh = [(key, issued + gap + at) for at, key in enumerate(keys)]
        issued = fresh[-1][1] + 1 if fresh else issued
        rows += fresh
        index.insert(np.array(keys, np.int64), np.array([i for _, i in fresh], np.int64))
        before = max(before, issued - kept)
        index.expire(before)
        assert inside.removed == [row for row in rows if row[1] < before]
        assert len(index) == len(rows) - len(inside.removed)
        index.check()
    assert index.statistics == {"sweeps": 0, "deleted_rows": len(inside.removed)}


def test_find_map_and_scan() -> None:
    index = Incremental(8, 1, "plain")
    index.insert(np.array([5, 3, 5, 1]), np.arange(4))
    index.expire(1)
    assert index.find(np.array([5, 3, 1, 9])).tolist() == [2, 1, 3, -1]
    assert index.map(0, 4) == 2
    assert index.map(0, 9, "sum", np.array([100, 10, 20, 30])) == 60
    assert [(k.tolist(), i.tolist()) for k, i in index.scan(0, 9, buffer=2)] == [
        ([1, 3], [3, 1]),
        ([5], [2]),
    ]
    index.expire(3)
    assert index.find(np.array([5, 3, 1])).tolist() == [-1, -1, 3]


def test_several_columns_lie_beside() -> None:
    index = Incremental(4, 2, "plain")
    for start in range(0, 60, 3):
        ids = np.arange(start, start + 3)
        index.insert(np.array([ids % 5, ids]), ids)
        index.expire(start)
    keys, ids = index.dump()
    assert keys.tolist() == [[2, 3, 4], [57, 58, 59]]
    assert ids.tolist() == [57, 58, 59]
    assert not index._index._arrived or len(index._index._arrived) == 1, "noted rows are forgotten"


def test_it_says_how_it_was_made() -> None:
    index = create("incremental/plain", capacity=10, columns=2)
    assert index.parameters == {"capacity": 10, "columns": 2, "inner": "plain", "options": None}
    assert index.details["inner"] == "plain"
    assert index.nbytes == 0
    index.insert(np.array([[1], [2]]), np.array([0]))
    assert index.nbytes > 0


def test_structures_that_cannot_delete_a_row_are_refused() -> None:
    with pytest.raises(RegistryError, match=r"deletes single rows.*plain.*got 'sorted-runs'"):
        create("incremental/sorted-runs")
    with pytest.raises(RegistryError, match="no index 'plein'"):
        create("incremental/plein")
    with pytest.raises(RegistryError, match="'plain' has no parameter 'slots'"):
        create("incremental/plain", options={"slots": 3})

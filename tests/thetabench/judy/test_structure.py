"""libJudy as an index: equal keys in lists, its memory, its first and next. Skipped without it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetabench import judy
from thetabench.judy.kernels import rows as layout
from thetabench.judy.kernels.calling import call_address
from thetabench.judy.kernels.rows import count_bytes
from thetabench.judy.libjudy import load
from thetabench.judy.structure import Judy
from thetastream._jit.compiling import ENABLED, compiled
from thetastream._jit.intrinsics import load_word, store_word
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.testing import INDEX_CHECKS, JOIN_CHECKS, IndexCheck, JoinCheck, make_join, tiny

from ...scale import SHARE

try:
    load()
except RegistryError as absent:
    pytest.skip(str(absent), allow_module_level=True)

LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-2, 2), st.sampled_from([LOW, LOW + 1, 2**32, HIGH - 1, HIGH]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(KEYS, max_size=12)),
        st.tuples(st.just("insert"), st.lists(KEYS, max_size=12)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 40), max_size=8)),
        st.tuples(st.just("ask"), st.lists(st.tuples(KEYS, KEYS), max_size=4)),
    ),
    max_size=12,
)


def int64(values: Any) -> Any:
    return np.array(list(values), np.int64)


class Both:
    """A Judy array and a sorted list of its rows."""

    def __init__(self) -> None:
        self.index = Judy(capacity=4)
        self.rows: list[tuple[int, int]] = []
        self.issued = 0

    def insert(self, keys: list[int]) -> None:
        ids = range(self.issued, self.issued + len(keys))
        self.issued += len(keys)
        self.index.insert(int64(keys), int64(ids))
        self.rows = sorted([*self.rows, *zip(keys, ids, strict=True)])

    def remove(self, places: list[int]) -> None:
        gone = {self.rows[at] for at in places if at < len(self.rows)}
        asked = [*gone, *gone, (0, self.issued), (77, 0)]
        keys, ids = int64(key for key, _ in asked), int64(row for _, row in asked)
        assert self.index.remove(keys, ids) == len(gone)
        self.rows = [row for row in self.rows if row not in gone]

    def ask(self, boxes: list[tuple[int, int]]) -> None:
        lows, highs = int64(low for low, _ in boxes), int64(high for _, high in boxes)
        inside = [[row for row in self.rows if low <= row[0] <= high] for low, high in boxes]
        pairs = [
            pair
            for positions, ids in self.index.probe(lows, highs, limit=3)
            for pair in zip(positions.tolist(), ids.tolist(), strict=True)
        ]
        assert pairs == [(box, row) for box, held in enumerate(inside) for _, row in held]
        assert self.index.map(lows, highs).tolist() == [len(held) for held in inside]
        values = np.arange(self.issued + 1) / 4
        sums = self.index.map(lows, highs, "sum", values).filled(0).tolist()
        assert sums == [sum(row for _, row in held) / 4 for held in inside]
        newest = dict(self.rows)
        assert self.index.find(lows).tolist() == [newest.get(low, -1) for low, _ in boxes]

    def check(self) -> None:
        self.index.check()
        keys, ids = self.index._rows()
        assert list(zip(keys.tolist(), ids.tolist(), strict=True)) == self.rows


@given(steps=STEPS)
def test_any_history(steps: list[tuple[str, Any]]) -> None:
    both = Both()
    for what, value in steps:
        getattr(both, what)(value)
        both.check()
    both.ask([(LOW, HIGH), (0, 0), (-1, 1), (HIGH, LOW)])
    both.remove(list(range(len(both.rows))))
    both.check()


def test_only_equal_keys_have_lists() -> None:
    both = Both()
    both.insert([3, 1, 2])
    assert both.index._facts[layout.LISTS] == 0
    both.insert([2, 2, 1])
    assert both.index._facts[layout.LISTS] == 2
    both.remove([0])
    both.insert([5, 5])
    assert both.index._facts[layout.LISTS] == 2, "the list of key 1 was free"
    both.check()


def test_a_long_list_gives_room_back() -> None:
    both = Both()
    many = 4000 if ENABLED else 300
    both.insert([7] * many)
    full = both.index.nbytes
    assert full > 8 * many
    for _ in range(4):
        both.remove(list(range(many // 5)))
        both.insert([7] * 3)
        both.check()
    assert both.index.nbytes < full / 2


def test_memory_is_what_the_library_says() -> None:
    index = Judy()
    empty = index.nbytes
    index.insert(np.arange(1000), np.arange(1000))
    held = int(count_bytes(index._calls, index._address))
    assert index.nbytes == empty + held
    assert held > 8 * 1000
    index.expire(1000)
    assert index.nbytes == empty


def test_memory_is_freed_with_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = []
    real = layout.free_all

    def watched(calls: Any, root: int) -> int:
        freed.append(int(real(calls, root)))
        return freed[-1]

    monkeypatch.setattr(layout, "free_all", watched)
    index = Judy()
    index.insert(np.arange(1000), np.arange(1000))
    held = int(count_bytes(index._calls, index._address))
    answer = index.probe(int64([5]), int64([6]))
    gone = weakref.ref(index)
    del index
    gc.collect()
    assert gone() is not None, "an open answer reads it"
    assert [ids.tolist() for _, ids in answer] == [[5, 6]]
    del answer
    gc.collect()
    assert gone() is None
    assert held in freed, "among those of other tests, perhaps"


def test_several_columns() -> None:
    index = create("judy", capacity=8, columns=2)
    index.insert(np.array([[1, 2, 2], [9, 5, 1]]), np.arange(3))
    lows, highs = np.array([[1], [2]]), np.array([[2], [9]])
    assert [ids.tolist() for _, ids in index.probe(lows, highs)] == [[0, 1]]


def story(insert: int, get: int, first: int, following: int, free: int, root: int) -> Any:
    """The interface by itself. The word after the root is where first and next stand."""
    for key in (5, 3, 9):
        store_word(call_address(insert, root, key, 0), key * 10)
    three = load_word(call_address(get, load_word(root), 3, 0))
    four = call_address(get, load_word(root), 4, 0)
    at = root + 8
    store_word(at, 4)
    one = load_word(call_address(first, load_word(root), at, 0))
    two = load_word(call_address(following, load_word(root), at, 0))
    last = load_word(at)
    none = call_address(following, load_word(root), at, 0)
    return three, four, one, two, last, none, call_address(free, root, 0, 0)


def test_calls_by_address() -> None:
    calls, words = load(), np.zeros(2, np.int64)
    places = layout.INSERT, layout.GET, layout.FIRST, layout.NEXT, layout.FREE_ALL
    addresses = [calls[place] for place in places]
    *found, freed = compiled(story)(*addresses, words.ctypes.data)
    assert found == [30, 0, 50, 90, 9, 0]
    assert freed > 0 == words[0]


@pytest.fixture(autouse=True)
def added() -> None:
    judy.add()


@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
def test_the_battery(check: IndexCheck) -> None:
    check.run(tiny("judy"), 1.0)


@pytest.mark.parametrize("check", JOIN_CHECKS, ids=lambda check: check.name)
def test_joins(check: JoinCheck) -> None:
    check.run(make_join("ibwj/judy"), 0.125 * SHARE, may_refuse=True)


@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
def test_inside_a_window_cut_by_time(check: IndexCheck) -> None:
    check.run(tiny("ptwi/judy"), 0.25 * SHARE)

"""PTWI: the battery over inner structures, Figure 3, late rows, gaps in time, strides, dropping."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import thetastream as ts
from thetastream.errors import DataError, RegistryError, StateError
from thetastream.index import base, create, registry
from thetastream.index.runs.sorted_runs import SortedRuns
from thetastream.index.slotted import disposal
from thetastream.index.slotted.circular import Calendar
from thetastream.index.slotted.ptwi import Ptwi
from thetastream.testing import INDEX_CHECKS, IndexCheck

from ...scale import scaled
from ..index_plain import Plain

Array = NDArray[np.int64]
LOW, HIGH = -(2**63), 2**63 - 1
INNER: dict[str, dict[str, Any]] = {
    "sorted-runs": {"ratio": 2},
    "b+tree": {"slots": 2, "fanout": 3},
    "plain": {},
    "radix-trie": {},
    "bi-sort": {"subwindows": 2, "buffer": 2},
    "nested-loop": {},
    "per-term/css-tree": {"options": {"leaf": 1, "fanout": 2}},
}
SETTINGS: list[dict[str, Any]] = [{"stride": 1}, {"stride": 100}, {"background": False}]
ENDS = [LOW, LOW + 1, -(2**62), -7, 0, 5, 2**62, HIGH - 1, HIGH]
every = pytest.mark.parametrize("inner", INNER)


@pytest.fixture(autouse=True, scope="module")
def plain() -> Any:
    """A structure in two arrays, under a name of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._STRUCTURES, "plain", Plain)
        yield


def made(inner: str = "sorted-runs", columns: int = 1, **settings: Any) -> Ptwi:
    given = {"capacity": 4, "subwindows": 2, "options": INNER[inner], **settings}
    return Ptwi(columns=columns, inner=inner, **given)


def put(index: Ptwi, keys: list[int], first: int, times: list[int] | None = None) -> None:
    ids = np.arange(first, first + len(keys))
    given_times = None if times is None else np.array(times, np.int64)
    index.insert(np.array(keys, np.int64), ids, given_times)


def pairs(chunks: Any) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for positions, ids in chunks:
        found.update(zip(positions.tolist(), ids.tolist(), strict=True))
    return found


def everything(index: base.Index) -> list[int]:
    return sorted(i for _, i in pairs(index.probe(np.array([LOW]), np.array([HIGH]))))


# --- The battery --------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
def test_the_battery(inner: str, check: IndexCheck) -> None:
    check.run(lambda columns: made(inner, columns), 0.2)


@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize(
    "setting", [{"stride": 1}, {"stride": 100}, {"background": False}], ids=str
)
def test_the_battery_with_settings(setting: dict[str, Any], check: IndexCheck) -> None:
    """A partial index per row; one for all, which then deletes; freeing at once."""
    check.run(lambda columns: made("b+tree", columns, **setting), 0.2)


# --- Figure 3 -----------------------------------------------------------------------------------

FIGURE_3 = """
    @1 nil nil nil nil
    @1 @2 nil nil nil
    @1 @2 @3 nil nil
    @1 @2 @3 @4 nil
    @1 @2 @3 @4 @5
    @6 @2 @3 @4 @5
    @6 @7 @3 @4 @5
    @6 @7 @8 @4 @5
    @6 @7 @8 @9 @5
    @6 @7 @8 @9 @10
"""


@pytest.mark.parametrize("rows_first", [True, False])
@every
def test_figure_3(inner: str, rows_first: bool) -> None:
    """Minutes 1 to 10, a window of five; whether rows come or leave first at a full minute."""
    index = made(inner, subwindows=5, stride=1)
    for minute, line in enumerate(FIGURE_3.strip().splitlines(), 1):
        if not rows_first:
            index.expire_older(minute - 4)
        put(index, [7, 8, 9], 3 * minute, [minute] * 3)
        index.expire_older(minute - 4)
        assert index.details["array"] == line.split(), minute
        assert len(index) == 3 * min(minute, 5)
        index.check()
    assert index.statistics["slots_dropped"] == 5
    assert index.details["T0"] == 1
    assert index.details["stride"] == 1


def test_a_minute_of_many_seconds() -> None:
    """The slot is ((t - T0) div S) mod M: five minutes by the second, T0 in the midst of one."""
    index = made(subwindows=5, stride=60)
    for second in range(130, 130 + 600):
        put(index, [second], second, [second])
        index.expire_older(second - 299)
        slot = index.slots_between(second, second)
        assert [s.number for s in slot] == [(second - 130) // 60]
        assert len(index.slots_between(LOW, HIGH)) <= 6
    assert index.details["array"] == ["@430", "@490", "@550", "@610", "@670"]


# --- Against a list -----------------------------------------------------------------------------


@dataclass
class Model:
    """Rows as (key, id, time); those whose time has passed may be there or not."""

    rows: list[tuple[int, int, int]] = field(default_factory=list)
    issued: int = 0
    older: int = LOW

    def insert(self, rows: list[tuple[int, int]], gap: int) -> list[int]:
        ids = [self.issued + gap + at for at in range(len(rows))]
        self.rows += [(k, i, t) for (k, t), i in zip(rows, ids, strict=True)]
        self.issued = ids[-1] + 1 if ids else self.issued
        return ids

    def expire(self, before: int) -> None:
        self.rows = [row for row in self.rows if row[1] >= before]

    @property
    def wanted(self) -> set[int]:
        return {i for _, i, t in self.rows if t >= self.older}

    @property
    def allowed(self) -> set[int]:
        return {i for _, i, _ in self.rows}


TIMES = st.one_of(st.integers(-3, 12), st.sampled_from([LOW, LOW + 1, -(2**62), 2**62, HIGH, 500]))
ROWS = st.lists(st.tuples(st.integers(-2, 2), TIMES), max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), ROWS, st.sampled_from([0, 0, 2])),
        st.tuples(st.just("insert"), ROWS, st.sampled_from([0, 0, 2])),
        st.tuples(st.just("expire"), st.integers(0, 12)),
        st.tuples(st.just("older"), TIMES),
        st.tuples(st.just("ask"), TIMES, TIMES),
    ),
    max_size=12,
)


@every
@settings(max_examples=scaled(40))
@given(
    steps=STEPS,
    stride=st.sampled_from([0, 1, 3, 2**62]),
    subwindows=st.integers(1, 3),
    capacity=st.sampled_from([2, 6, 40]),
)
def test_rows_with_times(
    inner: str, steps: list[Any], stride: int, subwindows: int, capacity: int
) -> None:
    """Late rows, gaps, times before T0 and at both ends of the integers: no live row is lost."""
    index = made(inner, stride=stride, subwindows=subwindows, capacity=capacity)
    model = Model()
    for what, *value in steps:
        if what == "insert":
            rows, gap = value
            ids = model.insert(rows, gap)
            keys, times = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
            order = np.argsort(keys, kind="stable")
            index.insert(keys[order], np.array(ids, np.int64)[order], times[order])
        elif what == "expire":
            before = max(0, model.issued - value[0])
            index.expire(before)
            model.expire(before)
            model.issued = max(model.issued, before)
        elif what == "older":
            index.expire_older(value[0])
            model.older = max(model.older, value[0])
        else:
            ask(index, model, *value)
        index.check()
        found = everything(index)
        assert len(set(found)) == len(found) == len(index)
        assert model.wanted <= set(found) <= model.allowed
        keep(index, model, set(found))
        facts(index, model)


def keep(index: Ptwi, model: Model, found: set[int]) -> None:
    """What has left is gone for good."""
    model.rows = [row for row in model.rows if row[1] in found]


def ask(index: Ptwi, model: Model, since: int, until: int) -> None:
    """A period touches the subwindows that hold rows of it, and all its rows are among theirs."""
    slots = index.slots_between(since, until)
    view = index.between(since, until)
    touched = index.statistics["slots_touched"]
    found = set(everything(view))
    assert index.statistics["slots_touched"] == touched + len(slots)
    assert {i for _, i, t in model.rows if since <= t <= until} <= found
    assert len(view) == len(found) == view.dump()[1].size
    assert view.map(LOW, HIGH) == len(found)
    here = {i: k for k, i, _ in model.rows if i in found}
    for slot in slots:
        times = [t for _, i, t in model.rows if slot.first <= i <= slot.last]
        assert not times or (since <= slot.greatest and slot.least <= until)
    keys = np.arange(-3, 4)
    newest = [max((i for i, k in here.items() if k == key), default=-1) for key in keys.tolist()]
    assert view.find(keys).tolist() == newest


def facts(index: Ptwi, model: Model) -> None:
    """Mappers, scans and point look-ups see the rows there are."""
    rows = sorted((k, i) for k, i, _ in model.rows)
    assert index.dump()[1].tolist() == sorted(i for _, i in rows)
    for low, high in [(LOW, HIGH), (-1, 1), (1, 0)]:
        inside = [(k, i) for k, i in rows if low <= k <= high]
        ids = [i for _, i in inside]
        assert index.map(low, high) == len(ids)
        for mapping, value in (("sum", sum(ids)), ("max", max(ids, default=0))):
            assert index.map(low, high, mapping) == (value if ids else None)
        for buffer in (1, 2, 100):
            chunks = list(index.scan(low, high, buffer=buffer))
            assert all(0 < i.size <= buffer for _, i in chunks)
            listed = [row for k, i in chunks for row in zip(k.tolist(), i.tolist(), strict=True)]
            assert listed == inside
    keys = np.arange(-3, 4)
    newest = [max((i for k, i in rows if k == key), default=-1) for key in keys.tolist()]
    assert index.find(keys).tolist() == newest


@given(
    st.lists(
        st.sampled_from([LOW, LOW + 1, -(2**62), -7, 0, 5, 2**62, HIGH - 1, HIGH]), min_size=1
    ),
    st.sampled_from([LOW, -5, 0, 7, HIGH]),
    st.sampled_from([1, 3, 2**40, 2**62, 2**70]),
)
def test_numbers_of_subwindows(times: list[int], origin: int, stride: int) -> None:
    """As integers of any length would give them, but for what lies far from T0; always in order."""
    calendar = Calendar(origin, stride)
    numbers = calendar.numbers(np.array(times, np.int64)).tolist()
    assert numbers == [calendar.number(time) for time in times]
    for time, number in zip(times, numbers, strict=True):
        far = min(max(time, origin - 2**62), origin + 2**62)
        assert number == (far - origin) // min(stride, 2**62)
    assert [n for _, n in sorted(zip(times, numbers, strict=True))] == sorted(numbers)


# --- Subwindows ---------------------------------------------------------------------------------


def test_a_late_row_goes_into_its_own_subwindow() -> None:
    index = made(subwindows=4, stride=10)
    put(index, [1, 2, 3], 0, [5, 15, 27])
    put(index, [4], 3, [16])
    assert [s.rows for s in index.slots_between(LOW, HIGH)] == [1, 2, 1]
    assert index.statistics["late_rows"] == 1
    index.expire_older(15)
    put(index, [5], 4, [7])  # its subwindow was dropped: it is opened anew
    assert everything(index) == [1, 2, 3, 4]
    assert index.statistics["late_rows"] == 2
    index.expire_older(15)
    assert everything(index) == [1, 2, 3]


def test_a_point_in_time_touches_one_subwindow() -> None:
    index = made("plain", subwindows=5, stride=10)
    put(index, [1, 1, 2, 1], 0, [0, 12, 17, 44])
    before = index.statistics["slots_touched"]
    assert index.find(np.array([1, 2, 3]), at=19).tolist() == [1, 2, -1]
    assert index.statistics["slots_touched"] == before + 1
    assert index.find(np.array([1]), at=30).tolist() == [-1]
    assert index.statistics["slots_touched"] == before + 1
    assert index.find(np.array([1, 2])).tolist() == [3, 2]
    with pytest.raises(RegistryError, match="find looks up one key"):
        made("plain", columns=2).find(np.array([1]))


def test_a_gap_in_time_costs_no_positions() -> None:
    index = made(subwindows=3, stride=1)
    put(index, [1, 2], 0, [0, 3 * 2**40])
    assert index.details["array"] == ["@0 @3298534883328", "nil", "nil"]
    index.expire_older(5)
    assert index.details["array"] == ["@3298534883328", "nil", "nil"]


def test_with_a_stride_the_array_grows() -> None:
    index = made(subwindows=2, stride=10)
    put(index, list(range(9)), 0, list(range(0, 90, 10)))
    assert index._array.positions == 8
    assert len(index.slots_between(LOW, HIGH)) == 9
    assert index.details["array"][:2] == ["@0 @80", "@10"]
    index.check()


def test_without_one_the_stride_doubles() -> None:
    index = made(subwindows=2, capacity=4)
    for first in range(0, 40, 4):
        put(index, [1, 2, 3, 4], first)
        index.check()
    assert index.details["stride"] == 8
    assert len(index.details["array"]) == 2
    index.expire(36)
    assert everything(index) == [36, 37, 38, 39]
    assert len(index.slots_between(LOW, HIGH)) == 1


def test_the_stride_is_learnt_from_the_span_of_the_window() -> None:
    """Also when capacity was far off; and a row from the future does not spoil it."""
    for capacity in (10, 1000, 1 << 20):
        index = made(subwindows=5, capacity=capacity)
        for step in range(60):
            times = list(range(10 * step, 10 * step + 10))
            times[3] = 10**9 if step == 2 else times[3]
            put(index, times, 10 * step, times)
            index.expire_older(10 * step - 90)
            index.check()
        assert 10 <= index.details["stride"] <= 40
        assert 4 <= len(index.slots_between(0, 10**6)) <= 11
        assert set(range(510, 600)) <= set(everything(index))
        assert len(index) <= 100 + 2 * 40 + 1


def test_the_stride_is_learnt_from_the_first_rows() -> None:
    index = made(subwindows=5, capacity=50)
    assert index.details["stride"] is None
    for step in range(30):
        times = list(range(10 * step, 10 * step + 10))
        put(index, times, 10 * step, times)
        index.expire(10 * step - 40)
    assert index.details["stride"] == 10
    assert len(index.slots_between(LOW, HIGH)) == 5


def test_capacity_that_subwindows_do_not_divide() -> None:
    index = made(subwindows=5, capacity=11)
    put(index, list(range(11)), 0)
    assert index.details["stride"] == 3
    assert [s.rows for s in index.slots_between(LOW, HIGH)] == [3, 3, 3, 2]


def test_without_event_times_expire_older_does_nothing() -> None:
    index = made()
    put(index, [1, 2, 3], 0)
    index.expire_older(HIGH)
    assert everything(index) == [0, 1, 2]


# --- Dropping -----------------------------------------------------------------------------------


class Noted(SortedRuns):
    """Remembers that it was told of expired rows."""

    told = 0

    def expire(self, before: int) -> None:
        self.told = before
        super().expire(before)


def test_a_whole_subwindow_is_dropped_without_a_look_at_its_rows() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._STRUCTURES, "noted", Noted)
        index = Ptwi(6, 1, "noted", subwindows=2)
        put(index, [1, 2, 3, 4], 0)
    oldest = index.slots_between(LOW, HIGH)[0].index
    freed = weakref.ref(oldest)
    index.expire(3)
    assert isinstance(oldest, Noted)
    assert oldest.told == 0
    del oldest
    disposal.settle()
    assert freed() is None
    assert index.statistics["slots_dropped"] == 1
    index.expire(4)
    assert len(index) == 0


@every
def test_memory_does_not_wait_for_the_garbage_collector(inner: str) -> None:
    """A cycle of references inside a structure would keep its arrays until then."""
    index = made(inner)
    put(index, [1, 2, 3, 4], 0)
    everything(index)
    freed = weakref.ref(index.slots_between(LOW, HIGH)[0].index)
    gc.disable()
    try:
        index.expire(2)
        disposal.settle()
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("background", [True, False])
@every
def test_open_answers_outlive_their_subwindows(inner: str, background: bool) -> None:
    index = made(inner, background=background)
    put(index, [1, 2, 3, 4], 0)
    answer = index.probe(np.array([0]), np.array([9]), limit=1)
    read = list(islice(answer, 1))
    index.expire(4)
    put(index, [1, 2, 3, 4], 4)
    disposal.settle()
    assert pairs([*read, *answer]) == Counter({(0, i): 1 for i in range(4)})
    assert pairs(answer.again()) == Counter({(0, i): 1 for i in range(4)})
    assert everything(index) == [4, 5, 6, 7]


def test_trees_that_delete_are_spared_it() -> None:
    """Expired rows of the oldest subwindow are left out here; the newest one deletes them."""
    index = made("b+tree", capacity=20, subwindows=2)
    put(index, list(range(20)), 0)
    index.expire(7)
    oldest, newest = (slot.index for slot in index.slots_between(LOW, HIGH))
    assert len(oldest) == 10
    assert everything(index) == list(range(7, 20))
    assert len(index) == index.map(0, 99) == 13
    index.expire(17)
    assert len(newest) == 3
    assert index.map(0, 99, "min") == 17
    index.check()


def test_a_full_queue_frees_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does one without a thread, as at the end of a process."""
    queue = disposal._Disposal()
    monkeypatch.setattr(disposal, "_disposal", queue)
    lists = [[number] for number in range(disposal._WAITING + 3)]
    alone = [1]
    disposal.discard(alone)
    disposal.settle()
    assert not alone
    monkeypatch.setattr(queue, "_thread", object())  # one that never comes
    for one in lists:
        disposal.discard(one)
    assert [len(one) for one in lists] == [1] * disposal._WAITING + [0] * 3


PROCESS = """
import os, sys, weakref
import numpy as np
from thetastream.index.slotted import disposal
disposal.begin()
disposal.discard([np.empty(5)])
disposal.settle()
child = os.fork() if hasattr(os, "fork") else 0
if child == 0:
    thing, other = [np.empty(5)], [np.empty(5)]
    disposal.discard(thing)
    assert not thing
    disposal.begin()
    disposal.discard(other)
    disposal.settle()
    assert not other
    print("freed", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
disposal.discard([np.empty(5)])
"""


def test_the_thread_ends_with_the_process_and_begins_in_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROCESS],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "freed", "")


# --- Names and errors ---------------------------------------------------------------------------


def test_names() -> None:
    index = create("ptwi/b+tree", capacity=100, subwindows=3, options={"slots": 8})
    assert index.parameters == {
        "capacity": 100, "columns": 1, "inner": "b+tree", "subwindows": 3, "stride": 0,
        "background": True, "options": {"slots": 8},
    }  # fmt: skip
    inside = index._spare  # type: ignore[attr-defined]
    assert inside.parameters["slots"] == 8
    assert inside.capacity == 34
    assert create("ptwi/per-term/css-tree").parameters["inner"] == "per-term/css-tree"
    assert registry.defaults("ptwi/b+tree")["inner"] == "b+tree"
    assert registry.structure("ptwi/b+tree") is Ptwi


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ptwi/b+trea", {}, r"no index 'b\+trea'.*Did you mean 'b\+tree'"),
        ("ptwi/", {}, "no index ''"),
        ("ptwy/b+tree", {}, "no index 'ptwy'.*Did you mean 'ptwi'"),
        ("sorted-runs/b+tree", {}, "'sorted-runs' holds no other structure.*per-term, ptwi"),
        ("ptwi/b+tree", {"inner": "css-tree"}, "given twice"),
        ("ptwi/ptwi", {}, "not cut by time itself"),
        ("ptwi/ptwi/b+tree", {}, "not cut by time itself"),
        ("ptwi", {"inner": "b+trea"}, r"no index 'b\+trea'"),
        ("ptwi/b+tree", {"slots": 4}, "'ptwi/b\\+tree' has no parameter 'slots'.*options"),
        ("ptwi/b+tree", {"options": {"slot": 4}}, "has no parameter 'slot'.*'slots'"),
        ("ptwi/b+tree", {"options": {"slots": 0}}, "at least"),
        ("ptwi/b+tree", {"subwindows": 0}, "subwindows must be at least 1"),
        ("ptwi/b+tree", {"stride": -1}, "stride must be at least 0"),
    ],
)
def test_what_is_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        create(name, **settings)


@pytest.mark.parametrize(
    ("tactic", "message"),
    [
        ("ordered/ptwi/b+trea", r"no index 'b\+trea'.*Did you mean 'b\+tree'"),
        ("ordered/sorted-runs/b+tree", "'sorted-runs' holds no other structure"),
        ("hash/ptwi/b+tree", "take an index, as in 'ordered/ptwi/b\\+tree'"),
    ],
)
def test_what_a_tactic_refuses(tactic: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        ts.StreamJoin(on="l.x = r.x", window=ts.CountWindow(10), tactic=tactic)


def test_times_that_do_not_fit() -> None:
    index = made()
    with pytest.raises(DataError, match="one entry per row"):
        put(index, [1, 2], 0, [1])
    put(index, [1], 0, [1])
    with pytest.raises(DataError, match="without event times after rows with them"):
        put(index, [1], 1)
    view = index.between(0, 5)
    with pytest.raises(StateError, match="insert into the index"):
        view.insert(np.array([1]), np.array([9]))
    with pytest.raises(StateError, match="expire in the index"):
        view.expire(3)
    view.check()


# --- In a join ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tactic", ["ordered/ptwi/sorted-runs", "ordered/ptwi/b+tree"])
def test_a_join_hands_event_times_over(tactic: str) -> None:
    import pyarrow as pa

    join = ts.StreamJoin(
        on="l.x = r.x",
        window=ts.TimeWindow("10 seconds", time="t"),
        tactic=tactic,
    )
    for second in range(0, 100, 2):
        times = pa.array([second * 10**6, second * 10**6 + 1], pa.timestamp("us"))
        rows = pa.table({"x": [second % 3, 1], "t": times})
        list(join.push(left=rows, right=rows))
    explained = join.explain().as_dict()
    assert "ptwi" in str(explained)
    for stream in join._engine.streams.values():
        (stored,) = stream.indexes.values()
        assert isinstance(stored.index, Ptwi)
        assert stored.index.statistics["slots_dropped"] > 5
        assert stored.index.details["stride"] > 1000

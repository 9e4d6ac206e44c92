"""PTWI: the battery over inner structures, Figure 3, late rows, gaps in time, strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thetastream as ts
from thetastream.errors import DataError, RegistryError, StateError
from thetastream.index import create, registry
from thetastream.index.slotted.ptwi import Ptwi
from thetastream.testing import INDEX_CHECKS, IndexCheck

from ...keys import HIGH, LOW
from .slots import every, everything, made, put

SETTINGS: list[dict[str, Any]] = [{"stride": 1}, {"stride": 100}, {"background": False}]


# --- The battery ----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
def test_the_battery(inner: str, check: IndexCheck) -> None:
    check.run(lambda columns: made(inner, columns), 0.2)


@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_battery_with_settings(setting: dict[str, Any], check: IndexCheck) -> None:
    """A partial index per row; one for all, which then deletes; freeing at once."""
    check.run(lambda columns: made("b+tree", columns, **setting), 0.2)


# --- Figure 3 -------------------------------------------------------------------------------------

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
    """The slot is ((t - T0) div S) mod M: five minutes by the second, from the midst of one."""
    index = made(subwindows=5, stride=60)
    for second in range(130, 130 + 600):
        put(index, [second], second, [second])
        index.expire_older(second - 299)
        slot = index.slots_between(second, second)
        assert [s.number for s in slot] == [(second - 120) // 60]
        assert len(index.slots_between(LOW, HIGH)) <= 6
    assert index.details["array"] == ["@420 @720", "@480", "@540", "@600", "@660"]
    assert index.details["T0"] == 120


# --- Subwindows -----------------------------------------------------------------------------------


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


# --- Names and errors -----------------------------------------------------------------------------


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


# --- In a join ------------------------------------------------------------------------------------


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

"""Measured costs correct estimates, and a plan that is far off is made anew."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.engine.stream import RoleIndex
from thetastream.plan.choice import Choice, choose
from thetastream.plan.learned import MOST, TRUSTED, Learned
from thetastream.side import Side

from .test_layout import bound

TEXT = "abs(l.x - r.x) <= 5 AND l.y < r.y"
BOUND = bound(TEXT)


def planned(learned: Learned | None = None, current: Choice | None = None) -> Choice:
    return choose(BOUND, Side.LEFT, "auto", 1e5, current=current, learned=learned)


def test_without_measured_costs_nothing_is_corrected() -> None:
    first = planned()
    assert planned(Learned()).best.nanoseconds == first.best.nanoseconds
    assert "corrected by measured costs" not in first.best.as_dict()


def test_an_estimate_that_is_nearly_right_is_left_alone() -> None:
    for apart in (1 / TRUSTED, 1.0, TRUSTED):
        learned, first = Learned(), planned()
        learned.note(first.best, apart * first.best.nanoseconds)
        assert planned(learned).best.factor == 1.0


def test_a_layout_that_costs_more_than_thought_gives_way() -> None:
    learned, first = Learned(), planned()
    learned.note(first.best, 9 * first.best.nanoseconds)
    again = planned(learned, first)
    assert not again.layout.same(first.layout)
    (held,) = (e for e in again.others if e.layout is first.layout)
    assert held.factor == pytest.approx(9.0)
    assert held.nanoseconds == pytest.approx(9 * first.best.nanoseconds)
    assert held.as_dict()["corrected by measured costs"] == "× 9.00"
    assert again.best.factor == pytest.approx(3.0), "the others by what may be the machine's part"


def test_a_slow_machine_alone_does_not_send_plans_round_in_circles() -> None:
    """All layouts cost three times what is thought: at most each is tried once."""
    learned, plan, seen = Learned(), planned(), []
    for _ in range(30):
        seen.append(plan.layout)
        learned.note(plan.best, 3 * plan.best.nanoseconds / plan.best.factor)
        plan = planned(learned, plan)
    assert plan.layout is seen[-1]
    moves = sum(a is not b for a, b in pairwise(seen))
    assert moves <= len(plan.others)


def test_corrections_have_a_limit() -> None:
    learned, first = Learned(), planned()
    for measured, factor in ((0.0, 1 / MOST), (1e30, MOST)):
        learned.note(first.best, measured)
        assert learned.of(first.layout) == pytest.approx(factor)


# --- In a join -----------------------------------------------------------------------------------


def rows(count: int, seed: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    return pa.record_batch({name: rng.integers(0, 1 << 20, count) for name in "xy"})


def pushed(join: ts.StreamJoin, pushes: range, count: int = 2048) -> None:
    for seed in pushes:
        for _ in join.push(left=rows(count, 2 * seed), right=rows(count, 2 * seed + 1)):
            pass


def held(join: ts.StreamJoin) -> RoleIndex:
    assert join._engine is not None
    return join._engine.streams[Side.LEFT].indexes[Side.LEFT]


def test_a_join_whose_index_is_slower_than_thought_is_planned_anew() -> None:
    """Time is charged to the index that it never spent; at a look at the plan it is found out."""
    join = ts.StreamJoin(TEXT, window=ts.CountWindow(1 << 12))
    pushed(join, range(20))
    before, first = join.metrics().replans, held(join)
    used = first.layout
    first.spent.probe += 20e-9 * first.choice.best.nanoseconds * first.spent.asked + 1.0
    pushed(join, range(20, 40))
    assert join.metrics().replans > before
    now = held(join)
    assert not now.layout.same(used)
    shown = join.explain().as_dict()["plan"][0]
    (left,) = (e for e in shown["considered"] if e["first column"] == used.describe()
               and (e["tactic"], e["index"]) == (used.tactic, used.index))  # fmt: skip
    assert left["corrected by measured costs"].startswith("× ")
    join.check()


def test_a_join_is_not_planned_anew_for_a_few_slow_rows() -> None:
    """A window that still fills, or few rows, teach nothing."""
    for window, pushes in ((1 << 14, 60), (1 << 8, 14)):
        join = ts.StreamJoin(TEXT, window=ts.CountWindow(window))
        pushed(join, range(4), 64)
        before, used = join.metrics().replans, held(join).layout
        held(join).spent.probe += 100.0
        pushed(join, range(4, pushes), 64)
        assert join.metrics().replans == before
        assert held(join).layout is used


def test_work_is_counted_once_the_window_is_full() -> None:
    """Rows are cheap in a window that fills, so they say little about a full one."""
    join = ts.StreamJoin(TEXT, window=ts.CountWindow(1 << 14))
    pushed(join, range(64), 64)
    assert held(join).spent.asked < 16 * 64, "a quarter full: counted anew every 16 pushes"
    pushed(join, range(64, 192), 64)
    before = held(join).spent.asked
    pushed(join, range(192, 256), 64)
    assert held(join).spent.asked == before + 64 * 64


def test_answers_that_are_not_read_teach_nothing() -> None:
    """They are never matched, so their rows would seem to cost nothing."""
    join = ts.StreamJoin(TEXT, window=ts.CountWindow(1 << 8))
    pushed(join, range(4))
    before = held(join).spent.asked
    join.push(right=rows(2048, 100))
    assert held(join).spent.asked == before
    for _ in join.push(right=rows(2048, 101)):
        pass
    assert held(join).spent.asked == before + 2048


@pytest.mark.parametrize("count", [64, 8192])
def test_keys_are_looked_at_seldom(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first push, and when four times as many rows have passed; small pushes count less."""
    looked = []
    original = choose
    monkeypatch.setattr(
        "thetastream.engine.planner.choose",
        lambda *args, **options: looked.append(args[1]) or original(*args, **options),
    )
    join = ts.StreamJoin("abs(l.x - r.x) <= 5", window=ts.CountWindow(1 << 12))
    pushed(join, range(33), count)
    assert looked.count(Side.LEFT) == {64: 2, 8192: 4}[count]  # the first is before any rows

"""Collecting: batches closed by count or by time give what single pushes give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import chain, cycle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.engine.collector import Buffer
from thetastream.engine.query import patience
from thetastream.errors import OptionError
from thetastream.side import Side
from thetastream.testing import assert_same_pairs, run_engine, run_oracle
from thetastream.testing.kinds import KINDS, Kind
from thetastream.testing.streams import MODES, Scenario, scenarios

from ..scale import scaled


@dataclass
class Clock:
    """Seconds, moved by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Settings:
    """How rows are collected, and what the clock does before each push and each empty push."""

    collect: int | None
    collect_time: int | None
    steps: tuple[tuple[int, int | None], ...]

    def options(self) -> dict[str, Any]:
        wait = None if self.collect_time is None else f"{self.collect_time} s"
        return {"collect": self.collect, "collect_time": wait}


class Ticking:
    """A join under a clock that moves as told; some pushes are followed by a push of nothing."""

    def __init__(self, on: str, *, how_collected: Settings, **options: Any) -> None:
        self.clock = Clock()
        self.steps = cycle(how_collected.steps)
        self.join = ts.StreamJoin(on, clock=self.clock, **how_collected.options(), **options)

    def push(self, **given: Any) -> Iterator[Any]:
        before, after = next(self.steps)
        self.clock.now += before
        answers = [self.join.push(**given)]
        if after is not None:
            self.clock.now += after
            answers.append(self.join.push())
            self.join.check()
        return chain.from_iterable(answers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.join, name)


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3))), min_size=1, max_size=4
)
COLLECTED = st.builds(
    Settings,
    st.one_of(st.none(), st.integers(1, 6)),
    st.one_of(st.none(), st.integers(1, 4)),
    STEPS.map(tuple),
)
SAME = Kind("same", pa.int64(), (7,), ("0",))
INTS, ALIKE = [(KINDS["int"], KINDS["int"])], [(SAME, SAME)]
STAMPED = pa.schema([("a", pa.int64()), ("t", pa.int64())])
TACTICS = ("auto", "ordered", "ibwj/pim-tree", "nested-loop")


def agrees(scenario: Scenario, collected: Settings, **options: Any) -> None:
    """The engine gives what the oracle gives, late rows included."""
    make = partial(Ticking, how_collected=collected)
    outcome = run_engine(scenario, make, check=True, **options)
    truth = run_oracle(scenario)
    left = scenario.table(0)
    right = left if scenario.self_join else scenario.table(1)
    note = f"{collected}\n{scenario}"
    assert_same_pairs(outcome.pairs, truth.pairs, left=left, right=right, note=note)
    assert outcome.late == truth.late
    assert all(side.waiting_rows == 0 for side in outcome.metrics.sides.values())


@settings(max_examples=scaled(400))
@given(scenarios(self_join=None), COLLECTED)
def test_any_join_gives_what_the_oracle_gives(scenario: Scenario, collected: Settings) -> None:
    agrees(scenario, collected)


@settings(max_examples=scaled(400))
@given(scenarios(ALIKE, on="l.a = r.a", self_join=None, max_rows=20), COLLECTED)
def test_windows_alone_decide_when_all_rows_match(scenario: Scenario, collected: Settings) -> None:
    agrees(scenario, collected)


@st.composite
def advancing(draw: st.DrawFn) -> Scenario:
    """Event times that go on from push to push, so that rows expire while others are collected."""
    pushes, size = [], draw(st.integers(1, 3))
    for number in range(draw(st.integers(3, 9))):
        times = [
            [2 * number + late for late in draw(st.lists(st.integers(0, 2), max_size=3))]
            for _ in Side
        ]
        pushes.append(tuple(pa.table({"a": [7] * len(t), "t": t}, STAMPED) for t in times))
    slide = draw(st.sampled_from([None, 1, size]))
    window = ts.TimeWindow(size, time="t", lateness=draw(st.integers(0, 2)), slide=slide)
    alone = draw(st.booleans())
    if alone:
        pushes = [(left, None) for left, _ in pushes]
    how = draw(st.sampled_from(MODES))
    return Scenario(tuple(pushes), "l.a = r.a", window, how, alone)


@settings(max_examples=scaled(200))
@given(advancing(), COLLECTED)
def test_rows_expire_while_others_are_collected(scenario: Scenario, collected: Settings) -> None:
    agrees(scenario, collected)


@settings(max_examples=scaled(60))
@given(scenarios(INTS, on="abs(l.a - r.a) <= 1", self_join=None, max_rows=14), COLLECTED)
def test_every_mode_and_tactic(scenario: Scenario, collected: Settings) -> None:
    for how in MODES:
        for tactic in TACTICS:
            agrees(replace(scenario, how=how), collected, tactic=tactic)


@settings(max_examples=scaled(60))
@given(scenarios(INTS, self_join=None), COLLECTED)
def test_answers_may_be_read_late_and_by_threads(scenario: Scenario, collected: Settings) -> None:
    agrees(scenario, collected, lazy=True, threads=2, batch_rows=2)


# --- When a buffer closes -----------------------------------------------------------------------


def rows(*values: int) -> Any:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def at(*times: int) -> Any:
    return pa.record_batch({"x": [1] * len(times), "t": times})


def counted(batches: Any) -> int:
    return sum(batch.num_rows for batch in batches)


@dataclass
class Collected:
    """A join of equal rows with its clock."""

    collect: int | None = None
    collect_time: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = Clock()
        schema = rows().schema
        self.join = ts.StreamJoin(
            "l.x = r.x",
            window=self.options.pop("window", ts.CountWindow(100)),
            collect=self.collect,
            collect_time=self.collect_time,
            clock=self.clock,
            schemas=(schema, schema),
            **self.options,
        )

    def push(self, **given: Any) -> int:
        return counted(self.join.push(**given))

    @property
    def waiting(self) -> tuple[int, int]:
        sides = self.join.metrics().sides
        return sides["left"].waiting_rows, sides["right"].waiting_rows


def test_a_buffer_closes_when_it_is_full_and_the_other_waits_on() -> None:
    made = Collected(collect=3)
    assert made.push(left=rows(1, 2), right=rows(1)) == 0
    assert made.waiting == (2, 1)
    assert made.push(left=rows(3)) == 0  # processed, but nothing of the right side is stored
    assert made.waiting == (0, 1)
    assert made.join.metrics().sides["left"].window_rows == 3
    assert made.push(right=rows(3, 9)) == 2
    assert made.waiting == (0, 0)


def test_a_buffer_holds_more_than_asked_when_a_push_brings_more() -> None:
    made = Collected(collect=3)
    made.push(left=rows(1, 1))
    made.push(left=rows(1, 1, 1))
    assert made.waiting == (0, 0)
    assert made.push(right=rows(1, 2, 3)) == 5


@pytest.mark.parametrize("wait", ["100 ms", timedelta(milliseconds=100), ts.Interval(10**8)])
def test_a_buffer_closes_when_its_first_row_has_waited(wait: Any) -> None:
    made = Collected(collect_time=wait)
    made.push(left=rows(1))
    made.clock.now = 0.09
    assert made.push(right=rows(1)) == 0
    assert made.waiting == (1, 1)
    made.clock.now = 0.1
    assert made.push() == 0
    assert made.waiting == (0, 1)  # the right row came later
    made.clock.now = 0.19
    assert made.push() == 1
    assert made.waiting == (0, 0)


def test_the_clock_starts_again_with_the_next_batch() -> None:
    made = Collected(collect_time="1 s")
    for start in (0.0, 10.0):
        made.clock.now = start
        made.push(left=rows(1))
        assert made.waiting == (1, 0)
        made.clock.now = start + 1
        made.push()
        assert made.waiting == (0, 0)


def test_whichever_comes_first() -> None:
    made = Collected(collect=2, collect_time="1 s")
    made.push(left=rows(1, 2))
    assert made.waiting == (0, 0)
    made.push(left=rows(3))
    made.clock.now = 1.0
    made.push()
    assert made.waiting == (0, 0)


def test_flush_processes_what_was_collected() -> None:
    made = Collected(collect=100)
    made.push(left=rows(1, 2), right=rows(2, 3))
    assert counted(made.join.flush()) == 1
    assert made.waiting == (0, 0)


def test_rows_of_an_unknown_side_wait_and_are_then_collected() -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(2), collect=4)
    for value in range(5):
        assert counted(join.push(left=rows(value))) == 0
    assert counted(join.push(right=rows(3, 4, 0))) == 0
    assert join.metrics().sides["right"].waiting_rows == 3
    assert counted(join.flush()) == 2
    join.check()


def test_one_batch_is_sorted_and_inserted_once() -> None:
    made = Collected(collect=64, options={"tactic": "ordered"})
    for value in range(64):
        made.push(left=rows(value % 7))
    assert made.join.metrics().runs == 1
    assert made.join.metrics().merges == 0


def test_rows_stay_as_long_as_collected_rows_may_meet_them() -> None:
    made = Collected(collect=3, options={"window": ts.CountWindow(2), "how": "left"})
    made.push(left=rows(1, 1), right=rows(1))  # the right row meets both, and waits
    made.push(left=rows(5))  # the left side closes: row 0 has left the window, but not for row 0
    assert made.join.metrics().sides["left"].window_rows == 3
    assert made.push(right=rows(9, 9)) == 2
    assert made.join.metrics().sides["left"].window_rows == 2
    made.join.check()


def test_rows_stay_as_long_as_the_oldest_collected_row_may_meet_them() -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.TimeWindow(2, time="t"), how="right", collect=3)
    list(join.push(left=at(0), right=at(0, 0, 0)))  # the right side closes, the left waits
    assert counted(join.push(left=at(10), right=at(10))) == 0  # 0 is long past, but not met yet
    assert join.metrics().sides["right"].window_rows == 3
    assert counted(join.push(left=at(11))) == 3
    assert join.metrics().sides["right"].window_rows == 0
    assert counted(join.flush()) == 2


def test_late_rows_are_told_apart_when_they_are_pushed() -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.TimeWindow(5, time="t"), collect=100)
    list(join.push(left=at(10), right=at(10)))
    list(join.push(left=at(9, 12)))  # 9 is late though nothing was processed
    assert join.metrics().dropped == 1
    list(join.push(left=at(30), right=at(30)))
    list(join.push(left=at(29, 31)))
    assert join.metrics().dropped == 2
    assert counted(join.flush()) == 4


def test_dictionaries_and_nested_columns_are_collected() -> None:
    def some(*words: str) -> Any:
        column = pa.array(words).dictionary_encode()
        nested = pa.array([[len(word)] for word in words])
        return pa.record_batch({"x": range(len(words)), "word": column, "nested": nested})

    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(9), collect=4)
    list(join.push(left=some("a", "b")))
    list(join.push(left=some("cc"), right=some("d", "e")))
    given = [row for batch in join.flush() for row in batch.to_pylist()]
    assert sorted((row["word"], row["word_right"]) for row in given) == [
        *(("a", "d"), ("b", "e"), ("cc", "d")),
    ]
    assert {row["word"]: row["nested"] for row in given} == {"a": [1], "b": [1], "cc": [2]}


# --- Words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "message"),
    [
        ("soon", "collect_time: cannot read 'soon' as a duration"),
        (5, "collect_time: expected a duration such as '10 minutes' or a timedelta, got 5"),
        ("0 s", "collect_time must be positive; got '0 s'"),
        ("1 month", "collect_time: 'month' has no fixed length"),
    ],
)
def test_collect_time_is_a_duration(wait: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ts.StreamJoin("l.x = r.x", window=ts.CountWindow(9), collect_time=wait)
    assert patience(None) is None


def test_explain_says_how_rows_are_collected() -> None:
    made = Collected(collect=3, collect_time="100 ms")
    assert "collecting: 3 rows or 100 milliseconds, per side" in made.join.explain()
    assert "collecting: 3 rows, per side" in Collected(collect=3).join.explain()
    assert "collecting: 2 seconds, per side" in Collected(collect_time="2 s").join.explain()
    assert "collecting" not in Collected().join.explain()


def lose_a_row(engine: Any) -> None:
    engine.collector.buffers[Side.LEFT].rows -= 1


def forget_too_early(engine: Any) -> None:
    engine.streams[Side.LEFT].expire(1)


@pytest.mark.parametrize(("collect", "damage"), [(9, lose_a_row), (2, forget_too_early)])
def test_check_notices_rows_that_are_lost(collect: int, damage: Any) -> None:
    made = Collected(collect=collect)
    made.push(left=rows(1, 2))
    damage(made.join._engine)
    with pytest.raises(AssertionError):
        made.join.check()


def test_an_empty_buffer_is_never_due() -> None:
    made = Collected(collect=1, collect_time="1 ns")
    assert not Buffer().due(made.join._query, 10.0)
    assert np.all([made.push() == 0 for _ in range(3)])

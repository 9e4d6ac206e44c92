"""What is remembered of one stream: flags, times, indexes, and their agreement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.boxes.binding import Binding, bind
from thetastream.boxes.fresh import Fresh
from thetastream.condition.predicate import Predicate
from thetastream.engine.stream import RoleIndex, Stream
from thetastream.index import names, structure
from thetastream.index.trees.tree_index import TreeIndex
from thetastream.plan.choice import Choice, choose
from thetastream.side import Side
from thetastream.window import CountWindow, TimeWindow

from ..keys import HIGH, LOW

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("t", pa.int64())])
COUNT, TIME = CountWindow(100), TimeWindow(5, time="t")


def bound(text: str = "abs(l.x - r.x) <= 1", window: Any = COUNT) -> Binding:
    return bind(Predicate.parse(text), window, dict.fromkeys(Side, SCHEMA))


def fresh(binding: Binding, x: list[Any], t: list[Any] | None = None) -> Fresh:
    columns = {"x": x, "y": [7] * len(x), "t": t or [0] * len(x)}
    batch = pa.record_batch(columns, schema=SCHEMA)
    return Fresh(Side.LEFT, batch, {Side.LEFT: binding.keys(Side.LEFT, batch)})


def stream(
    binding: Binding, *, first: int = 0, tactic: str = "auto", tracked: Any = (Side.LEFT,)
) -> Stream:
    made = Stream(SCHEMA, ["x"], timed=binding.time is not None, tracked=tracked, first=first)
    made.index_as(Side.LEFT, RoleIndex(choose(binding, Side.LEFT, tactic, 100.0), 100))
    return made


def add(target: Stream, rows: Fresh, before: int = 0) -> int:
    first = target.append(rows)
    for stored in target.indexes.values():
        stored.replace(rows.keys, first, before)
    target.check()
    return first


def filled(x: list[Any], t: list[Any] | None = None, *, before: int = 0, **options: Any) -> Stream:
    """A stream with rows, by time if their times are given."""
    binding = bound(window=COUNT if t is None else TIME)
    held = stream(binding, **options)
    add(held, fresh(binding, x, t), before)
    return held


def ids_of(target: Stream) -> list[int]:
    return target.indexes[Side.LEFT].index.dump()[1].tolist()


# --- Flags --------------------------------------------------------------------------------------


def test_rows_are_numbered_by_arrival() -> None:
    binding = bound()
    held = stream(binding, first=10)
    assert add(held, fresh(binding, [5, 6])) == 10
    assert add(held, fresh(binding, [])) == 12
    assert add(held, fresh(binding, [7])) == 12
    assert (held.rows.first, held.rows.next) == (10, 13)
    assert ids_of(held) == [10, 11, 12]


def test_marks_are_told_once() -> None:
    held = filled([1, 2, 3, 4], first=10)
    assert held.mark(Side.LEFT, np.array([13, 11, 13])).tolist() == [11, 13]
    assert held.mark(Side.LEFT, np.array([11, 12])).tolist() == [12]
    assert held.mark(Side.LEFT, np.array([], np.int64)).tolist() == []
    assert held.unmatched(Side.LEFT, 99).tolist() == [10]
    assert held.unmatched(Side.LEFT, 99).tolist() == [], "dealt with"


def test_unmatched_rows_below_a_bound() -> None:
    held = filled([1, 2, 3, 4])
    held.mark(Side.LEFT, np.array([1]))
    assert held.unmatched(Side.LEFT, -5).tolist() == []
    assert held.unmatched(Side.LEFT, 3).tolist() == [0, 2]
    assert held.unmatched(Side.LEFT, 4).tolist() == [3]


def test_flags_of_a_self_join_are_kept_per_role() -> None:
    held = filled([1, 2], tracked=tuple(Side))
    held.mark(Side.RIGHT, np.array([0]))
    assert held.unmatched(Side.LEFT, 9).tolist() == [0, 1]
    assert held.unmatched(Side.RIGHT, 9).tolist() == [1]


def test_flags_outlive_growth_and_expiry() -> None:
    held = filled([0] * 10)
    held.mark(Side.LEFT, np.array([4, 7]))
    add(held, fresh(bound(), [0] * 5000))
    held.expire(6)
    held.check()
    assert held.unmatched(Side.LEFT, 10).tolist() == [6, 8, 9]


# --- Event time ---------------------------------------------------------------------------------


def test_rows_by_their_time() -> None:
    held = filled([0] * 5, [10, 30, 20, None, 40], first=3)
    assert held.first_younger(10) == 3
    assert held.first_younger(11) == 4
    assert held.first_younger(31) == 7
    assert held.first_younger(41) == held.rows.next == 8
    # A row without a time never matches, so it counts as older than everything.
    assert held.unmatched_older(Side.LEFT, 21).tolist() == [3, 5, 6]
    assert held.unmatched_older(Side.LEFT, 31).tolist() == [4]


def test_old_rows_before_a_young_one_are_found_far_away() -> None:
    held = filled([0] * 10_000, [1] * 9_000 + [5] + [1] * 999)
    assert held.first_younger(5) == 9000
    assert held.first_younger(6) == 10_000


# --- Expiry and agreement -----------------------------------------------------------------------


TREES = [f"ibwj/{name}" for name in names() if issubclass(structure(name), TreeIndex)]


@pytest.mark.parametrize("tactic", ["ordered", "nested-loop", *TREES])
def test_expiry_is_seen_everywhere(tactic: str) -> None:
    held = filled(list(range(50)), list(range(50)), tactic=tactic)
    full = held.nbytes
    held.expire(20)
    held.expire(10)
    held.check()
    assert ids_of(held) == list(range(20, 50))
    assert (len(held.rows), held.times.first, held.matched[Side.LEFT].first) == (30, 20, 20)
    held.expire(50)
    assert ids_of(held) == []
    if tactic in TREES:  # trees keep their nodes for the rows to come
        add(held, fresh(bound(window=TIME), list(range(50)), list(range(50))))
        assert ids_of(held) == list(range(50, 100))
    else:
        assert held.index_bytes == 0
    assert held.nbytes <= full


def test_rows_that_cannot_match_are_not_indexed() -> None:
    held = filled([1, None, 3, 4], [1, 1, None, 1])
    assert ids_of(held) == [0, 3]
    assert len(held.rows) == 4


def test_rows_that_have_expired_already_are_not_indexed() -> None:
    held = filled([5, 1, 4, 2], before=2)
    assert ids_of(held) == [2, 3]


def test_bytes_add_up() -> None:
    held = filled(list(range(100)), [1] * 100)
    stored = held.indexes[Side.LEFT].index.nbytes
    parts = held.rows.nbytes + held.times.nbytes + held.matched[Side.LEFT].nbytes + stored
    assert held.nbytes == parts
    assert held.index_bytes == stored > 0


def test_check_can_fail() -> None:
    held = filled([1, 2])
    held.matched[Side.LEFT].append(np.zeros(1, np.bool_))
    with pytest.raises(AssertionError):
        held.check()
    held = filled([1, 2])
    held.indexes[Side.LEFT].index.insert(np.zeros((1, 1), np.int64), np.array([2]))
    with pytest.raises(AssertionError):
        held.check()


# --- Moving to another layout -------------------------------------------------------------------


def answers(stored: RoleIndex, rows: Fresh) -> set[tuple[int, int]]:
    """Pairs (fresh row, stored id) that the index finds."""
    layout = stored.choice.layout
    at, able = layout.arranged(rows)
    boxes = layout.boxes(able)
    found = set()
    for positions, ids in stored.index.probe(boxes.lows, boxes.highs):
        found |= set(zip(at[boxes.owners[positions]].tolist(), ids.tolist(), strict=True))
    return found


def test_moving_keeps_every_row_and_every_answer() -> None:
    binding = bound("l.y = r.y AND abs(l.x - r.x) <= 1")
    choices: list[Choice] = [
        choose(binding, Side.LEFT, name, 100.0)
        for name in ("nested-loop", "ordered", "hash", "cells", "ordered/nested-loop", *TREES)
    ]
    rows = fresh(binding, [LOW, -1, 0, 1, 1, None, 5, HIGH])
    batch = pa.record_batch(
        {"x": [0, HIGH, LOW, 9], "y": [7, 7, 7, 7], "t": [0] * 4}, schema=SCHEMA
    )
    probing = binding.keys(Side.RIGHT, batch)
    wanted = {(0, 11), (0, 12), (0, 13), (0, 14), (1, 17), (2, 10)}
    for start in choices:
        stored = RoleIndex(start, 100)
        stored.replace(rows.keys, 10, 0)
        for choice in choices:
            stored.move(choice)
            assert stored.choice is choice
            assert stored.index.name == choice.layout.index
            stored.index.check()
            assert stored.index.dump()[1].tolist() == [10, 11, 12, 13, 14, 16, 17]
            assert answers(stored, probing) == wanted


@pytest.mark.parametrize("tactic", TREES)
def test_rows_that_are_stored_anew_get_new_ids(tactic: str) -> None:
    binding = bound("abs(l.x - r.x) <= 1 AND l.y = r.y")
    stored = RoleIndex(choose(binding, Side.LEFT, tactic, 100.0), 4)
    stored.replace(fresh(binding, [5, 1, 4, 2, 9, 1]).keys, 0, 0)
    stored.relocate(np.array([1, 2, 5]), 6)
    stored.index.check()
    assert stored.index.dump()[1].tolist() == [6, 7, 8]
    batch = pa.record_batch({"x": [1, 4], "y": [7, 7], "t": [0, 0]}, schema=SCHEMA)
    found = answers(stored, binding.keys(Side.RIGHT, batch))
    assert found == {(0, 6), (0, 8), (1, 7)}


def test_counters_of_replaced_indexes_are_kept() -> None:
    binding = bound()
    stored = RoleIndex(choose(binding, Side.LEFT, "ordered", 100.0), 100)
    for at in range(4):
        stored.replace(fresh(binding, [at]).keys, at, 0)
    merges = stored.statistics("merges")
    assert merges == 3
    stored.move(choose(binding, Side.LEFT, "ordered", 100.0))
    assert stored.statistics("merges") == merges
    assert stored.statistics("runs") == 1
    stored.replace(fresh(binding, [9]).keys, 4, 0)
    assert stored.statistics("merges") == merges + 1
    assert stored.statistics("no such counter") == 0

"""One partition of a join: ranks of all senders, and state that can be taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.boxes.binding import bind
from thetastream.condition.predicate import Predicate
from thetastream.engine.partition.partition import COPY, POSITION, RANK, Partition, merged
from thetastream.engine.query import Query
from thetastream.errors import DataError
from thetastream.plan.tactic import Tactic
from thetastream.side import How, Side
from thetastream.window import CountWindow, TimeWindow, Window

SCHEMA = pa.schema([("x", pa.int64()), ("t", pa.int64())])


def parted(window: Window, how: str = "inner", led: Side | None = None) -> Partition:
    on = Predicate.parse("abs(l.x - r.x) <= 1")
    query = Query(on, window, How.of(how), False, Tactic("auto"), "_right", None, 1, 65_536)
    return Partition(query, bind(on, window, dict.fromkeys(Side, SCHEMA)), led)


def partition(how: str = "inner", led: Side | None = None) -> Partition:
    return parted(TimeWindow(10, time="t"), how, led)


def rows(x: list[int], t: list[int], copies: list[bool] | None = None) -> pa.RecordBatch:
    columns: dict[str, Any] = {"x": x, "t": t, COPY: copies or [False] * len(x)}
    return pa.record_batch(columns)


def given(answer: Any) -> list[tuple[Any, ...]]:
    return [
        tuple(row.get(name) for name in ("x", "x_right"))
        for batch in answer
        for row in batch.to_pylist()
    ]


def test_places_among_all_ranks() -> None:
    ranks = {7: np.array([5, 1, 4]), 3: np.array([4, 2])}
    whole, places = merged(ranks)
    assert whole.tolist() == [1, 2, 4, 4, 5]
    assert places[3].tolist() == [2, 1], "of equal ranks the lower sender comes first"
    assert places[7].tolist() == [4, 0, 3]
    assert merged({})[0].size == 0


def test_ranks_must_not_fall_from_push_to_push() -> None:
    window = CountWindow(5, order="t")
    part = parted(window)
    positions = part.note_ranks({Side.LEFT: {0: np.array([3, 8])}})
    assert positions[Side.LEFT][0].tolist() == [0, 1]
    given(part.push({}))
    positions = part.note_ranks({Side.LEFT: {0: np.array([8, 9])}})
    assert positions[Side.LEFT][0].tolist() == [2, 3]
    given(part.push({}))
    with pytest.raises(DataError, match="left side falls: a row of rank 7 came after rank 9"):
        part.note_ranks({Side.LEFT: {0: np.array([7])}})


def test_a_copy_is_met_but_emits_nothing() -> None:
    part = partition("full", led=Side.LEFT)
    left = rows([1, 5], [1, 1], [True, False])
    right = rows([1, 5, 9], [1, 1, 1], [False, True, True])
    pairs = given(part.push({Side.LEFT: left, Side.RIGHT: right}))
    assert pairs == [(5, 5)], "the pair (1, 1) is given where its left row is at home"
    assert part.counters.matches == 1
    # Time goes on: nothing is unmatched here; 9 has its home elsewhere.
    assert given(part.push({}, frontier=100)) == []
    assert part.metrics().rows == 2, "copies are not counted"


def test_the_frontier_comes_from_outside() -> None:
    part = partition("left")
    assert given(part.push({Side.LEFT: rows([1], [50])})) == []
    late = part.push({Side.LEFT: rows([2], [5], [True])}, frontier=20)
    assert given(late) == []
    assert part.metrics().dropped == 0, "a late copy is counted at its home"
    assert given(part.push({Side.LEFT: rows([2, 3], [5, 25])}, frontier=20)) == []
    assert part.metrics().dropped == 1
    assert part.horizon(Side.LEFT) == 10
    assert sorted(given(part.push({}, frontier=61))) == [(1, None), (3, None)]


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_a_restored_partition_goes_on(how: str) -> None:
    led = Side.LEFT if how == "full" else None
    first, second = partition(how, led), partition(how, led)
    given(first.push({Side.LEFT: rows([1, 4, 7], [1, 2, 3]), Side.RIGHT: rows([4, 20], [2, 2])}))
    stretches = {stretch.side: stretch for stretch in first.stretches()}
    assert [stretches[side].last for side in Side] == [3, 2]
    second.restore({side: [stretches[side].batch] for side in Side})
    for side in Side:
        for role, flags in first.flags(side, 0).items():
            second.restore_flags(side, role, [(0, flags)])
        assert second.next_id(side) == first.next_id(side)
    more = {Side.RIGHT: rows([1, 7, 4], [4, 4, 4])}
    for frontier in (None, 200):
        answers = [
            sorted(given(part.push(more, frontier=frontier)), key=str) for part in (first, second)
        ]
        assert answers[0] == answers[1]
        more = {}
    first.check()
    second.check()


def test_waiting_rows_are_taken_back() -> None:
    window = CountWindow(5, order="t")
    parts = [parted(window) for _ in range(2)]

    def ranked(x: list[int], ranks: list[int], positions: list[int]) -> pa.RecordBatch:
        return pa.record_batch({"x": x, "t": ranks, RANK: ranks, POSITION: positions})

    parts[0].note_ranks({Side.LEFT: {0: np.array([1, 2, 3])}})
    assert given(parts[0].push({Side.LEFT: ranked([1, 5, 9], [1, 2, 3], [0, 1, 2])})) == []
    assert parts[0].waiting()[Side.LEFT].num_rows == 3
    parts[1].restore_ranks(parts[0].census(), parts[0].waiting())
    assert parts[1].metrics().sides["left"].waiting_rows == 3
    parts[1].note_ranks({Side.RIGHT: {0: np.array([2, 4])}})
    answer = parts[1].push({Side.RIGHT: ranked([5, 9], [2, 4], [0, 1])})
    assert given(answer) == [(5, 5)], "rank 4 of the right waits for the left to go beyond it"

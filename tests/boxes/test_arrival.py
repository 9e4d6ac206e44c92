"""Arrival by rank: who waits for whom."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.boxes.arrival import Census, Waiting, read_ranks, ready
from thetastream.boxes.fresh import Fresh, Places, concatenated
from thetastream.boxes.keys import Keys
from thetastream.errors import DataError
from thetastream.schema import Domain, KeyKind
from thetastream.side import Side

INTEGER = Domain(KeyKind.INTEGER)


def fresh(ranks: list[int], *, side: Side = Side.LEFT, valid: list[bool] | None = None) -> Fresh:
    words = pa.array([f"w{rank}" for rank in ranks], pa.string()).dictionary_encode()
    batch = pa.record_batch({"rank": pa.array(ranks, pa.int64()), "word": words})
    keys = np.array(ranks, np.int64)
    mask = None if valid is None else np.array(valid)
    roles = {side: Keys(side, [keys * 10, keys * 100], None, len(ranks), mask)}
    return Fresh(side, batch, roles, Places(ranks=keys))


def seen(rows: Fresh) -> list[tuple[Any, ...]]:
    assert [field.name for field in rows.batch.schema] == ["rank", "word"]
    columns = [rows.batch["rank"].to_pylist(), rows.batch["word"].to_pylist()]
    return list(zip(*columns, *(key.tolist() for key in rows.keys.keys), strict=True))


def expected(ranks: list[int]) -> list[tuple[Any, ...]]:
    return [(rank, f"w{rank}", rank * 10, rank * 100) for rank in ranks]


def test_equal_ranks_left_goes_first() -> None:
    ranks = np.array([1, 3, 3, 5])
    assert ready(ranks, Side.LEFT, None) == 0, "the other side has shown nothing"
    shown = (0, 1, 2, 3, 4, 9)
    assert [ready(ranks, Side.LEFT, rank) for rank in shown] == [0, 1, 1, 3, 3, 4]
    assert [ready(ranks, Side.RIGHT, rank) for rank in shown] == [0, 0, 1, 1, 3, 4]


def test_a_census_counts_who_came_before() -> None:
    census = Census()
    assert (census.seen, census.last) == (0, None)
    census.add(np.array([1, 3, 3, 5]))
    census.add(np.array([], np.int64))
    assert (census.seen, census.last) == (4, 5)
    # Left rows precede right rows of equal rank.
    assert census.before(np.array([1, 3, 9]), Side.LEFT).tolist() == [0, 1, 4]
    assert census.before(np.array([1, 3, 9]), Side.RIGHT).tolist() == [1, 3, 4]
    census.release(3)
    assert (census.seen, census.released, census.pending.tolist()) == (4, 3, [5])
    assert census.before(np.array([5]), Side.RIGHT).tolist() == [4]


def test_nothing_waits_at_first() -> None:
    waiting = Waiting()
    assert len(waiting) == 0
    assert waiting.release(0) is None
    assert waiting.rows is None


@given(st.lists(st.one_of(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 5)), max_size=9))
def test_rows_come_out_as_they_went_in(steps: list[list[int] | int]) -> None:
    waiting, inside, top = Waiting(), [], 0
    for step in steps:
        if isinstance(step, list):
            ranks = (top + np.cumsum(np.array(step, np.int64))).tolist()
            top = ranks[-1] if ranks else top
            waiting.add(fresh(ranks))
            inside += ranks
        else:
            count = min(step, len(inside))
            rows = waiting.release(count)
            assert (seen(rows) if rows is not None else []) == expected(inside[:count])
            inside = inside[count:]
        assert len(waiting) == len(inside)
        held = waiting.rows
        assert (held.places.ranks.tolist() if held is not None else []) == inside
    if inside:
        rows = waiting.release(len(inside))
        assert rows is not None
        assert seen(rows) == expected(inside)


def test_dictionaries_are_made_one() -> None:
    both = concatenated([fresh([1, 2]), fresh([2, 3])])
    assert seen(both) == expected([1, 2, 2, 3])
    assert both.keys.valid is None
    both.batch.validate(full=True)


def test_marks_of_rows_that_can_match_are_kept() -> None:
    some, all_ = fresh([1, 2], valid=[True, False]), fresh([3])
    assert concatenated([some, all_]).keys.valid.tolist() == [True, False, True]
    assert concatenated([all_, some]).keys.valid.tolist() == [True, True, False]
    assert concatenated([all_, some]).slice(1, 3).keys.valid.tolist() == [True, False]
    assert all_.slice(0, 0).keys.valid is None


def test_a_slice() -> None:
    rows = fresh([1, 2, 3, 4], side=Side.RIGHT).slice(1, 3)
    assert rows.side is Side.RIGHT
    assert rows.count == len(rows.keys) == 2
    assert seen(rows) == expected([2, 3])


# --- Reading ranks ------------------------------------------------------------------------------


def read(column: pa.Array, last: int | None = None, domain: Domain = INTEGER) -> list[int]:
    batch = pa.record_batch({"rank": column})
    return read_ranks(batch, "rank", domain, Side.RIGHT, last).tolist()


def test_ranks_are_read() -> None:
    assert read(pa.array([1, 1, 5])) == [1, 1, 5]
    assert read(pa.array([5, 6]), last=5) == [5, 6]
    assert read(pa.array([], pa.int64())) == []
    assert read(pa.array([], pa.int64()), last=3) == []
    moments = pa.array([dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 2)], pa.timestamp("s"))
    assert read(moments, domain=Domain(KeyKind.NAIVE, tick=10**9)) == [0, 86_400]


def test_ranks_may_be_far_apart() -> None:
    extremes = [-(2**63), 2**63 - 1]
    assert read(pa.array(extremes)) == extremes


def test_ranks_may_not_be_null() -> None:
    with pytest.raises(
        DataError, match="'rank' of the right side has NULLs; every row needs a rank"
    ):
        read(pa.array([1, None]))


@pytest.mark.parametrize(
    ("ranks", "last"),
    [
        *(([2, 1], None), ([5], 6), ([7, 8, 7], 6)),
        pytest.param([2**63 - 1, -(2**63)], None),
    ],
)
def test_ranks_may_not_fall(ranks: list[int], last: int | None) -> None:
    with pytest.raises(DataError, match="falls; rows of one side must come in the order of their"):
        read(pa.array(ranks), last)

"""StreamJoin and what goes wrong: bad input that changes nothing, interrupts, failures half way.

Messages are in ``test_errors.py``.
"""

from __future__ import annotations

import signal

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream import errors
from thetastream.engine.emit import pairs as pairs_module
from thetastream.engine.engine import Engine

from .join_rows import joined, pairs, rows, table

# --- Bad input ------------------------------------------------------------------------------------


def test_a_changed_type_is_refused_and_nothing_is_lost():
    join = joined()
    join.push(left=table([1]))
    with pytest.raises(errors.SchemaError, match="changed its type from int64 to double"):
        join.push(left=pa.table({"x": [1.5]}))
    assert pairs(join.push(right=table([1]))) == {(1, 1): 1}


def test_columns_in_another_order_and_of_type_null_are_taken_as_they_are_meant():
    join = joined()
    join.push(left=table([1], a=[1]))
    join.push(left=pa.table({"a": pa.nulls(1), "x": [2]}))
    assert {r["a"] for r in rows(join.push(right=table([2])))} == {1, None}


def test_an_unknown_column_is_pointed_at():
    with pytest.raises(
        errors.PredicateError, match=r"no column 'prise'.*Did you mean 'price'"
    ) as e:
        joined("l.prise < r.x").push(left=pa.table({"price": [1.0]}))
    assert "^^^^^^^" in str(e.value)


def test_times_with_and_without_zone_are_never_compared():
    def at(zone):
        return pa.table({"t": pa.array([0], pa.timestamp("us", zone)), "x": [1]})

    with pytest.raises(errors.SchemaError, match="time zone"):
        joined("l.t <= r.t").push(left=at("UTC"), right=at(None))
    window = ts.TimeWindow("1 s", time="t")
    with pytest.raises(errors.SchemaError, match="time zone"):
        joined(window=window).push(left=at("UTC"), right=at(None))
    zones = joined("l.t = r.t", window=window)
    assert len(rows(zones.push(left=at("UTC"), right=at("Asia/Tokyo")))) == 1


def test_ranks_that_fall_or_are_null_are_refused_and_nothing_is_lost():
    join = joined(window=ts.CountWindow(5, order="o"))
    join.push(left=table([1], o=[3]), right=table([1], o=[4]))
    with pytest.raises(errors.DataError, match="falls"):
        join.push(left=table([1], o=[2]))
    with pytest.raises(errors.DataError, match="NULLs"):
        join.push(left=table([1], o=[None]))
    assert sum(pairs(join.flush()).values()) == 1


def test_nothing_can_be_pushed_after_flush():
    join = joined()
    join.push(left=table([1]))
    join.flush()
    with pytest.raises(errors.StateError, match="new StreamJoin"):
        join.push(left=table([1]))
    with pytest.raises(errors.StateError, match="flushed"):
        join.flush()


def test_an_overflow_in_a_side_expression_is_refused_and_nothing_is_lost():
    join = joined("l.x * 4 = r.x")
    join.push(left=table([1]), right=table([4]))
    with pytest.raises(errors.DataError, match="overflow"):
        join.push(left=table([1 << 62]))
    assert pairs(join.push(right=table([4]))) == {(1, 4): 1}


# --- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.fixture
def interrupts(monkeypatch):
    """SIGINT as a user's Ctrl-C gives it, whatever the runner has installed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_push_is_whole_and_its_rows_come_with_the_next(interrupts, monkeypatch):
    join = joined()
    join.push(left=table([1, 2]))
    push = Engine.push

    def interrupted(self, fresh, outside):
        signal.raise_signal(signal.SIGINT)
        return push(self, fresh, outside)

    monkeypatch.setattr(Engine, "push", interrupted)
    with pytest.raises(KeyboardInterrupt):
        join.push(right=table([1]))
    monkeypatch.undo()
    assert pairs(join.push(right=table([9]))) == {(1, 1): 1, (2, 1): 1}


@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"how": "left"}])
def test_reading_goes_on_after_an_interrupt(interrupts, monkeypatch, options):
    join = joined(batch_rows=4, **options)
    join.push(left=table([0] * 5))
    answer = join.push(right=table([0] * 5))
    got = [next(answer)]
    gather = pairs_module.gathered

    def interrupted(*arguments):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        return gather(*arguments)

    monkeypatch.setattr(pairs_module, "gathered", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(answer)
    got += answer
    assert sum(batch.num_rows for batch in got) == 25


def test_a_failure_half_way_is_not_hidden(monkeypatch):
    join = joined()
    join.push(left=table([1]), right=table([1]))

    def fails(self, rows):
        raise MemoryError

    monkeypatch.setattr(Engine, "_arrive", fails)
    with pytest.raises(MemoryError):
        join.push(left=table([1]))
    monkeypatch.undo()
    with pytest.raises(errors.StateError, match="halfway"):
        join.push(left=table([1]))

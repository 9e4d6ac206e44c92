"""PTWI against a list: rows with times, late ones and gaps, in any order of steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.index.slotted.circular import Calendar
from thetastream.index.slotted.ptwi import Ptwi

from ...keys import HIGH, LOW
from ...scale import scaled
from .slots import every, everything, made

ENDS = [LOW, LOW + 1, -(2**62), -7, 0, 5, 2**62, HIGH - 1, HIGH]


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
    st.lists(st.sampled_from(ENDS), min_size=1),
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

"""Which scheme a join gets, and where its rows go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.boxes.binding import Binding, bind
from thetastream.condition.predicate import Predicate
from thetastream.engine.partition.routing import Routing, choose
from thetastream.errors import OptionError, SchemaError
from thetastream.side import How, Side
from thetastream.window import TimeWindow

WINDOW = TimeWindow(100, time="t")
TYPES = {"x": pa.int64(), "y": pa.float64(), "s": pa.string(), "small": pa.int8(), "t": pa.int64()}
SCHEMA = pa.schema(TYPES.items())


def bound(on: str) -> Binding:
    return bind(Predicate.parse(on), WINDOW, dict.fromkeys(Side, SCHEMA))


def plan(on: str, how: str = "inner", partitions: int = 4, **options: Any) -> Routing:
    self_join = options.pop("self_join", False)
    return choose(bound(on), How.of(how), self_join, partitions, **options)


def rows(**columns: list[Any]) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    columns = {"t": [1] * count, **columns}
    arrays = [pa.array(columns.get(name, [None] * count), kind) for name, kind in TYPES.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def sent(routing: Routing, side: Side, batch: pa.RecordBatch) -> dict[int, set[int]]:
    deliveries = routing.route({side: routing.plan.binding.keys(side, batch)})
    found: dict[int, set[int]] = {}
    for row, target in zip(deliveries.rows.tolist(), deliveries.targets.tolist(), strict=True):
        found.setdefault(row, set()).add(target)
    return found


@pytest.mark.parametrize(
    ("on", "name"),
    [
        ("l.x = r.x", "hash"),
        ("l.x = r.x + 3 AND l.y < r.y", "hash"),
        ("l.s = r.s", "hash"),
        ("abs(l.x - r.x) <= 5", "cells"),
        ("l.y - r.y BETWEEN -1 AND 2 AND l.x < r.x", "cells"),
        ("l.y < r.y + 1 AND l.y > r.y - 1", "cells"),
        ("l.x < r.x", "matrix"),
        ("l.x < r.x AND l.y > r.y", "matrix"),
        ("l.x != r.x", "matrix"),
        ("l.x * r.x > 7", "matrix"),
    ],
)
def test_the_scheme_follows_the_predicate(on: str, name: str) -> None:
    assert plan(on).name == name
    assert plan(on, "full").name == name


def test_what_is_asked_for_is_done_or_refused() -> None:
    assert plan("l.x = r.x", scheme="matrix").name == "matrix"
    assert plan("l.x = r.x AND abs(l.y - r.y) <= 1", scheme="cells").name == "cells"
    for scheme, on in (("hash", "l.x < r.x"), ("cells", "l.x = r.x")):
        with pytest.raises(OptionError, match=f"partitioning='{scheme}' needs"):
            plan(on, scheme=scheme)
    with pytest.raises(OptionError, match="Did you mean 'cells'"):
        plan("l.x = r.x", scheme="cell")
    with pytest.raises(OptionError, match="partitions must be a whole number of at least 1; got 0"):
        plan("l.x = r.x", partitions=0)
    with pytest.raises(OptionError, match="cell_width is for joins on a band"):
        plan("l.x < r.x", cell_width=5)
    with pytest.raises(OptionError, match="cell_width must be a positive number"):
        plan("abs(l.x - r.x) <= 5", cell_width=-5)


def test_more_partitions_than_cells_are_refused() -> None:
    on = "abs(l.small - r.small) <= 3"
    assert plan(on, partitions=4).name == "cells"
    with pytest.raises(SchemaError, match="use at most 6 partitions, a smaller cell_width"):
        plan(on, partitions=8)
    assert plan(on, partitions=8, cell_width=10).name == "cells"
    assert plan(on, partitions=8, scheme="matrix").name == "matrix"


def test_equal_keys_meet_in_one_place() -> None:
    routing = plan("l.x = r.x + 3 AND l.s = r.s", partitions=5)
    left = sent(routing, Side.LEFT, rows(x=list(range(50)), s=["a"] * 50))
    right = sent(routing, Side.RIGHT, rows(x=[x - 3 for x in range(50)], s=["a"] * 50))
    assert left == right
    assert all(len(places) == 1 for places in left.values())
    assert len(set.union(*left.values())) == 5


@pytest.mark.parametrize("partitions", [1, 2, 3, 64, 65, 200])
@pytest.mark.parametrize("width", [None, 1, 4, 1000])
def test_a_band_meets_at_the_home_of_the_left_row(partitions: int, width: Any) -> None:
    routing = plan("l.x - r.x BETWEEN 20 AND 27", partitions=partitions, cell_width=width)
    keys = list(range(-60, 60, 7))
    left = sent(routing, Side.LEFT, rows(x=keys))
    right = sent(routing, Side.RIGHT, rows(x=keys))
    assert all(len(places) == 1 for places in left.values())
    for i, a in enumerate(keys):
        for j, b in enumerate(keys):
            if 20 <= a - b <= 27:
                assert left[i] <= right[j]


def test_copies_only_cross_borders() -> None:
    routing = plan("abs(l.x - r.x) <= 10", partitions=4)
    keys = np.random.default_rng(1).integers(0, 10**6, 20_000).tolist()
    right = sent(routing, Side.RIGHT, rows(x=keys))
    copies = sum(len(places) for places in right.values()) / len(keys)
    assert copies == pytest.approx(routing.replication()[Side.RIGHT], abs=0.02)
    assert routing.replication()[Side.LEFT] == 1.0


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("partitions", [1, 6, 7])
def test_a_matrix_lets_every_pair_meet(how: str, partitions: int) -> None:
    routing = plan("l.x < r.x", how, partitions)
    batch = rows(x=list(range(30)), t=list(range(30)))
    left, right = sent(routing, Side.LEFT, batch), sent(routing, Side.RIGHT, batch)
    meetings = Counter(len(a & b) for a in left.values() for b in right.values())
    if how == "inner":
        assert set(meetings) == {1}, "a pair meets once"
    else:
        assert 0 not in meetings
        for side, places in ((Side.LEFT, left), (Side.RIGHT, right)):
            if How.of(how).keeps(side):
                assert routing.led is not None or all(len(p) == 1 for p in places.values())


def test_rows_that_match_nothing_are_sent_once() -> None:
    batch = rows(x=[None, 1, None], t=[1, 2, None])
    for on in ("l.x = r.x", "abs(l.x - r.x) <= 5", "l.x < r.x"):
        for how in ("inner", "full", "anti"):
            routing = plan(on, how)
            for side in Side:
                found = sent(routing, side, batch)
                assert set(found) == {0, 1, 2}
                assert len(found[0]) == len(found[2]) == 1


def test_targets_follow_from_values_not_from_places() -> None:
    keys = list(range(40))
    for on in ("l.x = r.x", "abs(l.x - r.x) <= 5", "l.x < r.x"):
        routing = plan(on)
        for side in Side:
            forward = sent(routing, side, rows(x=keys, t=keys))
            backward = sent(routing, side, rows(x=keys[::-1], t=keys[::-1]))
            assert forward == {39 - row: places for row, places in backward.items()}


def test_a_scheme_says_what_it_does() -> None:
    assert plan("l.x = r.x").describe() == "hash of l.x = r.x"
    assert "cells of width 80" in plan("abs(l.x - r.x) <= 5").describe()
    assert plan("l.x < r.x", partitions=6).describe() == "matrix of 2 x 3 partitions"
    assert "left rows at home" in plan("l.x < r.x", "left").describe()
    assert plan("l.x < r.x", partitions=6).replication() == {Side.LEFT: 3.0, Side.RIGHT: 2.0}


@pytest.mark.parametrize(
    ("on", "options", "copied"),
    [
        ("l.x = r.x", {}, ()),
        ("l.x = r.x", {"how": "full"}, ()),
        ("l.x = r.x AND l.y < r.y", {"self_join": True}, ()),
        ("l.x = r.x + 3", {"self_join": True}, tuple(Side)),
        ("l.x = r.small", {"self_join": True}, tuple(Side)),
        ("abs(l.x - r.x) <= 5", {}, (Side.RIGHT,)),
        ("abs(l.x - r.x) <= 5", {"how": "right"}, (Side.LEFT,)),
        ("abs(l.x - r.x) <= 5", {"how": "full"}, tuple(Side)),
        ("abs(l.x - r.x) <= 5", {"self_join": True}, tuple(Side)),
        ("l.x < r.x", {}, tuple(Side)),
        ("l.x < r.x", {"partitions": 3}, (Side.LEFT,)),
        ("l.x < r.x", {"how": "anti"}, (Side.RIGHT,)),
        ("l.x < r.x", {"how": "full"}, tuple(Side)),
        ("l.x < r.x", {"how": "full", "partitions": 1}, ()),
        ("abs(l.x - r.x) <= 5", {"how": "full", "partitions": 1}, ()),
    ],
)
def test_a_side_has_copies_or_no_marks(on: str, options: Any, copied: Any) -> None:
    routing = plan(on, **options)
    assert routing.copied == copied
    keys = list(range(-300, 300))
    batch = rows(x=keys, small=[key % 9 for key in keys], y=keys, t=list(range(600)))
    roles = [tuple(Side)] if routing.plan.self_join else [(side,) for side in Side]
    for played in roles:
        fresh = {role: routing.plan.binding.keys(role, batch) for role in played}
        deliveries = routing.route(fresh)
        if played[0] in copied:
            assert deliveries.copies is not None
            assert deliveries.copies.any()
        else:
            assert deliveries.copies is None
            assert sorted(deliveries.rows.tolist()) == list(range(600)), "every row once"


@pytest.mark.parametrize("side", ["l", "r"])
def test_rows_hashed_alike_in_both_roles_are_sent_once(side: str) -> None:
    """Also those that can play one role only, or none: they have no other place to be met."""
    routing = plan(f"l.x = r.x AND {side}.y IS NOT NULL", "full", self_join=True)
    keys = [None, 1, 2, None, 1, 2]
    batch = rows(x=keys, y=[0.0, None, 0.0, None, 0.0, None])
    fresh = {role: routing.plan.binding.keys(role, batch) for role in Side}
    deliveries = routing.route(fresh)
    places = dict(zip(deliveries.rows.tolist(), deliveries.targets.tolist(), strict=True))
    assert len(places) == deliveries.rows.size == 6
    assert places[1] == places[4]
    assert places[2] == places[5]

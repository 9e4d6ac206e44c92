"""Which scheme a join gets, and where its rows go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.boxes.binding import Binding, bind
from thetastream.condition.predicate import Predicate
from thetastream.engine.partition.routing import Routing
from thetastream.engine.partition.scheme import choose
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


# --- Relative bands, and an equality with a band beside it ---------------------------------------

SHARE = "abs(l.y - r.y) <= 0.01 * l.y"


def met_once(routing: Routing, left: pa.RecordBatch, right: pa.RecordBatch) -> set[Any]:
    """The pairs that meet, each in the home of an anchored row, and in no other one."""
    sides = {
        Side.LEFT: sent(routing, Side.LEFT, left),
        Side.RIGHT: sent(routing, Side.RIGHT, right),
    }
    anchored = routing.plan.lead
    pairs = set()
    for row, (home,) in sides[anchored].items():
        for other, places in sides[anchored.other].items():
            if home in places:
                pairs.add((row, other) if anchored is Side.LEFT else (other, row))
    return pairs


@pytest.mark.parametrize("how", ["inner", "left", "right", "semi"])
@pytest.mark.parametrize("on", [SHARE, "abs(l.x - r.x) < 0.05 * abs(r.x)"])
def test_rows_in_a_relative_band_meet(on: str, how: str) -> None:
    routing = plan(on, how)
    assert routing.name == "cells"
    assert "cells that span" in routing.describe()
    rng = np.random.default_rng(7)
    special = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-300, -3.0, None]
    values = [*(10 ** rng.uniform(-3, 6, 150)).tolist(), *special]
    column = on[6]
    if column == "x":
        values = [None if v is None or not np.isfinite(v) else int(v) for v in values]
    batch = rows(**{column: values})
    pairs = met_once(routing, batch, batch)
    share, base = (0.01, Side.LEFT) if column == "y" else (0.05, Side.RIGHT)
    matches = 0
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            if a is None or b is None or not np.isfinite([a, b]).all():
                continue
            width = share * (a if base is Side.LEFT else abs(b))
            if abs(a - b) <= width if column == "y" else abs(a - b) < width:
                matches += 1
                assert (i, j) in pairs, (a, b)
    assert matches > 100


@pytest.mark.parametrize(
    "on", [SHARE, "abs(l.x - r.x) <= 0.01 * r.x", "abs(l.y - r.y) < 0.02 * r.y"]
)
def test_places_of_a_relative_band(on: str) -> None:
    """The table of the plan: one place on the side at home, little more on the other."""
    routing = plan(on, partitions=4)
    expected = routing.replication()
    assert sorted(expected.values()) == [1.0, 1.125]
    rng = np.random.default_rng(3)
    column = on[6]
    values = 10 ** rng.uniform(2, 8, 20_000)
    batch = rows(**{column: values.astype(np.int64).tolist() if column == "x" else values.tolist()})
    for side in Side:
        places = sent(routing, side, batch)
        mean = sum(map(len, places.values())) / len(places)
        assert mean == pytest.approx(expected[side], abs=0.02)
        load = Counter(place for each in places.values() for place in each)
        assert max(load.values()) < 1.3 * sum(load.values()) / 4


def test_an_infinite_base_at_home_is_counted() -> None:
    """``abs(u - v) <= c * u`` holds for an infinite ``u`` and every finite ``v``."""
    routing = plan(SHARE, "left", partitions=4)
    assert routing.replication() == {Side.LEFT: 1.0, Side.RIGHT: 1.875}
    batch = rows(y=[float("inf"), 5.0, 700.0])
    pairs = met_once(routing, batch, batch)
    assert {(0, 1), (0, 2)} <= pairs


MULTIPLES = {"low": ("y", 0.99), "high": ("y", 1.01)}


def between(how: str = "inner", **options: Any) -> Routing:
    schemas = {
        Side.LEFT: pa.schema([("low", pa.float64()), ("high", pa.float64()), ("t", pa.int64())]),
        Side.RIGHT: SCHEMA,
    }
    predicate = Predicate.parse("r.y BETWEEN l.low AND l.high")
    binding = bind(predicate, WINDOW, schemas)
    return choose(binding, How.of(how), False, 4, multiples=MULTIPLES, **options)


def test_two_multiples_of_a_column_are_a_relative_band() -> None:
    routing = between()
    assert routing.name == "cells"
    assert routing.replication() == {Side.LEFT: 1.125, Side.RIGHT: 1.0}
    values = 10 ** np.random.default_rng(5).uniform(0, 4, 400)
    left = pa.RecordBatch.from_arrays(
        [pa.array(values * 0.99), pa.array(values * 1.01), pa.array([1] * 400)],
        names=["low", "high", "t"],
    )
    pairs = met_once(routing, left, rows(y=values.tolist()))
    low, high = values[:, None] * 0.99, values[:, None] * 1.01
    wanted = {(int(i), int(j)) for i, j in np.argwhere((low <= values) & (values <= high))}
    assert len(wanted) > 400
    assert wanted <= pairs
    assert between("left").name == "matrix", "left rows have no one cell"
    assert between("right").name == "cells"


def test_an_equality_of_few_values_is_spread_by_the_band() -> None:
    on = "l.s = r.s AND abs(l.x - r.x) <= 5"
    rng = np.random.default_rng(1)
    names, values = rng.choice(["EUR", "USD", "CHF"], 3000), rng.integers(0, 5000, 3000)
    batch = rows(s=names.tolist(), x=values.tolist())
    loads = {}
    for scheme in ("hash", "spread"):
        routing = plan(on, partitions=4, scheme=scheme)
        assert routing.name == scheme
        home = Counter(place for (place,) in sent(routing, Side.LEFT, batch).values())
        loads[scheme] = max(home.values()) / (3000 / 4)
        pairs = met_once(routing, batch, batch)
        for i in range(0, 3000, 37):
            near = np.flatnonzero((names == names[i]) & (abs(values - values[i]) <= 5))
            assert {(i, int(j)) for j in near} <= pairs
    assert loads["spread"] < 1.15 < 1.3 < loads["hash"]
    with pytest.raises(OptionError, match="'spread' needs an equality"):
        plan("abs(l.x - r.x) <= 5", scheme="spread")
    with pytest.raises(OptionError, match="'spread' needs a band"):
        plan("l.x = r.x", scheme="spread")

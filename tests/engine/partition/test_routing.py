"""Which scheme a join gets, and where its rows go."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.boxes.binding import Binding, bind
from thetastream.condition.predicate import Predicate
from thetastream.engine.partition.choice import choose
from thetastream.engine.partition.routing import Routing
from thetastream.errors import OptionError, SchemaError
from thetastream.side import How, Side
from thetastream.stream_join import StreamJoin
from thetastream.window import TimeWindow, Unbounded

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
        ("l.x = r.x AND abs(l.y - r.y) <= 1", "cells"),
        ("abs(l.y - r.y) <= 0.01 * r.y", "cells"),
        ("l.x = r.x AND abs(l.y - r.y) < 0.3 * abs(l.y)", "cells"),
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
    both = plan("l.s = r.s AND abs(l.x - r.x) <= 5").describe()
    assert both.startswith("hash of l.s = r.s, and cells of width 80 of l.x - r.x >= -5")
    relative = plan("abs(l.y - r.y) <= 0.01 * l.y").describe()
    assert relative.startswith("cells that are about 0.13 of the values wide, of ABS(l.y - r.y)")
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


# --- Relative bands, and equalities beside bands -------------------------------------------------

ODD = [0.0, -0.0, 5e-324, -5e-324, 1.0, 1.01, 0.99, -1.0, -1.01, 1e308, 1.7e308, float("inf")]
ODD += [-float("inf"), float("nan"), 100.0, 101.0, 99.0, 99.009, 2.0**53, -(2.0**53)]
FACTORS = {"low": Decimal("0.99"), "high": Decimal("1.01")}
MULTIPLES = {(Side.LEFT, name): ("`y`", Fraction(factor)) for name, factor in FACTORS.items()}


def check_every_match_meets(routing: Routing, batch: pa.RecordBatch, on: str) -> int:
    """Compare with what the embedded engine finds; return the number of pairs."""
    table = pa.Table.from_batches([batch])
    join = StreamJoin(on, window=Unbounded(), output="pairs")
    pairs = pa.Table.from_batches(list(join.push(left=table, right=table))).to_pydict()
    ids = list(zip(*(pairs[name] for name in pairs), strict=True))
    places = {side: sent(routing, side, batch) for side in Side}
    for side in routing.plan.anchored:
        homes = routing.places(routing.plan.binding.keys(side, batch)).tolist()
        for pair in ids:
            assert homes[pair[side.position]] in places[side.other][pair[side.other.position]]
    return len(ids)


@pytest.mark.parametrize("partitions", [2, 7])
@pytest.mark.parametrize("equality", ["", "l.x = r.x AND ", "l.x = r.x + 1 AND l.s = r.s AND "])
@pytest.mark.parametrize(
    "band",
    [
        "abs(l.y - r.y) <= 0.01 * l.y",
        "abs(l.y - r.y) <= 0.01 * abs(r.y)",
        "abs(l.y - r.y) < 0.3 * r.y",
        "abs(l.t - r.t) <= 0.05 * l.t",
        "abs(l.y - r.y) <= 3",
        "abs(l.t - r.t) <= 4",
    ],
)
def test_every_match_is_sent_to_the_home_of_the_anchored_row(
    partitions: int, equality: str, band: str
) -> None:
    chance = np.random.default_rng(partitions)
    values = [*ODD, *np.exp(chance.uniform(-3, 9, 60)).tolist(), None]
    count = len(values)
    batch = rows(
        y=values, x=chance.integers(0, 3, count).tolist(), s=["a"] * count,
        t=[int(chance.integers(-(2**62), 2**62)) >> max(0, i + 2) for i in range(count)],
    )  # fmt: skip
    for how in ("inner", "left", "right", "full"):
        routing = plan(equality + band, how, partitions)
        assert routing.name == "cells"
        assert check_every_match_meets(routing, batch, equality + band) > 4


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64(), pa.decimal128(18, 4)])
def test_two_multiples_around_a_value_are_a_relative_band(kind: Any) -> None:
    schema = pa.schema([("y", kind), ("low", kind), ("high", kind), ("t", pa.int64())])
    on = "r.y BETWEEN l.low AND l.high"
    binding = bind(Predicate.parse(on), WINDOW, dict.fromkeys(Side, schema))
    values: list[Any] = [Decimal(100 * value) for value in range(-40, 400, 7)]
    edges: dict[str, list[Any]] = {name: [f * v for v in values] for name, f in FACTORS.items()}
    if pa.types.is_floating(kind):
        values = [*map(float, values), *ODD]
        edges = {name: [float(f) * v for v in values] for name, f in FACTORS.items()}
    elif pa.types.is_integer(kind):
        values = list(map(int, values))
        edges = {name: list(map(int, numbers)) for name, numbers in edges.items()}
    columns = {"y": values, **edges, "t": [1] * len(values)}
    batch = pa.RecordBatch.from_pydict(columns, schema=schema)
    for how in ("inner", "left", "right", "full"):
        routing = choose(binding, How.of(how), False, 3, multiples=MULTIPLES)
        assert routing.name == "cells"
        assert check_every_match_meets(routing, batch, on) > 20
    assert choose(binding, How.of("inner"), False, 3).name == "matrix", "by the names alone"


@pytest.mark.parametrize("how", ["inner", "left", "right"])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.2])
def test_copies_of_a_relative_band_only_cross_borders(how: str, share: float) -> None:
    routing = plan(f"abs(l.y - r.y) <= {share} * r.y", how)
    values = np.exp(np.random.default_rng(1).uniform(-20, 20, 20_000)).tolist()
    expected = routing.replication()
    for side in Side:
        places = sent(routing, side, rows(y=values))
        copies = sum(len(found) for found in places.values()) / len(values)
        assert copies == pytest.approx(expected[side], abs=0.02)
    assert sorted(expected.values())[0] == 1.0
    if how != "right":  # the base is anchored: rows that are not finite match all others
        assert max(expected.values()) <= 1.2


def test_few_keys_beside_a_band_use_all_partitions() -> None:
    keys = np.random.default_rng(1).integers(0, 10**6, 9_000).tolist()
    batch = rows(s=[("EUR", "USD", "CHF")[key % 3] for key in keys], x=keys)
    for on, scheme, fair in (
        ("l.s = r.s AND abs(l.x - r.x) <= 10", "auto", True),
        ("l.s = r.s AND abs(l.x - r.x) <= 10", "hash", False),
    ):
        routing = plan(on, partitions=6, scheme=scheme)
        loads = Counter(next(iter(p)) for p in sent(routing, Side.LEFT, batch).values())
        largest = max(loads.values()) / (len(keys) / 6)
        assert (largest < 1.1) is fair
        assert fair or largest >= 2.0, "three keys reach three of six partitions"


def test_the_cells_of_a_relative_band_can_be_chosen() -> None:
    on = "abs(l.y - r.y) <= 0.01 * l.y"
    assert "about 0.5 of the values" in plan(on, cell_width=0.5).describe()
    with pytest.raises(OptionError, match="a share of the values because ABS"):
        plan(on, cell_width=0)
    assert plan(on, scheme="matrix").name == "matrix"

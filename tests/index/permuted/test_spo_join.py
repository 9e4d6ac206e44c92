"""Tactic ``spo-join``: several terms at once, against the oracle; what it says of itself."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.boxes.binding import bind
from thetastream.condition.predicate import Predicate
from thetastream.errors import OptionError, PredicateError, RegistryError
from thetastream.plan.choice import Choice, choose
from thetastream.side import Side
from thetastream.testing import MODES, make_join, run_engine, run_oracle
from thetastream.testing.join_checks import same
from thetastream.testing.kinds import KINDS
from thetastream.testing.predicates import OPERATORS
from thetastream.testing.streams import Kinds, Scenario, count_scenarios, recut, scenarios

from ...scale import scaled

TACTICS = ("spo-join", "spo-join/po-join", "spo-join/zoned-runs", "spo-join/per-term")
Q1 = "l.power < r.power AND l.cool > r.cool"
Q2 = "abs(l.lon - r.lon) < 0.03 AND abs(l.lat - r.lat) < 0.03"
Q3 = "l.distance > r.distance AND l.fare < r.fare"
TWO = "l.a < r.a AND l.b > r.b"
INTS = [(KINDS["int"], KINDS["int"])]
FLOATS = [(KINDS[a], KINDS[b]) for a, b in (("float", "float"), ("int", "float"))]
SCHEMA = pa.schema([(name, pa.int64()) for name in "abcd"])


# --- Scenarios ------------------------------------------------------------------------------------


def table(seed: int, rows: int, domain: int = 4) -> Any:
    """Columns a to d of few values, so that ties are normal; one in eight is NULL; times ``t``."""
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for name in "abcd":
        values = random.integers(-domain // 2, domain // 2 + 1, rows)
        columns[name] = pa.array(values, pa.int64(), mask=random.random(rows) < 1 / 8)
    columns["t"] = np.arange(rows) // 2 + random.integers(0, 3, rows)
    columns["id"] = np.arange(rows)
    return pa.table(columns)


def cut(whole: Any, pieces: int, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    edges = np.sort(random.integers(0, whole.num_rows + 1, pieces - 1)).tolist()
    return [whole.slice(a, b - a) for a, b in pairwise([0, *edges, whole.num_rows])]


@cache
def streams(rows: int, alone: bool, seed: int = 1) -> tuple[tuple[Any, Any], ...]:
    """Pushes of both sides, or of one, cut unevenly."""
    left = cut(table(seed, rows), 5, seed)
    right = [None] * 5 if alone else cut(table(seed + 1, rows), 5, seed + 2)
    return tuple(zip(left, right, strict=True))


@cache
def case(on: str, window: int, how: str, alone: bool, rows: int = 24) -> tuple[Scenario, list[Any]]:
    """A scenario and the truth about it."""
    scenario = Scenario(streams(rows, alone), on, WINDOWS[window], how, alone)
    return scenario, run_oracle(scenario).pairs


WINDOWS: tuple[ts.CountWindow | ts.TimeWindow, ...] = (
    ts.CountWindow(10),
    ts.CountWindow(12, slide=4),
    ts.CountWindow((6, 15), slide=3),
    ts.TimeWindow(4, time="t"),
    ts.TimeWindow(6, time="t", lateness=2, slide=3),
    ts.TimeWindow((2, 8), time="t", lateness=1),
)
SHAPES = (
    TWO,
    "abs(l.a - r.a) <= 1 AND abs(l.b - r.b) <= 1",
    "abs(l.a - r.a) < 2 AND l.b >= r.b",
    "l.a - r.a <= 1 AND r.b - l.b < 2",
    "l.a BETWEEN r.a - 1 AND r.a + 2 AND l.b != r.b",
    "l.a != r.a AND l.b != r.b",
    "l.a < r.a AND l.b > r.b AND l.c <= r.c",
    "l.a <= r.a AND abs(l.b - r.b) <= 2 AND l.c != r.c AND l.d >= r.d",
    "(abs(l.a - r.a) <= 1 OR l.a - r.a = 3) AND l.b < r.b",
    "l.c = r.c AND l.a < r.a AND l.b > r.b",
    "l.c = r.c AND l.d = r.d",
    "l.a < r.a AND l.b > r.b AND l.c * r.d > 1",
    "l.a < r.b AND l.b > r.a AND l.c > 0",
    "2 * l.a < r.a + 1 AND l.b + l.c >= r.b",
    "l.a < r.a AND l.a > r.b",  # one key of the left side, two of the right
)


@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize(("first", "second"), [*product(OPERATORS, OPERATORS)])
def test_every_pair_of_operators(tactic: str, first: str, second: str) -> None:
    """Strict or not, with ties on both terms, cross and self-join."""
    on = f"l.a {first} r.a AND l.b {second} r.b"
    for alone in (False, True):
        scenario, truth = case(on, 0, "inner", alone)
        same(scenario, run_engine(scenario, make_join(tactic)).pairs, truth)


@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_every_shape(tactic: str, shape: int) -> None:
    """Bands, ORs, equality, three and four terms, residuals; windows and modes take turns."""
    for window, alone in product(range(shape % 2, len(WINDOWS), 2), (False, True)):
        sizes = WINDOWS[window].sizes
        if alone and sizes[0] != sizes[1]:
            continue
        how = MODES[(shape + window + alone) % len(MODES)]
        scenario, truth = case(SHAPES[shape], window, how, alone)
        same(scenario, run_engine(scenario, make_join(tactic), check=True).pairs, truth)


@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("how", MODES)
def test_every_mode(tactic: str, how: str) -> None:
    for window, alone in ((1, False), (1, True), (4, False), (4, True)):
        scenario, truth = case(TWO, window, how, alone)
        outcome = run_engine(scenario, make_join(tactic), check=True)
        same(scenario, outcome.pairs, truth)
        assert truth, "nothing was tested"


def two_terms(kinds: Kinds) -> st.SearchStrategy[str]:
    """Two or three terms of any operator, some of them bands."""

    def of(name: str) -> st.SearchStrategy[str]:
        plain = st.sampled_from(OPERATORS).map(lambda op: f"l.{name} {op} r.{name}")
        band = st.sampled_from(["<", "<="]).map(lambda op: f"abs(l.{name} - r.{name}) {op} 1")
        side = st.sampled_from(OPERATORS[2:]).map(lambda op: f"l.{name} {op} r.{name} + 1")
        return st.one_of(plain, plain, band, side)

    return st.tuples(*map(of, kinds)).map(" AND ".join)


@pytest.mark.parametrize("tactic", TACTICS)
@settings(max_examples=scaled(40))
@given(scenario=scenarios(INTS, on=two_terms, columns=2, self_join=None, max_rows=20))
def test_any_scenario(tactic: str, scenario: Scenario) -> None:
    outcome = run_engine(scenario, make_join(tactic), check=True)
    truth = run_oracle(scenario)
    same(scenario, outcome.pairs, truth.pairs)
    assert outcome.late == truth.late


@pytest.mark.parametrize("tactic", TACTICS)
@settings(max_examples=scaled(25))
@given(scenario=scenarios(FLOATS, on=two_terms, columns=2, max_rows=12))
def test_null_nan_and_infinite_keys(tactic: str, scenario: Scenario) -> None:
    outcome = run_engine(scenario, make_join(tactic), check=True)
    same(scenario, outcome.pairs, run_oracle(scenario).pairs)


@pytest.mark.parametrize("tactic", TACTICS)
@settings(max_examples=scaled(25))
@given(data=st.data())
def test_any_cutting_gives_the_same_pairs(tactic: str, data: st.DataObject) -> None:
    strategy = count_scenarios(INTS, on=two_terms, columns=2, self_join=None, max_rows=20)
    scenario = data.draw(strategy)
    first = run_engine(scenario, make_join(tactic))
    second = run_engine(data.draw(recut(scenario)), make_join(tactic), check=True, lazy=True)
    same(scenario, second.pairs, first.pairs)


# --- Longer streams: merges, and bit arrays of many words -----------------------------------------


def long_stream(seed: int, rows: int, alone: bool, domain: int) -> Scenario:
    random = np.random.default_rng(seed)
    sides = []
    for _ in range(1 if alone else 2):
        columns = {name: random.integers(0, domain, rows) for name in "abc"}
        sides.append(pa.table({**columns, "t": np.arange(rows) + random.integers(0, 9, rows)}))
    sizes = random.choice([1, 2, 7, 60, 130, 300, 700], 12)
    edges = np.minimum(np.cumsum([0, *sizes]), rows).tolist()
    edges[-1] = rows
    pushes = [
        tuple(side.slice(a, b - a) for side in sides) + (None,) * alone for a, b in pairwise(edges)
    ]
    return Scenario(tuple(pushes), TWO, ts.CountWindow(500), "inner", alone)  # type: ignore[arg-type]


LONG = (
    ("l.a < r.a AND l.b > r.b AND l.a + 20 > r.a", ts.CountWindow(500)),
    ("abs(l.a - r.a) <= 12 AND abs(l.b - r.b) <= 40", ts.CountWindow(450, slide=150)),
    ("l.a <= r.a AND abs(l.b - r.b) < 9 AND l.c >= r.c", ts.TimeWindow(400, time="t", lateness=8)),
    ("l.a != r.a AND abs(l.b - r.b) <= 4", ts.TimeWindow(300, time="t", lateness=8, slide=100)),
)


@cache
def long_case(number: int, domain: int) -> tuple[Scenario, Counter[Any]]:
    """A scenario, a self-join every other time, and what the nested loop says of it."""
    on, window = LONG[number]
    scenario = long_stream(number, 1000, number % 2 == 1, domain)
    scenario = replace(scenario, on=on, window=window)
    truth = run_engine(scenario, make_join("nested-loop")).pairs
    assert len(truth) > 500
    return scenario, Counter(truth)


@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("number", range(len(LONG)))
def test_long_streams(tactic: str, number: int) -> None:
    """As the nested loop says; cut unevenly, checked after every push."""
    for domain in (100, 1000):
        scenario, truth = long_case(number, domain)
        outcome = run_engine(scenario, make_join(tactic), check=True)
        assert Counter(outcome.pairs) == truth


@pytest.mark.parametrize("tactic", TACTICS)
def test_single_rows(tactic: str) -> None:
    """A push per row: all rows pass through the mutable part."""
    tables = [table(seed, 150, domain=20) for seed in (3, 4)]
    pushes = tuple((tables[0].slice(i, 1), tables[1].slice(i, 1)) for i in range(150))
    for on in (TWO, "abs(l.a - r.a) <= 3 AND abs(l.b - r.b) <= 3"):
        scenario = Scenario(pushes, on, ts.CountWindow(64, slide=16))
        outcome = run_engine(scenario, make_join(tactic), check=True)
        same(scenario, outcome.pairs, run_oracle(scenario).pairs)


# --- Threads, workers, collecting, output ---------------------------------------------------------


@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("number", range(len(LONG)))
def test_threads_give_the_same_rows_in_the_same_order(tactic: str, number: int) -> None:
    on, window = LONG[number]
    scenario = replace(long_stream(7, 1000, False, 100), on=on, window=window)
    alone = run_engine(scenario, make_join(tactic)).pairs
    assert run_engine(scenario, make_join(tactic), check=True, threads=2).pairs == alone


@pytest.mark.parametrize("number", range(len(LONG)))
def test_workers_give_the_same_rows_in_the_same_order(number: int) -> None:
    on, window = LONG[number]
    scenario = replace(long_stream(8, 1000, False, 100), on=on, window=window)
    alone = run_engine(scenario, make_join("spo-join")).pairs
    for options in ({"workers": 2}, {"workers": 3, "threads": 2}):
        assert run_engine(scenario, make_join("spo-join"), check=True, **options).pairs == alone


@settings(max_examples=scaled(20))
@given(scenario=scenarios(INTS, on=two_terms, columns=2, self_join=None, max_rows=20))
def test_any_number_of_workers(scenario: Scenario) -> None:
    alone = run_engine(scenario, make_join("spo-join"))
    several = run_engine(scenario, make_join("spo-join"), check=True, workers=2, lazy=True)
    assert several.pairs == alone.pairs


@pytest.mark.parametrize("tactic", TACTICS)
@settings(max_examples=scaled(15))
@given(
    scenario=scenarios(INTS, on=two_terms, columns=2, self_join=None, max_rows=20),
    collect=st.integers(1, 8),
)
def test_collecting_changes_nothing(tactic: str, scenario: Scenario, collect: int) -> None:
    outcome = run_engine(scenario, make_join(tactic), check=True, collect=collect)
    same(scenario, outcome.pairs, run_oracle(scenario).pairs)


@pytest.mark.parametrize("tactic", TACTICS)
def test_pairs_and_counts_are_those_of_the_rows(tactic: str) -> None:
    on = LONG[0][0]
    scenario = replace(long_stream(9, 900, False, 30), on=on)
    rows = run_engine(scenario, make_join(tactic)).pairs
    given_ = {}
    for output in ("pairs", "count"):
        join = ts.StreamJoin(on, window=scenario.window, tactic=tactic, output=output)
        batches = [b for left, right in scenario.pushes for b in join.push(left, right)]
        given_[output] = [tuple(row.values()) for b in batches for row in b.to_pylist()]
        assert join.metrics().matches == len(rows)
    assert Counter(given_["pairs"]) == Counter(rows)
    assert sum(matches for *_, matches in given_["count"]) == len(rows)


# --- Words --------------------------------------------------------------------------------------


def chosen(text: str, tactic: str = "spo-join", rows: float = 1e6, **options: Any) -> Choice:
    binding = bind(Predicate.parse(text), ts.CountWindow(9), dict.fromkeys(Side, SCHEMA))
    return choose(binding, Side.LEFT, tactic, rows, **options)


@pytest.mark.parametrize("on", ["l.a < r.a", "l.a * r.a > 3", "l.a < r.a AND l.b * r.b > 1"])
def test_fewer_than_two_terms_are_refused(on: str) -> None:
    message = r"tactic 'spo-join' cannot serve .*it needs two terms that can .*use tactic='auto'"
    with pytest.raises(PredicateError, match=message):
        ts.StreamJoin(on, window=ts.CountWindow(9), tactic="spo-join", schemas=(SCHEMA, SCHEMA))


def test_two_comparisons_of_the_same_expressions_are_one_interval() -> None:
    with pytest.raises(PredicateError, match="it needs two terms"):
        chosen("l.a < r.a AND l.a + 5 > r.a")


def test_a_time_window_counts_as_a_term() -> None:
    scenario, truth = case("l.a < r.a", 4, "inner", False)
    same(scenario, run_engine(scenario, make_join("spo-join"), check=True).pairs, truth)


@pytest.mark.parametrize("name", ts.index.names())
def test_any_index_can_be_named(name: str) -> None:
    choice = chosen(TWO, f"spo-join/{name}")
    estimates = (choice.best, *choice.others)
    assert {(e.layout.tactic, e.layout.index) for e in estimates} == {("spo-join", name)}
    assert all(e.nanoseconds > 0 for e in estimates)


def test_an_unknown_index_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"no index 'pojoin'; .*Did you mean 'po-join'\?"):
        ts.StreamJoin(TWO, window=ts.CountWindow(9), tactic="spo-join/pojoin")


def test_workers_need_a_structure_that_has_them() -> None:
    with pytest.raises(OptionError, match=r"'zoned-runs'.*workers=2"):
        ts.StreamJoin(TWO, window=ts.CountWindow(9), tactic="spo-join/zoned-runs", workers=2)


def index_of(join: ts.StreamJoin) -> Any:
    engine: Any = join._engine
    return engine.streams[Side.LEFT].indexes[Side.LEFT].index


@pytest.mark.parametrize("tactic", ["spo-join", "spo-join/po-join"])
def test_workers_reach_the_index(tactic: str) -> None:
    for workers in (1, 2):
        window = ts.CountWindow(64)
        options: Any = {"workers": workers, "schemas": (SCHEMA, SCHEMA)}
        join = ts.StreamJoin(TWO, window=window, tactic=tactic, **options)
        assert index_of(join).workers == workers
        assert ("workers: 2" in join.explain(verbose=True)) == (workers == 2)


def test_the_slide_is_the_merging_threshold() -> None:
    """Section 3.3: by default fresh rows become a structure when a slide of them has come."""
    for window, slide in (
        (ts.CountWindow(60, slide=20), 20),
        (ts.CountWindow(60), 0),
        (ts.TimeWindow(60, time="d", slide=20), 0),
    ):
        join = ts.StreamJoin(TWO, window=window, tactic="spo-join", schemas=(SCHEMA, SCHEMA))
        assert index_of(join).slide == slide


# --- What it says of itself ---------------------------------------------------------------------


def pushed(tactic: str, on: str = Q1, pushes: int = 6) -> ts.StreamJoin:
    join = ts.StreamJoin(on, window=ts.CountWindow(64, slide=16), tactic=tactic)
    random = np.random.default_rng(3)
    for _ in range(pushes):
        sides = [
            pa.record_batch({name: random.integers(0, 99, 3) for name in ("power", "cool", "fan")})
            for _ in Side
        ]
        list(join.push(*sides))
    return join


@pytest.mark.parametrize("tactic", TACTICS)
def test_explain_names_tactic_index_and_both_terms(tactic: str) -> None:
    join = pushed(tactic, f"{Q1} AND l.fan <= r.fan")
    facts = join.explain().as_dict()
    for side, plan in zip(("left", "right"), facts["plan"], strict=True):
        best = plan["chosen"]
        index = tactic.partition("/")[2] or "spo-join"
        assert plan["stored side"] == side
        assert (best["tactic"], best["index"]) == ("spo-join", index)
        assert best["first column"].startswith("orders of ")
        assert " and " in best["first column"]
        assert len(best["checked on candidates"]) == 2
    assert json.loads(json.dumps(facts)) == facts
    assert "tactic asked for: spo-join" in join.explain()


def test_explain_tells_the_parts() -> None:
    join = pushed("spo-join")
    plan = join.explain().as_dict()["plan"][0]
    assert plan["merge threshold"] == 16
    young, structures = plan["rows in the mutable part"], plan["rows in structures"]
    assert (young, sum(structures)) == (0, 18), "at 18 rows, 16 or more, they became a structure"


@pytest.mark.parametrize("tactic", TACTICS)
def test_metrics_count(tactic: str) -> None:
    join = pushed(tactic, pushes=30)
    counted = join.metrics()
    assert counted.rows == 180
    assert counted.matches == counted.output_rows > 0
    assert counted.candidates >= counted.matches
    assert counted.window_rows == len(index_of(join)) * 2
    assert counted.index_bytes > 0
    if tactic != "spo-join/per-term":
        assert counted.runs >= 2, "of either side at least one part"
        assert counted.merges > 0
        assert counted.merged_rows > 0


# --- The choice ---------------------------------------------------------------------------------


def test_auto_considers_it() -> None:
    choice = chosen(TWO, "auto")
    considered = {(e.layout.tactic, e.layout.index) for e in (choice.best, *choice.others)}
    assert ("ordered", "zoned-runs") in considered
    assert any(tactic == "spo-join" for tactic, _ in considered)
    one = chosen("l.a < r.a", "auto")
    assert all(e.layout.tactic != "spo-join" for e in (one.best, *one.others))


def test_auto_hashes_keys_that_are_selective_only_together() -> None:
    random = np.random.default_rng(5)
    names = [field.name for field in SCHEMA]
    few = {
        name: pa.array(random.integers(0, 1000, 2000)).cast(SCHEMA.field(name).type)
        for name in names
    }
    join = ts.StreamJoin("l.c = r.c AND l.d = r.d", window=ts.CountWindow(1 << 20))
    join.push(left=pa.record_batch(few), right=pa.record_batch(few))
    plan = join.explain().as_dict()["plan"]
    assert {side["chosen"]["tactic"] for side in plan} == {"hash"}


def test_auto_reads_no_long_range_for_two_inequalities() -> None:
    layout = chosen(TWO, "auto").layout
    assert layout.tactic == "spo-join" or layout.index == "zoned-runs"


# --- The queries of the paper -------------------------------------------------------------------


def racks(rows: dict[int, tuple[int, int]]) -> Any:
    power, cool = zip(*rows.values(), strict=True)
    return pa.table({"rack": [*rows], "power": power, "cool": cool})


@pytest.mark.parametrize("tactic", ["auto", *TACTICS])
def test_data_centres_by_hand(tactic: str) -> None:
    """Q1 on the rows of ``test_po_join.py``, then Figure 5's two fresh rows."""
    r = racks({1: (1800, 3500), 2: (2600, 1600), 3: (900, 2000), 4: (1300, 4100)})
    s = racks({1: (1100, 1500), 2: (2000, 2600), 3: (1300, 3600), 4: (2500, 4000)})

    def given_for(left: Any, right: Any) -> list[tuple[int, int]]:
        batches = join.push(left, right)
        rows = [row for batch in batches for row in batch.to_pylist()]
        return sorted((row["rack"], row["rack_right"]) for row in rows)

    join = ts.StreamJoin(Q1, window=ts.CountWindow(8), tactic=tactic)
    assert given_for(r, s) == [(1, 2), (3, 1), (4, 2), (4, 4)]
    assert given_for(racks({9: (1400, 3000)}), None) == [(9, 2)]
    assert given_for(None, racks({9: (2700, 2100)})) == [(1, 9), (4, 9), (9, 9)]
    join.check()


@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("on", [Q2, Q3])
def test_taxi_trips(tactic: str, on: str) -> None:
    """Self-joins over floats; a trip never meets itself."""
    random = np.random.default_rng(11)
    lon, lat = (random.normal(at, 0.04, 90).round(2) for at in (-73.9, 40.7))
    distance = random.gamma(2, 2, 90).round(1)
    fare = (2.5 + 2 * distance + random.normal(0, 4, 90)).round()
    trips = pa.table({"lon": lon, "lat": lat, "distance": distance, "fare": fare})
    pushes = tuple((part, None) for part in cut(trips, 6, 2))
    scenario = Scenario(pushes, on, ts.CountWindow(40, slide=10), "inner", True)
    outcome = run_engine(scenario, make_join(tactic), check=True)
    truth = run_oracle(scenario).pairs
    same(scenario, outcome.pairs, truth)
    assert len(truth) > 20

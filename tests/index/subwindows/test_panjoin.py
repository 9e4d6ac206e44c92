"""Tactic ``panjoin``: subwindows dealt to workers, what explain() and metrics say, the choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.boxes.binding import bind
from thetastream.boxes.fresh import Fresh
from thetastream.condition.predicate import Predicate
from thetastream.engine.planner import Planner
from thetastream.engine.query import Query
from thetastream.engine.stream import Stream
from thetastream.errors import OptionError, PredicateError, RegistryError
from thetastream.index.registry import defaults
from thetastream.metrics import Counters
from thetastream.plan.choice import BATCH, Choice, choose
from thetastream.plan.tactic import Tactic
from thetastream.plan.tactics.panjoin import PanJoin
from thetastream.prices.batches import Prices
from thetastream.prices.constants import Constants
from thetastream.side import How, Side
from thetastream.testing import make_join, run_engine
from thetastream.testing.kinds import KINDS
from thetastream.testing.streams import Scenario, scenarios

from ...scale import scaled

CHAINS = ("bi-sort", "rap-table", "wib-tree", "llat", "subwindows")
BAND = "abs(l.x - r.x) <= 5"
SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])
INTS = [(KINDS["int"], KINDS["int"])]
PRICES = Constants().batches


def chosen(text: str, tactic: str = "panjoin", rows: float = 1e6, **options: Any) -> Choice:
    binding = bind(Predicate.parse(text), ts.CountWindow(9), dict.fromkeys(Side, SCHEMA))
    return choose(binding, Side.LEFT, tactic, rows, **options)


def keys(*values: int, **columns: Any) -> Any:
    return pa.record_batch({"x": pa.array(values, pa.int64()), **columns})


def count(batches: Any) -> int:
    return sum(batch.num_rows for batch in batches)


def given_by(join: Any, **given: Any) -> list[tuple[int, int]]:
    """What a push gives, in some order of its own."""
    rows = (row for batch in join.push(**given) for row in batch.to_pylist())
    return sorted((row["x"], row["x_right"]) for row in rows)


# --- Words --------------------------------------------------------------------------------------


def test_without_a_name_every_subwindow_chooses_its_structure() -> None:
    layout = chosen(BAND).layout
    assert isinstance(layout, PanJoin)
    assert (layout.tactic, layout.index, dict(layout.parameters)) == ("panjoin", "subwindows", {})


@pytest.mark.parametrize("name", ts.index.names())
def test_any_index_can_be_named(name: str) -> None:
    choice = chosen(f"{BAND} AND l.y < r.y", f"panjoin/{name}")
    estimates = (choice.best, *choice.others)
    assert {(e.layout.tactic, e.layout.index) for e in estimates} == {("panjoin", name)}
    assert all(e.nanoseconds > 0 for e in estimates)
    assert len(estimates) == 2, "one for each term that can drive"


def test_a_predicate_without_a_term_is_refused() -> None:
    with pytest.raises(PredicateError, match="it has no term that can be indexed; use tactic='au"):
        chosen("l.x * r.x > 3")


def test_an_unknown_index_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"no index 'bisort'; .*Did you mean 'bi-sort'\?"):
        ts.StreamJoin(BAND, window=ts.CountWindow(9), tactic="panjoin/bisort")


@pytest.mark.parametrize("tactic", ["auto", "ordered", "ibwj", "hash", "nested-loop"])
def test_workers_need_subwindows(tactic: str) -> None:
    message = f"workers=2 needs tactic='panjoin' or .* got tactic='{tactic}'. Use threads="
    with pytest.raises(OptionError, match=message):
        ts.StreamJoin(BAND, window=ts.CountWindow(9), tactic=tactic, workers=2)


def test_workers_need_a_chain() -> None:
    message = "index 'sorted-runs' has no parts to deal to workers=3; use one of bi-sort, "
    with pytest.raises(OptionError, match=message):
        ts.StreamJoin(BAND, window=ts.CountWindow(9), tactic="panjoin/sorted-runs", workers=3)
    ts.StreamJoin(BAND, window=ts.CountWindow(9), tactic="panjoin/sorted-runs", workers=1)


@pytest.mark.parametrize("workers", [0, -1, 1.0, "2", True])
def test_workers_are_a_number(workers: Any) -> None:
    with pytest.raises(OptionError, match="workers must be a whole number of at least 1; got"):
        ts.StreamJoin(BAND, window=ts.CountWindow(9), tactic="panjoin", workers=workers)


# --- Workers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=scaled(25))
@given(scenario=scenarios(INTS, on="abs(l.a - r.a) <= 1", self_join=None, max_rows=20))
def test_any_number_of_workers_gives_the_same_rows_in_the_same_order(
    name: str, scenario: Scenario
) -> None:
    make = make_join(f"panjoin/{name}")
    alone = run_engine(scenario, make, check=True)
    for workers in (2, 3):
        several = run_engine(scenario, make, check=True, workers=workers, lazy=workers == 3)
        assert several.pairs == alone.pairs


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_reach_the_index(workers: int) -> None:
    join = ts.StreamJoin(
        BAND, window=ts.CountWindow(64), tactic="panjoin", workers=workers, schemas=(SCHEMA, SCHEMA)
    )
    engine: Any = join._engine
    assert engine.streams[Side.LEFT].indexes[Side.LEFT].index.workers == workers
    assert ("workers: 2" in join.explain(verbose=True)) == (workers == 2)


@settings(max_examples=scaled(20))
@given(
    scenario=scenarios(INTS, on="l.a <= r.a", self_join=None, max_rows=20),
    name=st.sampled_from(CHAINS),
    collect=st.integers(1, 6),
)
def test_workers_and_collecting_together(scenario: Scenario, name: str, collect: int) -> None:
    make = make_join(f"panjoin/{name}")
    plain = run_engine(scenario, make)
    collected = run_engine(scenario, make, check=True, workers=2, collect=collect, threads=2)
    order: Any = str
    assert sorted(collected.pairs, key=order) == sorted(plain.pairs, key=order)


# --- What it says of itself ---------------------------------------------------------------------


def test_explain_lists_the_subwindows_and_the_rule() -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(64), tactic="panjoin")
    for start in range(0, 40, 10):
        list(join.push(left=keys(*range(start, start + 10)), right=keys(start)))
    facts = join.explain().as_dict()
    plan = facts["plan"][0]
    assert plan["chosen"]["tactic"] == "panjoin"
    assert [part["rows"] for part in plan["subwindows"]] == [16, 16, 8]
    assert all(part["structure"] and part["why"] for part in plan["subwindows"])
    assert plan["rule"] == "the structure that is expected to cost least per stored row"
    assert plan["expected ns per row"]["bi-sort"] > 0
    assert json.loads(json.dumps(facts)) == facts
    assert "subwindows:" in join.explain(verbose=True)
    assert "rule: " in join.explain(verbose=True)


def test_structures_without_parts_say_nothing() -> None:
    join = ts.StreamJoin(
        BAND, window=ts.CountWindow(64), tactic="ordered", schemas=(SCHEMA, SCHEMA)
    )
    assert "subwindows" not in join.explain().as_dict()["plan"][0]


def test_switches_are_counted_and_change_nothing() -> None:
    """Large pushes, then small ones: BI-Sort, then RaP-Tables."""
    random = np.random.default_rng(5)
    sizes = [512] * 8 + [8] * 400
    batches = [keys(*random.integers(0, 10**6, size).tolist()) for size in sizes]
    found = {}
    for tactic in ("ordered", "panjoin"):
        join = ts.StreamJoin("abs(l.x - r.x) <= 99", window=ts.CountWindow(4096), tactic=tactic)
        found[tactic] = [given_by(join, left=batch, right=batch) for batch in batches]
        assert (join.metrics().switches > 0) == (tactic == "panjoin")
    assert found["panjoin"] == found["ordered"]
    parts = join.explain().as_dict()["plan"][0]["subwindows"]
    assert {part["structure"] for part in parts} == {"bi-sort", "rap-table"}


# --- The choice ---------------------------------------------------------------------------------


def test_auto_considers_it() -> None:
    choice = chosen(BAND, "auto")
    assert choice.layout.index == "sorted-runs"
    (other,) = (e for e in choice.others if e.layout.tactic == "panjoin")
    assert other.layout.index == "subwindows"
    assert other.nanoseconds > choice.best.nanoseconds
    shown = choice.as_dict()["considered"]
    assert any(estimate["tactic"] == "panjoin" for estimate in shown)


def test_auto_takes_it_where_it_is_cheaper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine where a chain costs next to nothing."""
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))
    Constants(batches=Prices(subwindow=0.1, push_chain=0.0)).save()
    choice = chosen(BAND, "auto")
    assert isinstance(choice.layout, PanJoin)
    join = ts.StreamJoin(BAND, window=ts.CountWindow(64))
    list(join.push(left=keys(1, 50), right=keys(3, 90)))
    plan = join.explain().as_dict()["plan"][0]
    assert plan["chosen"]["tactic"] == "panjoin"
    assert "subwindows" in plan
    assert count(join.push(left=keys(88))) == 1


def test_a_chain_is_priced_as_one_by_any_tactic() -> None:
    costs = {chosen(BAND, f"{t}/bi-sort").best.nanoseconds for t in ("panjoin", "ordered", "ibwj")}
    assert len(costs) == 1
    assert costs != {chosen(BAND, "ordered/sorted-runs").best.nanoseconds}


@pytest.mark.parametrize("tactic", ["panjoin", "ordered"])
def test_larger_batches_make_inserts_cheaper(tactic: str) -> None:
    costs = [chosen(BAND, tactic, batch=batch).best.insert for batch in (1.0, 2e3, 2e4, 2e5)]
    assert costs == sorted(costs, reverse=True)
    assert 0 < costs[-1] < costs[0]
    assert chosen(BAND, tactic, batch=1e9).best.insert >= PRICES.merge
    assert chosen(BAND, tactic).best.insert == chosen(BAND, tactic, batch=BATCH).best.insert


def test_small_batches_go_to_partitions() -> None:
    assert chosen(BAND, batch=1.0).best.insert == PRICES.partition
    assert chosen(BAND, batch=1e5).best.insert < PRICES.partition


def test_a_structure_that_is_named_is_priced_as_itself() -> None:
    """Small batches into a sorted subwindow are merged; into a tree they cut leaves."""
    costs = {name: chosen(BAND, f"panjoin/{name}", batch=1.0).best.insert for name in CHAINS}
    assert costs["bi-sort"] > costs["wib-tree"] > costs["rap-table"] == costs["subwindows"]


def test_explain_shows_what_an_insert_costs() -> None:
    shown = chosen(BAND).best.as_dict()
    assert 0 < shown["of which for its insert"] < shown["estimated ns per row"]
    assert "of which for its insert" not in chosen(BAND, "ibwj/pim-tree").best.as_dict()


def test_the_planner_learns_how_many_rows_come_at_a_time() -> None:
    predicate = Predicate.parse(BAND)
    window = ts.CountWindow(1000)
    binding = bind(predicate, window, dict.fromkeys(Side, SCHEMA))
    query = Query(predicate, window, How.INNER, False, Tactic("panjoin"), "_right", None, 1, 65_536)
    planner = Planner(query, binding, Counters())

    streams = {side: Stream(SCHEMA, [], timed=False, tracked=()) for side in Side}

    def push(rows: int) -> None:
        zeros = np.zeros(rows, np.int64)
        batch = pa.record_batch({"x": zeros, "y": zeros}, schema=SCHEMA)
        roles = {Side.LEFT: binding.keys(Side.LEFT, batch)}
        planner.push([Fresh(Side.LEFT, batch, roles)], streams)

    push(4000)
    assert planner._batches == {Side.LEFT: 4000.0}, "the first push is all that is known"
    for _ in range(200):
        push(100)
        push(0)
    assert planner._batches[Side.LEFT] == pytest.approx(100, rel=0.01)
    assert Side.RIGHT not in planner._batches


# --- Event time ---------------------------------------------------------------------------------


def stamped(times: Any, value: int = 1) -> Any:
    times = np.asarray(times, np.int64)
    return pa.record_batch({"x": np.full(times.size, value), "t": times})


def parts_of(join: Any) -> list[dict[str, Any]]:
    """The subwindows of the left side."""
    return list(join.explain().as_dict()["plan"][0]["subwindows"])


@pytest.mark.parametrize("name", CHAINS)
def test_late_rows_join_the_subwindow_of_their_time(name: str) -> None:
    """A subwindow goes when its times have passed, though a row that came late has a young id."""
    window = ts.TimeWindow(1000, time="t")
    join = ts.StreamJoin("l.x = r.x", window=window, tactic=f"panjoin/{name}")
    full = -(-100_000 // defaults(name)["subwindows"])  # rows of a subwindow, at first
    list(join.push(left=stamped(np.arange(full)), right=stamped([100], 2)))
    list(join.push(left=stamped([30_000])))
    list(join.push(left=stamped([100], 7)))
    assert [(p["rows"], p["late rows"]) for p in parts_of(join)] == [(full, 1), (1, 0)]
    assert count(join.push(right=stamped([900], 7))) == 1
    list(join.push(right=stamped([30_000], 2)))
    assert [(p["rows"], p["late rows"]) for p in parts_of(join)] == [(1, 0)]
    assert count(join.push(right=stamped([30_500]))) == 1
    join.check()


@pytest.mark.parametrize("name", CHAINS)
def test_rows_stuck_behind_one_from_the_future_are_swept(name: str) -> None:
    found = {}
    for tactic in ("ordered", f"panjoin/{name}"):
        join = ts.StreamJoin("l.x = r.x", window=ts.TimeWindow(20, time="t"), tactic=tactic)
        list(join.push(left=stamped([10**6])))
        total = 0
        for start in range(0, 12_000, 1000):
            times = np.arange(start, start + 1000)
            total += count(join.push(left=stamped(times), right=stamped(times[::50])))
        join.check()
        found[tactic] = total
        assert join.metrics().sides["left"].window_rows < 8000
    assert found[f"panjoin/{name}"] == found["ordered"] > 0


def test_an_index_that_moves_keeps_event_times() -> None:
    """From one layout over subwindows to another, while rows are stored and come late."""
    window = ts.TimeWindow(1000, time="t", lateness=50)
    on = "abs(l.x - r.x) <= 1 AND abs(l.y - r.y) <= 1"
    join, plain = (
        ts.StreamJoin(on, window=window, tactic=tactic) for tactic in ("panjoin", "nested-loop")
    )
    random = np.random.default_rng(1)
    for start in range(0, 2400, 100):
        narrow, wide = ("x", "y") if start < 600 else ("y", "x")
        rows = [
            pa.record_batch(
                {
                    narrow: random.integers(0, 10**4, 1000),
                    wide: random.integers(0, 3, 1000),
                    "t": start + random.integers(0, 140, 1000),
                }
            ).select(["x", "y", "t"])
            for _ in Side
        ]
        assert count(join.push(*rows)) == count(plain.push(*rows))
        join.check()
    assert join.metrics().replans > 0, "the index never moved"

"""``theta_join`` with aggregates of matches: without Spark in every mood, and on Spark."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.aggregate import of_right, read_aggregates
from thetastream.errors import OptionError, SchemaError
from thetastream.side import Side
from thetastream.spark import explain, theta_join
from thetastream.spark.theta.step import join_whole
from thetastream.testing.aggregates import alike, all_aggregates
from thetastream.testing.driver import ROW, numbered
from thetastream.testing.streams import Scenario, count_scenarios, time_scenarios
from thetastream.truth import aggregate_oracle, oracle
from thetastream.window import CountWindow, TimeWindow

from ...scale import scaled
from ..drive import closed, go_on, ranked, read_sink, run, sources, stream
from ..partitioned import SCHEMES, SEEDS, WIDTHS, finished, planned, simulate, with_ranks
from ..simulate import Simulation, spec_of, tables_of

INNER = ("inner",)
TIME = TimeWindow(("9 s", "6 s"), time="t", lateness="2 s")
ASKED = {
    "count": "count",
    "known": ("r.v", "count"),
    "total": ("r.x", "sum"),
    "avg": ("r.v", "mean"),
    "first": ("r.t", "min"),
    "most": ("r.v", "max"),
}


# --- The pipeline without Spark ------------------------------------------------------------------


def compare(
    scenario: Scenario, asked: Mapping[str, Any], batches: Iterable[Any], *, ended: bool = True
) -> None:
    """Rows are those of the oracle, each once; without an end some may be missing."""
    truth = aggregate_oracle.aggregate(scenario.pushes, scenario.on, scenario.window, asked)
    seen = set()
    for batch in batches:
        for row in oracle.read(batch, [ROW, *asked]):
            assert row[ROW] not in seen, "a left row came twice"
            seen.add(row[ROW])
            for name, value in truth[row[ROW]].items():
                assert alike(row[name], value), (row, name, value, scenario)
    assert not ended or seen == truth.keys(), (truth.keys() - seen, scenario)


def planned_with(
    scenario: Scenario, partitions: int, scheme: str, width: Any
) -> tuple[Any, dict[str, Any]]:
    asked = all_aggregates(scenario)
    spec = planned(scenario, partitions, scheme, width)
    found = of_right(read_aggregates(asked))
    answer = [(n, side, c) for n, side, c in spec.answer if side is Side.LEFT]
    answer += [(name, Side.RIGHT, name) for name in asked]
    return replace(spec, aggregates=found, answer=tuple(answer)), asked


@settings(max_examples=scaled(150))
@given(time_scenarios(modes=INNER), st.integers(1, 5), SCHEMES, WIDTHS, SEEDS)
def test_time_windows(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, scheme: str, width: Any, seed: int
) -> None:
    spec, asked = planned_with(scenario, partitions, scheme, width)
    simulation = simulate(scenario, spec, seed, tmp_path_factory.mktemp("runs"))
    batches = simulation.batches
    compare(scenario, asked, batches, ended=False)
    compare(scenario, asked, [*batches, *finished(simulation)])


@settings(max_examples=scaled(100))
@given(count_scenarios(modes=INNER), st.integers(1, 5), SCHEMES, WIDTHS, SEEDS)
def test_count_windows(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, scheme: str, width: Any, seed: int
) -> None:
    scenario = with_ranks(scenario, seed)
    spec, asked = planned_with(scenario, partitions, scheme, width)
    simulation = simulate(scenario, spec, seed, tmp_path_factory.mktemp("runs"))
    compare(scenario, asked, [*simulation.batches, *finished(simulation)])


@given(time_scenarios(modes=INNER), st.integers(1, 5), SCHEMES, WIDTHS)
def test_tables_at_once(scenario: Scenario, partitions: int, scheme: str, width: Any) -> None:
    whole = scenario.with_pushes([(scenario.table(0), scenario.table(1))])
    spec, asked = planned_with(whole, partitions, scheme, width)
    simulation = Simulation(spec, random.Random(0), None)
    packed = simulation.packed(tables_of(numbered(whole)[0]))
    compare(whole, asked, [b for key in spec.keys for b in join_whole(spec, packed[key])])


def test_state_stays_bounded(tmp_path: Path) -> None:
    """Left rows leave once they are answered, right rows once no left row can see them."""
    table = pa.table({"x": pa.array([], pa.int64()), "t": pa.array([], pa.int64())})
    scenario = Scenario(((table, table),), "l.x <= r.x", TimeWindow(20, time="t"))
    spec = spec_of(scenario, 2, aggregates=of_right(read_aggregates({"n": "count"})))
    simulation = Simulation(spec, random.Random(1), tmp_path)
    held = []
    for step in range(30):
        rows = {"x": [1] * 10, "t": list(range(10 * step, 10 * step + 10)), ROW: [0] * 10}
        simulation.push(dict.fromkeys(Side, pa.table(rows)))
        held.append([sum(r[f"{s.value}_stored"] for r in simulation.reports[-2:]) for s in Side])
    assert max(left for left, _ in held) <= 40
    assert max(right for _, right in held) <= 2 * 70


# --- On Spark ------------------------------------------------------------------------------------


def agree(table: pa.Table, truth: Mapping[int, Mapping[str, Any]]) -> None:
    """The rows are those of the oracle, each once."""
    found = {row[ROW]: row for row in oracle.read(table, [ROW, *ASKED])}
    assert len(found) == table.num_rows, "a left row came twice"
    assert found.keys() == truth.keys()
    for number, row in truth.items():
        for name, value in row.items():
            assert alike(found[number][name], value), (number, name, found[number], row)


def check(scenario: Scenario, table: pa.Table) -> None:
    """What a stream that has not ended gives: all rows; the closing one with a count window."""
    truth = aggregate_oracle.aggregate(scenario.pushes, scenario.on, scenario.window, ASKED)
    if isinstance(scenario.window, TimeWindow):
        del truth[scenario.table(0).num_rows - 1]
    agree(table, truth)
    assert sum(row["count"] for row in truth.values()) >= 10


@pytest.mark.parametrize(
    ("on", "scheme"),
    [
        ("abs(l.x - r.x) <= 2", "cells"),
        ("l.x = r.x AND l.v <> r.v", "hash"),
        ("l.x < r.x OR l.s = r.s", "matrix"),
    ],
)
def test_streams(spark: Any, tmp_path: Path, on: str, scheme: str) -> None:
    scenario = Scenario(tuple(closed(stream(11, pushes=4))), on, TIME)
    left, right = sources(spark, tmp_path, scenario)
    joined = theta_join(left, right, on, TIME, aggregate=ASKED, partitions=3)
    assert scheme in str(explain(joined))
    ran = run(joined, tmp_path)
    check(scenario, ran.table)
    assert ran.late > 0


def test_ranks(spark: Any, tmp_path: Path) -> None:
    window = CountWindow((9, 6), order="o", slide=3)
    scenario = Scenario(ranked(closed(stream(31, pushes=3))), "abs(l.x - r.x) <= 2", window)
    left, right = sources(spark, tmp_path, scenario)
    ran = run(theta_join(left, right, scenario.on, window, aggregate=ASKED, partitions=2), tmp_path)
    check(scenario, ran.table)


def test_tables(spark: Any) -> None:
    left, right = stream(7, pushes=1, number=60)[0]
    scenario = Scenario(((left, right),), "l.x <= r.x", TimeWindow("6 s", time="t"))
    frames = [spark.createDataFrame(table) for table in numbered(scenario)[0]]
    columns = ["avg", ROW, "count", "known", "total", "first", "most"]
    joined = theta_join(
        *frames, scenario.on, scenario.window, aggregate=ASKED, partitions=3, columns=columns
    )
    assert joined.columns == columns
    truth = aggregate_oracle.aggregate(scenario.pushes, scenario.on, scenario.window, ASKED)
    agree(joined.toArrow(), truth)


def test_a_query_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    scenario = Scenario(tuple(closed(stream(19, pushes=5))), "abs(l.x - r.x) <= 2", TIME)
    for until in (3, len(scenario.pushes)):
        go_on(spark, tmp_path, scenario, until, aggregate=ASKED, partitions=2)
    check(scenario, read_sink(spark, tmp_path))
    changed = {**ASKED, "total": ("r.x", "max")}
    shutil.copy2(tmp_path / "left" / "0000.parquet", tmp_path / "left" / "9999.parquet")
    with pytest.raises(Exception, match="(?s)state of another join.*aggregates"):
        go_on(spark, tmp_path, scenario, aggregate=changed, partitions=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"aggregate": {"n": ("r.zz", "sum")}}, SchemaError, "the right side has no column 'zz'"),
        ({"aggregate": {"n": ("r.s", "sum")}}, SchemaError, "sum cannot be taken of column 's'"),
        ({"aggregate": {"x": "count"}}, SchemaError, "has the name of a column of the left side"),
        ({"aggregate": {"__n": "count"}}, SchemaError, "two underscores"),
        ({"aggregate": {}}, SchemaError, "given by name"),
        ({"how": "left"}, OptionError, "every left row returns one row"),
        ({"event_time": "later"}, OptionError, "event_time is for pairs"),
    ],
)
def test_what_is_refused(spark: Any, options: Any, error: Any, message: str) -> None:
    left, right = (spark.createDataFrame(t) for t in stream(1, pushes=1)[0])
    asked = {"aggregate": {"count": "count"}, **options}
    with pytest.raises(error, match=message):
        theta_join(left, right, "l.x < r.x", TimeWindow("6 s", time="t"), **asked)
    with pytest.raises(OptionError, match="for two streams"):
        theta_join(left, None, "l.x < r.x", TimeWindow("6 s", time="t"), aggregate={"m": "count"})

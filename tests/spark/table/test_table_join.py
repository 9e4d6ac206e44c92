"""``theta_join`` without a window: a stream with a static DataFrame, and two static ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thetastream.errors import OptionError, PredicateError, StateError
from thetastream.spark import explain, theta_join
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.driver import numbered
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow, Unbounded

from ..drive import SCHEMA, read_sink, read_stream, rows, run, run_to_files, write_pushes
from ..simulate import pairs_of

ON = "abs(l.x - r.x) <= 2 AND l.n < r.n + 5 AND coalesce(l.s, '') >= coalesce(r.s, '')"


def scenario(how: str, on: str = ON) -> Scenario:
    pushes = tuple((rows(seed, 40, 0), rows(9, 50, 0) if not seed else None) for seed in range(3))
    return Scenario(pushes, on, Unbounded(), how)


def sides(spark: Any, folder: Path, asked: Scenario) -> tuple[Any, Any]:
    """The left pushes as a stream, one per micro-batch, and the right rows as a table."""
    pushes = numbered(asked)
    write_pushes(folder / "left", [push[0] for push in pushes])
    return read_stream(spark, folder / "left"), spark.createDataFrame(pushes[0][1])


@pytest.mark.smoke
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_stream_and_a_table(spark: Any, tmp_path: Path, how: str) -> None:
    asked = scenario(how)
    ran = run(theta_join(*sides(spark, tmp_path, asked), ON, how=how), tmp_path)
    truth = run_oracle(asked).pairs
    assert len(truth) > 20
    assert_same_pairs(ran.pairs, truth, note=how)
    assert sum(metrics.numInputRows for metrics in ran.metrics) == 120
    assert sum(metrics.outputRows for metrics in ran.metrics) == len(truth)
    assert sum(metrics.nullKeys for metrics in ran.metrics) > 0


def test_the_table_may_be_on_the_left(spark: Any, tmp_path: Path) -> None:
    asked = scenario("inner", "r.x BETWEEN l.x - 1 AND l.x + 3")
    stream, table = sides(spark, tmp_path, asked)
    on = "l.x BETWEEN r.x - 1 AND r.x + 3"
    for how, expected in (("inner", "inner"), ("right", "left")):
        ran = run(theta_join(table, stream, on, how=how), tmp_path)
        truth = run_oracle(scenario(expected, asked.on)).pairs
        assert_same_pairs([(b, a) for a, b in ran.pairs], truth, note=how)


def test_a_restart_continues_with_the_table_of_its_own_start(spark: Any, tmp_path: Path) -> None:
    """A table that changes is seen at the next start; no stream row is lost or joined twice."""
    first, second = rows(1, 30, 0, nulls=False), rows(2, 30, 0, nulls=False)
    write_pushes(tmp_path / "left", [first])
    for number, pushes in ((1, [first]), (2, [first, second])):
        write_pushes(tmp_path / "left", pushes)
        table = spark.sql("SELECT explode(sequence(0, 11)) AS x").selectExpr("x", f"{number} AS v")
        stream = read_stream(spark, tmp_path / "left")
        joined = theta_join(stream, table, "l.x = r.x", columns=["n", "x", "v_right"])
        run_to_files(joined, tmp_path)
    got = read_sink(spark, tmp_path).to_pydict()
    wanted = [
        (x, number) for number, push in ((1, first), (2, second)) for x in push["x"].to_pylist()
    ]
    assert sorted(zip(got["x"], got["v_right"], strict=True)) == sorted(wanted)


@pytest.mark.smoke
def test_an_empty_table(spark: Any, tmp_path: Path) -> None:
    write_pushes(tmp_path / "left", [rows(1, 10, 0)])
    empty = spark.createDataFrame(SCHEMA.empty_table())
    for how, expected in (("inner", 0), ("left", 10), ("semi", 0), ("anti", 10)):
        stream = read_stream(spark, tmp_path / "left")
        assert run(theta_join(stream, empty, ON, how=how), tmp_path).table.num_rows == expected


@pytest.fixture(scope="module")
def stream(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A stream that is planned and never run."""
    folder = str(tmp_path_factory.mktemp("none"))
    return spark.readStream.schema("x bigint, v double, t timestamp").parquet(folder)


@pytest.mark.smoke
def test_what_a_table_cannot_be_asked(spark: Any, stream: Any) -> None:
    table = spark.range(1000).selectExpr("id AS x", "double(id) AS w")
    with pytest.raises(PredicateError, match="the right side has no column 'y'"):
        theta_join(stream, table, "l.x = r.y")
    with pytest.raises(StateError, match="leave out window=.*relation_join"):
        theta_join(stream, table, "l.x = r.x", TimeWindow("5 s", time="t"))
    with pytest.raises(OptionError, match="partitions=3, workers=2 has no meaning"):
        theta_join(stream, table, "l.x = r.x", partitions=3, workers=2)
    for how in ("right", "full"):
        with pytest.raises(OptionError, match="one of inner, left, semi, anti; got"):
            theta_join(stream, table, "l.x = r.x", how=how)
    with pytest.raises(OptionError, match="one of inner, right; got 'left'"):
        theta_join(table, stream, "l.x = r.x", how="left")


def test_explain_and_names(spark: Any, stream: Any) -> None:
    table = spark.range(1000).selectExpr("id AS x", "double(id) AS w")
    joined = theta_join(stream, table, "abs(l.V * 2 - r.w) <= 3", name="limits")
    told = explain(joined)
    assert len(told.splitlines()) <= 25
    for text in ("limits", "1,000 rows", "rows stay where they are"):
        assert text in told
    assert "__e" not in told
    assert joined.columns == ["x", "v", "t", "x_right", "w"]
    assert "thetastream: join limits" in joined._jdf.queryExecution().toString()


# --- Two static DataFrames -----------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_two_tables_without_a_window(spark: Any, how: str) -> None:
    asked = scenario(how)
    left = pa.concat_tables([push[0] for push in numbered(asked)])
    frames = [spark.createDataFrame(table) for table in (left, numbered(asked)[0][1])]
    got = pairs_of(theta_join(*frames, ON, how=how, partitions=3).toArrow())
    assert_same_pairs(got, run_oracle(asked).pairs, note=how)


def test_a_table_with_itself_without_a_window(spark: Any) -> None:
    table = spark.range(30).selectExpr("id AS x")
    assert theta_join(table, None, "l.x < r.x AND r.x - l.x <= 3").count() == 27 + 28 + 29


def test_metrics_are_called_by_the_name(spark: Any, tmp_path: Path) -> None:
    write_pushes(tmp_path / "left", [rows(1, 10, 0)])
    table = spark.createDataFrame(rows(2, 10, 0))
    joined = theta_join(read_stream(spark, tmp_path / "left"), table, "l.x = r.x", name="limits")
    ran = run(joined, tmp_path)
    assert {metrics.join for metrics in ran.metrics} == {"thetastream-limits"}

"""A query with a join is started: its checkpoint is checked, and it gets a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thetastream.errors import StateError
from thetastream.spark import theta_join
from thetastream.spark.starting import LOCATION
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from .drive import (
    finish,
    go_on,
    read_sink,
    read_stream,
    rows,
    stream,
    without_closing,
    write_pushes,
)
from .simulate import pairs_of
from .test_session import added

ON = "abs(l.x - r.x) <= 2 AND l.v < r.v"
WINDOW = TimeWindow("20 s", time="t", lateness="20 s")


def starting(frame: Any, folder: Path) -> Any:
    """A writer that lacks nothing but a checkpoint."""
    return frame.writeStream.format("parquet").option("path", str(folder / "sink"))


def sides(spark: Any, folder: Path) -> list[Any]:
    return [read_stream(spark, folder / name) for name in ("left", "right")]


@pytest.mark.smoke
@pytest.mark.parametrize("in_files", [False, True], ids=["state store", "files"])
def test_the_state_of_another_join_is_refused_at_the_start(
    spark: Any, tmp_path: Path, in_files: bool
) -> None:
    """Without new rows, wherever the plan ends, however the checkpoint is named."""
    case = Scenario(tuple(stream(5, pushes=4)), ON, WINDOW)
    options: dict[str, Any] = {"partitions": 2}
    if in_files:
        options["state_path"] = str(tmp_path / "state")
    go_on(spark, tmp_path, case, 2, **options)
    place = tmp_path / "checkpoint"
    before = sorted(path.name for path in (place / "offsets").iterdir())
    almost = theta_join(*sides(spark, tmp_path), ON.replace("<= 2", "< 2"), WINDOW, **options)
    told = r"predicate\n +was .*<= 2 AND .*\n +is .*< 2 AND"
    derived = starting(almost.where("x > 3").select("x"), tmp_path)
    with pytest.raises(StateError, match=told):
        derived.option("checkpointLocation", str(place)).start()
    with pytest.raises(StateError, match=told):
        almost.writeStream.start(
            str(tmp_path / "sink"), format="parquet", checkpointLocation=str(place)
        )
    with pytest.raises(StateError, match=told):
        almost.writeStream.option("checkpointlocation", str(place)).toTable("never_made")
    with added(spark, {LOCATION: str(tmp_path)}), pytest.raises(StateError, match=told):
        starting(almost, tmp_path).queryName("checkpoint").start()
    other = theta_join(*sides(spark, tmp_path), ON, WINDOW, **(options | {"partitions": 3}))
    with pytest.raises(StateError, match=r"partitions\n +was +2, .*\n(.*\n)+.*pass partitions=2"):
        starting(other, tmp_path).option("checkpointLocation", str(place)).start()
    assert not spark.streams.active
    assert sorted(path.name for path in (place / "offsets").iterdir()) == before
    go_on(spark, tmp_path, case, 4, **options)
    expected = list(without_closing(case, run_oracle(case).pairs))
    assert len(expected) > 10
    assert_same_pairs(pairs_of(read_sink(spark, tmp_path)), expected)


def test_two_joins_of_one_query_are_both_checked(spark: Any, tmp_path: Path) -> None:
    """Each is compared with the state that is most like it."""
    for name, seed in (("left", 1), ("right", 2)):
        write_pushes(tmp_path / name, [rows(seed, 20, 0)])

    def united(second: str) -> Any:
        found = [
            theta_join(*sides(spark, tmp_path), on, WINDOW, partitions=1, columns=["x", "x_right"])
            for on in (ON, second)
        ]
        return found[0].union(found[1])

    def run(second: str) -> None:
        writer = starting(united(second), tmp_path).trigger(availableNow=True)
        finish(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())

    run("l.x = r.x")
    run("l.X=r.x")
    with pytest.raises(StateError, match=r"was +l.x = r.x\n +is +l.x >= r.x"):
        run("l.x >= r.x")


def test_names_of_queries(spark: Any, tmp_path: Path) -> None:
    """Spark shows a query's name with its jobs and stages; a join lends its own."""
    write_pushes(tmp_path / "left", [rows(1, 20, 0)])
    table = spark.createDataFrame(rows(2, 20, 0))
    joined = theta_join(read_stream(spark, tmp_path / "left"), table, "l.x = r.x", name="limits")
    queries = []

    def start(frame: Any, number: int, **options: Any) -> Any:
        place = str(tmp_path / f"checkpoint {number}")
        writer = frame.writeStream.format("noop").option("checkpointLocation", place)
        queries.append(writer.start(**options))
        return queries[-1].name

    try:
        assert start(joined.select("x"), 1) == "thetastream: join limits"
        assert start(joined, 2) is None, "the name is taken"
        assert start(joined, 3, queryName="mine") == "mine"
        unnamed = theta_join(read_stream(spark, tmp_path / "left"), table, "l.x = r.x")
        assert start(unnamed, 4) is None
        assert start(read_stream(spark, tmp_path / "left"), 5) is None
    finally:
        for query in queries:
            query.stop()
    with added(spark, {LOCATION: str(tmp_path / "all")}):
        query = joined.writeStream.format("noop").start()
        query.stop()
        assert query.name is None, "the checkpoint would be named after it"
    with pytest.raises(Exception, match="queryName must be specified"):
        joined.writeStream.format("memory").start()


def test_the_writer_is_wrapped_once(spark: Any, tmp_path: Path) -> None:
    write_pushes(tmp_path / "left", [rows(1, 5, 0)])
    table = spark.createDataFrame(rows(2, 5, 0))
    for _ in range(2):
        theta_join(read_stream(spark, tmp_path / "left"), table, "l.x = r.x")
    start: Any = DataStreamWriter.start
    assert start.checks_joins
    assert not hasattr(start.__wrapped__, "checks_joins")

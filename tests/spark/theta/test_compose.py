"""What can follow a join: aggregations, deduplication, another join."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from thetastream.spark import theta_join
from thetastream.testing import run_oracle
from thetastream.testing.streams import Scenario
from thetastream.truth.oracle import join as oracle_join
from thetastream.window import TimeWindow

from ..drive import closed, read_stream, rows, run, sources, stream, write_pushes

ON = "abs(l.x - r.x) <= 1"


def scenario_of(seed: int, lateness: str = "3 s") -> Scenario:
    window = TimeWindow("8 s", time="t", lateness=lateness)
    return Scenario(tuple(closed(stream(seed, pushes=4))), ON, window)


def event_times(scenario: Scenario) -> list[tuple[dict[str, Any], dict[str, Any], Any]]:
    """The oracle's pairs: left row, right row, the later time."""
    left, right = scenario.table(0).to_pylist(), scenario.table(1).to_pylist()
    pairs = [(left[i], right[j]) for i, j in run_oracle(scenario).pairs]  # type: ignore[index]
    return [(a, b, max(a["t"], b["t"])) for a, b in pairs]


def test_a_windowed_aggregation(spark: Any, tmp_path: Path) -> None:
    """Append mode gives each window once, when it is complete."""
    scenario = scenario_of(3)
    left, right = sources(spark, tmp_path, scenario)
    joined = theta_join(left, right, ON, scenario.window, event_time="et")
    counted = (
        joined.groupBy(F.window("et", "10 seconds"))
        .agg(F.count("*").alias("n"), F.sum("x_right").alias("total"))
        .select(F.unix_timestamp("window.start").alias("start"), "n", "total")
    )
    ran = run(counted, tmp_path)
    expected: dict[int, list[int]] = {}
    for _, right_row, moment in event_times(scenario):
        start = int(moment.timestamp()) // 10 * 10
        figures = expected.setdefault(start, [0, 0])
        figures[0] += 1
        figures[1] += right_row["x"]
    got = {row["start"]: [row["n"], row["total"]] for row in ran.table.to_pylist()}
    assert len(got) == ran.table.num_rows > 2
    assert got == expected
    assert ran.late == sum(run_oracle(scenario).late.values()) > 0


def test_a_deduplication(spark: Any, tmp_path: Path) -> None:
    scenario = scenario_of(7)
    left, right = sources(spark, tmp_path, scenario)
    joined = theta_join(left, right, ON, scenario.window, event_time="et")
    ran = run(joined.dropDuplicates(["x", "et"]).select("x", "et"), tmp_path)
    expected = {(a["x"], moment) for a, _, moment in event_times(scenario)}
    assert Counter((r["x"], r["et"]) for r in ran.table.to_pylist()) == Counter(expected)


def test_a_second_join_on_the_result(spark: Any, tmp_path: Path) -> None:
    """The event time of the result carries the watermark; it is not defined a second time."""
    scenario = scenario_of(11, lateness="1 hour")
    left, right = sources(spark, tmp_path, scenario)
    third = [rows(100 + i, 10, 12 * i) for i in range(4)] + [None]
    numbers = iter(range(10**6))
    third = [
        t if t is None else t.append_column("k", pa.array([next(numbers) for _ in range(10)]))
        for t in third
    ]
    write_pushes(tmp_path / "third", third)
    first = theta_join(
        left, right, ON, scenario.window, event_time="et", columns=["row number", "x", "s_right"]
    )
    window = TimeWindow("4 s", time=("et", "t"))
    joined = theta_join(
        first, read_stream(spark, tmp_path / "third"), "l.x = r.x", window, columns=["x", "k", "et"]
    )
    ran = run(joined, tmp_path)
    found = event_times(scenario)
    middle = pa.table(
        {
            "x": pa.array([a["x"] for a, _, _ in found], pa.int64()),
            "et": pa.array([moment for _, _, moment in found], pa.timestamp("us", tz="UTC")),
        }
    )
    last = pa.concat_tables([t for t in third if t is not None])
    truth = oracle_join([(middle, last)], "l.x = r.x", window).pairs
    expected = Counter((found[i][0]["x"], found[i][2], j) for i, j in truth)  # type: ignore[index]
    assert expected
    assert Counter((r["x"], r["et"], r["k"]) for r in ran.table.to_pylist()) == expected
    assert len({m.join for m in ran.metrics}) == 2
    assert ran.late == 0


def test_an_aggregation_without_an_event_time_gets_the_error_of_spark(
    spark: Any, tmp_path: Path
) -> None:
    """The columns of the answer carry no watermark; Spark says that append mode needs one."""
    scenario = scenario_of(3)
    left, right = sources(spark, tmp_path, scenario)
    joined = theta_join(left, right, ON, scenario.window)
    with pytest.raises(AnalysisException, match="(?i)append.*watermark"):
        run(joined.groupBy(F.window("t", "10 seconds")).count(), tmp_path)

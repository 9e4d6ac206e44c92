"""Scenarios on a real Spark session: one push becomes one micro-batch, or all pushes one table."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thetastream.spark import query_metrics, theta_join
from thetastream.spark.metrics import JoinMetrics
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.driver import numbered
from thetastream.testing.streams import Scenario

from .simulate import Pair, pairs_of

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
FAR = START + timedelta(days=30)
SCHEMA = pa.schema(
    [
        pa.field("x", pa.int64()),
        pa.field("v", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("t", pa.timestamp("us", tz="UTC")),
        pa.field("n", pa.int64()),
    ]
)
_names = count()


# --- Rows ---------------------------------------------------------------------------------------


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def rows(seed: int, number: int, start: float, *, nulls: bool = True) -> pa.Table:
    """Rows of one push: small domains, NULLs, times in disorder around ``start``."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if nulls and rng.random() < 0.08 else value

    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for _ in range(number):
        seconds = start + rng.randrange(0, 20)
        columns["x"].append(maybe(rng.randrange(0, 12)))
        columns["v"].append(maybe(rng.choice([0.0, -0.0, 0.5, 1.25, 2.0, float("nan"), -3.5])))
        columns["s"].append(maybe(rng.choice(["a", "b", "ä", ""])))
        columns["t"].append(maybe(at(seconds)))
        columns["n"].append(maybe(1000 + int(seconds)))
    return pa.table(columns, schema=SCHEMA)


def stream(seed: int, pushes: int, number: int = 14, step: float = 12.0) -> list[tuple[Any, Any]]:
    """Pushes whose times go on, with rows that come late, and sides that stay away for once."""
    rng = random.Random(seed)
    found: list[tuple[Any, Any]] = []
    for at_push in range(pushes):
        start = at_push * step
        left = rows(rng.randrange(10**9), number, start + rng.randrange(-15, 5))
        right = rows(rng.randrange(10**9), number, start + rng.randrange(-15, 5))
        if at_push == 2:
            right = None
        found.append((left, right))
    return found


def ranked(pushes: list[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Ranks that rise from push to push, distinct per side, mixed within a push."""
    found, base = [], 0
    for push in pushes:
        tables: list[Any] = []
        for position, table in enumerate(push):
            if table is not None:
                ranks = [base + 2 * i + position for i in range(table.num_rows)]
                table = table.append_column("o", pa.array(ranks, pa.int64()))
            tables.append(table)
        base += 1000
        found.append((tables[0], tables[1]))
    return tuple(found)


def closing() -> tuple[pa.Table, pa.Table]:
    """A push that moves the watermark beyond all windows; its rows match nothing."""
    row = {"x": [None], "v": [None], "s": [None], "t": [FAR], "n": [10**9]}
    table = pa.table(row, schema=SCHEMA)
    return table, table


def closed(pushes: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return [*pushes, closing()]


# --- Running ------------------------------------------------------------------------------------


@dataclass
class Ran:
    """What a streaming query gave."""

    table: pa.Table
    metrics: list[JoinMetrics]
    progress: list[Any] = field(default_factory=list)

    @property
    def pairs(self) -> list[Pair]:
        return pairs_of(self.table)

    @property
    def late(self) -> int:
        return sum(metrics.numRowsDroppedByWatermark for metrics in self.metrics)


def write_pushes(folder: Path, tables: list[Any]) -> pa.Schema:
    """One file per push, in order; a push without rows of this side is an empty file."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = next(table.schema for table in tables if table is not None)
    for number, table in enumerate(tables):
        path = folder / f"{number:04}.parquet"
        pq.write_table(schema.empty_table() if table is None else table, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return schema


def read_stream(spark: Any, folder: Path, schema: Any = None) -> Any:
    """The files as a stream, one per micro-batch."""
    if schema is None:
        schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def sources(spark: Any, folder: Path, scenario: Scenario) -> tuple[Any, Any]:
    """The streams of a scenario; the right one is None for a self-join."""
    pushes = numbered(scenario)
    found = []
    for position, name in enumerate(("left", "right")[: 1 if scenario.self_join else 2]):
        write_pushes(folder / name, [push[position] for push in pushes])
        found.append(read_stream(spark, folder / name))
    return found[0], None if scenario.self_join else found[1]


def run(frame: Any, folder: Path, *, mode: str = "append") -> Ran:
    """Run a streaming DataFrame over all that is there, one micro-batch per push."""
    name = f"answer_{next(_names)}"
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .outputMode(mode)
        .option("checkpointLocation", str(folder / f"checkpoint-{name}"))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)
    table = frame.sparkSession.table(name).toArrow()
    frame.sparkSession.catalog.dropTempView(name)
    return Ran(table, query_metrics(query), query.recentProgress)


def run_to_files(frame: Any, folder: Path) -> Any:
    """Run over all that is new since the last run, into files in ``sink``; the query."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "sink"))
    )
    return finish(query)


def finish(query: Any) -> Any:
    """Wait until a query has read what is there."""
    try:
        query.awaitTermination(300)
        assert not query.isActive, "the query did not end"
    finally:
        query.stop()
    return query


def read_sink(spark: Any, folder: Path) -> pa.Table:
    return spark.read.parquet(str(folder / "sink")).toArrow()


def join_streams(spark: Any, folder: Path, scenario: Scenario, **options: Any) -> Ran:
    """``theta_join`` of a scenario, push by push."""
    left, right = sources(spark, folder, scenario)
    return run(joined(left, right, scenario, **options), folder)


def join_tables(spark: Any, scenario: Scenario, **options: Any) -> list[Pair]:
    """``theta_join`` of a scenario, all pushes at once."""
    whole = scenario.with_pushes([(scenario.table(0), scenario.table(1))])
    ((left, right),) = numbered(whole)
    frames = [None if t is None else spark.createDataFrame(t) for t in (left, right)]
    return pairs_of(joined(frames[0], frames[1], scenario, **options).toArrow())


def joined(left: Any, right: Any, scenario: Scenario, **options: Any) -> Any:
    return theta_join(left, right, scenario.on, scenario.window, scenario.how, **options)


def without_closing(scenario: Scenario, pairs: list[Pair]) -> Iterator[Pair]:
    """What a stream that has not ended gives: not yet the closing rows, which match nothing."""
    last = [None if (t := scenario.table(p)) is None else t.num_rows - 1 for p in (0, 1)]
    if scenario.self_join:
        last[1] = last[0]
    for left, right in pairs:
        if (left, right) not in {(last[0], None), (None, last[1])}:
            yield left, right


# --- Restart ------------------------------------------------------------------------------------


def go_on(
    spark: Any, folder: Path, scenario: Scenario, until: int | None = None, **options: Any
) -> None:
    """Write the pushes before ``until``, then join what is new since the last run, to files."""
    if until is not None:
        for position, name in enumerate(("left", "right")):
            write_pushes(folder / name, [push[position] for push in numbered(scenario)[:until]])
    left, right = (read_stream(spark, folder / name) for name in ("left", "right"))
    run_to_files(joined(left, right, scenario, **options), folder)


def check_restart(
    spark: Any, folder: Path, scenario: Scenario, before: int, **options: Any
) -> None:
    """Two runs of a query, the first over ``before`` pushes: together they give the whole answer.

    Some pairs have a row from either run.
    """
    pushes = numbered(scenario)
    for until in (before, len(pushes)):
        go_on(spark, folder, scenario, until, **options)
    expected = list(without_closing(scenario, run_oracle(scenario).pairs))
    assert_same_pairs(pairs_of(read_sink(spark, folder)), expected, note=scenario)
    parts = pushes[:before]
    first = [sum(push[p].num_rows for push in parts if push[p] is not None) for p in (0, 1)]
    over = [(a, b) for a, b in expected if b is not None and (a < first[0]) != (b < first[1])]
    assert over, "no pair has a row from either run"

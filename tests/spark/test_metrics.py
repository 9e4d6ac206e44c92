"""The figures of micro-batches against counts that are known."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from thetastream.spark import MetricsListener, query_metrics
from thetastream.spark.metrics import JoinMetrics, read_reports
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from .drive import SCHEMA, at, join_streams, rows, run, sources


def table(pairs: list[tuple[int | None, float | None]]) -> pa.Table:
    """Rows of (key, seconds)."""
    columns: dict[str, list[Any]] = {
        "x": [key for key, _ in pairs],
        "v": [0.0] * len(pairs),
        "s": ["s"] * len(pairs),
        "t": [None if seconds is None else at(seconds) for _, seconds in pairs],
        "n": [1] * len(pairs),
    }
    return pa.table(columns, schema=SCHEMA)


PUSHES = (
    # two pairs; a NULL key
    (table([(1, 10), (2, 10), (None, 10)]), table([(1, 10), (2, 11), (9, 10)])),
    # the watermark is 10 s now: one late row on each side; each side has
    # one pair with a stored row
    (table([(1, 14), (5, 3)]), table([(9, 13), (2, 12), (7, 1)])),
    # 13 s, and one row below it; the other side sends nothing
    (table([(4, 100), (1, 12)]), None),
    # left rows are far ahead: the right side holds the watermark back
    (None, table([(4, 98)])),
)


@pytest.mark.smoke
def test_figures_against_known_counts(spark: Any, tmp_path: Path) -> None:
    heard: list[JoinMetrics] = []
    listener = MetricsListener(heard.append)
    spark.streams.addListener(listener)
    try:
        scenario = Scenario(PUSHES, "l.x = r.x", TimeWindow("5 s", time="t"))
        ran = join_streams(spark, tmp_path, scenario)
        deadline = time.monotonic() + 30  # listeners hear of it a little later
        while len(heard) < len(ran.metrics) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    figures = ran.metrics
    assert [m.batchId for m in figures] == list(range(len(figures)))
    assert [m.numInputRows for m in figures] == [6, 5, 2, 1]
    assert [m.matches for m in figures] == [2, 2, 0, 1]
    assert [m.outputRows for m in figures] == [2, 2, 0, 1]
    assert [m.numRowsDroppedByWatermark for m in figures] == [0, 2, 1, 0]
    assert [m.nullKeys for m in figures] == [1, 0, 0, 0]
    assert figures[0].fanOut == 2 / 6
    # what is stored: all but the late rows
    assert figures[0].numRowsTotal == 6
    assert figures[1].numRowsTotal == 6 + 3
    # Spark's watermark is one millisecond below ours: the smaller of the largest times so far
    seconds = [None if m.watermark is None else (m.watermark + 1) / 1000 for m in figures]
    start = at(0).timestamp()
    assert seconds[0] is None
    assert [s - start for s in seconds[1:] if s is not None] == [10.0, 13.0, 13.0]
    assert figures[0].watermarkLag == {}
    assert figures[1].watermarkLag == {"left": 4001, "right": 3001}
    assert figures[2].watermarkLag == {"left": 87_001, "right": 1}
    for metrics in figures:
        assert metrics["matches"] == metrics.matches
        assert sum(metrics.rowsPerPartition.values()) == metrics.numInputRows
        assert sum(metrics.storedPerPartition.values()) == metrics.numRowsTotal
        assert set(metrics.rowsPerPartition) == {0, 1}
        assert metrics.durationMs["triggerExecution"] > 0
        assert metrics.stateBytes > 0
        assert metrics.writtenBytes > 0
        assert set(metrics.seconds) >= {"probe", "insert", "merge", "gather"}
    # a partition is new once, then alive, behind or attached; nothing was lost or rebuilt
    assert figures[0].hits + figures[0].catchUps + figures[0].attaches + figures[0].rebuilds == 0
    assert all(m.hits + m.catchUps + m.attaches >= 1 for m in figures[1:])
    assert {m.rebuilds for m in figures} == {0}
    assert all(m.warmWorkers == m.hits + m.catchUps + m.attaches for m in figures[1:])
    assert heard == list(listener.recent) == figures


def test_a_query_without_a_join_has_no_figures(spark: Any, tmp_path: Path) -> None:
    left, _ = sources(spark, tmp_path, Scenario(((rows(1, 5, 0), rows(2, 5, 0)),), "", None))  # type: ignore[arg-type]
    assert run(left, tmp_path).metrics == []


def report(partition: int, **more: Any) -> str:
    facts = {
        "partition": partition,
        "partitions": 4,
        "origin": "hit",
        "rows": 10,
        "state_bytes": 5,
        "memory_bytes": 7,
        "runs": 2,
        "watermark": 0,
    }
    return json.dumps(facts | more)


def test_reports_are_added_up() -> None:
    texts = [
        report(0, rows=30, matches=4, output_rows=8, left_stored=3, right_stored=4),
        report(1, origin="catch-up", open_seconds=0.25, warm=True),
        report(2, origin="attach", dropped=2, left_stored=1),
        report(2, origin="hit", rows=0, output_rows=2, left_stored=1, state_bytes=4),
        report(3, origin="rebuild", fetched_runs=3, probe_seconds=0.5),
    ]
    found = read_reports("j", texts, {"batchId": 4, "timestamp": "now", "durationMs": {"a": 1}})
    assert found.numInputRows == 60
    assert found.outputRows == 10
    assert found.fanOut == 10 / 60
    assert (found.catchUps, found.seconds["open"], found.warmWorkers) == (1, 0.25, 1)
    assert (found.hits, found.attaches, found.rebuilds, found.fetchedRuns) == (2, 1, 1, 3)
    assert found.rowsPerPartition == {0: 30, 1: 10, 2: 10, 3: 10}
    assert found.skew == pytest.approx(30 / 15)
    assert found.numRowsTotal == 8
    assert found.stateBytes == 5 + 5 + 4 + 5
    assert found.seconds["probe"] == 0.5
    assert found.watermark is None
    assert found.durationMs == {"a": 1}


def test_query_metrics_of_what_json_gives() -> None:
    """Progress as plain dictionaries, which some clients give."""

    progress = [
        {"batchId": 0, "observedMetrics": {"other": {"rows": 1}}},
        {
            "batchId": 1,
            "observedMetrics": {
                "thetastream-3": {"partitions": [report(1)]},
                "thetastream-4": {"partitions": None},
                "thetastream-5": {"values": [[report(2)]], "schema": {}},  # Connect
            },
        },
    ]
    found, other = query_metrics(SimpleNamespace(recentProgress=progress))  # type: ignore[arg-type]
    assert (found.join, found.batchId, found.numInputRows) == ("thetastream-3", 1, 10)
    assert (other.join, other.numInputRows) == ("thetastream-5", 10)

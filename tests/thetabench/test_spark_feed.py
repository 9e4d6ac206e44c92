"""The Spark benchmark: feeds, their reference answers, and what is read from the event log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from thetabench.digest import Digest
from thetabench.spark.cells import BLOCKS, EQUI, HOME
from thetabench.spark.eventlog import read_events
from thetabench.spark.feed import Feed, Shape, link
from thetabench.spark.peers import Nothing, Rejoin, Seat, spec_of
from thetabench.spark.reference import echoes, equals, received, reference
from thetabench.spark.worker import fresh_progress
from thetastream.errors import DataError
from thetastream.side import Side
from thetastream.spark.frames import METRICS
from thetastream.spark.theta.packing import Packer

from .spark_fake import Pairs, Query, checksum, rows_of


def seat_of(saved: Path, feed: Feed, contestant: str = HOME) -> Seat:
    width = int(feed.query.bands[0].width) if feed.query.bands else 0
    return Seat(
        name=contestant, contestant=contestant, saved=str(saved), source=str(saved / "source"),
        files=feed.shape.files, on=feed.query.predicate, count="", checksum="", width=width,
        window=feed.shape.window, partitions=2, checkpoint="",
    )  # fmt: skip


def pairs_of(saved: Path, feed: Feed, contestant: str = HOME) -> list[Pairs]:
    """The pairs of every micro-batch, by a nested loop."""
    query, seat, answer = Query(), seat_of(saved, feed, contestant), []
    for batch in range(feed.batches):
        files = link(saved, Path(seat.source), batch)
        answer.append(query.pairs(seat, rows_of(Path(seat.source))))
        for path in files:
            path.unlink()
    return answer


@pytest.mark.parametrize("workload", ["W1", "W2"])
@pytest.mark.parametrize("fill", [True, False])
def test_the_reference_agrees_with_a_nested_loop(tmp_path: Path, workload: str, fill: bool) -> None:
    feed = Feed.of(Shape(workload, 30, 24, 5, fill, seed=3))
    feed.save(tmp_path)
    pairs = pairs_of(tmp_path, feed)
    assert [Digest(*checksum(found)) for found in pairs] == reference(feed, feed.batches)
    assert sum(map(len, pairs)) > 100
    assert reference(feed, 2) == reference(feed, feed.batches)[:2], "rows that came later count not"


def test_equality_of_cells_has_as_many_matches_as_the_band(tmp_path: Path) -> None:
    small = Feed.of(Shape("W1", 30, 24, 5, fill=True))
    small.save(tmp_path)
    pairs = pairs_of(tmp_path, small, EQUI[0])
    assert [Digest(*checksum(found)) for found in pairs] == equals(small, small.batches)
    feed = Feed.of(Shape("W1", 2000, 1000, 12, fill=True))
    for answers in (reference(feed, feed.batches), equals(feed, feed.batches)):
        rate = sum(found.matches for found in answers[1:]) / (12 * 1000)
        assert rate == pytest.approx(2.0, rel=0.05)


def test_empty_joiners_count_or_double_every_row() -> None:
    feed = Feed.of(Shape("W1", 30, 24, 2, fill=True))
    once, twice = (echoes(feed, feed.batches, copies) for copies in (1, 2))
    assert [(2 * n, 2 * total) for n, total in once] == [tuple(found) for found in twice]
    assert received(feed, 2) == [
        Digest(60, 2 * sum(range(1, 31))),
        Digest(24, 2 * sum(range(31, 43))),
    ]


@pytest.mark.parametrize("partitions", [1, 2])
def test_an_empty_joiner_answers_in_arrow_what_it_was_sent(tmp_path: Path, partitions: int) -> None:
    feed = Feed.of(Shape("W1", 300, 200, 1, fill=True))
    schemas = {side: table.schema for side, table in feed.tables.items()}
    spec = spec_of(seat_of(tmp_path, feed), schemas, tuple(range(partitions)))
    packed = [
        batch
        for side, table in feed.tables.items()
        for batch in Packer(spec, side).pack(table.to_batches(), task=0)
    ]
    counting = Nothing(("x", "t"), pa.schema([("rows", pa.int64()), ("times", pa.int64())]), 0)
    counted, report = counting(iter(packed))
    assert counted.to_pylist() == [{"rows": 800, "times": 400 * 401, METRICS: None}], (
        "without the copies that a band sends"
    )
    assert report.to_pylist() == [{"rows": None, "times": None, METRICS: "{}"}]
    *doubled, _ = Nothing(("x", "t"), spec.output, 2)(iter(packed))
    rows = [(row["t"], row["x_right"]) for batch in doubled for row in batch.to_pylist()]
    none = Digest(0, 0)
    assert none + Digest(*checksum(rows)) == sum(echoes(feed, 2, copies=2), none)


class Cached:
    """A micro-batch that stays cached until it is let go."""

    kept = True

    def unpersist(self) -> None:
        self.kept = False


def test_a_rejoin_keeps_what_a_silent_side_can_still_meet(tmp_path: Path) -> None:
    """Files of the two sides can come in two micro-batches: then one of them has one side only."""
    feed = Feed.of(Shape("W2", 100, 40, 1, fill=True))
    rejoin: Any = Rejoin(seat_of(tmp_path, feed, BLOCKS))
    batches = [Cached() for _ in range(4)]
    tops = [{"left": 100, "right": 100}, {"right": 250}, {"left": 199}, {"left": 201}]
    kept = []
    for batch, top in zip(batches, tops, strict=True):
        rejoin._keep(batch, top)
        kept.append([own.kept for own in batches].index(True))
    assert kept == [0, 0, 0, 1]


def test_files_of_a_micro_batch_appear_together(tmp_path: Path) -> None:
    shape = Shape("W1", 31, 24, 3, fill=True)
    Feed.of(shape).save(tmp_path / "feed")
    sizes, times = [], []
    for batch in range(4):
        files = link(tmp_path / "feed", tmp_path / "some", batch)
        assert len(files) == 2 * shape.files
        rows = rows_of(tmp_path / "some")
        sizes.append(len(rows[Side.LEFT]))
        times += [row["t"] for row in rows[Side.RIGHT]]
        for path in files:
            path.unlink()
    assert sizes == [31, 12, 12, 12]
    assert times == list(range(1, 31 + 36 + 1))
    assert Feed.of(shape).tables == Feed.of(shape).tables, "seeded"
    assert Feed.of(replace(shape, seed=1)).tables != Feed.of(shape).tables


def test_a_feed_of_odd_or_empty_micro_batches_is_refused() -> None:
    for batch, batches in ((25, 1), (2, 1), (24, 0)):
        with pytest.raises(DataError, match="an even number of rows"):
            Shape("W1", 30, batch, batches, fill=True)


def test_a_packed_row_has_the_bytes_of_its_columns() -> None:
    assert Feed.of(Shape("W1", 5000, 100, 1, fill=True)).packed_bytes == pytest.approx(16, rel=0.05)
    assert Feed.of(Shape("W2", 5000, 100, 1, fill=True)).packed_bytes == pytest.approx(24, rel=0.05)


def test_stages_and_tasks_are_read_from_the_event_log(tmp_path: Path) -> None:
    def stage(kind: str, number: int, start: int, end: int, batch: str | None = "7") -> Any:
        info = {"Stage ID": number, "Submission Time": start, "Completion Time": end}
        event: dict[str, Any] = {"Event": f"SparkListenerStage{kind}", "Stage Info": info}
        if kind == "Submitted" and batch is not None:
            event["Properties"] = {"sql.streaming.queryId": "q", "streaming.sql.batchId": batch}
        return event

    def task(number: int, run: int, gc: int) -> Any:
        metrics = {"Executor Run Time": run, "JVM GC Time": gc}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": number, "Task Metrics": metrics}

    events = [
        {"Event": "SparkListenerLogStart"},
        stage("Submitted", 1, 1000, 0), stage("Submitted", 9, 1000, 0, None),
        task(1, 300, 20), task(1, 200, 0), task(9, 5000, 0),
        stage("Completed", 1, 1000, 1400), stage("Completed", 9, 0, 9000),
        stage("Submitted", 2, 1450, 0), task(2, 100, 10), stage("Completed", 2, 1450, 1700),
    ]  # fmt: skip
    cut = json.dumps(task(2, 9000, 9000))[:-9]  # the session was killed
    (tmp_path / "app").write_text("\n".join([*map(json.dumps, events), cut]))
    (tmp_path / ".app.crc").write_bytes(b"\xff\x00")
    ((key, spent),) = read_events(tmp_path).items()
    assert key == ("q", 7)
    assert (spent.map, spent.join) == (0.45, 0.25)
    assert (spent.tasks, spent.gc) == (pytest.approx(0.6), pytest.approx(0.03))


def test_what_a_waiting_query_reports_is_no_micro_batch() -> None:
    def progress(number: int, rows: int) -> Any:
        return SimpleNamespace(batchId=number, numInputRows=rows)

    def fresh(before: int, *reports: Any) -> list[int]:
        query = SimpleNamespace(recentProgress=reports, lastProgress=[None, *reports][-1])
        return [own.batchId for own in fresh_progress(query, before)]

    first, waits = progress(0, 8), progress(1, 0)
    assert fresh(-1) == []
    assert fresh(-1, first) == [0]
    assert fresh(-1, progress(4, 8)) == [4], "of a restarted query"
    assert fresh(0, first, waits) == []
    assert fresh(0, first, waits, progress(1, 6)) == [1]
    assert fresh(0, first, waits, waits, progress(1, 6), progress(2, 2)) == [1, 2]
    assert fresh(0, first, waits, progress(1, 8), progress(2, 0)) == [1]

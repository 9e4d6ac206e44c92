"""A Spark session in a process of its own, and the queries that take turns in it.

    python -m thetabench.spark.worker JOB

``JOB`` is a JSON file (see ``Job``). Requests come as lines of JSON on standard input, each is
answered by a line on standard output; a request that fails is answered with its ``reason``.

``step``     one micro-batch of a query: its files appear, and the query processes them
``latency``  a query whose files land at a steady pace: how long from there to the sink
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from thetabench.spark.cells import (
    BLOCKS,
    BUCKETS,
    DOUBLES,
    EQUI,
    HOME,
    NOOPS,
    REJOIN,
    STATE_FILES,
)
from thetabench.spark.feed import link
from thetabench.spark.job import ANSWER, Job, counted, session, stream, told
from thetabench.spark.peers import Rejoin, Seat, bucketed, empty, equi, theta
from thetastream.side import Side
from thetastream.spark.metrics import observed_reports, read_reports
from thetastream.spark.session import PROVIDER
from thetastream.spark.theta.pipeline import OBSERVED

_STORES = "org.apache.spark.sql.execution.streaming.state."
IN_MEMORY = {PROVIDER: f"{_STORES}HDFSBackedStateStoreProvider"}
IN_ROCKSDB = {
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.join.stateFormatVersion": "3",
}
"""Each store as it is fastest; ``configure`` has set RocksDB with changelogs."""
STREAMS: dict[str, tuple[Callable[[DataFrame, DataFrame, Seat], DataFrame], dict[str, str]]] = {
    HOME: (theta, {}),
    STATE_FILES: (theta, {}),
    **{
        name: (partial(empty, copies=copies, in_files=bool(place)), {})
        for copies, names in ((0, NOOPS), (2, DOUBLES))
        for place, name in enumerate(names)
    },
    BUCKETS[0]: (bucketed, IN_MEMORY),
    BUCKETS[1]: (bucketed, IN_ROCKSDB),
    EQUI[0]: (equi, IN_MEMORY),
    EQUI[1]: (equi, IN_ROCKSDB),
}
REJOINS = {REJOIN: False, BLOCKS: True}
"""Whether they find pairs by blocks."""
_METRICS = (
    *("numRowsTotal", "writtenBytes", "seconds"),
    *("hits", "catchUps", "attaches", "rebuilds"),
)
_TICK = 0.1
"""Seconds between two looks into a source; see ``_between_ticks``."""
_LOAD = 0.8
"""Share of the time in which a query is busy, where files land at a steady pace."""


class Turns:
    """Queries that process their next micro-batch when they are asked to.

    A micro-batch must hold the files of both sides. Queries look into their sources at every tick
    of the clock, so files appear between two ticks; those that were processed disappear, so that a
    look is cheap. There are no micro-batches without data.
    """

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch
        self._queries: dict[str, StreamingQuery] = {}
        self._rejoins: dict[str, Rejoin] = {}
        self._last: dict[str, int] = {}

    def step(self, seat: Seat, batch: int) -> dict[str, Any]:
        """Let a query process a micro-batch; returns what Spark reports of it."""
        query = self._queries.get(seat.name)
        if query is not None:
            _between_ticks()
        files = link(Path(seat.saved), Path(seat.source), batch)
        if query is None:
            query = self._queries[seat.name] = self._started(seat)
        query.processAllAvailable()
        for path in files:
            path.unlink()
        return {"query": str(query.id), "batches": self._reports(seat, query)}

    def _started(self, seat: Seat) -> StreamingQuery:
        tick = f"{round(_TICK * 1000)} milliseconds"
        own = {} if seat.contestant in REJOINS else STREAMS[seat.contestant][1]
        with _set(self._spark, {**own, "spark.sql.streaming.noDataMicroBatches.enabled": "false"}):
            if seat.contestant in REJOINS:
                rejoin = Rejoin(seat, blocks=REJOINS[seat.contestant])
                self._rejoins[seat.name] = rejoin
                writer = _both(self._spark, seat).writeStream.foreachBatch(rejoin)
            else:
                writer = _answer(self._spark, seat).writeStream.format("noop")
            writer = writer.option("checkpointLocation", seat.checkpoint)
            return writer.trigger(processingTime=tick).start()

    def _reports(self, seat: Seat, query: StreamingQuery) -> list[dict[str, Any]]:
        """Those of micro-batches since the last turn: of one, as a rule."""
        before = self._last.get(seat.name, -1)
        fresh = fresh_progress(query, before)
        self._last[seat.name] = fresh[-1].batchId if fresh else before
        reports = [_report(progress) for progress in fresh]
        if seat.name in self._rejoins:
            answers = self._rejoins[seat.name].answers
            for report, answer in zip(reports, answers[len(answers) - len(reports) :], strict=True):
                report["answer"] = answer
        return reports

    def latency(self, seat: Seat, untimed: int, timed: int) -> dict[str, Any]:
        """Let files land at a steady pace; returns seconds from each file to its rows in the sink.

        After the fill the untimed micro-batches land one after the other: their time sets the pace.
        """
        source, sink = Path(seat.source), self._scratch / "sink" / seat.name
        saved = Path(seat.saved)
        link(saved, source, 0)
        writer = _answer(self._spark, seat).writeStream.format("parquet")
        writer = writer.option("path", str(sink)).option("checkpointLocation", seat.checkpoint)
        query = writer.start()
        query.processAllAvailable()
        taken = []
        for batch in range(1, untimed):
            started = time.perf_counter()
            link(saved, source, batch)
            query.processAllAvailable()
            taken.append(time.perf_counter() - started)
        period = median(taken[len(taken) // 2 :]) / _LOAD
        landed, due = {}, time.monotonic()
        for batch in range(untimed, untimed + timed):
            due += period
            time.sleep(max(0.0, due - time.monotonic()))
            link(saved, source, batch)
            landed[batch] = time.time()
        query.processAllAvailable()
        reports = [_report(progress) for progress in query.recentProgress]
        query.stop()
        written = {int(path.name.partition(".")[0]): path.stat().st_mtime
                   for path in (sink / "_spark_metadata").glob("[0-9]*")}  # fmt: skip
        return {
            "query": str(query.id),
            "batches": reports,
            "period": period,
            "latencies": [
                written[_batch_of(number, side, reports)] - moment
                for number, moment in landed.items()
                for side in range(len(Side))
            ],
        }


def fresh_progress(query: Any, before: int) -> list[Any]:
    """What Spark says of the micro-batches after a number.

    A query that waits reports that, too, under the number of its next micro-batch, without rows.
    """
    last = query.lastProgress
    if last is None:
        return []
    if last.numInputRows and (last.batchId == before + 1 or before < 0):
        return [last]  # reading all reports takes long
    own = {p.batchId: p for p in query.recentProgress if p.batchId > before and p.numInputRows}
    return [own[number] for number in sorted(own)]


def _batch_of(number: int, side: int, reports: list[dict[str, Any]]) -> int:
    """The micro-batch in which a file was processed: every offset of a source is one file."""
    return next(int(own["batch"]) for own in reports if own["offsets"][side] >= number)


def _report(progress: Any) -> dict[str, Any]:
    offsets = [json.loads(own.endOffset)["logOffset"] for own in progress.sources]
    joins = [read_reports(*each) for each in observed_reports(progress, OBSERVED, "partitions")]
    join = {name: joins[0][name] for name in _METRICS} if joins else None
    return {**told(progress), "join": join, "offsets": offsets}


def _sides(spark: SparkSession, seat: Seat) -> list[DataFrame]:
    return [stream(spark, f"{seat.source}/{side.value}", seat.files) for side in Side]


def _answer(spark: SparkSession, seat: Seat) -> DataFrame:
    left, right = _sides(spark, seat)
    answer = STREAMS[seat.contestant][0](left, right, seat)
    return answer.observe(ANSWER, *counted(seat.checksum, seat.count))


def _both(spark: SparkSession, seat: Seat) -> DataFrame:
    left, right = _sides(spark, seat)
    return left.withColumn("side", F.lit("left")).unionByName(
        right.withColumn("side", F.lit("right"))
    )


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for the queries that start meanwhile: each keeps a copy."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _between_ticks() -> None:
    """Wait for the middle between two ticks, at which triggers fire: multiples of it since 1970."""
    time.sleep((1.5 * _TICK - time.time() % _TICK) % _TICK)


def serve(job: Job, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until there are none."""
    events = Path(job.scratch) / "events"
    events.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        # A task per partition, also where nothing is kept in the state store.
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
    }
    spark = session(job, job.cores, settings)
    try:
        turns = Turns(spark, Path(job.scratch))
        asked: dict[str, Callable[..., dict[str, Any]]] = {
            "step": turns.step,
            "latency": turns.latency,
        }
        java = spark.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
        _say(replies, {"java": java})
        for line in requests:
            request = json.loads(line)
            seat = Seat(**request.pop("seat"))
            try:
                _say(replies, asked[request.pop("ask")](seat, **request))
            except Exception as error:  # the other queries go on
                _say(replies, {"reason": f"{type(error).__name__}: {error}"})
    finally:
        spark.stop()


def _say(replies: TextIO, reply: Mapping[str, Any]) -> None:
    print(json.dumps(reply), file=replies, flush=True)


def main(path: str) -> None:
    """Serve a job. What else is written to standard output goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = Job(**json.loads(Path(path).read_text(encoding="utf-8")))
    serve(job, sys.stdin, replies)


if __name__ == "__main__":
    main(sys.argv[1])

"""A streaming query in a process of its own, to be killed: ``python drill.py orders.json``.

The orders say what to join, where the files are, when to stop and start again in this process, and
what shall go wrong inside Spark's workers. The query takes one file per side and micro-batch,
writes Parquet files, and ends when all files have been read; then the sink is read through Spark's
own log of it, and written down beside the metrics. Nothing here may import the tests: workers get
classes and functions of this script by value.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import thetastream.spark.theta.pipeline
from thetastream.errors import StateError
from thetastream.spark import configure, query_metrics, theta_join
from thetastream.spark.theta.worker import JoinInFiles, JoinProcessor
from thetastream.window import CountWindow, TimeWindow

FAILED = 3


# --- What goes wrong in workers -----------------------------------------------------------------


def once(marker: str) -> bool:
    """Whether this is the first call of all processes under this marker, which gets their id."""
    try:
        file = os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    os.write(file, str(os.getpid()).encode())
    os.close(file)
    return True


def failing(answers: Iterator[Any], trip: dict[str, Any], *, due: bool) -> Iterator[Any]:
    """Fail once if that is due: after the first answer, or after the last, when all is saved."""
    for answer in answers:
        yield answer
        if due and trip["moment"] == "first" and once(trip["marker"]):
            raise RuntimeError("tripped after the first answer")
    if due and trip["moment"] == "last" and once(trip["marker"]):
        raise RuntimeError("tripped after the last answer")


class TrippedInFiles(JoinInFiles):
    """The same as ``TrippedProcessor``, with the state in files."""

    trip: ClassVar[dict[str, Any]] = {}

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        number = TaskContext.get().getLocalProperty("streaming.sql.batchId")
        return failing(super().__call__(batches), self.trip, due=int(number) >= self.trip["skip"])


class TrippedProcessor(JoinProcessor):
    """Fails once, after ``skip`` steps, so that there is state to spoil."""

    trip: ClassVar[dict[str, Any]] = {}

    def _step(self, *args: Any, **options: Any) -> Iterator[Any]:
        trip = self.trip
        frames = super()._step(*args, **options)
        packets = args[2]
        due = bool(packets) and self._steps_done() >= trip["skip"]
        return failing(frames, trip, due=due)

    def _steps_done(self) -> int:
        """Micro-batches behind this partition, as its state tells."""
        found = self._meta.get()
        return 0 if found is None else int(json.loads(found[0])["commits"])


def stall(marker: str) -> None:
    """Once, let a partition that catches up wait for ever when it has stored what it had missed."""
    from thetastream.spark.theta import step

    real = vars(step).setdefault("real_catch_up", step.catch_up)

    def catch_up(opened: Any, *more: Any) -> int:
        restore = opened.partition.restore

        def half(rows: Any) -> None:
            restore(rows)
            if once(marker):
                time.sleep(3600)

        opened.partition.restore = half
        try:
            return real(opened, *more)
        finally:
            del opened.partition.restore

    step.catch_up = catch_up


class StalledProcessor(JoinProcessor):
    """Waits for ever in the middle of a catch-up."""

    marker: ClassVar[str] = ""

    def _step(self, *args: Any, **options: Any) -> Iterator[Any]:
        stall(self.marker)
        return super()._step(*args, **options)


class StalledInFiles(JoinInFiles):
    """The same, with the state in files."""

    marker: ClassVar[str] = ""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        stall(self.marker)
        return super().__call__(batches)


class _Flipped:
    """The blobs of a state store, one bit of each run turned on reading."""

    def __init__(self, blobs: Any) -> None:
        self._blobs = blobs

    def getValue(self, key: tuple[str]) -> Any:
        found = self._blobs.getValue(key)
        if found is None or key[0].startswith(("flags", "ranks", "waiting")):
            return found
        data = bytearray(found[0])
        data[len(data) // 2] ^= 1
        return (bytes(data),)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)


class CorruptProcessor(JoinProcessor):
    """Reads damaged runs."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self._blobs = _Flipped(self._blobs)


def tripped(trip: dict[str, Any]) -> Any:
    """A function for Spark that gives its argument back, and fails once, at one row."""
    number, marker = trip["row"], trip["marker"]

    def pass_on(value: float | None, row: int) -> float | None:
        if row == number and once(marker):
            raise RuntimeError("tripped while packing")
        return value

    return pass_on


# --- The query ----------------------------------------------------------------------------------


def session(orders: dict[str, Any]) -> SparkSession:
    home = Path(orders["home"])
    brief = "-XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # it will not live long
    java = f"-Djava.io.tmpdir={home / 'tmp'} {brief}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.local.dir": str(home / "local"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "200",
        **orders.get("settings", {}),
    }
    builder = configure(SparkSession.builder.master(orders["master"]), partitions=2)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def joined(spark: SparkSession, orders: dict[str, Any]) -> Any:
    sides = []
    for name in ("left", "right"):
        folder = str(Path(orders["source"]) / name)
        source = spark.readStream.schema(orders["schema"]).option("maxFilesPerTrigger", 1)
        sides.append(source.parquet(folder))
    shape = dict(orders["window"])
    if shape["kind"] == "none":
        table = spark.read.schema(orders["schema"]).parquet(str(Path(orders["source"]) / "right"))
        return theta_join(sides[0], table, orders["on"], how=orders["how"], **orders["options"])
    kind = {"time": TimeWindow, "count": CountWindow}[shape.pop("kind")]
    trip = orders.get("trip")
    if trip is not None and trip["stage"] == "pack":
        spark.udf.register("trip", tripped(trip), "double")
    return theta_join(
        *sides,
        orders["on"],
        window=kind(**shape),
        how=orders["how"],
        **orders["options"],
    )


def choose_processor(orders: dict[str, Any]) -> None:
    """Put the processor that goes wrong in the place of the real one, in this process."""
    trip = orders.get("trip")
    pipeline: Any = thetastream.spark.theta.pipeline
    launched = pipeline.launched

    def launched_in_files(title: str, target: str, *arguments: Any) -> Any:
        if target.endswith(":JoinInFiles"):
            return in_files(*arguments)
        return launched(title, target, *arguments)

    chosen: Any = None
    in_files: Any = None
    if orders.get("corrupt"):
        chosen = CorruptProcessor
    elif trip is not None and trip["stage"] == "join":
        TrippedProcessor.trip = TrippedInFiles.trip = trip
        chosen = TrippedProcessor
        in_files = TrippedInFiles
    elif trip is not None and trip["stage"] == "catch-up":
        StalledProcessor.marker = StalledInFiles.marker = trip["marker"]
        chosen = StalledProcessor
        in_files = StalledInFiles
    if in_files is not None:
        pipeline.launched = launched_in_files
    if chosen is not None:
        pipeline.LaunchedProcessor = lambda _target, *arguments: chosen(*arguments)


def start(spark: SparkSession, orders: dict[str, Any]) -> Any:
    sink = joined(spark, orders).writeStream.format("parquet")
    return (
        sink.option("checkpointLocation", orders["checkpoint"])
        .trigger(availableNow=True)
        .start(orders["sink"])
    )


def run(spark: SparkSession, orders: dict[str, Any]) -> None:
    """Run to the end, or to the last stop if that was ordered, stopping on the way."""
    commits = Path(orders["checkpoint"]) / "commits"
    end = [] if orders.get("leave") else [None]
    for stop in [*orders.get("stops", []), *end]:
        query = start(spark, orders)
        if stop is None:
            query.awaitTermination()
        else:
            while query.isActive and not (commits / str(stop)).exists():
                time.sleep(0.02)
            query.stop()
            if (error := query.exception()) is not None:
                raise error
        note(orders, query)


def note(orders: dict[str, Any], query: Any) -> None:
    with open(orders["metrics"], "a") as out:
        for metrics in query_metrics(query):
            out.write(json.dumps(asdict(metrics)) + "\n")


def main(path: str) -> int:
    orders = json.loads(Path(path).read_text())
    choose_processor(orders)
    spark = session(orders)
    errors = []
    try:
        for changed in orders.get("variants", [{}]):
            try:
                run(spark, {**orders, **changed})
                errors.append("")
            except (StreamingQueryException, StateError) as error:
                errors.append(str(error))
        Path(orders["errors"]).write_text(json.dumps(errors))
        if any(errors):
            return FAILED
        if orders.get("leave"):
            return 0
        pq.write_table(spark.read.parquet(orders["sink"]).toArrow(), orders["answer"])
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

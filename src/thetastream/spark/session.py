"""The settings that a Spark session needs, and a function that sets them.

The operator keeps its state in Spark's ``transformWithState``, which needs the RocksDB state store,
and in Python workers that have thetastream.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from pyspark.sql import SparkSession

from thetastream.errors import StateError
from thetastream.options.checks import read_flag
from thetastream.spark.launch import launched, version_here
from thetastream.spark.starting import LOCATION

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
SHUFFLE = "spark.sql.shuffle.partitions"
DAEMON, WARM = "spark.python.daemon.module", "thetastream.spark.daemon"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_DESCRIPTION = "spark.job.description"
_COMMON = (8, 16, 32, 64, 200)  # numbers of shuffle tasks that people set
_ABSENT = re.compile(r"No module named '[\w.]+'")
_TOLD = re.compile(r"ImportError: (this Python worker \(.* has it: .*python)")
_CHECKED: set[str] = set()  # applications whose workers have the library
_MOST = 24  # numbers of tasks that are tried, about
Builder = TypeVar("Builder")


def configure(
    builder: Builder,
    *,
    partitions: int | None = None,
    warm_workers: bool = True,
    local_checkpoints: bool = False,
) -> Builder:
    """Set what the operator needs on a ``SparkSession.builder``, and return it.

    ``partitions`` becomes the number of shuffle partitions; without it, one per core of this
    machine (Spark's own default is 200 tasks per micro-batch). Python workers use the Python that
    runs this; with ``warm_workers``, they are forked from a process that has loaded the engine.
    ``local_checkpoints`` promises that all checkpoints of the session are on a local disk, each of
    one query at a time: they are written faster. Later settings override these.

    >>> from pyspark.sql import SparkSession
    >>> builder = configure(SparkSession.builder.master("local[2]"), partitions=2)
    """
    settings = {
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        SHUFFLE: str(partitions or os.cpu_count() or 2),
        "spark.pyspark.python": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    if read_flag("warm_workers", warm_workers):
        settings[DAEMON] = WARM
    if read_flag("local_checkpoints", local_checkpoints):
        settings[MANAGER] = LOCAL_MANAGER
    for name, value in settings.items():
        builder = builder.config(name, value)  # type: ignore[attr-defined]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def check_streaming(spark: SparkSession, *, stateful: bool) -> None:
    """StateError for a session in which the operator cannot work; it says what to set."""
    place = str(spark.conf.get(LOCATION, ""))
    is_elsewhere = "://" in place and not place.startswith("file:")
    if is_elsewhere and spark.conf.get(MANAGER, "") == LOCAL_MANAGER:
        raise StateError(
            "local_checkpoints=True is for checkpoints on a local disk, where only one driver "
            f"writes, but {LOCATION} is {place!r}; leave out local_checkpoints, or keep the "
            "checkpoints on a local disk"
        )
    if not stateful:
        return
    provider = spark.conf.get(PROVIDER, "")
    if provider is None or not provider.endswith("RocksDBStateStoreProvider"):
        raise StateError(
            f"theta_join on streams keeps its state in RocksDB, but {PROVIDER} is {provider!r}; "
            f"set it to {ROCKSDB}, or build the session with "
            "thetastream.spark.configure(SparkSession.builder)"
        )
    policy = str(spark.conf.get(POLICY, "min"))
    if policy.lower() != "min":
        raise StateError(
            f"theta_join follows the slower of both streams, but {POLICY} is {policy!r}, which "
            "would drop rows of the slower one as late; set it to 'min'"
        )


def check_workers(spark: SparkSession) -> None:
    """StateError if Python workers cannot run the library, found by a job of one row.

    Once per session; the worker that it starts is used again. Not under Spark Connect.
    """
    try:
        application = str(spark.sparkContext.applicationId)
    except Exception:  # a Connect session has no context
        return
    if application in _CHECKED:
        return
    probe = launched("thetastream: check workers", "thetastream.spark.payload:WorkerCheck")
    try:
        with described(spark, "check that Python workers have the library"):
            spark.range(1, numPartitions=1).mapInArrow(probe, "id long").collect()
    except Exception as error:  # of Spark, or of its gateway
        if (lacking := what_workers_lack(str(error))) is not None:
            raise StateError(lacking) from None
        return  # it may be something of the moment; a query will tell
    _CHECKED.add(application)


def what_workers_lack(error: str) -> str | None:
    """What is missing in a Python worker, from Spark's error; None if it is something else."""
    if (told := _TOLD.search(error)) is not None:
        return told.group(1)
    if "thetastream" in error and (absent := _ABSENT.search(error)) is not None:
        return (
            f"the Python of Spark's workers cannot run thetastream: {absent.group()}. Install "
            f"thetastream[spark]=={version_here()} for the Python of every executor, or name a "
            "Python that has it: PYSPARK_PYTHON, or spark.pyspark.python"
        )
    return None


@contextmanager
def described(spark: SparkSession, work: str) -> Iterator[None]:
    """Describe the jobs that run meanwhile in Spark's UI, unless the user has described them."""
    try:
        context = spark.sparkContext
    except Exception:  # a Connect session has no context
        yield
        return
    if context.getLocalProperty(_DESCRIPTION):
        yield
        return
    context.setJobDescription(f"thetastream: {work}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, None)  # type: ignore[arg-type]


def workers_start(spark: SparkSession) -> str:
    """How Python workers start in this session, as a phrase."""
    module = spark.conf.get(DAEMON, "pyspark.daemon")
    return f"warm, forked by {module}" if module == WARM else f"cold, forked by {module}"


def default_partitions(spark: SparkSession) -> int:
    """One partition per task after a shuffle, and at most one per core of the session."""
    shuffles = shuffle_tasks(spark)
    try:
        cores = spark.sparkContext.defaultParallelism
    except Exception:  # a Connect session has no context
        return min(shuffles, 8)
    return max(1, min(shuffles, cores))


def placed_keys(spark: SparkSession, partitions: int) -> tuple[int, ...]:
    """Group keys that Spark's hash spreads over tasks, however many there are.

    They depend on the number of partitions alone, so that a checkpoint does not depend on
    ``spark.sql.shuffle.partitions``. They are on different tasks if those are a multiple of the
    partitions, and mostly otherwise.
    """
    tries = 64 * (partitions + 4)
    hashes = np.array(_hashes(spark, tries), np.int64)
    others = [*range(2, min(2 * partitions, _MOST)), *_COMMON]
    places = [hashes % tasks for tasks in (partitions, *others)]
    taken = [np.zeros(int(at.max()) + 1, np.int64) for at in places]
    keys: list[int] = []
    for _ in range(partitions):
        # A key that shares a task when there are as many tasks as partitions is never right.
        cost = taken[0][places[0]] * len(places) * partitions
        for at, held in zip(places[1:], taken[1:], strict=True):
            cost = cost + held[at]
        cost[keys] = np.iinfo(np.int64).max
        best = int(np.argmin(cost))
        keys.append(best)
        for at, held in zip(places, taken, strict=True):
            held[at[best]] += 1
    return tuple(keys)


def task_keys(spark: SparkSession, partitions: int) -> tuple[int, ...]:
    """Group keys of which Spark's hash sends the one of partition ``p`` to task ``p``."""
    places = [value % partitions for value in _hashes(spark, 64 * (partitions + 4))]
    return tuple(places.index(place) for place in range(partitions))


def _hashes(spark: SparkSession, tries: int) -> list[int]:
    """Spark's hashes of the small group keys 0, 1, 2 …"""
    with described(spark, "place partitions on tasks"):
        rows = spark.sql(
            f"SELECT id, hash(CAST(id AS INT)) AS hash FROM range(0, {tries}, 1, 1) ORDER BY id"
        ).collect()
    return [int(row["hash"]) for row in rows]


def shuffle_tasks(spark: SparkSession) -> int:
    """How many tasks follow a shuffle."""
    return int(str(spark.conf.get(SHUFFLE, "200")))


def idle_tasks(spark: SparkSession, partitions: int) -> str:
    """A warning if most tasks of a micro-batch would find no rows; empty if not.

    Spark runs the stateful step on as many tasks as the session says, and each opens a state store
    and calls a Python worker, also without rows.
    """
    tasks = shuffle_tasks(spark)
    if tasks <= max(16, 4 * partitions):
        return ""
    return (
        f"{SHUFFLE} is {tasks} and the join has {partitions} partitions, so every micro-batch runs "
        f"{tasks} tasks, most of them without rows; set it to {partitions} before the query is "
        f"started for the first time (configure(builder, partitions={partitions}) does), or raise "
        "partitions="
    )

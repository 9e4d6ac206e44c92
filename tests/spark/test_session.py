"""What a session must be set to: the helper that sets it, and the checks at the start."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from thetastream.errors import IdleTasksWarning, OptionError, StateError
from thetastream.spark import configure, explain, theta_join
from thetastream.spark.session import (
    CHANGELOG,
    DAEMON,
    LOCAL_MANAGER,
    LOCATION,
    MANAGER,
    POLICY,
    PROVIDER,
    ROCKSDB,
    SHUFFLE,
    WARM,
    check_workers,
    placed_keys,
    what_workers_lack,
    workers_start,
)
from thetastream.window import TimeWindow

WINDOW = TimeWindow("5 s", time="timestamp")


class Builder:
    """Notes what is set."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, name: str, value: str) -> Builder:
        self.settings[name] = value
        return self


@contextmanager
def set_to(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


@contextmanager
def added(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    """Settings that the session does not have otherwise."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def rate(spark: Any) -> Any:
    return spark.readStream.format("rate").load()


def test_configure_sets_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    builder = Builder()
    assert configure(builder, partitions=3) is builder
    assert builder.settings[PROVIDER] == ROCKSDB
    assert builder.settings[CHANGELOG] == "true"
    assert builder.settings[SHUFFLE] == "3"
    assert builder.settings["spark.pyspark.python"] == sys.executable
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_what_configure_sets_on_request() -> None:
    settings = configure(Builder()).settings
    assert settings[DAEMON] == WARM
    assert MANAGER not in settings, "checkpoints may be anywhere"
    settings = configure(Builder(), warm_workers=False, local_checkpoints=True).settings
    assert DAEMON not in settings
    assert settings[MANAGER] == LOCAL_MANAGER
    for option in ("warm_workers", "local_checkpoints"):
        with pytest.raises(OptionError, match=f"{option} must be"):
            configure(Builder(), **{option: "yes"})


def test_the_session_of_configure_is_accepted(spark: Any) -> None:
    assert spark.conf.get(PROVIDER) == ROCKSDB
    joined = theta_join(rate(spark), rate(spark), "l.value = r.value", WINDOW)
    assert joined.isStreaming
    assert explain(joined).as_dict()["partitioning"]["partitions"] == 2
    assert explain(joined).as_dict()["mode"] == "streaming"
    assert explain(joined).as_dict()["Python workers"] == f"warm, forked by {WARM}"
    assert f"Python workers: warm, forked by {WARM}" in explain(joined)


def test_the_explanation_says_that_workers_start_cold() -> None:
    session: Any = SimpleNamespace(conf={})
    assert workers_start(session) == "cold, forked by pyspark.daemon"


def test_workers_of_another_version_are_noticed_at_the_call(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thetastream.spark.session._CHECKED", set())
    with monkeypatch.context() as other:
        other.setattr("thetastream.spark.launch.version_here", lambda: "0.0.1")
        frame = spark.range(3)
        with pytest.raises(StateError, match=r"this Python worker \(.*planned the join with 0.0.1"):
            theta_join(frame, frame.select("*"), "l.id = r.id")
    check_workers(spark)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "Error while finding module specification for 'thetastream.spark.daemon' "
            "(ModuleNotFoundError: No module named 'thetastream')\n\tat org.apache",
            "Python of Spark's",
        ),
        (
            "x\nImportError: this Python worker (/p, Python 3.12) cannot run thetastream: "
            "No module named 'numba'. Install it, or name a Python that has it: P, or "
            "spark.pyspark.python\n",
            "/p, Pyth",
        ),
        ("No module named 'other'", None),
    ],
)
def test_what_workers_lack(error: str, told: str | None) -> None:
    found = what_workers_lack(error)
    assert found is None if told is None else told in (found or "")
    if found is not None:
        assert found.endswith("spark.pyspark.python")
        assert "No module named" in found


def test_a_state_store_in_memory_is_refused(spark: Any, tmp_path: Path) -> None:
    memory = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    with set_to(spark, PROVIDER, memory):
        with pytest.raises(StateError, match="RocksDB") as caught:
            theta_join(rate(spark), rate(spark), "l.value = r.value", WINDOW)
        assert PROVIDER in str(caught.value)
        assert ROCKSDB in str(caught.value)
        assert "configure(" in str(caught.value)
        files = theta_join(
            rate(spark), rate(spark), "l.value = r.value", WINDOW, state_path=str(tmp_path)
        )
        assert files.isStreaming, "an inner join with its state in files needs no state store"
        table = spark.range(3).selectExpr("id", "timestamp_seconds(id) AS timestamp")
        assert theta_join(table, table.select("*"), "l.id = r.id", WINDOW).count() == 3


def test_checkpoints_elsewhere_are_not_written_as_on_a_local_disk(
    spark: Any, tmp_path: Path
) -> None:
    streams = rate(spark), rate(spark)
    with added(spark, {MANAGER: LOCAL_MANAGER, LOCATION: "hdfs://name:9000/checkpoints"}):
        for more in ({}, {"state_path": str(tmp_path)}):
            with pytest.raises(StateError, match="is for checkpoints on a local disk") as caught:
                theta_join(*streams, "l.value = r.value", WINDOW, **more)
            assert "hdfs://name:9000/checkpoints" in str(caught.value)
        for place in (f"file://{tmp_path}", str(tmp_path)):
            spark.conf.set(LOCATION, place)
            assert theta_join(*streams, "l.value = r.value", WINDOW).isStreaming


def test_the_policy_of_the_faster_stream_is_refused(spark: Any) -> None:
    with (
        set_to(spark, POLICY, "max"),
        pytest.raises(StateError, match="multipleWatermarkPolicy is 'max'.*set it to 'min'"),
    ):
        theta_join(rate(spark), rate(spark), "l.value = r.value", WINDOW)


@pytest.mark.parametrize(("shuffles", "partitions"), [(2, 2), (4, 4), (4, 3), (7, 7), (2, 5)])
def test_partitions_are_placed_apart(spark: Any, shuffles: int, partitions: int) -> None:
    """As many Spark partitions are used as can be, none twice before all once."""
    with set_to(spark, SHUFFLE, str(shuffles)):
        keys = placed_keys(spark, partitions)
        rows = spark.createDataFrame([(key,) for key in keys], "k int")
        places = rows.repartition(shuffles, "k").selectExpr("spark_partition_id() AS p").collect()
    assert len(set(keys)) == partitions
    counts = Counter(row["p"] for row in places)
    assert len(counts) == min(shuffles, partitions)
    assert max(counts.values()) == -(-partitions // shuffles)


def test_partitions_do_not_depend_on_the_session(spark: Any) -> None:
    """A checkpoint can be used with other shuffle partitions: group keys stay the same."""
    keys = placed_keys(spark, 4)
    for shuffles in (1, 5, 200):
        with set_to(spark, SHUFFLE, str(shuffles)):
            assert placed_keys(spark, 4) == keys


def test_many_tasks_without_rows_are_warned_of(spark: Any) -> None:
    with (
        set_to(spark, SHUFFLE, "200"),
        pytest.warns(
            IdleTasksWarning, match="runs 200 tasks, most of them without rows; set it to 2"
        ),
    ):
        joined = theta_join(rate(spark), rate(spark), "l.value = r.value", WINDOW, partitions=2)
    assert "200 tasks" in explain(joined)
    assert len(explain(joined).splitlines()) <= 25
    with set_to(spark, SHUFFLE, "200"):
        table = spark.range(3).selectExpr("id", "timestamp_seconds(id) AS timestamp")
        assert not theta_join(table, None, "l.id < r.id", WINDOW).isStreaming, (
            "no state, no warning"
        )


def test_names_of_joins(spark: Any) -> None:
    """In explain and in Spark's plans; without a name, what does not change when code moves."""

    def named(on: str, **options: Any) -> str:
        joined = theta_join(rate(spark), rate(spark), on, WINDOW, **options)
        return str(explain(joined).as_dict()["name"])

    first, second = named("l.value + 41 = r.value"), named("l.value + 42 = r.value")
    assert len({first, second}) == 2
    assert re.fullmatch("[0-9a-f]{8}", first)
    assert named("l.value + 41 = r.value") == f"{first}-2", "Spark refuses one name twice"
    assert named("l.value + 41 = r.value", name="trades") == "trades"
    joined = theta_join(rate(spark), rate(spark), "l.value = r.value", WINDOW, name="trades")
    plan = joined._jdf.queryExecution().toString()
    for work in ("pack left", "pack right", "join"):
        assert f"thetastream: {work} trades" in plan
    with pytest.raises(OptionError, match="name must be"):
        named("l.value = r.value", name=5)


@pytest.mark.parametrize("partitions", [0, -1, 1.5, True, "2"])
def test_bad_numbers_of_partitions(spark: Any, partitions: Any) -> None:
    frame = spark.range(3).selectExpr("id", "timestamp_seconds(id) AS timestamp")
    with pytest.raises(OptionError, match="partitions must be a whole number of at least 1; got"):
        theta_join(frame, None, "l.id < r.id", WINDOW, partitions=partitions)

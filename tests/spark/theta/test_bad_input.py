"""Bad input gets an error that says what was expected, what came, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from thetastream.errors import OptionError, PredicateError, SchemaError, StateError, WindowError
from thetastream.spark import explain, theta_join
from thetastream.spark.launch import LaunchedProcessor, launched, launched_join
from thetastream.spark.theta.worker import pickled
from thetastream.testing.streams import Scenario
from thetastream.window import CountWindow, SessionWindow, TimeWindow, Unbounded

from ..drive import rows
from ..simulate import spec_of

WINDOW = TimeWindow("5 s", time="t")


pytestmark = pytest.mark.smoke


@pytest.fixture(scope="module")
def table(spark: Any) -> Any:
    return spark.createDataFrame(rows(1, 4, 0)).cache()


@pytest.fixture(scope="module")
def stream(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A stream that is planned and never run."""
    schema = "x bigint, v double, s string, t timestamp, n bigint, local timestamp_ntz, d date"
    return spark.readStream.schema(schema).parquet(str(tmp_path_factory.mktemp("none")))


# --- Windows and times --------------------------------------------------------------------------


def test_a_join_without_a_window(stream: Any, table: Any) -> None:
    with pytest.raises(WindowError, match="without a window would keep every row for ever"):
        theta_join(stream, stream, "l.x = r.x")
    assert not theta_join(table, table, "l.x = r.x").isStreaming, "tables end"
    with pytest.raises(WindowError, match="must be a TimeWindow or a CountWindow; got '10 min'"):
        theta_join(stream, None, "l.x = r.x", "10 min")  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [SessionWindow("5 s", time="t"), Unbounded()], ids=str)
def test_windows_that_run_in_one_process(stream: Any, window: Any) -> None:
    with pytest.raises(WindowError, match=r"on Spark a window must be.*StreamJoin takes it"):
        theta_join(stream, stream, "l.x = r.x", window)


def test_a_count_window_without_an_order(stream: Any) -> None:
    with pytest.raises(WindowError, match="needs order='column'"):
        theta_join(stream, stream, "l.x = r.x", CountWindow(10))


def test_an_order_that_is_no_column(stream: Any) -> None:
    with pytest.raises(SchemaError, match="'rank'"):
        theta_join(stream, stream, "l.x = r.x", CountWindow(10, order="rank"))


def test_a_time_column_that_is_not_there(stream: Any) -> None:
    with pytest.raises(SchemaError, match="'ts'.*left") as caught:
        theta_join(stream, stream, "l.x = r.x", TimeWindow("5 s", time="ts"))
    assert "did you mean" in str(caught.value).lower()


@pytest.mark.parametrize("name", ["s", "v"])
def test_a_time_column_of_a_wrong_type(stream: Any, name: str) -> None:
    with pytest.raises(SchemaError, match=f"{name}.*(string|double|float64)"):
        theta_join(stream, stream, "l.x = r.x", TimeWindow("5 s", time=name))


def test_a_duration_for_an_integer_time(stream: Any) -> None:
    with pytest.raises((SchemaError, WindowError), match="n"):
        theta_join(stream, stream, "l.x = r.x", TimeWindow("5 s", time="n"))


def test_times_with_and_without_a_zone(stream: Any) -> None:
    """An instant and a clock on the wall cannot be compared; the message says which is which."""
    with pytest.raises(SchemaError) as caught:
        theta_join(stream, stream.select("*"), "l.x = r.x", TimeWindow("5 s", time=("t", "local")))
    assert "zone" in str(caught.value)
    with pytest.raises(SchemaError, match="zone"):
        theta_join(stream, stream.select("*"), "l.t <= r.local", WINDOW)
    kept = theta_join(
        stream, stream.select("*"), "l.x = r.x", TimeWindow("5 s", time=("local", "local"))
    )
    assert kept.isStreaming, "clocks on the wall among themselves are fine"


def test_a_lateness_that_spark_cannot_count(stream: Any) -> None:
    window = TimeWindow("5 s", time="t", lateness="1500 us")
    with pytest.raises(WindowError, match="finer than a millisecond.*round it up"):
        theta_join(stream, stream, "l.x = r.x", window)


def test_a_lateness_said_twice(stream: Any) -> None:
    marked = stream.withWatermark("t", "3 seconds")
    with pytest.raises(WindowError, match="has a watermark already.*say it once"):
        theta_join(marked, marked, "l.x = r.x", TimeWindow("5 s", time="t", lateness="3 s"))
    assert theta_join(marked, marked.select("*"), "l.x = r.x", WINDOW).isStreaming


# --- Frames and columns -------------------------------------------------------------------------


def test_a_stream_and_a_table_in_a_window(stream: Any, table: Any) -> None:
    """Without one they are joined; see ``tests/spark/table``."""
    with pytest.raises(StateError, match="the right side is a static DataFrame.*leave out window="):
        theta_join(stream, table, "l.x = r.x", WINDOW)
    with pytest.raises(StateError, match="the left side is a static DataFrame.*as a stream too"):
        theta_join(table, stream, "l.x = r.x", WINDOW)


def test_a_column_in_other_letters(stream: Any, table: Any) -> None:
    """As in Spark; where Spark tells letters apart, it is another column."""
    for on in ("l.X = r.x", "l.X * 2 = r.`X` + 0"):
        assert theta_join(stream, stream.select("*"), on, WINDOW).isStreaming
    spark = table.sparkSession
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(PredicateError, match="the left side has no column 'X'"):
            theta_join(stream, stream.select("*"), "l.X = r.x", WINDOW)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_two_columns_of_one_name(table: Any) -> None:
    twice = table.selectExpr("x", "t", "x")
    with pytest.raises(SchemaError, match="the right side has two columns 'x'; rename"):
        theta_join(table, twice, "l.x = r.x", WINDOW)
    cases = table.selectExpr("x", "t", "v AS X")
    with pytest.raises(SchemaError, match="two columns 'X'"):
        theta_join(cases, None, "l.x = r.x", WINDOW)


def test_names_that_the_join_keeps_for_itself(table: Any) -> None:
    with pytest.raises(SchemaError, match="'__e0'.*two underscores.*rename"):
        theta_join(table.withColumnRenamed("v", "__e0"), table, "l.x = r.x", WINDOW)


@pytest.mark.parametrize("mode", ["static", "stream"])
def test_an_unknown_column_is_told_with_a_suggestion(request: Any, mode: str) -> None:
    frame = request.getfixturevalue("table" if mode == "static" else "stream")
    priced = frame.withColumnRenamed("x", "price")
    with pytest.raises(PredicateError, match="the left side has no column 'pric'") as caught:
        theta_join(priced, priced.select("*"), "l.pric = r.price", WINDOW)
    assert "'price'" in str(caught.value)
    with pytest.raises(PredicateError, match="Spark cannot compute.*left side.*pric") as found:
        theta_join(priced, priced.select("*"), "l.pric * 2 = r.price", WINDOW)
    assert "`price`" in str(found.value)
    assert "JVM" not in str(found.value)


def test_columns_that_the_answer_has_not(table: Any) -> None:
    with pytest.raises(SchemaError, match="'w'"):
        theta_join(table, table.select("*"), "l.x = r.x", WINDOW, columns=["x", "w"])
    with pytest.raises(OptionError, match="at least one"):
        theta_join(table, table.select("*"), "l.x = r.x", WINDOW, columns=[])


def test_event_time_that_cannot_be(stream: Any) -> None:
    with pytest.raises(SchemaError, match="has already; choose another name"):
        theta_join(stream, stream, "l.x = r.x", WINDOW, event_time="t")
    with pytest.raises(WindowError, match="event_time needs a TimeWindow"):
        theta_join(stream, stream, "l.x = r.x", CountWindow(5, order="n"), event_time="e")
    with pytest.raises(OptionError, match="event_time is for inner joins.*left join"):
        theta_join(stream, stream, "l.x = r.x", WINDOW, "left", event_time="e")
    with pytest.raises(SchemaError, match="event_time needs timestamps; l.n is bigint"):
        theta_join(stream, stream, "l.x = r.x", TimeWindow(5, time="n"), event_time="e")


# --- Partitioning -------------------------------------------------------------------------------


def test_more_partitions_than_cells(spark: Any) -> None:
    frame = spark.sql("SELECT 1Y AS k, TIMESTAMP'2024-01-01 00:00:00' AS t")
    on = "abs(l.k - r.k) <= 5"
    with pytest.raises(SchemaError, match="9 partitions.*cells of width.*at most") as caught:
        theta_join(frame, frame.select("*"), on, WINDOW, partitions=9)
    assert "matrix" in str(caught.value)
    for options in ({"partitioning": "matrix"}, {"cell_width": 8}):
        joined = theta_join(frame, frame.select("*"), on, WINDOW, partitions=9, **options)
        assert joined.count() == 1


def test_schemes_that_do_not_fit(table: Any) -> None:
    for on, options, message in (
        ("l.x < r.x", {"partitioning": "hash"}, "needs an equality"),
        ("l.x < r.x", {"partitioning": "cells"}, "needs a band"),
        ("l.x = r.x", {"partitioning": "cell"}, "Did you mean 'cells'"),
        ("l.x < r.x", {"cell_width": 3}, "cell_width is for joins on a band"),
        ("abs(l.x - r.x) <= 2", {"cell_width": 0}, "must be a positive number"),
        ("abs(l.x - r.x) <= 2", {"cell_width": 2.5}, "must be a whole number"),
    ):
        with pytest.raises(OptionError, match=f"(?i){message}"):
            theta_join(table, table.select("*"), on, WINDOW, **options)


def test_explain_of_something_else(table: Any) -> None:
    with pytest.raises(StateError, match="takes the DataFrame that theta_join or relation_join"):
        explain(table)


# --- Workers ------------------------------------------------------------------------------------


def test_a_worker_without_numba(tmp_path: Path) -> None:
    """The pickled join in a Python that has everything but numba."""
    small = pa.table({"x": [1], "t": [1]})
    scenario = Scenario(((small, small),), "l.x = r.x", TimeWindow(5, time="t"))
    (tmp_path / "spec").write_bytes(pickled(spec_of(scenario, 1)))
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from thetastream.spark.theta.worker import PackTask\n"
        f"payload = open({str(tmp_path / 'spec')!r}, 'rb').read()\n"
        "list(PackTask(payload, 'left')(iter([])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=120,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert "StateError: this Python worker (" in last
    assert "numba" in last
    assert "thetastream[spark]" in last
    assert "PYSPARK_PYTHON" in last


HIDDEN = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "thetastream":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Absent())
"""
OTHER = "import thetastream; thetastream.__version__ = '0.0.1'"


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (HIDDEN, "No module named 'thetastream'. Install thetastream[spark]=="),
        (OTHER, "has thetastream 0.0.1, but the driver planned the join with"),
    ],
    ids=["absent", "another version"],
)
@pytest.mark.parametrize("kind", ["pack", "join", "processor"])
def test_a_worker_without_the_library(tmp_path: Path, kind: str, before: str, told: str) -> None:
    """What Spark unpickles in a worker says what to install, before anything of ours is loaded."""
    worker = "thetastream.spark.theta.worker"
    shipped: dict[str, Any] = {
        "pack": launched("thetastream: pack left", f"{worker}:PackTask", b"", "left"),
        "join": launched_join("thetastream: join", f"{worker}:join_task", b""),
        "processor": LaunchedProcessor(f"{worker}:JoinProcessor", b"", True),
    }
    calls = {
        "pack": "list(it(iter([])))",
        "join": "list(it((), iter([])))",
        "processor": "it.init(0)",
    }
    (tmp_path / "it").write_bytes(cloudpickle.dumps(shipped[kind]))
    code = (
        f"{before}\nfrom pyspark import cloudpickle\n"
        f"it = cloudpickle.loads(open({str(tmp_path / 'it')!r}, 'rb').read())\n{calls[kind]}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith(f"ImportError: this Python worker ({sys.executable}, Python 3.")
    assert told in last
    assert "PYSPARK_PYTHON" in last


def test_an_error_of_a_worker_names_the_value(spark: Any) -> None:
    """What only the rows show: a time that Spark's watermark cannot count."""
    frame = spark.sql("SELECT 1L AS x, 9223372036854775807L AS n")
    joined = theta_join(frame, frame.select("*"), "l.x = r.x", TimeWindow(5, time="n"))
    with pytest.raises(Exception, match="beyond what Spark's watermark can count"):
        joined.collect()

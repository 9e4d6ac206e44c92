"""What all tests share: the hypothesis profiles, and a look for what may be absent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from thetastream.errors import RegistryError
from thetastream.index.subwindows.opencl import find
from thetastream.prices import constants, yardstick

# "ci" and "quick", for what a newcomer runs, try the same examples on every run and every machine;
# "explore" tries new ones: THETASTREAM_HYPOTHESIS=explore make test ARGS="-k oracle"
for profile, examples in (("ci", 60), ("quick", 8), ("explore", 1000)):
    settings.register_profile(
        profile,
        derandomize=profile != "explore",
        max_examples=examples,
        deadline=None,  # a first call may compile
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("THETASTREAM_HYPOTHESIS", "ci"))


@pytest.fixture(autouse=True, scope="session")
def _uncalibrated() -> Iterator[None]:
    """Estimates must not depend on the machine, nor on whether it was calibrated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yardstick, "factor", lambda: 1.0)
        patch.setattr(constants, "_NAME", f"calibration-of-{os.getpid()}.json")
        yield


LABORATORY = Path(__file__).parent / "thetabench"


def pytest_configure() -> None:
    """A run in the background ignores Ctrl-C, and so would every process that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a Spark session go to one process; some need what may be absent.

    Spark and the laboratory take their time: `make test` runs only what is marked as smoke there.
    """
    for item in items:
        on_spark = "spark" in getattr(item, "fixturenames", ())
        if on_spark:
            item.add_marker(pytest.mark.xdist_group("spark"))
        if (on_spark or LABORATORY in item.path.parents) and not item.get_closest_marker("smoke"):
            item.add_marker(pytest.mark.full)
    _skip_without("opencl", find, items)  # PoCL comes with the packages, but needs a linker


def _skip_without(word: str, look: Callable[[], object], items: list[pytest.Item]) -> None:
    """Tests with a word in their name, parameters included, need what is looked for."""
    wanting = [item for item in items if word in item.nodeid]
    if not wanting:
        return
    try:
        look()
    except RegistryError as error:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=str(error)))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session as ``configure`` sets it: two cores, two shuffle partitions, a zone not UTC.

    It is started in a folder of the test run, to which relative paths belong from then on, and so
    do run files of its workers: nothing outlives it.
    """
    from pyspark.sql import SparkSession

    from thetastream.spark import configure

    folder = tmp_path_factory.mktemp("spark")
    environment = {
        "THETASTREAM_RUNS": str(folder / "runs"),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.streaming.numRecentProgressUpdates": "200",
        "spark.sql.ansi.enabled": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        builder = configure(SparkSession.builder.master("local[2]"), partitions=2)
        for name, value in settings.items():
            builder = builder.config(name, value)
        with chdir(folder):
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()

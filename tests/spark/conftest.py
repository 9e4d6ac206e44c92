"""One Spark session for all tests of the operator."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session as ``configure`` sets it: two cores, two shuffle partitions, a zone not UTC.

    Run files of its workers go to a folder of the test run, so nothing outlives it.
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
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()

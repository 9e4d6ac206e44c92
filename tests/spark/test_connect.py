"""The operator under Spark Connect: a server of its own, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from thetastream.testing import run_oracle
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from .drive import closed, stream, without_closing, write_pushes

SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from thetastream.errors import PredicateError
from thetastream.spark import configure, explain, query_metrics, theta_join
from thetastream.window import TimeWindow

folder = sys.argv[1]
builder = configure(SparkSession.builder.remote("local[2]"), partitions=2)
spark = (
    builder.config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    .getOrCreate()
)
window = TimeWindow("8 s", time="t", lateness="2 s")
on = "abs(l.x * 2 - r.x * 2) <= 2"

def pairs(frame):
    names = ["row number", "row number_right"]
    return [list(row.values()) for row in frame.select(*names).toArrow().to_pylist()]

tables = [spark.read.parquet(folder + "/" + side) for side in ("left", "right")]
joined = theta_join(*tables, on, window, "left")
found = {"static": pairs(joined), "scheme": explain(joined).as_dict()["partitioning"]["scheme"]}
streams = [
    spark.readStream.schema(table.schema)
    .option("maxFilesPerTrigger", 1)
    .parquet(folder + "/" + side)
    for side, table in zip(("left", "right"), tables)
]
query = (
    theta_join(*streams, on, window, "left")
    .writeStream.format("memory").queryName("answer")
    .option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination(200)
metrics = query_metrics(query)
found["stream"] = pairs(spark.table("answer"))
found["rows"] = [m.numInputRows for m in metrics]
found["late"] = sum(m.numRowsDroppedByWatermark for m in metrics)
mixed = (
    theta_join(streams[0], tables[1], on, how="left")
    .writeStream.format("memory").queryName("mixed")
    .option("checkpointLocation", folder + "/mixed")
    .trigger(availableNow=True)
    .start()
)
mixed.awaitTermination(200)
found["mixed"] = pairs(spark.table("mixed"))
found["whole"] = pairs(theta_join(*tables, on, how="left"))
try:
    theta_join(*tables, "sum(l.x) = r.x", window)
except PredicateError as error:
    found["refused"] = str(error)
print("FOUND" + json.dumps(found), flush=True)
spark.stop()
"""


@pytest.mark.slow
def test_a_static_and_a_streaming_join_under_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio: thetastream[connect]")
    pushes = closed(stream(19, pushes=3))
    window = TimeWindow("8 s", time="t", lateness="2 s")
    scenario = Scenario(tuple(pushes), "abs(l.x - r.x) <= 1", window, "left")
    from thetastream.testing.driver import numbered

    for position, side in enumerate(("left", "right")):
        write_pushes(tmp_path / side, [push[position] for push in numbered(scenario)])
    environment = dict(os.environ) | {
        "THETASTREAM_RUNS": str(tmp_path / "runs"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("SPARK_REMOTE", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True, text=True, env=environment, timeout=500, cwd=tmp_path,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert lines, (done.returncode, done.stderr[-3000:])
    found = json.loads(lines[0].removeprefix("FOUND"))
    truth = run_oracle(scenario)
    expected = sorted(map(str, without_closing(scenario, truth.pairs)))
    assert sorted(str(tuple(pair)) for pair in found["stream"]) == expected
    assert found["late"] == sum(truth.late.values())
    assert found["rows"][:3] == [28, 28, 14]
    once = run_oracle(scenario.with_pushes([(scenario.table(0), scenario.table(1))]))
    assert sorted(str(tuple(pair)) for pair in found["static"]) == sorted(map(str, once.pairs))
    assert len(found["mixed"]) > 20, "a table needs no window"
    assert sorted(map(str, found["mixed"])) == sorted(map(str, found["whole"]))
    assert found["scheme"] == "cells"
    assert "left side" in found["refused"]

"""``relation_join`` of streams: checkpoints, updates between micro-batches, failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import thetastream as ts
from thetastream.spark import relation_join, relation_metrics
from thetastream.testing.driver import ROW

from ..drive import finish, read_sink, read_stream, run_to_files, write_pushes
from .relation_rows import MEMORY, MODES, built, given, table, truth


def pushes(number: int, rows: int = 40) -> list[pa.Table]:
    return [table(100 + at, rows, at * rows) for at in range(number)]


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.smoke] if how == "left" else []) for how in MODES]
)
def test_a_stream_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path, how: str) -> None:
    right, fresh = table(2, 60), pushes(4)
    path = built(tmp_path, right)
    on = "r.x BETWEEN l.x AND l.x + 1"
    write_pushes(tmp_path / "stream", fresh[:2])
    metrics = []
    for upto in (2, 4):
        write_pushes(tmp_path / "stream", fresh[:upto])
        stream = read_stream(spark, tmp_path / "stream")
        query = run_to_files(relation_join(stream, path, on, MEMORY, how), tmp_path)
        metrics += relation_metrics(query)
    found = read_sink(spark, tmp_path)
    assert given(found) == truth(pa.concat_tables(fresh), right, on, how)
    assert [m.batchId for m in metrics] == [0, 1, 2, 3]
    assert [m.numInputRows for m in metrics] == [40] * 4
    assert sum(m.outputRows for m in metrics) == found.num_rows
    assert metrics[0]["seeks"] == metrics[0].seeks > 0
    assert metrics[0].peakBytes <= 1.05 * metrics[0].budgetBytes
    assert any(m.warm for m in metrics[1:]), "a worker keeps its join"


@pytest.mark.parametrize("change", ["journal", "build"])
def test_an_update_is_seen_by_the_next_micro_batch(spark: Any, tmp_path: Path, change: str) -> None:
    before, fresh = table(2, 60), pushes(3)
    more = table(3, 30, 1000)
    path = built(tmp_path, before)
    write_pushes(tmp_path / "stream", fresh)
    joined = relation_join(read_stream(spark, tmp_path / "stream"), path, "l.x = r.x", MEMORY)
    found: list[pa.Table] = []
    if change == "journal":
        kept = before.filter(pc.invert(pc.is_in(before["x"], pa.array([3, 4]))))
        after = pa.concat_tables([kept, more])
    else:
        after = more

    def take(frame: Any, number: int) -> None:
        found.append(frame.toArrow())
        if number != 0:
            return
        if change == "build":
            built(tmp_path, after)
            return
        with ts.Relation.open(path) as relation, relation.transaction() as changes:
            changes.delete([3, 4])
            changes.insert(more)

    query = (
        joined.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)
    for rows, batch, now in zip(found, fresh, (before, after, after), strict=True):
        assert given(rows) == truth(batch, now, "l.x = r.x")
    versions = [metrics.versions for metrics in relation_metrics(query)]
    assert all(len(seen) == 1 for seen in versions)
    if change == "journal":
        assert versions[0] < versions[1] == versions[2]


def test_a_query_that_fails_goes_on_exactly(spark: Any, tmp_path: Path) -> None:
    right, fresh = table(2, 60), pushes(3)
    path = built(tmp_path, right)
    write_pushes(tmp_path / "stream", fresh)
    mark = str(tmp_path / "mended")

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in (batch.slice(0, 20), batch.slice(20)):
                numbers = part.column(ROW).to_pylist()
                if max(numbers, default=0) >= 70 and not os.path.exists(mark):
                    raise ValueError("broken on purpose")
                yield part

    def joined() -> Any:
        stream = read_stream(spark, tmp_path / "stream")
        return relation_join(
            stream.mapInArrow(failing, stream.schema), path, "l.x = r.x", MEMORY, "left"
        )

    with pytest.raises(Exception, match="broken on purpose"):
        run_to_files(joined(), tmp_path)
    assert given(read_sink(spark, tmp_path)) == truth(fresh[0], right, "l.x = r.x", "left")
    Path(mark).touch()
    run_to_files(joined(), tmp_path)
    found = read_sink(spark, tmp_path)
    assert given(found) == truth(pa.concat_tables(fresh), right, "l.x = r.x", "left")


RETRIED = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from thetastream.spark import configure, relation_join
folder = Path(sys.argv[1])
builder = SparkSession.builder.master("local[1,3]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
spark = configure(builder, partitions=1).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
def failing(batches):
    for batch in batches:
        yield batch.slice(0, 50)
        if not (folder / "failed").exists():
            (folder / "failed").touch()
            raise ValueError("broken on purpose")
        yield batch.slice(50)
frame = spark.range(0, 200, 1, 2).selectExpr("id AS k")
found = relation_join(frame.mapInArrow(failing, frame.schema), folder / "table.rel", "l.k = r.k")
assert sorted(row["k"] for row in found.collect()) == list(range(0, 200, 2))
assert (folder / "failed").exists()
spark.stop()
print("as it should be")
"""


@pytest.mark.slow
def test_a_task_that_fails_is_tried_again(tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array(range(0, 400, 2), pa.int64())})
    ts.Relation.build(tmp_path / "table.rel", rows, key="k").close()
    done = subprocess.run(
        [sys.executable, "-c", RETRIED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(ts.__file__).parents[1]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert done.stdout.strip() == "as it should be", done.stderr[-2000:]

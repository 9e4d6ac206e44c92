"""``relation_join`` on a real session: exact in every mode, over restarts, updates and failures."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import thetastream as ts
from thetastream.errors import (
    DataError,
    OptionError,
    PredicateError,
    RelationError,
    SchemaError,
)
from thetastream.spark import relation_join, relation_metrics
from thetastream.spark.relation import worker as relation_worker
from thetastream.spark.relation.worker import RelationSpec, RelationTask
from thetastream.testing.driver import ROW
from thetastream.truth import oracle

from ..drive import pairs_of, read_stream, write_pushes

MODES = ("inner", "left", "semi", "anti")
MEMORY = "4 MB"
START = datetime(2024, 3, 1, tzinfo=UTC)
CONDITIONS: dict[str, tuple[str, Any]] = {
    "equal": ("l.x = r.x", "x"),
    "equal strings": ("l.s = r.s AND l.x <> r.x", "s"),
    "range": ("r.x BETWEEN l.x AND l.x + 2", "x"),
    "band of floats": ("abs(l.v - r.v) <= 0.5", "v"),
    "times": ("l.t >= r.t AND l.t < r.t + INTERVAL '2 seconds'", "t"),
    "interval": ("l.x BETWEEN r.lo AND r.hi", ("lo", "hi")),
    "computed by Spark": ("pmod(l.x * 7, 11) = r.x AND r.x % 2 = 0", "x"),
}
ORACLE = {"computed by Spark": "(l.x * 7) % 11 = r.x AND r.x % 2 = 0"}


def table(seed: int, rows: int, first: int = 0) -> pa.Table:
    """Small domains, so that ties are normal; NULL, NaN and both zeros."""
    rng = random.Random(seed)

    def column(values: Any) -> list[Any]:
        return [None if rng.random() < 0.07 else rng.choice(values) for _ in range(rows)]

    nan = float("nan")
    return pa.table(
        {
            "x": pa.array(column(range(12)), pa.int64()),
            "v": pa.array(column([0.0, -0.0, 0.5, 1.25, nan, -3.5]), pa.float64()),
            "s": pa.array(column(["a", "b", "ä", ""]), pa.string()),
            "t": pa.array(
                column([START + timedelta(seconds=n) for n in range(9)]),
                pa.timestamp("us", tz="UTC"),
            ),
            "lo": pa.array(column(range(10)), pa.int64()),
            "hi": pa.array(column(range(3, 13)), pa.int64()),
            ROW: pa.array(range(first, first + rows), pa.int64()),
        }
    )


def truth(left: pa.Table, right: pa.Table, on: str, how: str = "inner") -> Counter[Any]:
    """Row numbers of the answer, by a nested loop."""
    window = ts.CountWindow(left.num_rows + right.num_rows + 1)
    answer = oracle.join([(left, right)], on, window, how)
    numbers = [table[ROW].to_pylist() for table in (left, right)]
    named = [
        tuple(None if at is None else side[at] for at, side in zip(pair, numbers, strict=True))
        for pair in answer.pairs
    ]
    return Counter(named)


def given(rows: pa.Table) -> Counter[Any]:
    return Counter(pairs_of(rows))


def built(folder: Path, rows: pa.Table, key: Any = "x") -> Path:
    ts.Relation.build(folder / "table.rel", rows, key=key, block_bytes=4096, fill=0.2).close()
    return folder / "table.rel"


@pytest.fixture(autouse=True)
def _nothing_held() -> Iterator[None]:
    yield
    while relation_worker._WARM:
        relation_worker._WARM.popitem()[1].close()


# --- Answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONDITIONS)
def test_static_answers_are_exact(spark: Any, tmp_path: Path, name: str) -> None:
    on, key = CONDITIONS[name]
    left, right = table(1, 70), table(2, 60)
    path = built(tmp_path, right, key)
    frame = spark.createDataFrame(left).repartition(3)
    for how in MODES:
        expected = truth(left, right, ORACLE.get(name, on), how)
        assert expected, "an empty answer proves nothing"
        found = relation_join(frame, path, on, MEMORY, how).toArrow()
        assert given(found) == expected, how


@pytest.mark.smoke
def test_names_types_and_chosen_columns(spark: Any, tmp_path: Path) -> None:
    right = pa.table(
        {
            "k": pa.array([1, 2], pa.uint32()),
            "a.b": pa.array(["x", "y"], pa.large_string()),
            "code": pa.array(["p", "q"]).dictionary_encode(),
            "big": pa.array([2**64 - 1, None], pa.uint64()),
            "at": pa.array([1, 2], pa.timestamp("ns", tz="Europe/Paris")).cast(
                pa.timestamp("s", tz="Europe/Paris"), safe=False
            ),
            "naive": pa.array([1000, 2000], pa.timestamp("ns")),
            "list": pa.array([[1], None], pa.large_list(pa.uint8())),
            "raw": pa.array([b"ab", b"cd"], pa.binary(2)),
        }
    )
    path = built(tmp_path, right, "k")
    left = spark.createDataFrame([(1, "l", 5), (3, "m", 6)], "k long, `a.b` string, z int")
    out = relation_join(left, path, "l.k = r.k", MEMORY, "left")
    assert dict(out.dtypes) == {
        "k": "bigint",
        "a.b": "string",
        "z": "int",
        "k_right": "bigint",
        "a.b_right": "string",
        "code": "string",
        "big": "decimal(20,0)",
        "at": "timestamp",
        "naive": "timestamp_ntz",
        "list": "array<smallint>",
        "raw": "binary",
    }
    rows = {row["k"]: row.asDict() for row in out.collect()}
    assert rows[1]["a.b_right"] == "x"
    assert rows[1]["big"] == 2**64 - 1
    assert rows[1]["list"] == [1]
    assert bytes(rows[1]["raw"]) == b"ab"
    assert rows[1]["naive"] == datetime(1970, 1, 1, 0, 0, 0, 1)
    assert [value for name, value in rows[3].items() if name not in ("k", "a.b", "z")] == [None] * 8
    chosen = relation_join(left, path, "l.k = r.k", MEMORY, columns=["a.b_right", "z"])
    assert [tuple(row) for row in chosen.collect()] == [("x", 5)]


def test_a_relation_of_a_dataframe(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(0, 500).selectExpr("id * 3 AS k", "concat('n', id) AS name")
    with ts.Relation.build(tmp_path / "table.rel", frame, key="k") as relation:
        assert relation.rows == 500
    stream = spark.range(0, 1500, 2).selectExpr("id AS k")
    found = relation_join(stream, tmp_path / "table.rel", "l.k = r.k", MEMORY)
    expected = stream.join(frame, "k").selectExpr("k", "k AS k_right", "name")
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))


# --- Streams ------------------------------------------------------------------------------------


def drained(frame: Any, folder: Path) -> Any:
    """Run all that is there into files; the query."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "answer"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(300)
        assert not query.isActive, "the query did not end"
    finally:
        query.stop()
    return query


def whole(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables)


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
        query = drained(relation_join(stream, path, on, MEMORY, how), tmp_path)
        metrics += relation_metrics(query)
    found = spark.read.parquet(str(tmp_path / "answer")).toArrow()
    assert given(found) == truth(whole(fresh), right, on, how)
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
    query.awaitTermination(300)
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
        drained(joined(), tmp_path)
    assert given(spark.read.parquet(str(tmp_path / "answer")).toArrow()) == truth(
        fresh[0], right, "l.x = r.x", "left"
    )
    Path(mark).touch()
    drained(joined(), tmp_path)
    found = spark.read.parquet(str(tmp_path / "answer")).toArrow()
    assert given(found) == truth(whole(fresh), right, "l.x = r.x", "left")


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


# --- A worker process ---------------------------------------------------------------------------


def task(path: Path, right: pa.Table, *, on: str = "l.x = r.x", reports: bool = False) -> Any:
    """A task as a worker gets it, without Spark."""
    stream = table(1, 1).schema
    names = (ROW, f"{ROW}_right")
    spec = RelationSpec(
        path=str(path),
        on=on,
        memory=4_000_000,
        how="inner",
        suffix="_right",
        stream=stream,
        relation=right.schema,
        gathered=names,
        output=pa.schema([(name, pa.int64()) for name in names]),
        batch_rows=1000,
        reports=reports,
    )
    return RelationTask(spec)


def answered(work: Any, rows: pa.Table, size: int = 7) -> Counter[Any]:
    batches = list(work(iter(rows.to_batches(max_chunksize=size))))
    return given(pa.Table.from_batches(batches)) if batches else Counter()


def test_a_task_that_is_abandoned_leaves_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation_worker, "_PARCEL_ROWS", 1)
    right, left, many = table(2, 60), table(1, 50), table(9, 20_000, 10**6)
    work = task(built(tmp_path, right), right)
    rest = iter(many.to_batches(max_chunksize=500))
    first = work(rest)
    next(first)
    first.close()
    assert list(rest), "it was abandoned in the middle"
    assert len(relation_worker._WARM) == 1
    (held,) = relation_worker._WARM.values()
    assert answered(work, left) == truth(left, right, "l.x = r.x")
    assert list(relation_worker._WARM.values()) == [held]


def test_answers_travel_in_larger_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, left = table(2, 60), table(1, 400)
    work = task(built(tmp_path, right), right)
    expected = truth(left, right, "l.x = r.x")
    numbers = {}
    for rows in (1, 10_000):
        monkeypatch.setattr(relation_worker, "_PARCEL_ROWS", rows)
        batches = list(work(iter(left.to_batches())))
        assert given(pa.Table.from_batches(batches)) == expected
        numbers[rows] = len(batches)
    assert numbers[1] > numbers[10_000] == 1


def test_a_task_that_fails_is_forgotten(tmp_path: Path) -> None:
    right, left = table(2, 60), table(1, 50)
    work = task(built(tmp_path, right), right)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from left.to_batches(max_chunksize=5)
        raise ValueError("broken on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        list(work(broken()))
    assert not relation_worker._WARM
    assert answered(work, left) == truth(left, right, "l.x = r.x")


@pytest.mark.parametrize("change", ["journal", "build"])
@pytest.mark.parametrize("warm", [False, True])
def test_a_task_sees_one_version(tmp_path: Path, change: str, warm: bool) -> None:
    before, more, left = table(2, 60), table(3, 60, 1000), table(1, 50)
    after = pa.concat_tables([before, more])
    path = built(tmp_path, before)
    work = task(path, before)
    if warm:
        answered(work, left)

    def changing() -> Iterator[pa.RecordBatch]:
        first, *others = left.to_batches(max_chunksize=5)
        yield first
        if change == "build":
            built(tmp_path, after)
        else:
            with ts.Relation.open(path) as relation:
                relation.insert(more)
        yield from others

    found = given(pa.Table.from_batches(list(work(changing()))))
    assert found == truth(left, before, "l.x = r.x")
    assert answered(work, left) == truth(left, after, "l.x = r.x")


def test_tasks_without_rows_open_nothing(tmp_path: Path) -> None:
    right = table(2, 60)
    work = task(tmp_path / "nowhere", right)
    assert list(work(iter([]))) == []
    assert list(work(iter(table(1, 0).to_batches()))) == []
    assert not relation_worker._WARM


def test_only_some_joins_are_kept(tmp_path: Path) -> None:
    right, left = table(2, 60), table(1, 20)
    path = built(tmp_path, right)
    conditions = [f"l.x = r.x AND r.x > {n}" for n in range(7)]
    for on in conditions:
        answered(task(path, right, on=on), left)
        newest = next(reversed(relation_worker._WARM.values()))
    kept = list(relation_worker._WARM.values())
    assert len(kept) == relation_worker._LIMIT
    assert kept[-1] is newest
    answered(task(path, right, on=conditions[-4]), left)
    assert next(reversed(relation_worker._WARM.values())) is kept[0], "the one used last stays"


def test_the_report_of_a_task_is_its_own(tmp_path: Path) -> None:
    right, left = table(2, 60), table(1, 50)
    work = task(built(tmp_path, right), right, reports=True)
    expected = truth(left, right, "l.x = r.x")
    for warm in (False, True):
        *batches, last = work(iter(left.to_batches()))
        (row,) = last.to_pylist()
        report = relation_worker.json.loads(row[relation_worker.REPORT])
        assert (report["rows"], report["warm"]) == (50, warm)
        assert report["output_rows"] == sum(batch.num_rows for batch in batches)
        assert report["output_rows"] == sum(expected.values())
    assert report["blocks_read"] == 0, "all blocks are cached by now"


def test_a_relation_with_other_columns_is_refused(tmp_path: Path) -> None:
    right, left = table(2, 60), table(1, 50)
    path = built(tmp_path, right)
    work = task(path, right)
    answered(work, left)
    built(tmp_path, right.append_column("new", right["x"]))
    with pytest.raises(RelationError, match="new int64.*start the query again"):
        answered(work, left)
    built(tmp_path, right)
    assert answered(work, left) == truth(left, right, "l.x = r.x")


def test_a_relation_that_an_executor_does_not_reach(tmp_path: Path) -> None:
    right = table(2, 60)
    with pytest.raises(RelationError, match="every executor must reach"):
        answered(task(tmp_path / "nowhere", right), table(1, 5))


# --- What is refused ----------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no relation": ({"path": "nowhere.rel"}, RelationError, "nowhere.rel"),
    "a URI": ({"path": "hdfs://host/table.rel"}, RelationError, "mount it"),
    "right": ({"how": "right"}, OptionError, "inner, left, semi, anti.*a stream has no end"),
    "full": ({"how": "full"}, OptionError, "a stream has no end"),
    "no mode": ({"how": "inwards"}, OptionError, "how must be one of"),
    "key type": ({"on": "l.s = r.x"}, SchemaError, "cannot be compared"),
    "no such column": ({"on": "l.y = r.x"}, SchemaError, "l.y"),
    "no column of the relation": ({"on": "l.x = r.y"}, PredicateError, "no column 'y'"),
    "no term on the key": ({"on": "l.v = r.v"}, Exception, "x"),
    "random": ({"on": "l.x = r.x AND rand() < 0.5"}, PredicateError, "another value each time"),
    "Spark cannot": ({"on": "nofunction(l.x) = r.x"}, PredicateError, "Spark cannot compute"),
    "memory": ({"memory": "many"}, OptionError, "64 MB"),
    "too little": ({"memory": "2 kB"}, RelationError, "needs|budget|at least"),
    "no columns": ({"columns": []}, OptionError, "at least one"),
    "other columns": ({"columns": ["nix"]}, SchemaError, "no output column 'nix'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_shows_at_the_call(spark: Any, tmp_path: Path, name: str) -> None:
    changed, error, message = REFUSED[name]
    path = built(tmp_path, table(2, 60))
    frame = spark.createDataFrame(table(1, 5))
    arguments = {"path": path, "on": "l.x = r.x", "memory": MEMORY, **changed}
    with pytest.raises(error, match=message):
        relation_join(frame, **arguments)


def test_types_that_spark_lacks_are_named(spark: Any, tmp_path: Path) -> None:
    right = pa.table({"k": [1], "d": pa.array([1], pa.decimal256(60, 2))})
    path = built(tmp_path, right, "k")
    frame = spark.range(3).selectExpr("id AS k")
    with pytest.raises(SchemaError, match="'d' of the relation.*columns="):
        relation_join(frame, path, "l.k = r.k")
    assert relation_join(frame, path, "l.k = r.k", columns=["k"]).count() == 1


def test_a_time_too_fine_for_spark_is_not_rounded(tmp_path: Path) -> None:
    from thetastream.spark.types import handed

    fine = pa.array([1_001], pa.timestamp("ns"))
    with pytest.raises(DataError, match="'at'.*round it in the relation"):
        handed("at", fine, pa.timestamp("us"))

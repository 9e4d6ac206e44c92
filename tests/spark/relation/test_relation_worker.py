"""``relation_join`` in a worker process: joins that are kept, versions, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import (
    RelationError,
)
from thetastream.spark.relation import worker as relation_worker
from thetastream.spark.relation.worker import RelationSpec, RelationTask
from thetastream.testing.driver import ROW

from .relation_rows import built, given, table, truth


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
    return RelationTask(spec.as_bytes())


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

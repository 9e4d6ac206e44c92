"""Several relations of one path, in one process and in two: versions, locks, a writer killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thetastream
from thetastream.errors import RelationError
from thetastream.relation.change.fold import follow
from thetastream.relation.disk.device import DirectRefused
from thetastream.relation.files.folder import Folder
from thetastream.relation.files.scan import scan
from thetastream.relation.files.snapshot import Snapshot, State
from thetastream.relation.join.join import RelationJoin
from thetastream.relation.store import Relation

from .update_cases import keys_of, numbered


@pytest.fixture
def other(relation: Relation) -> Iterator[Relation]:
    with Relation.open(relation.path) as opened:
        yield opened


# --- In one process -----------------------------------------------------------------------------


def test_another_one_sees_a_transaction_when_it_has_ended(
    relation: Relation, other: Relation
) -> None:
    with relation.transaction() as changes:
        changes.insert(numbered([1]))
        assert not other.refresh()
        assert (changes.rows, relation.rows, len(keys_of(other))) == (21, 20, 20)
    assert (relation.rows, other.rows) == (21, 20)  # it has not looked yet
    assert other.refresh()
    assert not other.refresh()
    assert (other.version, other.rows, len(keys_of(other))) == (2, 21, 21)


def test_both_may_write_one_after_the_other(relation: Relation, other: Relation) -> None:
    for key in range(1, 13, 4):
        relation.insert(numbered([key]))
        other.insert(numbered([key + 2]))
    assert other.version == 7
    assert relation.fold()
    other.delete([1])
    other.compact()
    relation.insert(numbered([1]))
    assert keys_of(relation) == keys_of(other) == sorted([*range(0, 40, 2), *range(1, 13, 2)])


def test_two_writers_at_once_are_refused(relation: Relation, other: Relation) -> None:
    with relation.transaction() as changes:
        changes.insert(numbered([1]))
        for change in (
            lambda: other.insert(numbered([3])),
            lambda: other.delete([2]),
            other.fold,
            other.compact,
            lambda: relation.insert(numbered([3])),
            lambda: Relation.build(other.path, numbered([3]), "k", replace=True),
        ):
            with pytest.raises(RelationError, match="is being written by another writer"):
                change()
    assert keys_of(other) == sorted([*range(0, 40, 2), 1])


def test_a_snapshot_anywhere_keeps_its_version_and_keeps_folds_away(
    relation: Relation, other: Relation
) -> None:
    before = keys_of(relation)
    with other.snapshot() as pinned:
        relation.insert(numbered([1] * 20))
        relation.delete(where="r.k % 3 = 0")
        assert not relation.fold()
        assert table(pinned)["k"].to_pylist() == before
        assert len(keys_of(other)) == 33
        assert table(pinned)["k"].to_pylist() == before
    assert relation.fold()
    assert other.refresh()
    assert len(keys_of(other)) == 33


def test_a_snapshot_outlives_its_relation_and_its_generation(relation: Relation) -> None:
    relation.insert(numbered([1] * 20))
    expected = keys_of(relation)
    with Relation.open(relation.path) as short:
        snapshot = short.snapshot()
    relation.compact()
    relation.delete([1])
    assert not relation.fold()
    assert table(snapshot)["k"].to_pylist() == expected
    snapshot.close()
    assert relation.fold()


def test_a_relation_that_looked_away_during_a_fold(relation: Relation, other: Relation) -> None:
    relation.insert(numbered([1] * 20))
    assert other.refresh()
    assert relation.fold()
    for key in range(41, 70):  # the journal becomes longer than the other one has read
        relation.insert(numbered([key]))
    assert other.refresh()
    assert keys_of(other) == keys_of(relation)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Work that is done once, while the next relation that looks reads the journal."""

    def arrange(work: Callable[[], Any]) -> None:
        def slowly(folder: Folder, state: State) -> State:
            monkeypatch.undo()
            work()
            return follow(folder, state)

        monkeypatch.setattr("thetastream.relation.store.follow", slowly)

    return arrange


def test_nobody_folds_while_someone_looks(
    relation: Relation, other: Relation, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    relation.insert(numbered([1]))
    folded: list[bool] = []
    meanwhile(lambda: folded.append(relation.fold()))
    assert other.refresh()
    assert folded == [False]
    assert relation.fold()


@pytest.mark.parametrize("options", [{"direct": True}, {"device": "disk"}])
def test_other_devices_see_what_the_journal_has(
    relation: Relation, options: dict[str, Any]
) -> None:
    relation.insert(numbered([1] * 30))
    try:
        found = Relation.open(relation.path, **options)
        assert keys_of(found) == keys_of(relation)
    except DirectRefused:
        pytest.skip("this file system cannot read past the page cache")
    relation.insert(numbered([3]))
    assert keys_of(found) == keys_of(relation)
    found.close()


def test_a_generation_that_goes_while_someone_looks(
    relation: Relation, other: Relation, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    relation.insert(numbered([1]))
    assert other.refresh()
    meanwhile(lambda: (relation.insert(numbered([3])), relation.compact()))
    assert other.refresh()
    assert (other.version, keys_of(other)) == (4, keys_of(relation))


def table(snapshot: Snapshot) -> pa.Table:
    names = snapshot.layout.schema.names
    return pa.Table.from_batches(scan(snapshot, names), schema=snapshot.layout.schema)


# --- In two processes ---------------------------------------------------------------------------

COMMON = """
import pyarrow as pa

def rows(mark):
    count = 10 + mark * 7 % 23
    keys = pa.array([(mark * 5 + i * i) % 19 for i in range(count)], pa.int64())
    return pa.table({"k": keys, "mark": pa.array([mark] * count), "pad": ["x" * 900] * count})
"""
WRITER = """
import sys
from thetastream.relation.store import Relation

relation = Relation.open(sys.argv[1])
mark = max(relation.to_table(["mark"])["mark"].to_pylist())
for step in range(1, int(sys.argv[2]) + 1):
    mark += 1
    with relation.transaction() as changes:
        changes.delete(where="r.k % 2 = 0")
        changes.delete(where="r.k % 2 = 1")
        changes.insert(rows(mark))
    print(mark, flush=True)
    if step % 4 == 0:
        relation.fold()
    if step % 15 == 0:
        relation.compact()
relation.close()
"""
space: dict[str, object] = {}
exec(COMMON, space)


@cache
def keys_at(mark: int) -> list[int]:
    table = space["rows"](mark)  # type: ignore[operator]
    return sorted(table["k"].to_pylist())


def is_one_version(found: pa.Table) -> int:
    """The mark that all rows have; and they are just the rows of that mark."""
    marks = set(found["mark"].to_pylist())
    assert len(marks) == 1
    mark = int(marks.pop())
    assert found["k"].to_pylist() == keys_at(mark)
    return mark


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Relation]:
    table = space["rows"](0)  # type: ignore[operator]
    with Relation.build(tmp_path / "r.rel", table, "k", 4096) as made:
        yield made


@contextmanager
def writer(path: Path, steps: int) -> Iterator[subprocess.Popen[str]]:
    source = str(Path(thetastream.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(COMMON + WRITER), str(path), str(steps)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("pinned", [False, True])
def test_every_snapshot_is_one_version_while_another_process_writes(
    marked: Relation, pinned: bool
) -> None:
    first = marked.snapshot() if pinned else None
    with writer(marked.path, 30) as process:
        seen = [0]
        while process.poll() is None or marked.refresh():
            with marked.snapshot() as snapshot:
                seen.append(is_one_version(table(snapshot)))
                assert is_one_version(table(snapshot)) == seen[-1]
        assert process.returncode == 0
    seen.append(is_one_version(marked.to_table()))
    assert seen == sorted(seen)
    assert seen[-1] == 30
    assert len(set(seen)) > 2
    marked.check()
    if first is not None:
        assert is_one_version(table(first)) == 0
        first.close()


def test_a_writer_that_is_killed_loses_nothing_it_acknowledged(marked: Relation) -> None:
    least = 0
    for patience in (1, 6, 17):
        with writer(marked.path, 10_000) as process:
            assert process.stdout is not None
            for _ in range(patience):
                acknowledged = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            acknowledged = int((process.stdout.read().split() or [acknowledged])[-1])
            process.wait()
        assert marked.refresh()
        found = is_one_version(marked.to_table())
        assert least < acknowledged <= found <= acknowledged + 1
        marked.check()
        least = found
    assert marked.fold()
    assert is_one_version(marked.to_table()) == least


def test_every_stream_row_sees_one_version_while_another_process_writes(marked: Relation) -> None:
    join = RelationJoin(marked, "r.k between l.low and l.high", memory="400 kB", cache="utility")
    found: dict[int, list[tuple[int, int]]] = {}
    asked: list[tuple[int, int]] = []

    def take(batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            for row in batch.to_pylist():
                found.setdefault(row["id"], []).append((row["mark"], row["k"]))

    with writer(marked.path, 10_000) as process:
        # However slow this machine is beside the writer: until several versions were seen.
        while len({rows[0][0] for rows in found.values()}) < 5:
            assert process.poll() is None
            fresh = [(i % 19, i % 19 + i % 7) for i in range(len(asked), len(asked) + 50)]
            low, high = zip(*fresh, strict=True)
            numbers = range(len(asked), len(asked) + 50)
            asked += fresh
            marked.refresh()
            take(join.push(pa.table({"id": numbers, "low": low, "high": high})))
    take(join.flush())
    join.close()
    for row, (low_key, high_key) in enumerate(asked):
        marks = {mark for mark, _ in found.get(row, [])}
        assert len(marks) <= 1
        for mark in marks:
            expected = [key for key in keys_at(mark) if low_key <= key <= high_key]
            assert sorted(key for _, key in found[row]) == expected

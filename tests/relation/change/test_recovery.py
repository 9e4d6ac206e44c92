"""What a crash leaves of transactions and folds: all that was acknowledged, nothing half."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thetastream.errors import RelationError
from thetastream.relation.store import Relation

from .update_cases import keys_of, numbered

CALLS = ("write", "pwrite", "ftruncate", "posix_fallocate", "fsync", "replace", "unlink")


@contextmanager
def photographed(folder: Path, target: Path) -> Iterator[list[Path]]:
    """What a process killed at any moment leaves: the folder before every call that changes it."""
    photos: list[Path] = []

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            photos.append(Path(shutil.copytree(folder, target / str(len(photos)))))
            return real(*args, **more)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, watched(getattr(os, name)))
        yield photos
    photos.append(Path(shutil.copytree(folder, target / "end")))


def test_a_transaction_killed_at_any_moment_is_there_or_not(
    relation: Relation, tmp_path: Path
) -> None:
    states = {1: keys_of(relation)}
    with photographed(relation.path, tmp_path / "photos") as photos:
        relation.insert(numbered([7] * 20))
    states[2] = keys_of(relation)
    seen = []
    for photo in photos:
        with Relation.open(photo) as found:
            seen.append(found.version)
            assert keys_of(found) == states[found.version]
            found.insert(numbered([3]))
            assert keys_of(found) == sorted([*states[seen[-1]], 3])
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (1, 2)


def test_a_fold_killed_at_any_moment_loses_nothing(relation: Relation, tmp_path: Path) -> None:
    relation.insert(numbered([7] * 20))
    relation.delete([0, 2, 30])
    relation.update(pa.table({"k": [10], "pad": ["x" * 9000]}))
    expected = keys_of(relation)
    with photographed(relation.path, tmp_path / "photos") as photos:
        assert relation.fold()
    assert len(photos) > 8
    folded = []
    for photo in photos:
        with Relation.open(photo) as found:
            folded.append(found._state.current.number)
            assert (found.version, keys_of(found)) == (4, expected)
            found.insert(numbered([3]))
            assert keys_of(found) == sorted([*expected, 3])
            assert found.fold()
            assert keys_of(found) == sorted([*expected, 3])
            assert sum(name.startswith("index-") for name in os.listdir(photo)) == 1
    assert folded == sorted(folded)
    assert (folded[0], folded[-1]) == (0, 1)


@pytest.mark.parametrize("name", ["fsync", "replace", "pwrite", "ftruncate"])
def test_a_fold_that_fails_at_any_call_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = getattr(os, name)
    for failing in range(10):
        path = tmp_path / str(failing)
        with Relation.build(path, numbered(range(0, 20, 2)), "k", 4096) as relation:
            relation.insert(numbered([7] * 9))
            calls = [0]

            def call(*args: Any, calls: list[int] = calls, failing: int = failing) -> Any:
                calls[0] += 1
                if calls[0] == failing + 1:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return real(*args)

            with monkeypatch.context() as patch:
                patch.setattr(os, name, call)
                try:
                    relation.fold()
                except OSError:
                    assert calls[0] > failing
            assert (relation.version, len(keys_of(relation))) == (2, 19)
            relation.insert(numbered([1]))
            assert relation.fold()
            assert len(keys_of(relation)) == 20
            if calls[0] <= failing:
                break
    else:
        pytest.fail("the calls of a fold do not end")


def test_a_journal_cut_anywhere_gives_the_transactions_before_the_cut(
    relation: Relation, tmp_path: Path
) -> None:
    states, stops = [keys_of(relation)], [0]
    for keys in ([7], [9, 9], [11] * 9):
        relation.insert(numbered(keys))
        states.append(keys_of(relation))
        stops.append(relation.journal_bytes)
    copy = tmp_path / "copy"
    shutil.copytree(relation.path, copy)
    journal = copy / f"journal-{relation.generation}"
    for length in range(stops[-1] - 1, -1, -37):
        os.truncate(journal, length)
        whole = sum(stop <= length for stop in stops) - 1
        with Relation.open(copy) as found:
            assert found.version == whole + 1
            assert keys_of(found) == states[whole]


def test_a_damaged_journal_is_an_error_and_can_be_built_over(relation: Relation) -> None:
    for key in (1, 3, 5):
        relation.insert(numbered([key]))
    journal = relation.path / f"journal-{relation.generation}"
    data = bytearray(journal.read_bytes())
    data[relation.journal_bytes // 2] ^= 1
    journal.write_bytes(data)
    with pytest.raises(RelationError, match=f"record 2 of {journal.name}.* is damaged"):
        Relation.open(relation.path)
    with Relation.build(relation.path, numbered([1]), "k", replace=True) as anew:
        assert (anew.version, keys_of(anew)) == (5, [1])


def test_a_block_file_cut_short_behind_the_index_is_an_error(relation: Relation) -> None:
    relation.insert(numbered([7] * 20))
    blocks = relation.path / f"blocks-{relation.generation}"
    os.truncate(blocks, (relation.blocks - 1) * 4096)
    with pytest.raises(RelationError, match="cut short"):
        Relation.open(relation.path)


def test_what_is_acknowledged_was_synced_and_in_the_right_order(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsafe: set[str] = set()
    at_replace: list[set[str]] = []

    def name_of(file: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{file}")).name.split("-")[0]

    def changing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: int, *args: Any) -> Any:
            unsafe.add(name_of(file))
            return real(file, *args)

        return call

    fsync, move = os.fsync, os.replace

    def synced(file: int) -> None:
        fsync(file)
        unsafe.discard(name_of(file))

    def replaced(*args: Any) -> None:
        at_replace.append(set(unsafe))
        move(*args)

    for name in ("write", "pwrite", "ftruncate", "posix_fallocate"):
        monkeypatch.setattr(os, name, changing(getattr(os, name)))
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    for step in range(4):
        relation.insert(numbered([step] * 10))
        assert unsafe <= {"LOCK"}
    assert relation.fold()
    assert unsafe <= {"LOCK"}
    assert at_replace == [{"LOCK"}]

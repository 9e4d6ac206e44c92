"""CURRENT, locks, leftovers: what a crash at any moment leaves."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from thetastream.errors import RelationError
from thetastream.relation.files.folder import (
    CURRENT,
    FORMAT,
    Current,
    Folder,
    SharedLock,
    disk_errors,
    write_all,
)

NOW = Current(FORMAT, "0123456789ab", 2, 7, 100, "c0ffee")


def test_current_is_given_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert not folder.exists()
    folder.replace(NOW)
    assert folder.exists()
    assert folder.current() == NOW
    assert (NOW.blocks, NOW.index) == ("blocks-0123456789ab", "index-0123456789ab-2")
    assert NOW.journal == "journal-0123456789ab"
    assert os.listdir(tmp_path) == [CURRENT]


def test_every_flipped_bit_of_current_is_found(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.replace(NOW)
    data = folder.current_bytes()
    for at in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        try:
            found = folder.parse(bytes(flipped))
        except RelationError as error:
            assert "CURRENT" in str(error) and "damaged" in str(error)  # noqa: PT017, PT018
        else:
            assert found == NOW  # only white space between the facts was hit
            assert flipped[at // 8 : at // 8 + 1] in (b"\t", b"\n", b"\r", b" ")


@pytest.mark.parametrize("length", [0, 1, 20, 60])
def test_a_short_current_is_found(tmp_path: Path, length: int) -> None:
    folder = Folder(tmp_path)
    folder.replace(NOW)
    with pytest.raises(RelationError, match="CURRENT .* is damaged .* build the relation again"):
        folder.parse(folder.current_bytes()[:length])


def test_another_format_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.replace(Current(5, "0123456789ab", 0, 1, 1, ""))
    with pytest.raises(RelationError, match=r"format 5, newer than format 2.* update thetastream"):
        folder.current()
    folder.replace(Current(0, "0123456789ab", 0, 1, 1, ""))
    with pytest.raises(
        RelationError, match=r"format 0, older than format 1.* relation build SOURCE .*--replace"
    ):
        folder.current()


def test_facts_of_a_later_format_do_not_hide_its_number(tmp_path: Path) -> None:
    import thetastream.relation.files.folder as module

    folder = Folder(tmp_path)
    facts = {"format": 9, "shape": "unknown"}
    (tmp_path / CURRENT).write_text(json.dumps(facts | {"checksum": module._checksum(facts)}))
    with pytest.raises(RelationError, match="format 9"):
        folder.current()


def test_no_relation_says_why(tmp_path: Path) -> None:
    with pytest.raises(RelationError, match="nothing is there.*Relation.build"):
        Folder(tmp_path / "none").current()
    (tmp_path / "file").write_text("x")
    with pytest.raises(RelationError, match="it is not a folder"):
        Folder(tmp_path / "file").current()
    with pytest.raises(RelationError, match="has no file CURRENT"):
        Folder(tmp_path).current()
    (tmp_path / "blocks-0123456789ab").write_bytes(b"")
    with pytest.raises(RelationError, match="a build was started there but did not finish"):
        Folder(tmp_path).current()


def test_leftovers_go_and_nothing_else_does(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.replace(NOW)
    kept = [NOW.blocks, NOW.index, NOW.journal, "LOCK", "READERS", "notes.txt", "blocks-mine"]
    gone = ["blocks-ffffffffffff", "index-0123456789ab-1", "journal-ffffffffffff", "CURRENT.new"]
    for name in kept + gone:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "build-ffffffffffff").mkdir()
    (tmp_path / "build-ffffffffffff" / "run-0").write_bytes(b"x")
    removed = folder.remove_leftovers()
    assert sorted(removed) == sorted([*gone, "build-ffffffffffff"])
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, CURRENT])
    assert folder.foreign() == ["blocks-mine", "notes.txt"]


def test_a_damaged_current_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / CURRENT).write_text("{")
    (tmp_path / NOW.blocks).write_bytes(b"x")
    with pytest.raises(RelationError, match="damaged"):
        Folder(tmp_path).remove_leftovers()
    assert (tmp_path / NOW.blocks).exists()


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    told = rf"another writer \(process {os.getpid()}, build, since .*\).* Wait until"
    with (
        folder.writing("build"),
        pytest.raises(RelationError, match=told),
        Folder(tmp_path).writing("update"),
    ):
        raise AssertionError
    with folder.writing("update"):
        pass


HOLD = """
import sys
from thetastream.relation.files.folder import Folder
with Folder(sys.argv[1]).writing("compact"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_goes_with_a_killed_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(RelationError, match=f"process {other.pid}, compact"),
            Folder(tmp_path).writing("build"),
        ):
            raise AssertionError
        other.kill()
        other.wait()
    with Folder(tmp_path).writing("build"):
        pass


def test_a_lock_that_was_removed_locks_nobody(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "r")
    folder.path.mkdir()
    with folder.writing("build"):
        folder.remove_if_empty()
        assert not folder.path.exists()
        folder.path.mkdir()
        with folder.writing("build"):  # of the new folder
            pass


def test_many_read_and_one_changes_alone(tmp_path: Path) -> None:
    one, two = SharedLock(tmp_path / "READERS"), SharedLock(tmp_path / "READERS")
    one.share()
    two.share()
    alone = SharedLock(tmp_path / "READERS")
    assert not alone.try_exclusive()
    one.release()
    assert not alone.try_exclusive()
    two.close()
    assert alone.try_exclusive()
    alone.close()
    one.close()


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with (
        pytest.raises(RelationError, match="has no locks.*on another disk"),
        Folder(tmp_path).writing("build"),
    ):
        raise AssertionError
    lock = SharedLock(tmp_path / "READERS")
    lock.share()
    assert not lock.try_exclusive()
    lock.release()
    lock.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EFBIG, "exceed the largest size allowed"),
    ],
)
def test_a_full_disk_in_our_words(tmp_path: Path, number: int, words: str) -> None:
    told = f"building .* failed: .*{words}.* Old is unchanged. Free some space"
    with (
        pytest.raises(RelationError, match=told),
        disk_errors(tmp_path, "building", "Old is unchanged."),
    ):
        raise OSError(number, os.strerror(number))
    with pytest.raises(PermissionError), disk_errors(tmp_path, "building", ""):
        raise OSError(errno.EPERM, "no")


def test_all_bytes_are_written_though_calls_write_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data[:3])))
    with open(tmp_path / "x", "wb") as file:
        write_all(file.fileno(), b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"

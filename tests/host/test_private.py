"""Private folders and files: their modes, what is refused, what is used instead."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from thetastream.host import private
from thetastream.host.private import claim, fault, map_file, own_folder, write_file

from .strangers import as_stranger, plant, shared_folder


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    private.say.cache_clear()


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# --- Modes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
def test_modes_do_not_depend_on_the_umask(shared: Path, mask: int) -> None:
    with umask(mask):
        folder = own_folder(shared / "own")
        write_file(folder / "a.arrow", b"rows")
    assert (mode(folder), mode(folder / "a.arrow")) == (0o700, 0o600)
    assert [path.name for path in folder.iterdir()] == ["a.arrow"]
    assert map_file(folder / "a.arrow")[:] == b"rows"


def test_another_user_reads_nothing(shared: Path) -> None:
    with umask(0):
        write_file(own_folder(shared / "own") / "a", b"secret rows")
    if os.geteuid() == 0:
        for command in ("cat own/a", "ls own", "touch own/b", "mv own other"):
            done = as_stranger(command, shared)
            assert done.returncode != 0
            assert "secret" not in done.stdout
    assert (shared / "own/a").read_bytes() == b"secret rows"
    assert mode(shared / "own") == 0o700


def test_a_folder_that_others_can_read_becomes_private(shared: Path) -> None:
    (shared / "own").mkdir()
    (shared / "own").chmod(0o755)
    assert own_folder(shared / "own") == shared / "own"
    assert mode(shared / "own") == 0o700


# --- Folders that are refused -------------------------------------------------------------------


def test_a_folder_of_another_user_is_refused_and_another_is_taken(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = plant(shared / "own")
    taken = own_folder(shared / "own")
    assert taken.parent == shared
    assert taken.name.startswith("own-")
    assert mode(taken) == 0o700
    line = f"thetastream: {shared}/own {reason}; using {taken} instead\n"
    assert capsys.readouterr().err == line
    assert own_folder(shared / "own") == taken, "later processes find it again"
    assert capsys.readouterr().err == "", "the line is printed once"


def test_a_folder_in_its_place_that_is_another_users_is_refused_too(shared: Path) -> None:
    plant(shared / "own")
    plant(shared / "own-0000")
    taken = own_folder(shared / "own")
    assert taken.name not in ("own", "own-0000")
    assert fault(taken) is None
    assert own_folder(shared / "own") == taken


def test_a_folder_that_others_could_write_to_is_refused(shared: Path) -> None:
    (shared / "own").mkdir()
    for bits in (0o720, 0o702, 0o777):
        (shared / "own").chmod(bits)
        reason = f"can be written by other users \\(mode {bits:04o}\\)"
        with pytest.raises(PermissionError, match=reason):
            claim(shared / "own")
    assert own_folder(shared / "own") != shared / "own"


def test_links_and_files_are_refused(shared: Path) -> None:
    (shared / "real").mkdir(0o700)
    (shared / "link").symlink_to(shared / "real")
    (shared / "dangling").symlink_to(shared / "nothing")
    (shared / "file").write_text("")
    for name, reason in (("link", "link"), ("dangling", "link"), ("file", "is not a folder")):
        with pytest.raises(PermissionError, match=reason):
            claim(shared / name)
        assert own_folder(shared / name).name.startswith(f"{name}-")
    assert not (shared / "nothing").exists()
    assert str(fault(shared / "nothing")).startswith("cannot be used (No such file")


def test_where_nothing_can_be_created_the_error_says_so(shared: Path) -> None:
    (shared / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        own_folder(shared / "file" / "own")


# --- Files --------------------------------------------------------------------------------------


def test_writing_replaces_a_link_and_leaves_its_target(shared: Path) -> None:
    (shared / "target").write_bytes(b"precious")
    (shared / "a").symlink_to(shared / "target")
    write_file(shared / "a", b"rows")
    assert (shared / "target").read_bytes() == b"precious"
    assert map_file(shared / "a")[:] == b"rows"


def test_a_failed_write_leaves_nothing(shared: Path) -> None:
    (shared / "a.arrow").mkdir()
    with pytest.raises(OSError, match=r"a\.arrow"):
        write_file(shared / "a.arrow", b"rows")
    assert [path.name for path in shared.iterdir()] == ["a.arrow"]


def test_files_that_are_not_mapped(shared: Path) -> None:
    folder = own_folder(shared / "own")
    write_file(folder / "real", b"rows")
    (folder / "link").symlink_to(folder / "real")
    (folder / "empty").touch(0o600)
    os.mkfifo(folder / "pipe", 0o600)
    write_file(folder / "open", b"rows")
    (folder / "open").chmod(0o622)
    for name in ("link", "empty", "pipe", "open", "nothing"):
        with pytest.raises(OSError, match=name):
            map_file(folder / name)
    if os.geteuid() == 0:
        as_stranger("echo rows > planted", shared)
        with pytest.raises(PermissionError, match="planted belongs to user 65534"):
            map_file(shared / "planted")
    assert map_file(folder / "real")[:] == b"rows"

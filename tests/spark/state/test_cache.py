"""Run files of a host, which are private, and what is alive in a process."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from thetastream.errors import DataError
from thetastream.spark.state.cache import Alive, RunFiles, default_root, remove_forgotten
from thetastream.spark.state.digest import digest_of, is_trusted, old_digest
from thetastream.spark.state.record import Meta

from ...host.strangers import plant, shared_folder
from .steps import begun, feed

pytestmark = pytest.mark.usefixtures("own_runs")


def test_run_files(tmp_path: Path) -> None:
    files, digest = RunFiles("line", tmp_path), digest_of(b"abc")
    files.touch()
    files.write("a", b"abc")
    found = files.read("a", 3, digest)
    assert found is not None
    assert found.to_pybytes() == b"abc"
    assert files.read("a", 4, digest) is None
    assert files.read("a", 3, digest_of(b"abd")) is None
    assert files.read("b", 3, digest) is None
    files.remove(["a", "never there"])
    assert files.read("a", 3, digest) is None


def test_run_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        join, store = begun()
    finally:
        os.umask(before)
    assert store.meta
    made = [*(tmp_path / "runs").rglob("*")]
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in made}
    assert modes == {(True, 0o700), (False, 0o600)}
    for path in made:
        if path.suffix == ".arrow":
            path.chmod(0o622)  # another user could have changed it
    assert feed(join, store, range(21, 41), fresh=True)["origin"] == "rebuild"


def test_a_run_of_the_same_size_and_checksum_is_not_trusted(tmp_path: Path) -> None:
    """Anybody can make a file with a given CRC-32, but not with a given digest."""
    files, blob = RunFiles("line", tmp_path), b"rows of mine"
    forged = forge(b"other ro", zlib.crc32(blob))
    assert (len(forged), zlib.crc32(forged)) == (len(blob), zlib.crc32(blob))
    files.write("a", forged)
    assert files.read("a", len(blob), digest_of(blob)) is None
    assert files.read("a", len(blob), old_digest(zlib.crc32(blob))) is None
    files.write("a", blob)
    assert files.read("a", len(blob), digest_of(blob)) is not None


def forge(data: bytes, checksum: int) -> bytes:
    """Append four bytes, so that the CRC-32 is as wished: every bit of them flips some of it."""
    empty = zlib.crc32(data + bytes(4))
    rows = [
        (zlib.crc32(data + (1 << bit).to_bytes(4, "little")) ^ empty, 1 << bit) for bit in range(32)
    ]
    wanted, chosen = checksum ^ empty, 0
    for column in range(32):
        at = next(i for i, (row, _) in enumerate(rows) if row >> column & 1)
        pivot = rows.pop(at)
        rows = [(r ^ pivot[0], b ^ pivot[1]) if r >> column & 1 else (r, b) for r, b in rows]
        if wanted >> column & 1:
            wanted, chosen = wanted ^ pivot[0], chosen ^ pivot[1]
    return data + chosen.to_bytes(4, "little")


def test_runs_of_format_2_get_a_digest() -> None:
    join, store = begun()
    facts = json.loads(store.meta or "")
    for run in facts["runs"]:
        del run["digest"]
        run["checksum"] = zlib.crc32(store.blobs[run["id"]])
    store.meta = json.dumps(facts | {"format": 2})
    assert feed(join, store, range(21, 41), fresh=True)["origin"] == "rebuild"
    assert all(is_trusted(run.digest) for run in Meta.of(store.meta, "here").runs)
    assert feed(join, store, range(41, 61), fresh=True)["origin"] == "attach"
    store.meta = json.dumps(facts | {"format": 2})
    name = facts["runs"][0]["id"]
    store.blobs[name] = store.blobs[name][:-1] + b"?"
    with pytest.raises(DataError, match=r"is corrupt: expected .* with digest crc32:"):
        feed(join, store, range(21, 41), fresh=True)


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "line").write_text("a file where the folder should be")
    RunFiles("line", tmp_path).write("a", b"abc")
    assert f"run files are not kept: {tmp_path}/line is not a folder" in capsys.readouterr().err


def test_forgotten_folders_go(tmp_path: Path) -> None:
    RunFiles("line", tmp_path).write("a", b"abc")
    remove_forgotten(tmp_path)
    assert (tmp_path / "line").exists()
    remove_forgotten(tmp_path, now=(tmp_path / "line").stat().st_mtime + 10**6)
    assert not (tmp_path / "line").exists()
    remove_forgotten(tmp_path / "never there")


def test_the_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"thetastream-runs-{os.geteuid()}"
    assert default_root() == tmp_path / "runs" / name
    monkeypatch.delenv("THETASTREAM_RUNS")
    assert default_root().name.startswith(name)


def test_a_planted_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with shared_folder() as shared:
        monkeypatch.setenv("THETASTREAM_RUNS", str(shared))
        planted = shared / f"thetastream-runs-{os.geteuid()}"
        reason = plant(planted)
        join, store = begun()
        feed(join, store, range(21, 41), fresh=True)
        root = default_root()
        assert f"{planted} {reason}; using {root} instead" in capsys.readouterr().err
        assert len([*root.rglob("*.arrow")]) == 4, "the rows are in a folder of our own"
        assert feed(join, store, range(41, 61), fresh=True)["origin"] == "attach"


def test_another_place_is_taken_if_the_named_one_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("THETASTREAM_RUNS", str(tmp_path / "file"))
    assert default_root().parent != tmp_path / "file"
    assert f"{tmp_path}/file cannot hold run files: " in capsys.readouterr().err


def test_the_least_recently_used_is_dropped() -> None:
    alive: Alive[str] = Alive(limit=2)
    alive.keep("a", "x")
    assert alive.take("a") == "x"
    assert alive.take("a") is None, "taken out"
    for name in "abc":
        alive.keep(name, name)
    assert [alive.take(name) for name in "abc"] == [None, "b", "c"]

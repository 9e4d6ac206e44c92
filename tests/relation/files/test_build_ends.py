"""Builds that come to no good end: full disks, killed processes, Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import RelationError
from thetastream.relation.files import folder as folders
from thetastream.relation.files import generation as generations

from .build_cases import SMALL, built

# --- What goes wrong on the way -----------------------------------------------------------------


def failing(error: BaseException) -> Iterator[pa.RecordBatch]:
    yield from SMALL.to_batches()
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bad source"), MemoryError()])
@pytest.mark.parametrize("old", [False, True])
def test_a_build_that_fails_leaves_the_old_relation_or_none(
    tmp_path: Path, old: bool, error: BaseException
) -> None:
    path = tmp_path / "r.rel"
    before = sorted(os.listdir(ts.Relation.build(path, SMALL, "k").path)) if old else None
    with pytest.raises(type(error)):
        ts.Relation.build(path, failing(error), "k", memory="64 KiB", replace=True)
    if before is None:
        assert os.listdir(tmp_path) == []
    else:
        assert sorted(os.listdir(path)) == before
        assert ts.Relation.open(path).rows == 5


def many(rows: int = 60_000) -> pa.Table:
    rng = np.random.default_rng(4)
    return pa.table({"k": rng.permutation(rows), "pad": [b"y" * 40] * rows})


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("after", [0, 1, 2, 3])
@pytest.mark.parametrize("old", [False, True])
def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, after: int, old: bool
) -> None:
    """No room for the blocks, for the index, for CURRENT."""
    path = tmp_path / "r.rel"
    if old:
        ts.Relation.build(path, SMALL, "k", replace=True).close()
    calls = []

    def write(file: int, data: Any) -> None:
        calls.append(1)
        if len(calls) > after:
            raise OSError(number, os.strerror(number))
        real(file, data)

    real = folders.write_all
    for module in (folders, generations):
        monkeypatch.setattr(module, "write_all", write)
    monkeypatch.setattr(generations, "_PACK_BYTES", 1 << 20)
    left = "existing relation is unchanged" if old else "Nothing was left behind"
    with pytest.raises(RelationError, match=f"building .* failed: .* {left}"):
        ts.Relation.build(path, many(), "k", replace=True)
    assert len(calls) == after + 1
    monkeypatch.undo()
    if old:
        with ts.Relation.open(path) as relation:
            relation.check()
            assert relation.rows == 5
            assert not [name for name in os.listdir(path) if name.startswith("build")]
            assert len(os.listdir(path)) == 5
    else:
        assert os.listdir(tmp_path) == []
    assert built(tmp_path, many(), "k").rows == 60_000


# --- Processes that come to an end --------------------------------------------------------------

FORKS = """
import json, os, resource, signal, sys, time
import numpy as np, pyarrow as pa
import thetastream as ts
from thetastream.relation.files import folder, generation, sorting
from thetastream.relation.image.layout import LeafLayout

table = pa.table({"k": np.random.default_rng(1).permutation(40_000), "x": np.ones(40_000)})
ts.Relation, LeafLayout(table.schema, "k", 8192)  # loaded once, before processes part


def die(*arguments, **more):
    os.kill(os.getpid(), signal.SIGKILL)


def after(function):
    def then(*arguments, **more):
        function(*arguments, **more)
        die()
    return then


def endless():
    yield from table.to_batches(max_chunksize=4000)
    die()


def case(path, kind, value, memory):
    generation._PACK_BYTES = 1 << 18
    source = table
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (value, value))
    elif value == "reading":
        source = endless()
    elif value == "sorting":
        sorting.Sorter._spill = after(sorting.Sorter._spill)
    elif value == "merging":
        sorting.Sorter.sorted = die
    elif value == "first blocks":
        generation.write_all = after(generation.write_all)
    elif value == "blocks":
        generation.write_index = die
    elif value == "index":
        folder.Folder.write = after(folder.Folder.write)
    elif value == "before rename":
        os.replace = die
    elif value == "after rename":
        os.replace = after(os.replace)
    elif value == "before removal":
        folder.Folder.replace = after(folder.Folder.replace)
    try:
        ts.Relation.build(path, source, "k", memory=memory, replace=True)
    except ts.errors.RelationError as error:
        with open(path + ".txt", "w") as file:
            file.write(str(error))


statuses = []
for path, kind, value, memory in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        try:
            case(path, kind, value, memory)
        finally:
            os._exit(0)  # also after Ctrl-C: a fork must not end as its parent would
    if kind in ("delay", "ctrl-c"):
        time.sleep(value)
        os.kill(child, signal.SIGKILL if kind == "delay" else signal.SIGINT)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(statuses))
"""
MOMENTS = [
    *("reading", "sorting", "merging", "first blocks", "blocks", "index", "before rename"),
    *("after rename", "before removal"),
]
KILLS = [("kill", moment, "512 kB", old) for moment in MOMENTS for old in (False, True)]
DELAYS = [
    (kind, delay, "512 kB", True)
    for kind in ("delay", "ctrl-c")
    for delay in (0.01, 0.02, 0.04, 0.08)
]
LIMITS = [
    ("limit", limit, memory, True) for limit in (20_000, 400_000) for memory in ("512 kB", "256 MB")
]
Case = tuple[str, Any, str, bool]


def endings(folder: Path, cases: list[Case]) -> dict[Case, tuple[Path, int]]:
    """Where each case has built, or tried to, and how its process ended."""
    paths = [folder / str(at) / "r.rel" for at in range(len(cases))]
    for path, (*_, old) in zip(paths, cases, strict=True):
        if old:
            ts.Relation.build(path, SMALL, "k", replace=True).close()
        path.parent.mkdir(exist_ok=True)
    asked = [(str(path), *case[:3]) for path, case in zip(paths, cases, strict=True)]
    command = [sys.executable, "-W", "ignore", "-c", FORKS, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    statuses = json.loads(done.stdout)
    return dict(zip(cases, zip(paths, statuses, strict=True), strict=True))


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, tuple[Path, int]]:
    return endings(tmp_path_factory.mktemp("builds"), [*KILLS, *DELAYS, *LIMITS])


def still_there(path: Path, rows: tuple[int, ...] = (5,)) -> None:
    with ts.Relation.open(path) as relation:
        relation.check()
        assert relation.rows in rows


@pytest.mark.parametrize("case", KILLS, ids=str)
def test_a_killed_build_leaves_the_old_relation_or_the_new(
    ends: dict[Case, tuple[Path, int]], case: Case
) -> None:
    path, status = ends[case]
    assert status == -signal.SIGKILL
    ended = case[1] in ("after rename", "before removal")
    if case[3] or ended:
        still_there(path, (40_000,) if ended else (5,))
    else:
        with pytest.raises(RelationError, match="a build was started there but did not finish"):
            ts.Relation.open(path)
    # The next writer finds the lock free and clears up.
    assert built(path.parent, SMALL, "k").rows == 5


@pytest.mark.parametrize("case", DELAYS, ids=str)
def test_a_build_killed_at_any_moment(ends: dict[Case, tuple[Path, int]], case: Case) -> None:
    path, _ = ends[case]
    still_there(path, (5, 40_000))
    assert built(path.parent, SMALL, "k").rows == 5


@pytest.mark.parametrize("case", LIMITS, ids=str)
def test_files_that_may_not_grow(ends: dict[Case, tuple[Path, int]], case: Case) -> None:
    """A limit of the system: runs of the sort or the blocks do not fit."""
    path, status = ends[case]
    assert status == 0
    told = (path.parent / "r.rel.txt").read_text()
    assert "exceed the largest size allowed. The existing relation is unchanged" in told
    assert len(os.listdir(path)) == 5
    still_there(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")
@pytest.mark.parametrize("size", [600_000, 1_500_000, 2_500_000])
def test_a_disk_that_is_full(tmp_path: Path, size: int) -> None:
    """A real file system without room: for runs, for blocks."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system does not let us mount a file system")
    try:
        path = disk / "r.rel"
        ts.Relation.build(path, SMALL, "k", replace=True).close()
        told = "the disk is full. The existing relation is unchanged"
        with pytest.raises(RelationError, match=told):
            ts.Relation.build(path, many(), "k", memory="1 MB", replace=True)
        still_there(path)
        assert len(os.listdir(path)) == 5
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_what_current_names_is_on_the_disk_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def synced(file: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{file}")).name.split("-")[0])
        sync(file)

    def renamed(source: Any, target: Any) -> None:
        done.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    ts.Relation.build(tmp_path / "parent" / "r.rel", SMALL, "k")
    assert done == ["parent", "blocks", "index", "r.rel", "CURRENT.new", "rename", "r.rel"]


def test_ctrl_c_while_current_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt waits until the new relation is whole, and then is delivered."""
    path = tmp_path / "r.rel"
    ts.Relation.build(path, SMALL, "k", replace=True).close()
    real = os.replace

    def interrupted(source: Any, target: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        real(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ts.Relation.build(path, many(), "k", replace=True)
    monkeypatch.undo()
    with ts.Relation.open(path) as relation:
        relation.check()
        assert relation.rows == 60_000

"""The compile cache: its folder, its lock, its one line of output."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import thetastream
from thetastream._jit import cache, compiling
from thetastream._jit.compiling import prepare, warm
from thetastream.host import private
from thetastream.index.runs.kernels import merge, search
from thetastream.plan.kernels import cells

from ..host.strangers import plant, shared_folder

LINE = "compiling kernels (first run only)"


class FakeKernel:
    """Stands for a compiled function and notes what is done to it."""

    def __init__(self, log: list[str], *, broken: bool = False) -> None:
        self._log = log
        self._broken = broken
        self._compile_for_args = None

    def compile(self, signature: str) -> None:
        if self._broken:
            raise RuntimeError("no compiler")
        self._log.append(signature)

    def disable_compile(self) -> None:
        assert not hasattr(self, "_compile_for_args"), "no later call may compile"
        self._log.append("closed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, as in a new process."""
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))
    monkeypatch.setattr(compiling, "_ready", set())
    monkeypatch.setattr(compiling, "ENABLED", True)
    cache.cache_folder.cache_clear()
    yield tmp_path
    cache.cache_folder.cache_clear()


def declare(monkeypatch: pytest.MonkeyPatch, *logs: list[str], broken: bool = False) -> None:
    """Have kernels that note what is done to them in ``search``, then ``merge``; no others."""
    kernels = {
        module.__name__: [compiling._Declared(FakeKernel(log, broken=broken), ("i8(i8)", "f8(f8)"))]
        for module, log in zip((search, merge), logs, strict=False)
    }
    monkeypatch.setattr(compiling, "_KERNELS", kernels)


def markers(folder: Path) -> list[str]:
    return sorted(path.name.rpartition(".")[2] for path in folder.rglob("complete-*"))


def test_prepare_compiles_once_and_says_so_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    declare(monkeypatch, log)
    prepare(search)
    assert f"{LINE}: index/runs" in capsys.readouterr().err
    assert log == ["i8(i8)", "f8(f8)", "closed"]
    prepare(search)
    assert log == ["i8(i8)", "f8(f8)", "closed"], "a second call has nothing to do"
    monkeypatch.setattr(compiling, "_ready", set())  # another process
    declare(monkeypatch, log)
    prepare(search)
    assert capsys.readouterr() == ("", "")
    assert len(log) == 6


def test_modules_are_compiled_when_they_are_needed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first: list[str] = []
    second: list[str] = []
    declare(monkeypatch, first, second)
    prepare(search)
    assert (len(first), len(second)) == (3, 0)
    assert markers(folder) == ["search"]
    prepare(search, merge)
    assert (len(first), len(second)) == (3, 3)
    assert markers(folder) == ["merge", "search"]
    assert capsys.readouterr().err.count(LINE) == 2
    declare(monkeypatch, first, second)
    monkeypatch.setattr(compiling, "_ready", set())  # another process, that needs one alone
    prepare(merge)
    assert (len(first), len(second)) == (3, 6)
    assert capsys.readouterr() == ("", "")


def test_rooms_are_warmed_by_name() -> None:
    warm("plan")
    assert not compiling.ENABLED or cells.__name__ in compiling._ready


def test_without_the_compiler_there_is_nothing_to_prepare(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    declare(monkeypatch, log)
    monkeypatch.setattr(compiling, "ENABLED", False)
    prepare(search)
    assert (log, list(folder.iterdir())) == ([], [])
    assert capsys.readouterr() == ("", "")


def test_a_failed_compilation_does_not_count_as_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    declare(monkeypatch, log, broken=True)
    with pytest.raises(RuntimeError, match="no compiler"):
        prepare(search)
    assert not markers(folder)
    declare(monkeypatch, log)
    prepare(search)
    assert capsys.readouterr().err.count(LINE) == 2
    assert log == ["i8(i8)", "f8(f8)", "closed"]


def test_the_lock_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with cache.locked(path), open(path) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), cache.locked(tmp_path / "lock"):
        _ = 1 / 0
    with open(tmp_path / "lock") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- Which folder -------------------------------------------------------------------------------


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources that the fingerprint is taken of."""
    copy = tmp_path / "thetastream"
    original = cache.LIBRARY
    for path in cache.sources():
        target = copy / path.relative_to(original)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    monkeypatch.setattr(cache, "LIBRARY", copy)
    return copy


SOURCES = ["_jit/compiling.py", "plan/kernels/cells.py", "index/ordered/kernels/trie/arena.py"]


def test_the_fingerprint_is_stable(library: Path) -> None:
    assert cache.fingerprint(library) == cache.fingerprint(library)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(("text", "later"), [("\n# changed\n", 0), ("", 10**9)])
def test_a_changed_or_touched_source_changes_the_fingerprint(
    library: Path, name: str, text: str, later: int
) -> None:
    """numba looks at the time too, so a folder must not be shared across it."""
    path = library / name
    before, stamp = cache.fingerprint(library), path.stat().st_mtime_ns
    path.write_text(path.read_text() + text)
    os.utime(path, ns=(stamp + later, stamp + later))
    assert cache.fingerprint(library) != before


def test_a_new_source_changes_the_fingerprint(library: Path) -> None:
    before = cache.fingerprint(library)
    (library / "plan/kernels/extra.py").write_text("")
    assert cache.fingerprint(library) != before


def test_every_declared_kernel_is_in_the_fingerprint() -> None:
    texts = [path for path in cache.LIBRARY.rglob("*.py") if "@kernel(" in path.read_text()]
    assert len(texts) > 30
    assert set(texts) <= set(cache.sources())


def test_kernels_of_another_package_have_a_folder_of_their_own(library: Path) -> None:
    # Those of the laboratory are compiled together with ours: a change of either counts.
    other = library.parent / "laboratory"
    (other / "rivals/kernels").mkdir(parents=True)
    own = other / "rivals/kernels/mesh.py"
    own.write_text("")
    before = cache.fingerprint(other)
    assert before != cache.fingerprint(library)
    own.write_text("# changed")
    after = cache.fingerprint(other)
    assert after != before
    (library / "plan/kernels/cells.py").write_text("# changed")
    assert cache.fingerprint(other) != after


@pytest.mark.parametrize("package", ["numba", "llvmlite", "numpy"])
def test_a_version_changes_the_fingerprint(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, version = cache.fingerprint(), metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: "999.0" if name == package else version(name)
    )
    assert cache.fingerprint() != before


def test_the_parent_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path / "own"))
    assert cache.cache_root() == tmp_path / "own"
    monkeypatch.delenv("THETASTREAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_root() == tmp_path / "thetastream"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_root() == tmp_path / ".cache" / "thetastream"


def test_without_a_writable_cache_the_temporary_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("THETASTREAM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cache.cache_root() == tmp_path / f"thetastream-{os.geteuid()}"
    assert cache.cache_root().stat().st_mode & 0o777 == 0o700


def test_the_cache_folder_is_made(folder: Path) -> None:
    made = cache.cache_folder()
    assert made.stat().st_mode & 0o777 == 0o700
    assert made == folder / cache.fingerprint()


def test_kernels_that_another_user_planted_are_not_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in the temporary folder, nor in a folder that is named, nor in a home."""
    private.say.cache_clear()
    with shared_folder() as shared:
        (shared / "file").write_text("")
        monkeypatch.delenv("THETASTREAM_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "file"))
        monkeypatch.setattr(tempfile, "tempdir", str(shared))
        fallback = shared / f"thetastream-{os.geteuid()}"
        reason = plant(fallback)
        taken = cache.cache_root()
        assert taken.name.startswith(f"{fallback.name}-")
        assert f"thetastream: {fallback} {reason}; using {taken} instead" in capsys.readouterr().err

        monkeypatch.setenv("THETASTREAM_CACHE", str(shared))
        cache.cache_folder.cache_clear()
        named = shared / cache.fingerprint()
        reason = plant(named)
        assert cache.cache_folder().name.startswith(f"{named.name}-")
        assert f"{named} {reason}; using" in capsys.readouterr().err
        cache.cache_folder.cache_clear()

        monkeypatch.delenv("THETASTREAM_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
        reason = plant(shared / "thetastream")
        assert cache.cache_root() == taken
        assert f"{shared}/thetastream {reason}; compiled kernels" in capsys.readouterr().err


def test_the_lock_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="lock"), cache.locked(tmp_path / "lock"):
        pass
    assert (tmp_path / "target").read_text() == "precious"


# --- Calls ---------------------------------------------------------------------------------------


def test_other_types_are_a_loud_error() -> None:
    prepare(cells)
    keys, out = np.zeros(3, np.int32), np.empty(3, np.int64)
    if compiling.ENABLED:
        with pytest.raises(TypeError, match="[Nn]o matching"):
            cells.cells_of_integers(keys, 2, out)
    else:
        cells.cells_of_integers(keys, 2, out)
        assert out.tolist() == [0, 0, 0]


def run(place: Path, code: str) -> subprocess.Popen[str]:
    source = str(Path(thetastream.__file__).parent.parent)
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "THETASTREAM_CACHE": str(place), "PYTHONPATH": ":".join(paths)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


JOIN = """
import pyarrow as pa, thetastream as ts
join = ts.StreamJoin("abs(l.x - r.x) <= 1", window=ts.CountWindow(9))
batch = pa.record_batch({"x": [1, 5, 9]})
print(sum(b.num_rows for b in join.push(left=batch, right=batch)))
"""


FIRST_CALL = """
import numpy as np
from thetastream.plan.kernels import cells
out = np.empty(2, np.int64)
cells.cells_of_integers(np.array([4, 9]), 2, out)
print(out.tolist())
try:
    cells.cells_of_integers(np.zeros(2, np.int32), 2, out)
except TypeError as error:
    print("No matching" in str(error))
"""


def test_a_first_call_compiles_its_module_and_no_other_types(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        out, err = run(tmp_path, FIRST_CALL).communicate(timeout=300)
    finally:
        os.umask(before)
    assert out == "[2, 4]\nTrue\n"
    assert f"{LINE}: plan" in err
    assert markers(tmp_path) == ["cells"]
    made = [*tmp_path.rglob("*")]
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in made}
    assert modes == {(True, 0o700), (False, 0o600)}, "whatever the umask"
    assert any(path.suffix == ".nbc" for path in made)


@pytest.mark.slow
def test_processes_share_one_compilation(tmp_path: Path) -> None:
    both = [run(tmp_path, JOIN) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [out for out, _ in outputs] == ["3\n", "3\n"]
    said = [line for _, err in outputs for line in err.splitlines() if LINE in line]
    assert said
    assert len(said) == len(set(said)), "each room is compiled by one of them"
    later = run(tmp_path, JOIN)
    assert later.communicate(timeout=300) == ("3\n", "")


@pytest.mark.slow
def test_a_process_that_died_while_compiling_is_no_obstacle(tmp_path: Path) -> None:
    die = (
        "import os; from thetastream._jit import compiling; compile = compiling._compile\n"
        "compiling._compile = lambda modules: (compile(modules[:1]), os._exit(9))\n"
        "compiling.warm('data')"
    )
    dead = run(tmp_path, die)
    dead.communicate(timeout=300)
    assert dead.returncode == 9
    out, err = run(tmp_path, JOIN).communicate(timeout=300)
    assert out == "3\n"
    assert LINE in err

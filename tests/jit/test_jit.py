"""The compile cache: its folder, its lock, its one line of output."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thetastream
from thetastream._jit import compiling as _jit
from thetastream.plan.kernels import cells

LINE = "compiling kernels (first run only)"


class FakeKernel:
    """Stands for a compiled function and notes what is done to it."""

    def __init__(self, log: list[str], *, broken: bool = False) -> None:
        self._log = log
        self._broken = broken

    def compile(self, signature: str) -> None:
        if self._broken:
            raise RuntimeError("no compiler")
        self._log.append(signature)

    def disable_compile(self) -> None:
        self._log.append("closed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, as in a new process."""
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))
    monkeypatch.setattr(_jit, "_folder", None)
    monkeypatch.setattr(_jit, "_ready", set())
    monkeypatch.setattr(_jit, "ENABLED", True)
    return tmp_path


def declare(monkeypatch: pytest.MonkeyPatch, **groups: FakeKernel) -> None:
    """Have these kernels and no others."""
    kernels = {group: [(kernel, ("i8(i8)", "f8(f8)"))] for group, kernel in groups.items()}
    monkeypatch.setattr(_jit, "_KERNELS", kernels)


def test_prepare_compiles_once_and_says_so_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    declare(monkeypatch, base=FakeKernel(log))
    _jit.prepare()
    assert LINE in capsys.readouterr().err
    assert log == ["i8(i8)", "f8(f8)", "closed"]
    _jit.prepare()
    assert log == ["i8(i8)", "f8(f8)", "closed"], "a second call has nothing to do"
    monkeypatch.setattr(_jit, "_ready", set())  # another process
    _jit.prepare()
    assert capsys.readouterr() == ("", "")
    assert len(log) == 6


def test_groups_are_compiled_when_they_are_needed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base: list[str] = []
    trees: list[str] = []
    declare(monkeypatch, base=FakeKernel(base), trees=FakeKernel(trees))
    _jit.prepare()
    assert (len(base), len(trees)) == (3, 0)
    assert [path.name for path in folder.rglob("complete-*")] == ["complete-base"]
    assert LINE in capsys.readouterr().err
    _jit.prepare("trees")
    assert (len(base), len(trees)) == (3, 3)
    assert "compiling kernels for trees (first run only)" in capsys.readouterr().err
    assert sorted(path.name for path in folder.rglob("complete-*")) == [
        "complete-base",
        "complete-trees",
    ]
    _jit.prepare()
    _jit.prepare("trees")
    assert (len(base), len(trees)) == (3, 3)
    monkeypatch.setattr(_jit, "_ready", set())  # another process, that needs the trees alone
    _jit.prepare("trees")
    assert (len(base), len(trees)) == (3, 6)
    assert capsys.readouterr() == ("", "")


def test_without_the_compiler_there_is_nothing_to_prepare(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    declare(monkeypatch, base=FakeKernel(log))
    monkeypatch.setattr(_jit, "ENABLED", False)
    _jit.prepare()
    assert (log, list(folder.iterdir())) == ([], [])
    assert capsys.readouterr() == ("", "")


def test_a_failed_compilation_does_not_count_as_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    declare(monkeypatch, base=FakeKernel(log, broken=True))
    with pytest.raises(RuntimeError, match="no compiler"):
        _jit.prepare()
    assert not list(folder.rglob("complete-*"))
    declare(monkeypatch, base=FakeKernel(log))
    _jit.prepare()
    assert capsys.readouterr().err.count(LINE) == 2
    assert log == ["i8(i8)", "f8(f8)", "closed"]


def test_the_lock_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with _jit._locked(path), open(path) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), _jit._locked(tmp_path / "lock"):
        _ = 1 / 0
    with open(tmp_path / "lock") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- Which folder -------------------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the kernels' sources that the fingerprint is taken of."""
    copy = tmp_path / "kernels"
    shutil.copytree(Path(_jit.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_jit, "__file__", str(copy / "_jit.py"))
    return copy


def test_the_fingerprint_is_stable(sources: Path) -> None:
    assert _jit._fingerprint() == _jit._fingerprint()


def test_a_changed_source_changes_the_fingerprint(sources: Path) -> None:
    path = sources / "merge.py"
    before, stamp = _jit._fingerprint(), path.stat().st_mtime_ns
    path.write_text(path.read_text() + "\n# changed\n")
    os.utime(path, ns=(stamp, stamp))
    assert _jit._fingerprint() != before


def test_a_touched_source_changes_the_fingerprint(sources: Path) -> None:
    # numba looks at the time too, so a folder must not be shared across it.
    before, stamp = _jit._fingerprint(), (sources / "merge.py").stat().st_mtime_ns
    os.utime(sources / "merge.py", ns=(stamp + 10**9, stamp + 10**9))
    assert _jit._fingerprint() != before


def test_a_new_source_changes_the_fingerprint(sources: Path) -> None:
    before = _jit._fingerprint()
    (sources / "extra.py").write_text("")
    assert _jit._fingerprint() != before


@pytest.mark.parametrize("module", ["numba", "llvmlite", "np"])
def test_a_version_changes_the_fingerprint(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _jit._fingerprint()
    monkeypatch.setattr(getattr(_jit, module), "__version__", "999.0")
    assert _jit._fingerprint() != before


def test_the_parent_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path / "own"))
    assert _jit.cache_root() == tmp_path / "own"
    monkeypatch.delenv("THETASTREAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _jit.cache_root() == tmp_path / "thetastream"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _jit.cache_root() == tmp_path / ".cache" / "thetastream"


def test_without_a_writable_cache_the_temporary_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("THETASTREAM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert _jit.cache_root().name == f"thetastream-{os.getuid()}"


def test_the_cache_folder_is_made(folder: Path) -> None:
    made = _jit.cache_folder()
    assert made.is_dir()
    assert made == folder / _jit._fingerprint()


# --- Calls ---------------------------------------------------------------------------------------


def test_other_types_are_a_loud_error() -> None:
    _jit.prepare()
    keys, out = np.zeros(3, np.int32), np.empty(3, np.int64)
    if _jit.ENABLED:
        with pytest.raises(TypeError, match="[Nn]o matching"):
            cells.cells_of_integers(keys, 2, out)
    else:
        cells.cells_of_integers(keys, 2, out)
        assert out.tolist() == [0, 0, 0]


def run(cache: Path, code: str) -> subprocess.Popen[str]:
    source = str(Path(thetastream.__file__).parent.parent)
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "THETASTREAM_CACHE": str(cache), "PYTHONPATH": ":".join(paths)}
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


@pytest.mark.slow
def test_processes_share_one_compilation(tmp_path: Path) -> None:
    both = [run(tmp_path, JOIN) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [out for out, _ in outputs] == ["3\n", "3\n"]
    assert sorted(LINE in err for _, err in outputs) == [False, True]
    later = run(tmp_path, JOIN)
    assert later.communicate(timeout=300) == ("3\n", "")


@pytest.mark.slow
def test_a_process_that_died_while_compiling_is_no_obstacle(tmp_path: Path) -> None:
    die = (
        "import os; from thetastream._jit import _jit; compile_all = _jit._compile_all\n"
        "_jit._compile_all = lambda group: (compile_all(group), os._exit(9))\n_jit.prepare()"
    )
    dead = run(tmp_path, die)
    dead.communicate(timeout=300)
    assert dead.returncode == 9
    out, err = run(tmp_path, JOIN).communicate(timeout=300)
    assert out == "3\n"
    assert LINE in err

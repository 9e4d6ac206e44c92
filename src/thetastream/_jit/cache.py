"""Where compiled kernels are kept between runs.

The cache folder of a package is named after a fingerprint of its kernel sources, the versions of
its dependencies and the interpreter; any change leads to another folder. numba's own cache is not
safe when several processes fill it at once, so one process fills it under a file lock while the
others wait. A marker per module records that its kernels are complete. The folder holds code that
will be run, so it is private to its user.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from thetastream.host.private import FILE, FOLDER, claim, own_folder, say

LIBRARY = Path(__file__).resolve().parent.parent


@cache
def cache_folder(package: Path = LIBRARY) -> Path:
    """The folder of a package's compiled kernels (``THETASTREAM_CACHE`` sets its parent)."""
    return own_folder(cache_root() / fingerprint(package))


def cache_root() -> Path:
    """The folder for everything kept between runs (``THETASTREAM_CACHE`` sets it)."""
    chosen = os.environ.get("THETASTREAM_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "thetastream"
    try:
        with tempfile.TemporaryFile(dir=claim(folder)):
            return folder
    except OSError as error:
        fallback = own_folder(Path(tempfile.gettempdir()) / f"thetastream-{os.geteuid()}")
        say(f"{error}; compiled kernels are kept in {fallback}")
        return fallback


def fingerprint(package: Path = LIBRARY) -> str:
    """A name that changes with any kernel source (content or mtime), version or interpreter.

    Kernels of other packages are compiled together with ours, so it covers both.
    """
    digest = hashlib.sha256()
    versions = [metadata.version(name) for name in ("numpy", "numba", "llvmlite")]
    digest.update(repr([sys.version, *versions]).encode())
    for path in sources(package):
        digest.update(f"{path} {path.stat().st_mtime_ns}".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def sources(package: Path = LIBRARY) -> list[Path]:
    """The source files that compiled kernels of a package depend on."""
    files = {*LIBRARY.glob("_jit/*.py")}
    for folder in (LIBRARY, package):
        files.update(folder.glob("**/kernels/**/*.py"))
    return sorted(files)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the system releases it if the process dies."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def seal(folder: Path) -> None:
    """Make files that numba wrote private; it creates them as the umask says."""
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another process renames its own
            path.chmod(FOLDER if path.is_dir() else FILE)

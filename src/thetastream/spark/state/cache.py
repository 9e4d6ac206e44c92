"""Runs of a partition as memory-mapped files of this host, and partitions alive in this process.

Spark may hand a partition's next micro-batch to another Python process of the host. The state store
holds its state, but reading it back costs a socket and a copy. So every run is also a file in a
folder of the host, which the next process maps. Files are a cache: names are never used twice, and
a run whose file is missing or damaged is read from the state store.

    folder      private to the user, in THETASTREAM_RUNS, else in shared memory where there is room,
                else in Spark's local folder
    lineage     one folder per partition of a query, named at its first micro-batch
    run         one Arrow IPC file, immutable
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa

from thetastream.errors import StateError
from thetastream.host.private import claim, map_file, own_folder, say, write_file
from thetastream.spark.state.digest import digest_like, is_trusted

_ROOT = "thetastream-runs"
_SHARED = Path("/dev/shm")
_FREE = 1 << 30
_FORGOTTEN = 2 * 3600


class RunFiles:
    """The run files of one partition on this host.

    Files in a folder of the host's own are private. With ``state``, the folder holds the state
    itself: its files are read as they are.
    """

    def __init__(
        self, lineage: str, root: Path | None = None, *, state: Path | None = None
    ) -> None:
        self._state = state is not None
        self._folder = (state or root or default_root()) / lineage

    def write(self, run: str, blob: bytes | pa.Buffer) -> None:
        """Write a run. A full disk is not an error: the run is in the state store."""
        try:
            claim(self._folder)
            write_file(self._folder / f"{run}.arrow", memoryview(blob))
        except OSError as error:
            say(f"run files are not kept: {error.strerror or error}")

    def read(self, run: str, size: int, digest: str) -> pa.Buffer | None:
        """Map a run; None if its file is missing, damaged, or not to be trusted."""
        if not is_trusted(digest):
            return None
        path = self._folder / f"{run}.arrow"
        try:
            buffer = _mapped(path) if self._state else pa.py_buffer(map_file(path))
        except (OSError, pa.ArrowInvalid):
            return None
        if buffer.size != size or digest_like(digest, buffer) != digest:
            return None
        return buffer

    def remove(self, runs: list[str]) -> None:
        """Remove the files of runs."""
        for run in runs:
            (self._folder / f"{run}.arrow").unlink(missing_ok=True)

    def keep_only(self, runs: Collection[str]) -> None:
        """Remove files of other runs, which expired elsewhere or were never committed."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name.split(".")[0] not in runs:
                    path.unlink(missing_ok=True)

    def touch(self) -> None:
        """Mark this partition as in use."""
        if self._folder.exists():
            os.utime(self._folder)


def _mapped(path: Path) -> pa.Buffer:
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def default_root() -> Path:
    """The folder for run files on this host, which only this user can read."""
    for place in _places():
        try:
            return own_folder(place / f"{_ROOT}-{os.geteuid()}")
        except OSError as error:
            say(f"{place} cannot hold run files: {error}")
    raise StateError(
        "no folder of this host can hold run files; set THETASTREAM_RUNS to one that this user "
        "can write"
    )


def _places() -> Iterator[Path]:
    """Folders that may hold run files, the best first."""
    if given := os.environ.get("THETASTREAM_RUNS"):
        yield Path(given)
    if _SHARED.is_dir() and shutil.disk_usage(_SHARED).free > _FREE:
        yield _SHARED
    if local := os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]:
        yield Path(local)
    yield Path(tempfile.gettempdir())


def remove_forgotten(root: Path, now: float | None = None) -> None:
    """Remove the folders of queries that ended long ago."""
    limit = (time.time() if now is None else now) - _FORGOTTEN
    if not root.is_dir():
        return
    for folder in root.iterdir():
        try:
            if folder.lstat().st_mtime < limit:
                shutil.rmtree(folder, ignore_errors=True)
        except FileNotFoundError:
            continue


T = TypeVar("T")


class Alive(Generic[T]):
    """Values kept in this process under a name; the least recently used go first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[str, T] = OrderedDict()

    def take(self, name: str) -> T | None:
        """Take a value out."""
        return self._held.pop(name, None)

    def keep(self, name: str, value: T) -> None:
        """Keep a value for the next micro-batch."""
        self._held[name] = value
        self._held.move_to_end(name)
        while len(self._held) > self._limit:
            self._held.popitem(last=False)

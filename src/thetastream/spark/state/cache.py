"""Runs of a partition as memory-mapped files of this host, and partitions alive in this process.

Spark may hand a partition's next micro-batch to another Python process of the host. The state store
holds its state, but reading it back costs a socket and a copy. So every run is also a file in a
folder of the host, which the next process maps. Files are a cache: names are never used twice, and
a run whose file is missing or damaged is read from the state store.

    folder      THETASTREAM_RUNS, else shared memory where there is room, else Spark's local folder
    lineage     one folder per partition of a query, named at its first micro-batch
    run         one Arrow IPC file, immutable
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import zlib
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa

_ROOT = "thetastream-runs"
_SHARED = Path("/dev/shm")
_FREE = 1 << 30
_FORGOTTEN = 2 * 3600


class RunFiles:
    """The run files of one partition on this host."""

    def __init__(self, lineage: str, root: Path | None = None) -> None:
        self._folder = (root or default_root()) / lineage

    def write(self, run: str, blob: bytes | memoryview | pa.Buffer) -> None:
        """Write a run. A full disk is no error: the run is in the state store."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            part = self._folder / f"{run}.{os.getpid()}.part"
            part.write_bytes(blob)
            part.rename(self._folder / f"{run}.arrow")
        except OSError:
            return

    def read(self, run: str, size: int, checksum: int) -> pa.Buffer | None:
        """Map a run; None if its file is missing or damaged."""
        path = self._folder / f"{run}.arrow"
        try:
            with pa.memory_map(str(path)) as mapped:
                buffer = mapped.read_buffer()
        except (OSError, pa.ArrowInvalid):
            return None
        if buffer.size != size or zlib.crc32(buffer) != checksum:
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


def default_root() -> Path:
    """The folder for run files on this host; unused subfolders are removed in time."""
    given = os.environ.get("THETASTREAM_RUNS")
    if given:
        return Path(given)
    name = f"{_ROOT}-{os.getuid()}"
    if _SHARED.is_dir() and shutil.disk_usage(_SHARED).free > _FREE:
        root = _SHARED / name
    else:
        local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        root = Path(local or tempfile.gettempdir()) / name
    return root


def remove_forgotten(root: Path, now: float | None = None) -> None:
    """Remove the folders of queries that ended long ago."""
    limit = (time.time() if now is None else now) - _FORGOTTEN
    if not root.is_dir():
        return
    for folder in root.iterdir():
        try:
            if folder.stat().st_mtime < limit:
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

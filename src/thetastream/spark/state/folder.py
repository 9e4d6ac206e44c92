"""Runs as files of a folder that every executor reaches, instead of blobs in the state store.

Writing to the state store takes a socket and several copies in the JVM; writing a file does not.
The state store then holds only the record: names, sizes and checksums. A run is written before the
record that names it is committed, under a name that is never used again, so a failed task leaves
only an unused file. An expired run stays for some micro-batches, as Spark keeps old versions of its
own state: a restart from one of them still finds its runs.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from thetastream.errors import OptionError

GRACE = 100  # micro-batches, the default of spark.sql.streaming.minBatchesToRetain


def read_location(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system and the folder behind a path or a URI; the folder is created."""
    try:
        if "://" in path or path.startswith("file:"):
            system, base = pafs.FileSystem.from_uri(path)
        else:
            system, base = pafs.LocalFileSystem(), str(Path(path).absolute())
        system.create_dir(base, recursive=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise OptionError(
            f"state_path={path!r} cannot be used: {error}. Name a folder that the driver and every "
            "executor can read and write, as a path or a URI such as hdfs://… or s3://…"
        ) from None
    return system, base


class FileTree:
    """Files in one folder below a location; each is written whole, or not at all."""

    def __init__(self, path: str, folder: str) -> None:
        self._system, base = read_location(path)
        self._base = f"{base}/{folder}"
        self._made = False

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a file; replace one of that name."""
        if not self._made:
            self._system.create_dir(self._base, recursive=True)
            self._made = True
        part = f"{self._base}/{name}.{uuid.uuid4().hex}.part"
        with self._system.open_output_stream(part) as stream:
            stream.write(data)
        self._system.move(part, f"{self._base}/{name}")

    def get(self, name: str) -> bytes | None:
        """Read a file; None if it is missing."""
        try:
            with self._system.open_input_file(f"{self._base}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Remove a file. A missing one is not an error: a task may be run again."""
        try:
            self._system.delete_file(f"{self._base}/{name}")
        except (FileNotFoundError, OSError):
            return


class RunFolder(FileTree):
    """The runs of one partition."""

    @property
    def local(self) -> Path | None:
        """The parent folder if its files can be mapped; None on a remote file system."""
        is_local = isinstance(self._system, pafs.LocalFileSystem)
        return Path(self._base).parent if is_local else None

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a run."""
        super().put(f"{name}.arrow", data)

    def get(self, name: str) -> bytes | None:
        """Read a run; None if it is missing."""
        return super().get(f"{name}.arrow")

    def remove(self, name: str, size: int = 0) -> None:
        """Remove a run."""
        super().remove(f"{name}.arrow")

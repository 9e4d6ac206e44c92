"""The folder of a relation: names, the file CURRENT, locks, room on the disk.

::

    parts.rel/
      CURRENT                  which files are the relation; replaced as a whole
      blocks-<generation>      the leaves
      index-<generation>-<n>   schema, facts and fences
      journal-<generation>     updates that are not yet in the blocks
      LOCK                     held by the writer
      READERS                  held, shared, by readers of blocks
      build-<generation>/      runs of a sort, rows staged by Spark: removed when a build ends

Invariant: files are complete and on disk before CURRENT names them. CURRENT is written under
another name, synced and renamed over the old one, and the folder is synced: a crash at any moment
leaves the old relation or the new one, or none if there was none. Files that CURRENT does not name
were left by killed writers. The next writer removes them: it holds LOCK, so no other writer uses
them. Readers keep their files open, so removal does not disturb them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from thetastream.errors import RelationError

FORMAT = 2
"""Version of the format on disk that is written."""

READABLE = (1, FORMAT)
"""Formats that are read; format 1 lacks the facts of unique keys, open ends and composite keys."""

AGAIN = "restore the folder from a copy, or build the relation again"
"""What to do about damaged files."""

CURRENT = "CURRENT"
_OURS = re.compile(r"(blocks|journal|build)-[0-9a-f]{12}|index-[0-9a-f]{12}-\d+|CURRENT\.new")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}
_TAKEN = {errno.EAGAIN, errno.EACCES}
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


@dataclass(frozen=True, slots=True)
class Current:
    """The contents of CURRENT."""

    format: int
    generation: str
    number: int
    """Of the index file within its generation."""
    version: int
    """Grows with every change of the relation; the journal's records continue from it."""
    index_bytes: int
    index_checksum: str

    @property
    def blocks(self) -> str:
        """Name of the block file."""
        return f"blocks-{self.generation}"

    @property
    def index(self) -> str:
        """Name of the index file."""
        return f"index-{self.generation}-{self.number}"

    @property
    def journal(self) -> str:
        """Name of the journal, which need not exist."""
        return f"journal-{self.generation}"

    def to_bytes(self) -> bytes:
        """JSON with a checksum of itself."""
        facts = asdict(self)
        return json.dumps(facts | {"checksum": _checksum(facts)}, indent=1).encode() + b"\n"


def _checksum(facts: dict[str, Any]) -> str:
    return digest(json.dumps(facts, sort_keys=True).encode())


def digest(data: bytes | memoryview) -> str:
    """Checksum of CURRENT and of index files (leaves have their own, faster one)."""
    return blake2b(data, digest_size=8).hexdigest()


class DamagedCurrent(RelationError):
    """CURRENT cannot be read; the files it named may be intact."""


class Folder:
    """A relation's folder: reads and replaces CURRENT, names files, takes locks."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def exists(self) -> bool:
        """Whether there is a relation."""
        return (self.path / CURRENT).exists()

    def names(self, generation: str) -> bool:
        """Whether CURRENT names this generation: it has become the relation."""
        try:
            return self.exists() and self.current().generation == generation
        except DamagedCurrent:
            return False

    def current(self) -> Current:
        """The contents of CURRENT; RelationError if it is missing, damaged or too new."""
        return self.parse(self.current_bytes())

    def current_bytes(self) -> bytes:
        """The raw bytes of CURRENT: a cheap way to detect a change."""
        try:
            return (self.path / CURRENT).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise RelationError(self._absent()) from None

    def _absent(self) -> str:
        if not self.path.exists():
            what = "nothing is there"
        elif not self.path.is_dir():
            what = "it is not a folder"
        elif any(_OURS.fullmatch(name) for name in os.listdir(self.path)):
            what = "a build was started there but did not finish"
        else:
            what = "the folder has no file CURRENT"
        return (
            f"there is no relation at {str(self.path)!r}: {what}. Make one with "
            "Relation.build(path, source, key=…)"
        )

    def parse(self, data: bytes) -> Current:
        """Read CURRENT's bytes."""
        damaged = (
            f"the file CURRENT of the relation {str(self.path)!r} is damaged (its checksum is "
            f"wrong); {AGAIN}"
        )
        try:
            facts = json.loads(data)
            version, checksum = facts["format"], facts.pop("checksum")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DamagedCurrent(damaged) from None
        if checksum != _checksum(facts):
            raise DamagedCurrent(damaged)
        if version not in READABLE:
            newer = version > FORMAT
            age, nearest = ("newer", FORMAT) if newer else ("older", READABLE[0])
            again = (
                f"build the relation again: thetastream relation build SOURCE {self.path} "
                "--key … --replace"
            )
            raise RelationError(
                f"the relation {str(self.path)!r} has format {version}, {age} than format "
                f"{nearest}, which this version of thetastream can read; "
                + ("update thetastream" if newer else again)
            )
        return Current(**{field.name: facts[field.name] for field in fields(Current)})

    def replace(self, current: Current) -> None:
        """Make ``current`` the relation, atomically and durably.

        The files it names must have been synced. Cost: two syncs.
        """
        self.write(CURRENT + ".new", current.to_bytes())
        os.replace(self.path / (CURRENT + ".new"), self.path / CURRENT)
        self.sync()

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a small file and sync it."""
        with opened(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            write_all(file, data)
            os.fsync(file)

    def sync(self) -> None:
        """Sync the folder: names that were created, changed or removed are on disk afterwards."""
        with opened(self.path, os.O_RDONLY | os.O_DIRECTORY) as handle:
            os.fsync(handle)

    def new_generation(self) -> str:
        """A name for files, never used before."""
        return secrets.token_hex(6)

    def remove_leftovers(self) -> list[str]:
        """Remove all files of ours that CURRENT does not name; call with LOCK held.

        If CURRENT cannot be read, this raises and removes nothing.
        """
        kept: set[str] = set()
        if self.exists():
            current = self.current()
            kept = {current.blocks, current.index, current.journal}
        left = [n for n in os.listdir(self.path) if _OURS.fullmatch(n) and n not in kept]
        for name in left:
            self.remove(name)
        return left

    def remove(self, name: str) -> None:
        """Remove a file or a folder of ours, if it exists."""
        path = self.path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def foreign(self) -> list[str]:
        """Names in the folder that do not belong to a relation."""
        known = {CURRENT, "LOCK", "READERS"}
        return sorted(n for n in os.listdir(self.path) if n not in known and not _OURS.fullmatch(n))

    @contextlib.contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Hold LOCK exclusively, among all processes and all relations of this one.

        A second writer gets an error that names the first. The system releases the lock when the
        process ends, however it ends.
        """
        file = self._locked()
        try:
            moment = time.strftime("%Y-%m-%d %H:%M:%S")
            with contextlib.suppress(OSError):  # a full disk: the lock then has no name in it
                os.ftruncate(file, 0)
                os.pwrite(file, f"process {os.getpid()}, {what}, since {moment}\n".encode(), 0)
            yield
        finally:
            os.close(file)

    def _locked(self) -> int:
        """LOCK, opened and locked; retries if its last holder removed it meanwhile."""
        while True:
            file = os.open(self.path / "LOCK", os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file), os.stat(self.path / "LOCK")):
                        return file
                os.close(file)
            except OSError as error:
                owner = os.pread(file, 200, 0).decode(errors="replace").strip()
                os.close(file)
                if error.errno in _TAKEN:
                    raise self._taken(owner) from None
                if error.errno in _NO_LOCKS:
                    raise RelationError(
                        f"the file system of {str(self.path)!r} has no locks, without which two "
                        "writers could destroy the relation; write it on another disk and copy "
                        "the folder"
                    ) from error
                raise

    def _taken(self, owner: str) -> RelationError:
        return RelationError(
            f"the relation {str(self.path)!r} is being written by another writer"
            f"{f' ({owner})' if owner else ''}: only one may write at a time. Wait until it has "
            "finished and try again; if it hangs, end that process: this releases the lock"
        )

    def remove_if_empty(self) -> None:
        """Remove the folder if it holds nothing but LOCK, which the caller holds."""
        if set(os.listdir(self.path)) <= {"LOCK"}:
            (self.path / "LOCK").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.path.rmdir()


class SharedLock:
    """READERS: shared while blocks are read; exclusive, for a moment, to change blocks in place.

    A read-only folder has no lock and needs none: it has no writers.
    """

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            with contextlib.suppress(OSError):
                self._file = os.open(path, os.O_RDONLY)

    def share(self) -> None:
        """Wait until no writer changes blocks, and keep writers out."""
        self._lock(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Return whether there are no readers; if so, keep them out until ``release``."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock(self, how: int) -> bool:
        """Return whether the lock is held; always False where locking is unsupported."""
        if self._file is None:
            return False
        try:
            fcntl.flock(self._file, how)
        except OSError as error:
            if error.errno not in _TAKEN | _NO_LOCKS:
                raise
            return False
        return True

    def release(self) -> None:
        """Unlock the file."""
        self._lock(fcntl.LOCK_UN)

    def close(self) -> None:
        """Unlock and close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """An open file, by its descriptor."""
    file = os.open(path, flags, 0o666)
    try:
        yield file
    finally:
        os.close(file)


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all bytes at the file's position; a single ``os.write`` may write only some."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(file, rest) :]


def write_at(file: int, data: memoryview, position: int) -> int:
    """Write all bytes at a position; return the position after them."""
    while data:
        count = os.pwrite(file, data, position)
        data, position = data[count:], position + count
    return position


@contextlib.contextmanager
def disk_errors(path: Path, what: str, after: str) -> Iterator[None]:
    """Turn a full disk into a RelationError that says what was being done, and what is left."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        reason = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the quota of this user is exhausted",
            errno.EFBIG: "a file would exceed the largest size allowed",
        }[error.errno or 0]
        raise RelationError(
            f"{what} {str(path)!r} failed: {reason}. {after} Free some space, or choose another "
            "disk, and try again"
        ) from error

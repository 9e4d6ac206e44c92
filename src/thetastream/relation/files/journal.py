"""The journal of a relation: the changes since its index was written.

A transaction is one record, appended and synced before it is acknowledged (SSIJ, Section IV-E,
leaves the method open; this is a write-ahead log of block images)::

    record   header | facts | images
    header   magic, salt, sequence, version, bytes of facts, bytes of images, checksum of both,
             checksum of the header: 8 bytes each
    facts    int64: rows, rows left out for NULL keys, empty intervals, blocks of the file, numbers
             of splices, entries and images; then the splices of the fences, then block and span
             of each image
    images   leaves as they are after the transaction, whole blocks

Invariants: sequence numbers count from 1 without a gap; versions grow; an image never changes
once its record is complete, so a snapshot is a length of the journal. Records up to the version of
the index are obsolete: they were folded, and a crash came before the journal was emptied.

Appending, truncating and emptying take the journal's exclusive lock, reading new records the shared
one: no reader sees a complete record that is not yet synced and may be withdrawn.

An incomplete record at the end was never acknowledged: readers ignore it, and the next writer
truncates it. An incomplete record *before* others is damage, and raises an error that names it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.errors import RelationError
from thetastream.relation.files.folder import AGAIN, Folder, write_at
from thetastream.relation.files.splices import Entries, Splices

Image = NDArray[np.uint8]

_MAGIC = b"TSJRNL\x00\x01"
_HEADER = struct.Struct("<8s7Q")
_COUNTS = 7
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """The changes of a transaction: the facts of a record."""

    version: int
    rows: int
    null_keys: int
    empty_intervals: int
    blocks: int
    """Blocks of the block file after the change, free ones included."""
    splices: Splices
    image_blocks: Array
    """First block of each image."""
    image_spans: Array
    """Blocks of each image."""


@dataclass(frozen=True, slots=True)
class Record:
    """A complete record, and its place."""

    sequence: int
    contents: Contents
    images_at: int
    """Where its first image begins in the file."""
    stop: int
    """Where the next record begins."""


class Journal:
    """One journal file. Its only state is the open file: callers keep positions.

    Reading costs one pass over the new records, appending one write and one sync.
    """

    def __init__(self, path: Path, generation: str) -> None:
        self.path = path
        self._salt = _checksum([generation.encode()])
        self._reader = -1
        self._writer = -1

    def _keep(self, file: int) -> int:
        """Close a file once no snapshot and no relation refers to the journal."""
        weakref.finalize(self, os.close, file)
        return file

    # --- Reading --------------------------------------------------------------------------------

    def read(self, position: int = 0, sequence: int = 0) -> list[Record]:
        """The complete records after a position; ``sequence`` is that of the record before it."""
        if self.size() <= position:
            return []
        with self._locked(self._reader, fcntl.LOCK_SH):
            records = list(self._records(position, sequence))
            if records:  # the writer may have been killed before its sync
                with suppress(OSError):  # a read-only file system
                    os.fsync(self._reader)
        return records

    def last_version(self) -> int:
        """The newest version of any record, even if the journal is damaged."""
        try:
            records = self.read()
        except RelationError:
            return max((version for _, version in self._headers(0, self.size())), default=0)
        return records[-1].contents.version if records else 0

    def size(self) -> int:
        """Bytes of the file; 0 if it does not exist."""
        return os.fstat(self._reader).st_size if self._open() else 0

    def read_image(self, offset: int, target: memoryview) -> None:
        """Fill a buffer from a position of the file."""
        assert self._reader >= 0
        while target:
            count = os.preadv(self._reader, [target], offset)
            if not count:
                raise RelationError(
                    f"{self.path.name} ends at byte {offset}, where blocks were expected: it was "
                    f"cut short while in use; {AGAIN}"
                )
            target, offset = target[count:], offset + count

    def _open(self) -> bool:
        if self._reader < 0:
            try:
                self._reader = self._keep(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
            except FileNotFoundError:
                return False
        return True

    def _records(self, position: int, sequence: int) -> Iterator[Record]:
        size = self.size()
        while position < size:
            record = self._record(position, sequence + 1, size)
            if record is None:
                self._refuse_damage(position, sequence + 1, size)
                return
            yield record
            position, sequence = record.stop, record.sequence

    def _record(self, at: int, sequence: int, size: int) -> Record | None:
        """The record at a position, or None if it is incomplete."""
        header = self._header(os.pread(self._reader, _HEADER.size, at))
        if header is None or header[0] != sequence:
            return None
        _, version, fact_bytes, image_bytes, checksum = header
        images_at = at + _HEADER.size + fact_bytes
        stop = images_at + image_bytes
        if stop > size or _checksum(self._pieces(at + _HEADER.size, stop)) != checksum:
            return None
        facts = np.empty(fact_bytes // 8, np.int64)
        self.read_image(at + _HEADER.size, facts.data.cast("B"))
        return Record(sequence, _from_facts(facts, version), images_at, stop)

    def _header(self, data: bytes) -> tuple[int, int, int, int, int] | None:
        if len(data) < _HEADER.size:
            return None
        magic, salt, *fields, checksum = _HEADER.unpack(data)
        if magic != _MAGIC or salt != self._salt or checksum != _checksum([data[:-8]]):
            return None
        return tuple(fields)

    def _pieces(self, start: int, stop: int) -> Iterator[bytes]:
        for at in range(start, stop, _PIECE):
            yield os.pread(self._reader, min(_PIECE, stop - at), at)

    def _refuse_damage(self, at: int, sequence: int, size: int) -> None:
        """Raise if a complete header follows: this record was acknowledged then."""
        for later, _ in self._headers(at, size):
            if later > sequence:
                raise RelationError(
                    f"record {sequence} of {self.path.name}, at byte {at}, is damaged, and record "
                    f"{later} follows it: acknowledged changes are lost; {AGAIN}"
                )

    def _headers(self, at: int, size: int) -> Iterator[tuple[int, int]]:
        """Sequence and version of every complete header after a position."""
        overlap = _HEADER.size - 8  # a header may lie across two pieces
        for start in range(at, size, _PIECE):
            data = os.pread(self._reader, _PIECE + overlap, start)
            words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
            for word in np.flatnonzero(words == np.frombuffer(_MAGIC, np.uint64)[0]):
                header = self._header(data[word * 8 : word * 8 + _HEADER.size])
                if header is not None:
                    yield header[0], header[1]

    # --- Writing --------------------------------------------------------------------------------

    def append(
        self, position: int, sequence: int, contents: Contents, images: Sequence[Image]
    ) -> Record:
        """Write a record at a position, after the last complete one, and sync it.

        If that fails, for example on a full disk, the file is truncated again.
        """
        facts = _to_facts(contents)
        image_bytes = sum(image.nbytes for image in images)
        parts = [facts.data.cast("B"), *(image.data for image in images)]
        head = _HEADER.pack(
            *(_MAGIC, self._salt, sequence, contents.version),
            *(facts.nbytes, image_bytes, _checksum(parts), 0),
        )[:-8]
        head += _checksum([head]).to_bytes(8, "little")
        with self._written() as file:
            try:
                os.ftruncate(file, position)
                at = position
                for part in [memoryview(head), *parts]:
                    at = write_at(file, part, at)
                os.fsync(file)
            except BaseException as error:
                with suppress(OSError):  # otherwise the record is incomplete, and ignored
                    os.ftruncate(file, position)
                    os.fsync(file)
                if not isinstance(error, OSError):
                    raise
                raise RelationError(
                    f"{self.path.name}: a transaction of {image_bytes:,} bytes could not be "
                    f"written ({error.strerror or error}); nothing was changed; free some space "
                    "and try again"
                ) from error
        return Record(sequence, contents, at - image_bytes, at)

    def empty(self) -> None:
        """Remove all records, once they are in the block file and in the index."""
        with self._written() as file:
            os.ftruncate(file, 0)
            os.fsync(file)

    @contextmanager
    def _written(self) -> Iterator[int]:
        if self._writer < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._writer = self._keep(os.open(self.path, flags, 0o666))
            if not os.fstat(self._writer).st_size:  # its name may not be on disk yet
                Folder(self.path.parent).sync()
        self._open()
        with self._locked(self._writer, fcntl.LOCK_EX):
            yield self._writer

    @staticmethod
    @contextmanager
    def _locked(file: int, how: int) -> Iterator[None]:
        fcntl.flock(file, how)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def _checksum(parts: Iterable[bytes | memoryview]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "little")


def _to_facts(contents: Contents) -> Array:
    splices, entries = contents.splices, contents.splices.entries
    counts = [
        *(contents.rows, contents.null_keys, contents.empty_intervals, contents.blocks),
        *(len(splices), len(entries), len(contents.image_blocks)),
    ]
    columns = [column.astype(np.int64) for column in entries.columns()]
    return np.concatenate(
        [
            np.array(counts, np.int64),
            *(splices.at, splices.removed, splices.added),
            *columns,
            *(contents.image_blocks, contents.image_spans),
        ]
    )


def _from_facts(facts: Array, version: int) -> Contents:
    rows, null_keys, no_points, blocks, splices, entries, images = facts[:_COUNTS].tolist()
    lengths = [splices] * 3 + [entries] * 5 + [images] * 2
    assert _COUNTS + sum(lengths) == len(facts)
    stops = np.cumsum([_COUNTS, *lengths])
    at, removed, added, firsts, continued, greatest, places, spans, image_blocks, image_spans = (
        facts[start:stop] for start, stop in pairwise(stops.tolist())
    )
    fresh = Entries(firsts, continued.astype(np.uint8), greatest, places, spans)
    change = Splices(at, removed, added, fresh)
    return Contents(version, rows, null_keys, no_points, blocks, change, image_blocks, image_spans)

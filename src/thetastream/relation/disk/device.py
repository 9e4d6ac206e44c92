"""Devices that blocks are read from: a file, or a file with simulated costs.

A read takes several *sequences* of consecutive blocks and stores them one after another:

    starts 4, 9   counts 2, 1   →   buffer  | block 4 | block 5 | block 9 |

A file has up to ``depth`` concurrent reads, since modern disks serve many at a time; a sequence of
more than a mebibyte is read in pieces for the same reason. ``direct=True`` bypasses the system's
page cache, so that measurements show the disk.

``Simulated`` reads the same data and charges ``S + n × T`` per sequence (SSIJ, Section IV-D),
whatever it took: figures are the same on every machine.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Bytes
from thetastream._jit.compiling import prepare
from thetastream.errors import RelationError, StateError, suggest
from thetastream.relation.disk.clock import PROFILES, Costs, SimulatedClock
from thetastream.relation.disk.kernels import blockread as kernels

_PROFILE_BYTES = 8192  # of a block in PROFILES
_PIECE = 1 << 20
_SECTOR = 512  # the smallest unit of direct reads


class DirectRefused(RelationError):
    """The file system or the disk cannot read past the page cache."""


class Device(Protocol):
    """Something with numbered blocks of the same size."""

    block_bytes: int
    seek: float
    """Seconds to reach the first block of a sequence: S."""
    transfer: float
    """Seconds per block of a sequence: T."""
    seeks: int
    """Sequences read so far."""
    blocks_read: int
    """Blocks read so far."""
    background: bool
    """Whether reads may run in a background thread."""

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        """Read ``counts[i]`` blocks from block ``starts[i]`` on, one sequence after another.

        The buffer is page-aligned (``aligned``) and has room for all of them.
        """

    def close(self) -> None:
        """Close the file after the reads under way have ended."""


def aligned(nbytes: int) -> Bytes:
    """Page-aligned, zeroed memory for blocks; pages are allocated when first written."""
    pages = -(-max(nbytes, 1) // mmap.PAGESIZE)
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, np.uint8)[:nbytes]


def release(array: Bytes, start: int, stop: int) -> None:
    """Release the pages that lie entirely in ``[start, stop)``; they read as zeros afterwards.

    The array must come from ``aligned``, or be a slice of such an array.
    """
    whole: NDArray[Any] = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    memory = getattr(whole.base, "obj", whole.base)  # it may be wrapped in a view
    assert isinstance(memory, mmap.mmap), "only memory of aligned() can be released"
    at = array.ctypes.data - whole.ctypes.data
    first = -(-(at + start) // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (at + stop) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        memory.madvise(mmap.MADV_DONTNEED, first, last - first)


def costs_of(profile: str, block_bytes: int = _PROFILE_BYTES) -> Costs:
    """The costs of a kind of device for blocks of a size.

    >>> costs_of("disk", 16384).transfer / costs_of("disk", 8192).transfer
    2.0
    """
    costs = PROFILES.get(profile)
    if costs is None:
        raise RelationError(
            f"expected a kind of device ({', '.join(map(repr, PROFILES))}); got {profile!r}."
            + suggest(profile, PROFILES)
        )
    return replace(costs, transfer=costs.transfer * block_bytes / _PROFILE_BYTES)


class BlockFile:
    """Blocks in a file. Threads may read concurrently, and so may forked processes.

    Read plans use the costs of a solid state disk; see ``calibrate``.
    """

    background = True
    _pool: ThreadPoolExecutor | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        block_bytes: int,
        direct: bool = False,
        depth: int = 4,
    ) -> None:
        if depth < 1:
            raise RelationError(f"expected a depth of at least 1 read at a time; got {depth}")
        if direct and block_bytes % _SECTOR:
            raise RelationError(
                f"expected block_bytes to be a multiple of {_SECTOR} for direct reads; "
                f"got {block_bytes}: build the relation with another, or leave out direct=True"
            )
        prepare(kernels)
        costs = costs_of("ssd", block_bytes)
        self.path = Path(path)
        self.block_bytes = block_bytes
        self.direct = direct
        self.depth = depth
        self.seek, self.transfer = costs.seek, costs.transfer
        self.seeks = self.blocks_read = 0
        self._closed = False
        self._begin()
        self._file = _open(self.path, direct)

    @property
    def blocks(self) -> int:
        """Complete blocks in the file."""
        return os.fstat(self._file).st_size // self.block_bytes

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        total = int(counts.sum())
        assert buffer.size >= total * self.block_bytes, "the buffer has room for all blocks"
        assert not self.direct or buffer.ctypes.data % mmap.PAGESIZE == 0, "the buffer is aligned"
        with self._under_way():
            self._read(_pieces(starts, counts, self.block_bytes), buffer)
        with self._guard:
            self.seeks += starts.size
            self.blocks_read += total

    def forget_cached(self) -> None:
        """Ask the system to drop the file from its page cache, unless reads are direct."""
        if not self.direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        if self._process != os.getpid():
            self._begin()
        with self._guard:
            self._closed = True
            self._guard.wait_for(lambda: self._reading == 0)
            pool, self._pool = self._pool, None
            file, self._file = self._file, -1
        if pool is not None:
            pool.shutdown()
        if file >= 0:
            os.close(file)

    def _begin(self) -> None:
        """Initialise the state of this process: a forked one has no threads and no reads."""
        self._process = os.getpid()
        self._guard = threading.Condition()
        self._reading = 0  # reads under way
        self._pool = None

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Keep the file open during a read: a closed descriptor may be reused."""
        if self._process != os.getpid():
            self._begin()
        with self._guard:
            if self._closed:
                raise StateError(f"expected an open file; {self.path.name} was closed")
            self._reading += 1
        try:
            yield
        finally:
            with self._guard:
                self._reading -= 1
                self._guard.notify_all()

    def _read(self, pieces: Pieces, buffer: Bytes) -> None:
        """Read in several lanes; this thread is one of them."""
        targets = pieces.places + buffer.ctypes.data
        lane = partial(self._read_lane, pieces, targets, buffer.data, np.zeros(1, np.int64))
        others = min(self.depth, pieces.sizes.size) - 1
        if others <= 0:
            lane()
            return
        futures = [self._threads().submit(lane) for _ in range(others)]
        try:
            lane()
        finally:
            # Lanes that have not started have nothing left to do. The others still write to the
            # buffer, so they must end before it is used.
            wait([future for future in futures if not future.cancel()])
        for future in futures:
            if not future.cancelled():
                future.result()

    def _read_lane(self, pieces: Pieces, targets: Array, buffer: memoryview, turn: Array) -> None:
        try:
            while True:
                failed = kernels.read_pieces(
                    kernels.PREAD, self._file, pieces.offsets, pieces.sizes, targets, turn
                )
                if failed < 0:
                    return
                self._read_again(*pieces.at(int(failed)), buffer)
        except BaseException:
            turn[0] = pieces.sizes.size  # stop the other lanes
            raise

    def _read_again(self, offset: int, size: int, place: int, buffer: memoryview) -> None:
        """Read a piece again that was interrupted, or raise an error that explains the failure."""
        done = 0
        while done < size:
            block = (offset + done) // self.block_bytes
            try:
                got = os.preadv(self._file, [buffer[place + done : place + size]], offset + done)
            except OSError as error:
                if self.direct and error.errno == errno.EINVAL:
                    raise _refused(self.path) from None
                raise RelationError(
                    f"block {block} of {self.path} cannot be read: {error.strerror}; the disk or "
                    f"the connection to it may be damaged: check it, or build the relation again"
                ) from error
            done += got
            if done < size and (got == 0 or (self.direct and got % _SECTOR)):
                present = os.fstat(self._file).st_size
                raise RelationError(
                    f"expected block {(offset + done) // self.block_bytes} in {self.path}; the "
                    f"file was cut short: it ends after {present:,} bytes, which is "
                    f"{present // self.block_bytes:,} blocks: build the relation again, or restore "
                    f"the file from a copy"
                )

    def _threads(self) -> ThreadPoolExecutor:
        """Threads for further lanes, created when first needed."""
        with self._guard:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.depth, "thetastream-read")
            return self._pool


class Simulated:
    """A device whose reads take simulated time: ``S + n × T`` per sequence of ``n`` blocks.

    The data comes from another device. Counters are those of the simulation.
    """

    background = False

    def __init__(self, device: Device, clock: SimulatedClock, costs: Costs | None = None) -> None:
        costs = clock.costs if costs is None else costs
        self.inner = device
        self.clock = clock
        self.block_bytes = device.block_bytes
        self.seek, self.transfer = costs.seek, costs.transfer
        self.seeks = self.blocks_read = 0

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        self.inner.read(starts, counts, buffer)
        total = int(counts.sum())
        seconds = starts.size * self.seek + total * self.transfer
        self.clock.wait_until(self.clock.now() + seconds)
        self.seeks += starts.size
        self.blocks_read += total

    def close(self) -> None:
        self.inner.close()


class Pieces(NamedTuple):
    """Parts of a file, and their places in a buffer."""

    offsets: Array
    sizes: Array
    places: Array

    def at(self, which: int) -> tuple[int, int, int]:
        """Offset, size and place of a piece."""
        return int(self.offsets[which]), int(self.sizes[which]), int(self.places[which])


def _pieces(starts: Array, counts: Array, block_bytes: int) -> Pieces:
    """Sequences of blocks in bytes, with long ones cut."""
    offsets, sizes = starts * block_bytes, counts * block_bytes
    places = np.cumsum(sizes) - sizes
    if sizes.max(initial=0) <= _PIECE:
        return Pieces(offsets, sizes, places)
    cuts = -(-sizes // _PIECE)
    which = np.repeat(np.arange(sizes.size), cuts)
    skipped = (np.arange(which.size) - (np.cumsum(cuts) - cuts)[which]) * _PIECE
    rest = sizes[which] - skipped
    return Pieces(offsets[which] + skipped, np.minimum(rest, _PIECE), places[which] + skipped)


def _open(path: Path, direct: bool) -> int:
    if direct and not hasattr(os, "O_DIRECT"):
        raise _refused(path)
    try:
        file = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    except FileNotFoundError:
        raise RelationError(f"expected a file of blocks; there is no {path}") from None
    except OSError as error:
        if direct and error.errno in (errno.EINVAL, errno.ENOTSUP):
            raise _refused(path) from None
        raise RelationError(f"{path} cannot be read: {error.strerror}") from error
    if not direct and hasattr(os, "posix_fadvise"):
        # A plan lists what is needed: read-ahead is wasted.
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    return file


def _refused(path: Path) -> RelationError:
    return DirectRefused(
        f"expected direct reads; the file system of {path} refuses them, at least in blocks of "
        f"this size: leave out direct=True, or put the relation on another disk"
    )

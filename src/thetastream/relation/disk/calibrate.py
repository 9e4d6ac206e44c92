"""Measures seek and transfer of a real device: S and T of the read plan (SSIJ, Section IV-D).

Two kinds of reads at random places alternate until the time is up:

    single blocks       S + T      seconds per sequence
    long sequences      S + L × T

S and T follow from the medians of both, which ignore moments in which the machine was busy. Reads
are direct, with the same concurrency as in the join. So S is the cost of one more sequence among
others: it falls with the depth on a solid state disk, but hardly on a spinning one.

The blocks of an existing relation are read if it is large enough, otherwise a temporary file, which
is removed afterwards.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from thetastream.errors import RelationError
from thetastream.relation.disk.clock import Costs
from thetastream.relation.disk.device import BlockFile, Device, DirectRefused, aligned
from thetastream.relation.disk.size import show_size

Notice = Callable[[str], None]

_LEAST = 16 << 20  # bytes of a file that is worth reading from
_TEMPORARY = 128 << 20
_LONG = 4 << 20  # bytes of a long sequence
_ROUND = 0.05  # target seconds of a round
_ROUNDS = 3  # of each kind, at least
_MOST = 1024  # sequences of a round


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured costs."""

    seek: float
    """Seconds to reach a sequence, with ``depth`` concurrent reads: S."""
    transfer: float
    """Seconds per block of ``block_bytes``: T."""
    block_bytes: int
    depth: int
    direct: bool
    """Whether the page cache was bypassed."""
    remark: str = ""
    """A caveat about the numbers, or empty."""

    @property
    def bandwidth(self) -> float:
        """Bytes per second of a long sequence."""
        return self.block_bytes / self.transfer

    def __str__(self) -> str:
        way = "direct" if self.direct else "through the page cache"
        gap = max(0, int(np.ceil(self.seek / self.transfer)) - 1)  # the widest that pays
        lines = [
            f"seek      {self.seek * 1e3:.4f} ms per sequence",
            f"transfer  {self.transfer * 1e3:.4f} ms per block of {self.block_bytes:,} bytes "
            f"({show_size(self.bandwidth)}/s)",
            f"reads     {way}, {self.depth} at a time",
            f"plan      reads over up to {gap:,} unwanted blocks",
        ]
        return "\n".join([*lines, f"remark    {self.remark}"] if self.remark else lines)


def calibrate(
    path: str | os.PathLike[str],
    block_bytes: int = 8192,
    *,
    depth: int = 4,
    direct: bool = True,
    seconds: float = 2.0,
    progress: Notice | None = None,
) -> Calibration:
    """Measure the device of a file or a folder (of a relation, or any other).

    Takes about ``seconds``, plus the time to write 128 MiB if there is no large file. If direct
    reads are refused, reads go through the page cache, and a remark says so.
    """
    notice = progress or (lambda text: None)
    if seconds <= 0:
        raise RelationError(f"expected a positive number of seconds to measure; got {seconds}")
    with _some_file(Path(path), notice) as (file, temporary):
        device, remark = _opened(file, block_bytes, direct, depth)
        try:
            if temporary:
                file.unlink()  # it exists while it is open, even if we are killed
            if device.blocks < 2:
                raise RelationError(
                    f"expected at least 2 blocks of {block_bytes:,} bytes to measure with; "
                    f"{file} has {device.blocks}: choose smaller blocks"
                )
            seek, transfer = measure(
                device, device.blocks, seconds, notice, before=device.forget_cached
            )
        finally:
            device.close()
    return Calibration(seek, transfer, block_bytes, depth, device.direct, remark)


def measure(
    device: Device,
    blocks: int,
    seconds: float,
    notice: Notice,
    *,
    now: Callable[[], float] = perf_counter,
    before: Callable[[], None] = lambda: None,
) -> tuple[float, float]:
    """S and T of a device of ``blocks`` blocks. ``before`` is called before every round."""
    rng = np.random.default_rng()
    long = min(max(2, _LONG // device.block_bytes), max(2, blocks // 4))
    buffer = aligned(max(_MOST, 4 * long) * device.block_bytes)

    def per_sequence(count: int, length: int) -> float:
        places = blocks - length + 1
        starts = np.sort(rng.choice(places, count, replace=count > places))
        before()
        began = now()
        device.read(starts, np.full(count, length), buffer)
        return (now() - began) / count

    few = min(16, blocks)
    count = max(few, min(_MOST, blocks, int(_ROUND / max(per_sequence(few, 1), 1e-9))))
    many = max(1, min(4, int(_ROUND / max(per_sequence(1, long), 1e-9))))
    single: list[float] = []
    sequence: list[float] = []
    end = now() + seconds
    while len(single) < _ROUNDS or now() < end:
        single.append(per_sequence(count, 1))
        sequence.append(per_sequence(many, long))
        left = max(0.0, end - now())
        notice(f"measuring: {min(1.0, 1 - left / seconds):.0%}, {len(single)} rounds")
    return _solve(median(single), median(sequence), long)


def _solve(one: float, many: float, long: int) -> tuple[float, float]:
    """S and T from the seconds of one block and of a sequence of ``long`` blocks."""
    # If single blocks seem to cost more than a long sequence, seeks are not the cost.
    transfer = (many - one) / (long - 1) if many > one else many / long
    return max(0.0, one - transfer), transfer


def at_start(device: Device, blocks: int) -> Costs:
    """Costs of a device from a few dozen reads, at the start of a join; milliseconds on most disks.

    A simulated device, and a file of few blocks, has the costs it claims.
    """
    long = 64
    if not device.background or blocks < 4 * long:
        return Costs(device.seek, device.transfer)
    rng = np.random.default_rng()
    buffer = aligned(long * device.block_bytes)

    def seconds(count: int, length: int) -> float:
        starts = np.sort(rng.integers(0, blocks - length + 1, count))
        began = perf_counter()
        device.read(starts, np.full(count, length), buffer)
        return (perf_counter() - began) / count

    one = median(seconds(16, 1) for _ in range(3))
    many = median(seconds(1, long) for _ in range(3))
    return Costs(*_solve(one, many, long))


def _opened(file: Path, block_bytes: int, direct: bool, depth: int) -> tuple[BlockFile, str]:
    """Open the file, direct if possible; return a remark if not."""
    if direct:
        device = None
        try:
            device = BlockFile(file, block_bytes, True, depth)
            device.read(np.zeros(1, np.int64), np.ones(1, np.int64), aligned(block_bytes))
            return device, ""
        except DirectRefused:
            if device is not None:
                device.close()
    remark = "the system's memory may have answered instead of the disk"
    if direct:
        remark = f"direct reads are refused here, so that {remark}"
    return BlockFile(file, block_bytes, False, depth), remark


@contextmanager
def _some_file(path: Path, notice: Notice) -> Iterator[tuple[Path, bool]]:
    """A large file on the device of a path, and whether it is temporary."""
    if path.is_file():
        files, folder = [path], path.parent
    elif path.is_dir():
        files, folder = [file for file in path.glob("blocks-*") if file.is_file()], path
    else:
        raise RelationError(f"expected a file or a folder to measure; there is no {path}")
    largest = max(files, key=lambda file: file.stat().st_size, default=None)
    if largest is not None and largest.stat().st_size >= _LEAST:
        yield largest, False
        return
    temporary = _written(folder, notice)
    try:
        yield temporary, True
    finally:
        temporary.unlink(missing_ok=True)


def _written(folder: Path, notice: Notice) -> Path:
    """Write a temporary file of random bytes; remove it if that fails."""
    rng = np.random.default_rng()
    name = ""
    try:
        number, name = tempfile.mkstemp(prefix=".calibrate-", dir=folder)
        with os.fdopen(number, "wb") as file:
            for part in range(_TEMPORARY >> 20):
                file.write(rng.bytes(1 << 20))
                if part % 16 == 0:
                    notice(f"writing a temporary file: {part / (_TEMPORARY >> 20):.0%}")
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        if name:
            os.unlink(name)
        if not isinstance(error, OSError):
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise RelationError(
            f"expected to write a temporary file of {show_size(_TEMPORARY)} into {folder}: "
            f"{error.strerror}; "
            + ("free some space" if full else "choose a folder that may be written to")
            + f", or name a file of at least {show_size(_LEAST)} to read from"
        ) from error
    return Path(name)

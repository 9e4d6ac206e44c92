"""Reading blocks: right bytes, counters, accounted time, and files that are not right."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.errors import RelationError, StateError
from thetastream.relation.disk import device as module
from thetastream.relation.disk.clock import PROFILES, Costs, SimulatedClock
from thetastream.relation.disk.device import (
    BlockFile,
    DirectRefused,
    Simulated,
    aligned,
    costs_of,
    release,
)

from ...keys import Array, edges, int64
from ..failures import failing

Bytes = NDArray[np.uint8]
BLOCK = 4096
BLOCKS = 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of random blocks."""
    data = np.random.default_rng(5).integers(0, 256, BLOCKS * BLOCK, np.uint8)
    (tmp_path / "blocks-1").write_bytes(data.tobytes())
    return tmp_path / "blocks-1"


@pytest.fixture
def direct(path: Path) -> bool:
    """Whether this file system reads directly."""
    try:
        BlockFile(path, BLOCK, direct=True).close()
    except DirectRefused:
        return False
    return True


def expected(path: Path, starts: Array, counts: Array, block: int = BLOCK) -> bytes:
    data = path.read_bytes()
    pieces = zip(starts.tolist(), counts.tolist(), strict=True)
    return b"".join(data[s * block : (s + c) * block] for s, c in pieces)


def refuses(device: BlockFile, starts: list[int], error: type[Exception], message: str) -> None:
    """Reading these blocks fails, and nothing of it is counted."""
    starts_, counts = int64(starts), np.ones(len(starts), np.int64)
    with pytest.raises(error, match=message):
        device.read(starts_, counts, aligned(len(starts) * BLOCK))
    assert device.seeks == 0
    device.close()


SEQUENCES = st.lists(
    st.integers(0, BLOCKS - 1).flatmap(
        lambda start: st.tuples(st.just(start), st.integers(1, BLOCKS - start))
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequences=SEQUENCES, depth=st.integers(1, 5), piece=st.sampled_from([1, 2, 7, 256]))
@pytest.mark.parametrize("as_direct", [False, True])
def test_sequences_lie_one_behind_the_other(
    path: Path,
    direct: bool,
    as_direct: bool,
    sequences: list[tuple[int, int]],
    depth: int,
    piece: int,
) -> None:
    starts, counts = edges(sequences)
    buffer = aligned((int(counts.sum()) + 1) * BLOCK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", piece * BLOCK)
        device = BlockFile(path, BLOCK, direct=as_direct and direct, depth=depth)
        device.read(starts, counts, buffer)
    assert buffer[:-BLOCK].tobytes() == expected(path, starts, counts)
    assert not buffer[-BLOCK:].any()
    assert (device.seeks, device.blocks_read) == (starts.size, counts.sum())
    device.close()


def test_long_sequences_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 3 * BLOCK)
    pieces = module._pieces(int64([10, 50, 90]), int64([7, 1, 3]), BLOCK)
    assert (pieces.offsets // BLOCK).tolist() == [10, 13, 16, 50, 90]
    assert (pieces.sizes // BLOCK).tolist() == [3, 3, 1, 1, 3]
    assert (pieces.places // BLOCK).tolist() == [0, 3, 6, 7, 8]


def test_counters_add_up(path: Path) -> None:
    device = BlockFile(path, BLOCK)
    buffer = aligned(8 * BLOCK)
    assert device.blocks == BLOCKS
    device.read(int64([3, 9]), int64([2, 4]), buffer)
    device.read(int64([1]), int64([1]), buffer)
    assert (device.seeks, device.blocks_read) == (3, 7)
    device.close()


def test_several_threads_read_from_one_file(path: Path) -> None:
    device = BlockFile(path, BLOCK, depth=3)

    def read(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        buffer = aligned(BLOCKS * BLOCK)
        for _ in range(20):
            starts = rng.permutation(BLOCKS)[:20]
            counts = np.ones(20, np.int64)
            device.read(starts, counts, buffer)
            if buffer[: 20 * BLOCK].tobytes() != expected(path, starts, counts):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))
    assert (device.seeks, device.blocks_read) == (4 * 20 * 20, 4 * 20 * 20)
    device.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_reads_on(path: Path) -> None:
    """Even if it was forked while another thread had the lock and read."""
    device = BlockFile(path, BLOCK, depth=3)
    starts, counts, buffer = np.arange(30), np.ones(30, np.int64), aligned(30 * BLOCK)
    device.read(starts, counts, buffer)
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with device._guard:
            device._reading += 1
            held.set()
            assert go_on.wait(20)
            device._reading -= 1

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(20)
    child = os.fork()
    if child == 0:
        ok = False
        signal.alarm(20)
        try:
            buffer[:] = 0
            device.read(starts, counts, buffer)
            device.close()
            ok = buffer.tobytes() == expected(path, starts, counts)
        finally:
            os._exit(0 if ok else 1)
    go_on.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0
    device.read(starts, counts, buffer)
    device.close()


# --- Files that are not as they should be ---------------------------------------------------------


@pytest.mark.parametrize("as_direct", [False, True])
@pytest.mark.parametrize("cut", [0, 5 * BLOCK, 5 * BLOCK + 512, 5 * BLOCK + 100])
@pytest.mark.parametrize("depth", [1, 4])
def test_a_file_cut_short(path: Path, direct: bool, as_direct: bool, cut: int, depth: int) -> None:
    os.truncate(path, cut)
    device = BlockFile(path, BLOCK, direct=as_direct and direct, depth=depth)
    missing = cut // BLOCK
    with pytest.raises(RelationError, match="cut short") as caught:
        device.read(np.arange(0, 16, 2), np.full(8, 2), aligned(16 * BLOCK))
    if depth == 1:
        assert f"block {missing} " in str(caught.value)
    assert str(path) in str(caught.value)
    assert f"{cut:,} bytes" in str(caught.value)
    assert device.seeks == 0
    device.close()


def test_an_interrupted_read_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece that the kernel gives back is read again, and the rest after it."""
    real, calls = module.kernels.read_pieces, []

    def interrupted(*arguments: object) -> int:
        calls.append(arguments)
        turn = arguments[-1]
        assert isinstance(turn, np.ndarray)
        if len(calls) <= 2:
            turn[0] += 1
            return int(turn[0]) - 1
        return int(real(*arguments))

    monkeypatch.setattr(module.kernels, "read_pieces", interrupted)
    device = BlockFile(path, BLOCK, depth=1)
    starts, counts, buffer = int64([3, 7, 20, 41]), int64([1, 2, 3, 1]), aligned(7 * BLOCK)
    device.read(starts, counts, buffer)
    assert len(calls) == 3
    assert buffer.tobytes() == expected(path, starts, counts)
    device.close()


@pytest.mark.parametrize("fails", ["first", "other"])
def test_an_error_waits_for_the_other_lanes(
    path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """They write to the buffer, which the caller may use for something else."""
    begun, go_on = threading.Event(), threading.Event()

    def lane(*_: object) -> int:
        first = threading.current_thread() is threading.main_thread()
        if first:
            assert begun.wait(20)
        else:
            begun.set()
        if first == (fails == "first"):
            raise RelationError("damaged")
        assert first or go_on.wait(20)
        return -1

    monkeypatch.setattr(module.kernels, "read_pieces", lane)
    timer = threading.Timer(0.05, go_on.set)
    timer.start()
    refuses(BlockFile(path, BLOCK, depth=2), [1, 5], RelationError, "damaged")
    assert fails == "other" or go_on.is_set()
    timer.join()


def test_a_disk_that_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = BlockFile(path, BLOCK, depth=1)
    os.truncate(path, 0)  # so that the read is tried again, and then fails
    monkeypatch.setattr(os, "preadv", failing(errno.EIO))
    refuses(device, [2], RelationError, "block 2 of .*blocks-1 cannot be read: Input/output")


def test_direct_reads_refused_at_opening(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", failing(errno.EINVAL))
    with pytest.raises(DirectRefused, match="refuses them.*leave out direct=True"):
        BlockFile(path, BLOCK, direct=True)


def test_direct_reads_refused_at_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = BlockFile(path, BLOCK, depth=1)
    device.direct = True
    os.truncate(path, 0)
    monkeypatch.setattr(os, "preadv", failing(errno.EINVAL))
    refuses(device, [0], DirectRefused, "refuses them")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(RelationError, match="there is no .*blocks-7"):
        BlockFile(tmp_path / "blocks-7", BLOCK)


def test_a_folder(tmp_path: Path) -> None:
    refuses(BlockFile(tmp_path, BLOCK), [0], RelationError, "cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((BLOCK, False, 0), "depth of at least 1"), ((1000, True), "multiple of 512.*got 1000")],
)
def test_parameters(path: Path, arguments: tuple[int, bool], message: str) -> None:
    with pytest.raises(RelationError, match=message):
        BlockFile(path, *arguments)


def test_after_close(path: Path) -> None:
    device = BlockFile(path, BLOCK)
    device.close()
    device.close()
    refuses(device, [0], StateError, "blocks-1 was closed")


def test_close_waits_for_a_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, begun, go_on = module.kernels.read_pieces, threading.Event(), threading.Event()

    def slow(*arguments: object) -> int:
        begun.set()
        assert go_on.wait(20)
        return int(real(*arguments))

    monkeypatch.setattr(module.kernels, "read_pieces", slow)
    device, buffer = BlockFile(path, BLOCK), aligned(BLOCK)
    with ThreadPoolExecutor(2) as pool:
        read = pool.submit(device.read, int64([5]), int64([1]), buffer)
        assert begun.wait(20)
        closed = pool.submit(device.close)
        with pytest.raises(TimeoutError):
            closed.result(0.05)
        go_on.set()
        closed.result()
        read.result()
    assert buffer.tobytes() == expected(path, int64([5]), int64([1]))


def test_no_thread_is_left(path: Path) -> None:
    before = threading.active_count()
    device = BlockFile(path, BLOCK, depth=4)
    device.read(np.arange(40), np.ones(40, np.int64), aligned(40 * BLOCK))
    device.close()
    assert threading.active_count() == before


# --- Accounted time -------------------------------------------------------------------------------


def test_simulated_costs(path: Path) -> None:
    clock = SimulatedClock(Costs(seek=10.0, transfer=0.5))
    device = Simulated(BlockFile(path, BLOCK), clock)
    assert (device.seek, device.transfer, device.block_bytes) == (10.0, 0.5, BLOCK)
    starts, counts, buffer = int64([3, 9]), int64([2, 4]), aligned(6 * BLOCK)
    device.read(starts, counts, buffer)
    assert buffer.tobytes() == expected(path, starts, counts)
    assert clock.now() == 2 * 10.0 + 6 * 0.5
    assert (device.seeks, device.blocks_read) == (2, 6)
    device.read(int64([0]), int64([1]), buffer)
    assert clock.now() == 33.5
    device.close()


def test_simulated_with_costs_of_its_own(path: Path) -> None:
    clock = SimulatedClock(PROFILES["ssd"])
    device = Simulated(BlockFile(path, BLOCK), clock, Costs(seek=2.0, transfer=1.0))
    device.read(int64([0]), int64([3]), aligned(3 * BLOCK))
    assert clock.now() == 5.0
    device.close()


def test_profiles_scale_with_the_block() -> None:
    small, large = costs_of("disk", 4096), costs_of("disk", 16384)
    assert small.seek == large.seek == PROFILES["disk"].seek
    assert large.transfer == pytest.approx(2 * PROFILES["disk"].transfer)
    assert small.transfer == pytest.approx(PROFILES["disk"].transfer / 2)
    with pytest.raises(RelationError, match="'disk', 'ssd', 'object-store'.*'sdd'.*mean 'ssd'"):
        costs_of("sdd", 4096)


# --- Memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 100_000])
def test_aligned(size: int) -> None:
    array = aligned(size)
    assert array.size == size
    assert array.ctypes.data % mmap.PAGESIZE == 0
    assert array.flags.writeable
    assert not array.any()


@given(st.integers(0, 5 * 4096), st.integers(0, 5 * 4096), st.integers(0, 4096))
def test_release_gives_whole_pages_back(one: int, two: int, skip: int) -> None:
    start, stop = min(one, two), max(one, two)
    whole = aligned(6 * mmap.PAGESIZE)
    whole[:] = 1
    release(whole[skip:], start, stop)
    pages = [
        page
        for page in range(6)
        if start + skip <= page * mmap.PAGESIZE and (page + 1) * mmap.PAGESIZE <= stop + skip
    ]
    sums = whole.reshape(6, -1).sum(axis=1)
    assert sums.tolist() == [0 if page in pages else mmap.PAGESIZE for page in range(6)]


def test_only_aligned_memory_is_released() -> None:
    with pytest.raises(AssertionError, match="aligned"):
        release(np.zeros(9000, np.uint8), 0, 9000)

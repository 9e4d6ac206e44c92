"""Groups of a plan: what is in them, when they are read, and what becomes of errors."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.errors import RelationError
from thetastream.relation.disk.clock import Costs, SimulatedClock
from thetastream.relation.disk.device import BlockFile, Device, Simulated
from thetastream.relation.disk.reader import BlockReader, Buffers
from thetastream.relation.disk.readplan import ReadPlan, plan, single_plan

from ...keys import Array

Bytes = NDArray[np.uint8]
BLOCK = 16


class Memory:
    """Blocks that hold their own number; notes every read, and may wait or fail at one."""

    def __init__(self, background: bool = True) -> None:
        self.block_bytes = BLOCK
        self.seek, self.transfer = 3.0, 1.0
        self.seeks = self.blocks_read = 0
        self.background = background
        self.reads: list[list[int]] = []
        self.threads: list[str] = []
        self.fail_at = -1
        self.gate: threading.Event | None = None
        self.waiting = threading.Event()

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        self.threads.append(threading.current_thread().name)
        if self.gate is not None and self.reads:
            self.waiting.set()
            assert self.gate.wait(20)
        self.reads.append(starts.tolist())
        if len(self.reads) - 1 == self.fail_at:
            raise RelationError("block 7 is damaged")
        numbers = [s + i for s, c in zip(starts, counts, strict=True) for i in range(c)]
        assert buffer.size == len(numbers) * BLOCK
        buffer.view(np.int64)[:] = np.repeat(numbers, BLOCK // 8)

    def close(self) -> None:
        """Nothing to do."""


class Wrapped:
    """Like a snapshot: has a device and reads for itself."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.calls = 0

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        self.calls += 1
        self.device.read(starts, counts, buffer)


def singles(count: int) -> ReadPlan:
    """Blocks 0, 2, 4 …, each alone."""
    return single_plan(2 * np.arange(count), None, 3.0, 1.0, 1)


@st.composite
def plans(draw: st.DrawFn) -> ReadPlan:
    shapes = st.tuples(st.integers(0, 4), st.sampled_from([1, 1, 2, 5]))
    leaves = draw(st.lists(shapes, max_size=12))
    spans = np.array([span for _, span in leaves], np.int64)
    gaps = np.array([gap for gap, _ in leaves], np.int64)
    blocks = np.cumsum(gaps + spans) - spans
    chosen = None if bool((spans == 1).all()) and draw(st.booleans()) else spans
    return plan(blocks, chosen, draw(st.integers(0, 4)), 1.0, draw(st.integers(1, 9)))


@given(plans(), st.integers(1, 12), st.integers(0, 3), st.booleans())
def test_every_wanted_leaf_comes_once_and_in_order(
    chosen: ReadPlan, limit: int, ahead: int, background: bool
) -> None:
    device = Memory(background)
    seen: list[int] = []
    with BlockReader(device, chosen, limit, ahead) as reader:
        for number, group in enumerate(reader):
            assert (group.first, group.stop) == (len(seen), len(seen) + group.offsets.size)
            read = np.isin(chosen.starts, device.reads[number])
            blocks = int(chosen.counts[read].sum())
            assert chosen.firsts[read][0] == group.first
            assert blocks <= limit or np.count_nonzero(read) == 1
            assert group.buffer.size == blocks * BLOCK
            words = group.buffer.view(np.int64)
            for leaf, offset in zip(range(group.first, group.stop), group.offsets, strict=True):
                span = 1 if chosen.spans is None else chosen.spans[leaf]
                image = words[offset // 8 : (offset + span * BLOCK) // 8]
                expected = chosen.blocks[leaf] + np.arange(span)
                assert image.tolist() == np.repeat(expected, BLOCK // 8).tolist()
                seen.append(leaf)
    assert len(seen) == chosen.blocks.size
    assert [start for read in device.reads for start in read] == chosen.starts.tolist()
    # Groups are as large as they may be.
    sizes = [int(chosen.counts[np.isin(chosen.starts, read)].sum()) for read in device.reads]
    firsts = [int(chosen.counts[chosen.starts == read[0]][0]) for read in device.reads]
    assert all(a + b > limit for a, b in zip(sizes, firsts[1:], strict=False))


def test_next_group_is_read_while_one_is_used() -> None:
    device = Memory()
    device.gate = threading.Event()
    with BlockReader(device, singles(6), 2) as reader:
        first = next(reader)
        held = first.buffer.copy()
        assert device.reads == [[0, 2]]
        device.gate.set()
        for _ in range(2000):
            if len(device.reads) == 2:
                break
            threading.Event().wait(0.01)
        # The second is there though nobody asked for it; the third waits for a free buffer.
        assert device.reads == [[0, 2], [4, 6]]
        assert (first.buffer == held).all()
        assert next(reader).buffer.view(np.int64)[0] == 4
        assert next(reader).buffer.view(np.int64)[0] == 8
        assert next(reader, None) is None
    assert set(device.threads) == {device.threads[0]}
    assert device.threads[0] != threading.current_thread().name


@pytest.mark.parametrize(("background", "ahead"), [(False, 1), (True, 0)])
def test_without_a_thread_a_group_is_read_when_it_is_asked_for(
    background: bool, ahead: int
) -> None:
    device = Memory(background)
    with BlockReader(device, singles(4), 1, ahead) as reader:
        for count in range(1, 5):
            next(reader)
            assert len(device.reads) == count
    assert set(device.threads) == {threading.current_thread().name}


@pytest.mark.parametrize("background", [False, True])
def test_an_error_comes_at_its_group(background: bool) -> None:
    device = Memory(background)
    device.fail_at = 2
    with BlockReader(device, singles(5), 1) as reader:
        assert [next(reader).first, next(reader).first] == [0, 1]
        with pytest.raises(RelationError, match="block 7 is damaged"):
            next(reader)
        assert next(reader, None) is None
    assert device.reads[:3] == [[0], [2], [4]]


def test_close_waits_for_the_read_under_way() -> None:
    device = Memory()
    device.gate = threading.Event()
    reader = BlockReader(device, singles(9), 1)
    next(reader)
    assert device.waiting.wait(20)
    timer = threading.Timer(0.05, device.gate.set)
    timer.start()
    reader.close()
    assert device.gate.is_set()
    timer.join()
    assert len(device.reads) <= 2
    assert reader.nbytes == 0
    reader.close()


def test_simulated_time_passes_group_by_group(tmp_path: Path) -> None:
    np.repeat(np.arange(16), 64).tofile(tmp_path / "blocks")
    clock = SimulatedClock(Costs(seek=10.0, transfer=1.0))
    device = Simulated(BlockFile(tmp_path / "blocks", 512), clock)
    moments = []
    source = Wrapped(device)
    with BlockReader(source, singles(4), 2) as reader:
        for group in reader:
            moments.append(clock.now())
            wanted = [2 * leaf for leaf in range(group.first, group.stop)]
            assert group.buffer.view(np.int64)[::64].tolist() == wanted
    assert moments == [22.0, 44.0]
    assert source.calls == 2
    device.close()


def test_buffers_are_kept_from_plan_to_plan() -> None:
    kept = Buffers()
    device = Memory()
    with BlockReader(device, singles(4), 1, buffers=kept) as reader:
        first = next(reader).buffer.ctypes.data
    assert kept.nbytes == 2 * BLOCK
    with BlockReader(device, singles(3), 1, buffers=kept) as reader:
        assert next(reader).buffer.ctypes.data == first
    with BlockReader(device, singles(8), 4, buffers=kept) as reader:
        assert reader.nbytes == kept.nbytes == 2 * 4 * BLOCK
        assert [group.first for group in reader] == [0, 4]
    kept.shrink(4 * BLOCK)
    assert kept.nbytes == 4 * BLOCK
    kept.shrink(0)
    assert kept.nbytes == 0


def test_one_group_needs_one_buffer() -> None:
    with BlockReader(Memory(), singles(3), 8) as reader:
        assert reader.groups == 1
        assert reader.nbytes == 3 * BLOCK
        assert [group.stop for group in reader] == [3]


def test_no_room_is_refused() -> None:
    with pytest.raises(AssertionError, match="at least 1 block"):
        BlockReader(Memory(), singles(1), 0)

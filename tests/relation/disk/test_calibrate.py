"""Measured costs: exact where time is accounted for, robust, and leaving nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from thetastream.errors import RelationError
from thetastream.relation.disk import calibrate as module
from thetastream.relation.disk import device as devices
from thetastream.relation.disk.calibrate import Calibration, at_start, calibrate, measure
from thetastream.relation.disk.clock import PROFILES, Costs, SimulatedClock
from thetastream.relation.disk.device import BlockFile, Simulated

from ...keys import Array
from ..failures import failing

Bytes = NDArray[np.uint8]


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAST", 1 << 20)
    monkeypatch.setattr(module, "_TEMPORARY", 2 << 20)


def ignore(text: str) -> None:
    """No progress is shown."""


def file_of(folder: Path, blocks: int, block_bytes: int = 4096) -> Path:
    path = folder / "blocks-3"
    path.write_bytes(bytes(blocks * block_bytes))
    return path


def check_costs(
    folder: Path, blocks: int, costs: Costs, seconds: float, kind: type[Simulated] = Simulated
) -> float:
    """Costs that are accounted for are measured; the time that this took."""
    clock = SimulatedClock(costs)
    device = kind(BlockFile(file_of(folder, blocks), 4096), clock)
    seek, transfer = measure(device, blocks, seconds, ignore, now=clock.now)
    assert seek == pytest.approx(costs.seek, rel=1e-6, abs=1e-12)
    assert transfer == pytest.approx(costs.transfer)
    device.close()
    return clock.now()


@pytest.mark.parametrize("blocks", [2, 3, 9, 1000])
@pytest.mark.parametrize("profile", list(PROFILES))
def test_accounted_costs_are_found_again(tmp_path: Path, profile: str, blocks: int) -> None:
    """In time, but for the round that was under way and the three that are always made."""
    assert check_costs(tmp_path, blocks, PROFILES[profile], 0.5) < 4


class Disturbed(Simulated):
    """Every third read takes far longer than it should."""

    reads = 0

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        super().read(starts, counts, buffer)
        self.reads += 1
        if self.reads % 3 == 0:
            self.clock.wait_until(self.clock.now() + 0.4)


def test_disturbances_do_not_count(tmp_path: Path) -> None:
    check_costs(tmp_path, 1000, PROFILES["ssd"], 8.0, Disturbed)


def test_seeks_that_cost_nothing(tmp_path: Path) -> None:
    check_costs(tmp_path, 100, Costs(seek=0.0, transfer=1e-4), 0.5)


def test_a_folder_without_files(tmp_path: Path) -> None:
    said: list[str] = []
    found = calibrate(tmp_path, 4096, depth=2, seconds=0.02, progress=said.append)
    assert found.seek >= 0
    assert found.transfer > 0
    assert (found.block_bytes, found.depth) == (4096, 2)
    assert any(text.startswith("writing") for text in said)
    assert said[-1].startswith("measuring: 100%")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("whole", [False, True])
def test_blocks_of_a_relation_are_read_and_kept(tmp_path: Path, whole: bool) -> None:
    path = file_of(tmp_path, 300)
    said: list[str] = []
    calibrate(tmp_path if whole else path, 4096, seconds=0.02, progress=said.append)
    assert not any(text.startswith("writing") for text in said)
    assert [file.name for file in tmp_path.iterdir()] == ["blocks-3"]
    assert path.stat().st_size == 300 * 4096


def test_a_file_that_is_too_small_is_not_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, 3)
    said: list[str] = []
    calibrate(path, 4096, seconds=0.02, progress=said.append)
    assert any(text.startswith("writing") for text in said)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("refuse", ["open", "read"])
def test_direct_reads_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: str) -> None:
    real_open, real_read = os.open, BlockFile.read

    def no_open(path: Path, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real_open(path, flags, *rest)

    def no_read(self: BlockFile, starts: Array, counts: Array, buffer: Bytes) -> None:
        if self.direct:
            raise devices.DirectRefused("refused")
        real_read(self, starts, counts, buffer)

    if refuse == "open":
        monkeypatch.setattr(os, "open", no_open)
    else:
        monkeypatch.setattr(BlockFile, "read", no_read)
    found = calibrate(tmp_path, 4096, seconds=0.02)
    assert not found.direct
    assert found.remark.startswith("direct reads are refused here")
    assert found.remark in str(found)
    assert list(tmp_path.iterdir()) == []


def test_buffered_reads_on_demand(tmp_path: Path) -> None:
    found = calibrate(tmp_path, 4096, direct=False, seconds=0.02)
    assert not found.direct
    assert found.remark.startswith("the system's memory")
    assert "through the page cache, 4 at a time" in str(found)


def test_a_calibration_in_words() -> None:
    found = Calibration(seek=2e-3, transfer=1e-5, block_bytes=8192, depth=4, direct=True)
    assert found.bandwidth == pytest.approx(819.2e6)
    assert str(found).splitlines() == [
        "seek      2.0000 ms per sequence",
        "transfer  0.0100 ms per block of 8,192 bytes (819 MB/s)",
        "reads     direct, 4 at a time",
        "plan      reads over up to 199 unwanted blocks",
    ]


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("missing", {}, "there is no .*missing"),
        ("", {"seconds": 0}, "positive number of seconds to measure; got 0"),
        ("", {"block_bytes": 2 << 20}, "at least 2 blocks.*choose smaller blocks"),
        ("", {"block_bytes": 1000}, "multiple of 512.*got 1000"),
    ],
)
def test_what_cannot_be_measured(
    tmp_path: Path, name: str, options: dict[str, int], message: str
) -> None:
    with pytest.raises(RelationError, match=message):
        calibrate(tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "free some space"), (errno.EROFS, "choose a folder")]
)
def test_a_folder_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(RelationError, match=rf"{os.strerror(number)}; {advice}.*, or name a file"):
        calibrate(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    for moment in ("", "measuring"):

        def stop(text: str, moment: str = moment) -> None:
            if text.startswith(moment):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            calibrate(tmp_path, progress=stop)
        assert list(tmp_path.iterdir()) == []


def test_at_start_a_device_is_measured_by_few_reads(tmp_path: Path) -> None:
    (tmp_path / "blocks").write_bytes(bytes(4096 * 300))
    device = BlockFile(tmp_path / "blocks", 4096)
    found = at_start(device, 300)
    assert found.seek >= 0
    assert found.transfer > 0
    assert device.blocks_read == 3 * (16 + 64)
    few = at_start(device, 10)
    assert (few.seek, few.transfer) == (device.seek, device.transfer)
    device.close()

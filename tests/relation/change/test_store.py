"""An open relation: what it says of itself, snapshots, and damage of every kind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import RelationError, StateError
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.disk.device import BlockFile, DirectRefused, aligned
from thetastream.relation.files.fences import Fences
from thetastream.relation.files.folder import Folder, SharedLock
from thetastream.relation.files.scan import check_leaves
from thetastream.relation.files.snapshot import Snapshot

from ...scale import scaled

ROWS = 5000
TABLE = pa.table(
    {"k": np.arange(ROWS) // 3, "x": np.arange(ROWS) / 2, "s": [f"{n}" for n in range(ROWS)]}
)
OTHER = pa.table({"k": [1, 2], "y": ["a", "b"]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ts.Relation.build(tmp_path / "r.rel", TABLE, "k", block_bytes=4096).close()
    return tmp_path / "r.rel"


def block_file(path: Path) -> Path:
    return path / Folder(path).current().blocks


def test_what_it_says_of_itself(path: Path) -> None:
    with ts.Relation.open(path) as relation:
        assert relation.schema.equals(TABLE.schema)
        assert (relation.key, relation.rows, relation.block_bytes) == (("k",), ROWS, 4096)
        assert (relation.fill, relation.null_keys, relation.empty_intervals) == (0.8, 0, 0)
        assert relation.leaves == relation.blocks > 30
        assert relation.nbytes == relation.blocks * 4096 == block_file(path).stat().st_size
        assert relation.index_bytes == 8 * relation.leaves + -(-relation.leaves // 8)
        assert relation.version == 1
        assert relation.generation in block_file(path).name
        assert repr(relation) == (
            f"Relation({str(path)!r}, key=k, 5,000 rows, {relation.leaves} leaves, version 1)"
        )


def test_metadata_of_the_schema_is_kept(tmp_path: Path) -> None:
    field = pa.field("k", pa.int64(), nullable=False, metadata={"unit": "m"})
    table = pa.table([[1, 2]], schema=pa.schema([field], metadata={"of": "mine"}))
    with ts.Relation.build(tmp_path / "r.rel", table, "k") as relation:
        assert relation.schema.equals(table.schema, check_metadata=True)
        for found in (relation.to_table(), relation.to_table(["k"]), next(relation.batches())):
            assert found.schema.equals(table.schema, check_metadata=True)


def test_columns(path: Path) -> None:
    with ts.Relation.open(path) as relation:
        assert relation.to_table(["s", "k"]).equals(TABLE.select(["s", "k"]))
        assert sum(batch.num_rows for batch in relation.batches(["x"])) == ROWS
        with pytest.raises(RelationError, match="no column 'ss'; it has k, x, s. Did you mean 's'"):
            relation.batches(["ss"])


@given(st.lists(st.tuples(st.integers(-1, ROWS // 3 + 1), st.integers(0, 40)), max_size=8))
@settings(max_examples=scaled(20))
def test_look_ups_find_all_rows(wanted: list[tuple[int, int]]) -> None:
    """Through fences and blocks, as a join does it."""
    lows = np.array([low for low, _ in wanted], np.int64)
    highs = lows + np.array([width for _, width in wanted], np.int64)
    with shared().snapshot() as snapshot:
        first, stop = snapshot.fences.ranges(lows, highs)
        for i in range(len(wanted)):
            found: list[int] = []
            count = int(stop[i] - first[i])
            if count:
                buffer = aligned(count * 4096)
                blocks = snapshot.fences.blocks_of(np.arange(first[i], stop[i]))
                snapshot.read(blocks[:1], np.array([count]), buffer)
                bases = np.arange(count) * 4096
                assert snapshot.layout.verify(buffer, bases, blocks) == -1
                _, keys, _ = snapshot.layout.unpack_all(buffer, bases)
                found = [key for key in keys.tolist() if lows[i] <= key <= highs[i]]
            assert found == [n // 3 for n in range(ROWS) if lows[i] <= n // 3 <= highs[i]]


_shared: list[ts.Relation] = []


def shared() -> ts.Relation:
    return _shared[0]


@pytest.fixture(autouse=True, scope="module")
def _keep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    path = tmp_path_factory.mktemp("shared") / "r.rel"
    with ts.Relation.build(path, TABLE, "k", block_bytes=4096) as relation:
        _shared.append(relation)
        yield
    _shared.clear()


# --- Snapshots ----------------------------------------------------------------------------------


def read_all(snapshot: Snapshot) -> bytes:
    blocks = snapshot.state.facts.blocks
    buffer = aligned(blocks * snapshot.layout.block_bytes)
    snapshot.read(np.array([0]), np.array([blocks]), buffer)
    return buffer.tobytes()


def test_a_snapshot_stays_while_the_relation_is_replaced(path: Path) -> None:
    relation = ts.Relation.open(path)
    snapshot = relation.snapshot()
    before, rest = read_all(snapshot), relation.batches(["x"])
    got = next(rest).num_rows
    ts.Relation.build(path, OTHER, "k", replace=True).close()
    assert read_all(snapshot) == before
    assert relation.rows == ROWS
    assert relation.refresh()
    assert not relation.refresh()
    assert (relation.rows, relation.version, snapshot.version) == (2, 2, 1)
    assert read_all(snapshot) == before
    assert got + sum(batch.num_rows for batch in rest) == ROWS
    assert relation.to_table().equals(OTHER)
    snapshot.close()
    relation.close()


def test_a_new_snapshot_sees_what_another_has_written(path: Path) -> None:
    relation = ts.Relation.open(path)
    for version in range(2, 5):
        ts.Relation.build(path, OTHER.slice(0, version % 2 + 1), "k", replace=True).close()
        with relation.snapshot() as snapshot:
            assert snapshot.version == relation.version == version
        assert relation.to_table().num_rows == version % 2 + 1
    relation.close()


WRITER = """
import sys
import pyarrow as pa
import thetastream as ts
for n in range(1, 13):
    table = pa.table({"k": range(1000 * n), "n": [n] * 1000 * n})
    ts.Relation.build(sys.argv[1], table, "k", replace=True).close()
"""


def test_a_reader_beside_a_writer_in_another_process(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    seen = set()
    with subprocess.Popen(command) as writer, ts.Relation.open(path) as relation:
        while writer.poll() is None or relation.refresh():
            time.sleep(0.002)
            table = relation.to_table()
            if "n" in table.column_names:
                (n,) = set(table["n"].to_pylist())
                assert table["k"].to_pylist() == list(range(1000 * n))
                seen.add(n)
    assert writer.returncode == 0
    assert 12 in seen


def test_opening_beside_a_writer(path: Path) -> None:
    ended = threading.Event()

    def write() -> None:
        for _ in range(15):
            ts.Relation.build(path, OTHER, "k", replace=True).close()
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not ended.is_set():
        with ts.Relation.open(path) as relation:
            relation.check()
    thread.join()


def test_readers_lock_while_a_snapshot_is_open(path: Path) -> None:
    relation = ts.Relation.open(path)
    lock = SharedLock(path / "READERS")
    one, two = relation.snapshot(), relation.snapshot()
    assert not lock.try_exclusive()
    one.close()
    one.close()
    assert not lock.try_exclusive()
    two.close()
    assert lock.try_exclusive()
    lock.release()
    with relation.snapshot() as last:
        relation.close()
        assert not lock.try_exclusive()
        assert read_all(last)
    assert lock.try_exclusive()
    lock.close()


def test_closed(path: Path) -> None:
    relation = ts.Relation.open(path)
    snapshot = relation.snapshot()
    snapshot.close()
    assert snapshot.closed
    with pytest.raises(StateError, match="the snapshot is closed"):
        read_all(snapshot)
    relation.close()
    relation.close()
    for use in (relation.snapshot, relation.refresh, relation.check, relation.to_table):
        with pytest.raises(StateError, match="is closed; open it again"):
            use()


def test_files_are_closed(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with ts.Relation.open(path) as relation, relation.snapshot():
            ts.Relation.build(path, OTHER, "k", replace=True).close()
            relation.to_table()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_may_only_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path / "READERS").unlink()
    real = os.open

    def refuse(name: Any, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY):
            raise PermissionError(13, "read-only")
        return real(name, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    with ts.Relation.open(path) as relation:
        assert relation.to_table().equals(TABLE)
    assert not (path / "READERS").exists()


# --- Devices ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(PROFILES))
def test_accounted_devices(path: Path, name: str) -> None:
    clock = SimulatedClock(PROFILES[name])
    with ts.Relation.open(path, device=name, clock=clock) as relation:
        assert relation.clock is clock
        with relation.snapshot() as snapshot:
            read_all(snapshot)
            transfer = PROFILES[name].transfer * 4096 / 8192
            assert clock.now() == pytest.approx(PROFILES[name].seek + relation.blocks * transfer)
            assert snapshot.device.seeks == 1
            assert snapshot.device.blocks_read == relation.blocks
    with ts.Relation.open(path, device=name) as relation:
        assert relation.to_table().equals(TABLE)
        assert relation.clock is not None
        assert relation.clock.now() > 0


def test_a_device_of_ones_own(path: Path) -> None:
    made = []

    def factory(file: Path, block_bytes: int) -> BlockFile:
        made.append((file, block_bytes))
        return BlockFile(file, block_bytes, depth=1)

    with ts.Relation.open(path, device=factory) as relation:
        assert relation.to_table().equals(TABLE)
    assert made == [(block_file(path), 4096)]


def test_a_device_nobody_knows(path: Path) -> None:
    with pytest.raises(RelationError, match="kind of device .*got 'dsk'.* Did you mean 'disk'"):
        ts.Relation.open(path, device="dsk")


def test_past_the_page_cache(path: Path) -> None:
    try:
        with ts.Relation.open(path, direct=True) as relation:
            assert relation.to_table().equals(TABLE)
    except DirectRefused:
        pytest.skip("this file system does not read past the page cache")


# --- Damage -------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at // 8)
        (byte,) = file.read(1)
        file.seek(at // 8)
        file.write(bytes([byte ^ 1 << at % 8]))


@pytest.mark.parametrize("block", [0, 7])
@pytest.mark.parametrize("bit", [3, 64, 8 * 12, 8 * 24, 8 * 200, 8 * 4095 + 7])
def test_a_flipped_bit_of_a_block(path: Path, block: int, bit: int) -> None:
    flip(block_file(path), 8 * 4096 * block + bit)
    with ts.Relation.open(path) as relation:
        for use in (relation.check, relation.to_table):
            with pytest.raises(RelationError, match=rf"block {block} .*is damaged: its checksum"):
                use()


def test_blocks_in_the_wrong_place(path: Path) -> None:
    file = block_file(path)
    data = file.read_bytes()
    file.write_bytes(data[:4096] + data[8192:12288] + data[4096:8192] + data[12288:])
    with (
        ts.Relation.open(path) as relation,
        pytest.raises(RelationError, match="block 1 .*is damaged: its checksum or its number"),
    ):
        relation.check()


def test_a_block_file_cut_short(path: Path) -> None:
    file = block_file(path)
    size = file.stat().st_size
    with ts.Relation.open(path) as relation, relation.snapshot() as snapshot:
        os.truncate(file, size - 1)
        with pytest.raises(RelationError, match="cut short"):
            read_all(snapshot)
    with pytest.raises(RelationError, match=f"cut short: expected {size} bytes, found {size - 1}"):
        ts.Relation.open(path)


def test_an_index_file_that_is_damaged(path: Path) -> None:
    index = path / Folder(path).current().index
    flip(index, 8 * (index.stat().st_size // 2))
    with pytest.raises(RelationError, match="index file .* is damaged"):
        ts.Relation.open(path)
    os.truncate(index, 100)
    with pytest.raises(RelationError, match="index file .* is cut short"):
        ts.Relation.open(path)


def test_current_that_is_damaged(path: Path) -> None:
    flip(path / "CURRENT", 8 * 40)
    with pytest.raises(RelationError, match="CURRENT .* is damaged"):
        ts.Relation.open(path)
    before = sorted(os.listdir(path))
    with pytest.raises(ValueError, match="bad source"):
        ts.Relation.build(path, failing(), "k", replace=True)
    assert sorted(os.listdir(path)) == before  # what is there may still be saved
    with ts.Relation.build(path, OTHER, "k", replace=True) as relation:
        relation.check()
        assert relation.rows == 2
    assert len(os.listdir(path)) == 5


def failing() -> Iterator[pa.RecordBatch]:
    yield from OTHER.to_batches()
    raise ValueError("bad source")


def test_a_relation_of_a_later_format_is_not_built_over(path: Path) -> None:
    folder = Folder(path)
    folder.replace(replace(folder.current(), format=7))
    before = sorted(os.listdir(path))
    with pytest.raises(RelationError, match="format 7, newer than format 2"):
        ts.Relation.build(path, OTHER, "k", replace=True)
    assert sorted(os.listdir(path)) == before


@pytest.mark.parametrize("kind", ["index", "blocks"])
def test_files_that_are_gone(path: Path, kind: str) -> None:
    with ts.Relation.open(path) as relation:
        (path / getattr(Folder(path).current(), kind)).unlink()
        if kind == "blocks":
            with pytest.raises(RelationError, match="there is no .*blocks"):
                relation.check()
    with pytest.raises(RelationError, match=f"lacks its file '{kind}-.*restore"):
        ts.Relation.open(path)


def test_no_relation(tmp_path: Path) -> None:
    with pytest.raises(RelationError, match="there is no relation at"):
        ts.Relation.open(tmp_path / "none")
    assert os.listdir(tmp_path) == []


def tampered(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """A snapshot whose fences or facts say something else."""
    state = snapshot.state
    facts = {name: changes.pop(name) for name in ("rows", "blocks_all") if name in changes}
    if "blocks_all" in facts:
        facts["blocks"] = facts.pop("blocks_all")
    fences = state.fences
    arrays = {
        "firsts": fences.firsts.copy(),
        "continued": fences.continued,
        "blocks": fences.blocks.copy(),
        "spans": np.ones(len(fences), np.int64),
    }
    for name, change in changes.items():
        change(arrays[name])
    made = replace(state, fences=Fences(**arrays), facts=replace(state.facts, **facts))
    return Snapshot(made, snapshot.device, lambda: None)


def put(at: int, value: int) -> Any:
    return lambda array: array.__setitem__(at, value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": ROWS + 1}, f"expected {ROWS + 1} rows, found {ROWS}"),
        ({"blocks_all": 5}, "leaf 5 .* lies outside the block file"),
        ({"blocks": put(3, 2)}, "shares a block with another leaf"),
        ({"blocks": put(3, -1)}, "leaf 3 .* lies outside"),
        ({"firsts": put(3, 10**6)}, "leaf 3 .* begins with another key"),
        ({"continued": put(4, 1)}, "leaf 4 .* is wrongly marked as"),
    ],
)
def test_check_names_what_is_wrong(changes: dict[str, Any], words: str) -> None:
    with shared().snapshot() as snapshot:
        check_leaves(tampered(snapshot), "r.rel")
        assert snapshot.fences.continued[4] == 0
        with pytest.raises(RelationError, match=rf"'r.rel' is damaged: .*{words}"):
            check_leaves(tampered(snapshot, **changes), "r.rel")


def test_check_finds_leaves_out_of_order() -> None:
    def swap(array: Any) -> None:
        array[[2, 3]] = array[[3, 2]]

    with shared().snapshot() as snapshot:
        wrong = tampered(snapshot, blocks=swap, firsts=swap)
        with pytest.raises(RelationError, match=r"leaf 3 \(block 2\) begins below the end"):
            check_leaves(wrong, "r.rel")


def test_check_finds_keys_out_of_order(path: Path) -> None:
    """Sound checksums, unsound rows."""
    with ts.Relation.open(path) as relation, relation.snapshot() as snapshot:
        layout = snapshot.layout
        image = aligned(4096)
        snapshot.read(np.array([5]), np.array([1]), image)
        keys = image[layout.keys_at :].view(np.int64)
        keys[[1, 20]] = keys[[20, 1]]
        layout.renumber(image, np.array([0]), np.array([5]))
        with open(block_file(path), "r+b") as file:
            file.seek(5 * 4096)
            file.write(image.tobytes())
        with pytest.raises(RelationError, match=r"leaf 5 \(block 5\) has keys out of order"):
            relation.check()


def test_check_looks_at_intervals(tmp_path: Path) -> None:
    table = pa.table({"lo": range(ROWS), "hi": range(7, ROWS + 7)})
    with (
        ts.Relation.build(tmp_path / "r.rel", table, ("lo", "hi"), block_bytes=4096) as relation,
        relation.snapshot() as snapshot,
    ):
        fences = snapshot.fences
        assert fences.greatest is not None
        check_leaves(snapshot, "r.rel")
        greatest = fences.greatest.copy()
        greatest[2] += 1
        wrong = Fences(fences.firsts, fences.continued, greatest)
        made = Snapshot(replace(snapshot.state, fences=wrong), snapshot.device, lambda: None)
        with pytest.raises(RelationError, match=r"leaf 2 \(block 2\) has another greatest hi"):
            check_leaves(made, "r.rel")

"""The journal: records whole, torn and damaged; what a full disk leaves; splices; overlays."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import RelationError
from thetastream.relation.change.free_blocks import FreeBlocks
from thetastream.relation.files.journal import Contents, Journal, Record
from thetastream.relation.files.overlay import Overlay
from thetastream.relation.files.splices import Entries, Splices, apply, difference, leaves_with

BLOCK = 64


def numbers(values: Any) -> Any:
    return np.array(values, np.int64)


def entries(rows: list[tuple[int, int, int, int, int]]) -> Entries:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    firsts, continued, *others = columns
    return Entries(numbers(firsts), np.array(continued, np.uint8), *map(numbers, others))


def listed(found: Entries) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in found.columns()), strict=True))


def contents(version: int, blocks: list[int], spans: list[int]) -> Contents:
    fresh = entries([(version, 0, 9, 3, 1), (version + 1, 1, 9, 4, 1)])
    splices = Splices(numbers([version]), numbers([1]), numbers([2]), fresh)
    return Contents(version, 10 * version, 1, 2, 50, splices, numbers(blocks), numbers(spans))


def image(value: int, span: int = 1) -> Any:
    return np.full(span * BLOCK, value, np.uint8)


def fill(journal: Journal, count: int) -> list[Record]:
    """Append records of one, two, … images."""
    records: list[Record] = []
    for version in range(1, count + 1):
        images = [image(version)] * version
        facts = contents(version, list(range(version)), [1] * version)
        stop = records[-1].stop if records else 0
        records.append(journal.append(stop, version, facts, images))
    return records


def same(a: Record, b: Record) -> bool:
    x, y = a.contents, b.contents
    arrays = [
        (x.image_blocks, y.image_blocks),
        (x.image_spans, y.image_spans),
        (x.splices.at, y.splices.at),
        (x.splices.removed, y.splices.removed),
        (x.splices.added, y.splices.added),
        *zip(x.splices.entries.columns(), y.splices.entries.columns(), strict=True),
    ]
    return (
        (a.sequence, a.images_at, a.stop) == (b.sequence, b.images_at, b.stop)
        and (x.version, x.rows, x.null_keys, x.empty_intervals, x.blocks)
        == (y.version, y.rows, y.null_keys, y.empty_intervals, y.blocks)
        and all(np.array_equal(one, other) for one, other in arrays)
    )


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal-x", "x")


def test_what_was_written_is_read(journal: Journal) -> None:
    assert journal.read() == []  # there is no file yet
    written = fill(journal, 3)
    found = journal.read()
    assert len(found) == 3
    assert all(same(a, b) for a, b in zip(written, found, strict=True))
    assert found[-1].stop == journal.size()


def test_only_new_records_are_read(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = fill(journal, 3)
    offsets: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda f, n, at: offsets.append(at) or real(f, n, at))
    found = journal.read(second.stop, second.sequence)
    assert [record.sequence for record in found] == [3]
    assert min(offsets) >= second.stop > first.stop
    assert journal.read(third.stop, third.sequence) == []


def test_a_torn_record_is_passed_over_wherever_it_is_torn(journal: Journal) -> None:
    written = fill(journal, 3)
    whole = journal.path.read_bytes()
    for length in range(written[1].stop, len(whole)):
        journal.path.write_bytes(whole[:length])
        assert [record.sequence for record in journal.read()] == [1, 2]


@pytest.mark.parametrize("torn", [bytes(500), b"\xff" * 500, bytes(7)])
def test_garbage_at_the_end_is_cut_by_the_next_writer(journal: Journal, torn: bytes) -> None:
    written = fill(journal, 2)
    with journal.path.open("ab") as file:
        file.write(torn)
    assert len(journal.read()) == 2
    third = journal.append(written[-1].stop, 3, contents(3, [7], [1]), [image(7)])
    assert third.stop == journal.path.stat().st_size
    assert [record.contents.version for record in journal.read()] == [1, 2, 3]


def test_damage_before_other_records_is_an_error_that_names_the_record(journal: Journal) -> None:
    first, second, third = fill(journal, 3)
    whole = journal.path.read_bytes()
    for at in range(third.stop):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        journal.path.write_bytes(damaged)
        if at < second.stop:
            name = f"record {1 if at < first.stop else 2} of journal-x"
            with pytest.raises(RelationError, match=name):
                journal.read()
            assert journal.last_version() == 3
        else:
            assert len(journal.read()) == 2


def test_a_lost_record_is_damage(journal: Journal) -> None:
    first, second, _ = fill(journal, 3)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[: first.stop] + whole[second.stop :])
    with pytest.raises(RelationError, match="record 2 of journal-x.* record 3 follows"):
        journal.read()


def test_records_of_another_generation_say_nothing(journal: Journal) -> None:
    fill(journal, 2)
    assert Journal(journal.path, "y").read() == []


def test_a_full_disk_leaves_nothing_of_the_record(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = fill(journal, 2)
    before = journal.path.read_bytes()
    real = os.pwrite
    for room in range(0, 400, 13):
        left = [room]

        def pwrite(file: int, data: memoryview, at: int, left: list[int] = left) -> int:
            if not left[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            count = real(file, data[: left[0]], at)
            left[0] -= count
            return count

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", pwrite)
            with pytest.raises(RelationError, match="No space left.*nothing was changed"):
                journal.append(written[-1].stop, 3, contents(3, [1] * 9, [1] * 9), [image(1)] * 9)
        assert journal.path.read_bytes() == before
    journal.append(written[-1].stop, 3, contents(3, [1], [1]), [image(1)])
    assert len(journal.read()) == 3


@pytest.mark.parametrize(
    ("error", "seen", "message"),
    [
        (OSError(errno.EIO, os.strerror(errno.EIO)), RelationError, "nothing was changed"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_a_sync_that_fails_takes_the_record_back(
    journal: Journal,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    seen: type[BaseException],
    message: str,
) -> None:
    written = fill(journal, 1)
    before = journal.path.read_bytes()

    def fsync(file: int) -> None:
        if seen is KeyboardInterrupt:  # it comes once; a broken disk stays broken
            monkeypatch.undo()
        raise error

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(seen, match=message):
        journal.append(written[0].stop, 2, contents(2, [1], [1]), [image(1)])
    assert journal.path.read_bytes() == before
    assert len(journal.read()) == 1


# --- Overlays -----------------------------------------------------------------------------------

writes = st.lists(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), max_size=4), max_size=5
)
sequences = st.lists(st.tuples(st.integers(0, 14), st.integers(1, 6)), min_size=1, max_size=5)


@given(writes, sequences)
def test_an_overlay_shows_the_newest_images(
    tmp_path_factory: pytest.TempPathFactory,
    transactions: list[list[tuple[int, int]]],
    wanted: list[tuple[int, int]],
) -> None:
    journal = Journal(tmp_path_factory.mktemp("overlay") / "journal-x", "x")
    overlay = Overlay.empty(journal, BLOCK)
    model: dict[int, int] = {}
    older = [(overlay, dict(model))]
    for version, images in enumerate(transactions, start=1):
        taken: set[int] = set()
        kept = []
        for block, span in images:  # within one transaction no block has two images
            blocks = set(range(block, block + span))
            if not blocks & taken:
                kept.append((block, span))
                taken |= blocks
        facts = contents(version, [b for b, _ in kept], [s for _, s in kept])
        data = [image(version * 20 + block, span) for block, span in kept]
        overlay = overlay.followed(
            journal.append(overlay.position, overlay.sequence + 1, facts, data)
        )
        model |= {
            b: version * 20 + block for block, span in kept for b in range(block, block + span)
        }
        assert set(overlay.changed_since(version - 1).tolist()) == taken
        older.append((overlay, dict(model)))
    starts, counts = numbers([s for s, _ in wanted]), numbers([c for _, c in wanted])
    for seen, held in older:  # earlier ones stay as they were
        buffer = np.zeros(int(counts.sum()) * BLOCK + 5, np.uint8)
        seen.cover(starts, counts, buffer)
        expected = [held.get(b, 0) for start, count in wanted for b in range(start, start + count)]
        assert buffer.tolist() == np.repeat(expected, BLOCK).tolist() + [0] * 5


# --- Splices and free blocks --------------------------------------------------------------------

leaf_lists = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 1), st.integers(0, 1), st.integers(0, 9), st.just(1)
    ),
    max_size=10,
    unique_by=lambda leaf: leaf[3],
)


@given(leaf_lists, leaf_lists)
def test_splices_lead_from_one_state_to_the_other(
    before: list[tuple[int, int, int, int, int]], after: list[tuple[int, int, int, int, int]]
) -> None:
    old, new = entries(before), entries(after)
    splices = difference(old, new)
    assert listed(apply(old, splices)) == after
    assert int(splices.added.sum()) == len(splices.entries)
    assert (len(splices) == 0) == (before == after)


def test_a_small_change_is_a_small_splice() -> None:
    before = [(i, 0, 0, i, 1) for i in range(1000)]
    after = [*before[:500], (500, 0, 0, 500, 1), (500, 1, 0, 1000, 1), *before[501:]]
    splices = difference(entries(before), entries(after))
    assert (splices.at.tolist(), splices.removed.tolist(), splices.added.tolist()) == (
        [501],
        [0],
        [1],
    )
    assert not len(difference(entries(before), entries(before)))


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12), st.lists(st.integers(0, 3), min_size=1)
)
def test_leaves_with_finds_exactly_the_leaves_that_can_hold_a_key(
    keys: list[int], sizes: list[int]
) -> None:
    keys.sort()
    cuts = sorted({0, *(min(i, len(keys) - 1) for i in np.cumsum(sizes).tolist())})
    leaves = [keys[a:b] for a, b in zip(cuts, [*cuts[1:], len(keys)], strict=True)]
    rows = [
        (leaf[0], int(i > 0 and leaves[i - 1][-1] == leaf[0]), 0, i, 1)
        for i, leaf in enumerate(leaves)
    ]
    for key in range(-1, 8):
        found = leaves_with(entries(rows), numbers([key])).tolist()
        holding = [i for i, leaf in enumerate(leaves) if key in leaf]
        assert set(holding) <= set(found)
        assert len(found) <= max(len(holding), 1)


@given(st.data())
def test_free_blocks_are_what_no_leaf_has(data: st.DataObject) -> None:
    free = FreeBlocks([], 0)
    taken: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 20))):
        if taken and data.draw(st.booleans()):
            block = data.draw(st.sampled_from(sorted(taken)))
            free.free(block, taken.pop(block))
        else:
            span, end = data.draw(st.integers(1, 3)), free.end
            used = {b for block, count in taken.items() for b in range(block, block + count)}
            first = free.take(span, near=data.draw(st.integers(0, 20)))
            assert not used & set(range(first, first + span))
            fits = any(not used & set(range(at, at + span)) for at in range(max(0, end - span + 1)))
            assert fits == (free.end == end)  # the file grows only where nothing fits
            taken[first] = span
        leaves = entries([(0, 0, 0, block, span) for block, span in sorted(taken.items())])
        again = FreeBlocks.beside(leaves, free.end)
        assert len(again) == len(free) == free.end - sum(taken.values())

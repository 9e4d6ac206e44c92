"""Reading a whole relation: to return its rows in key order, or to check its invariants.

Leaves are read in key order, in groups of some megabytes; adjacent leaves form one sequence. An
unchanged relation is read from front to back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Bytes
from thetastream.errors import RelationError
from thetastream.relation.disk.device import aligned
from thetastream.relation.files.folder import AGAIN
from thetastream.relation.files.snapshot import Snapshot

_GROUP_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class _Group:
    """Leaves ``[first, stop)`` in memory."""

    first: int
    stop: int
    buffer: Bytes
    bases: Array


def scan(snapshot: Snapshot, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows in key order, of all columns or of ``names``; verifies checksums."""
    for group in groups(snapshot):
        batch, _, _ = snapshot.layout.unpack_all(group.buffer, group.bases, names)
        yield batch


def groups(snapshot: Snapshot) -> Iterator[_Group]:
    """The leaves in key order; each group reuses the memory of the previous one."""
    fences, size = snapshot.fences, snapshot.layout.block_bytes
    blocks, spans = fences.blocks, fences.all_spans
    ends = np.cumsum(spans)
    buffer = aligned(0)
    first, most = 0, max(1, _GROUP_BYTES // size)
    while first < len(fences):
        before = int(ends[first] - spans[first])
        stop = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        needed = (int(ends[stop - 1]) - before) * size
        if buffer.size < needed:
            buffer = aligned(needed)
        part = slice(first, stop)
        snapshot.read(*sequences(blocks[part], spans[part]), buffer)
        bases = (ends[part] - spans[part] - before) * size
        wrong = snapshot.layout.verify(buffer[:needed], bases, blocks[part].copy())
        if wrong >= 0:
            raise damaged(int(blocks[first + wrong]), f" (leaf {first + wrong})")
        yield _Group(first, stop, buffer[:needed], bases)
        first = stop


def sequences(blocks: Array, spans: Array) -> tuple[Array, Array]:
    """Starts and lengths of runs of adjacent leaves."""
    begins = np.flatnonzero(np.r_[True, blocks[1:] != blocks[:-1] + spans[:-1]])
    return blocks[begins], np.add.reduceat(spans, begins)


def damaged(block: int, where: str = "", note: str = "") -> RelationError:
    """The error for a block whose image is not what it should be."""
    return RelationError(
        f"block {block} of the relation{where} is damaged: its checksum or its number is wrong; "
        f"{note}{AGAIN}"
    )


def check_leaves(snapshot: Snapshot, where: str) -> None:
    """Read every leaf; RelationError names the first violated invariant."""
    check = _Check(snapshot, where)
    check.places()
    for group in groups(snapshot):
        check.group(group)
    check.counts()


class _Check:
    """A check under way, with what it has seen so far."""

    def __init__(self, snapshot: Snapshot, where: str) -> None:
        self._snapshot, self._where = snapshot, where
        self._layout, self._fences = snapshot.layout, snapshot.fences
        self._continued = snapshot.fences.continued
        self._rows = 0
        self._last: int | None = None

    def _fail(self, leaf: int, what: str) -> RelationError:
        block = int(self._fences.blocks[leaf])
        return RelationError(
            f"the relation {self._where!r} is damaged: leaf {leaf} (block {block}) {what}; {AGAIN}"
        )

    def places(self) -> None:
        """No two leaves share a block, and all lie in the block file."""
        blocks, spans = self._fences.blocks, self._fences.all_spans
        order = np.argsort(blocks, kind="stable")
        ends = blocks[order] + spans[order]
        shared = np.flatnonzero(ends[:-1] > blocks[order][1:])
        if shared.size:
            raise self._fail(int(order[shared[0] + 1]), "shares a block with another leaf")
        behind = np.flatnonzero(blocks + spans > self._snapshot.state.facts.blocks)
        if behind.size or (len(blocks) and int(blocks.min()) < 0):
            leaf = int(behind[0]) if behind.size else int(np.argmin(blocks))
            raise self._fail(leaf, "lies outside the block file")

    def group(self, group: _Group) -> None:
        """Each leaf in itself, against the previous leaf, and against the fences."""
        layout, fences = self._layout, self._fences
        part = slice(group.first, group.stop)
        rows = layout.rows_of(group.buffer, group.bases)
        spans = layout.spans_of(group.buffer, group.bases)
        expected = 1 if fences.spans is None else fences.spans[part]
        self._require(group, spans == expected, "has another number of blocks than its fence")
        self._require(group, rows > 0, "has no rows")
        starts = np.cumsum(rows) - rows
        bases = np.repeat(group.bases, rows)
        slots = np.arange(len(bases)) - np.repeat(starts, rows)
        keys = layout.take_keys(group.buffer, bases, slots)
        firsts, lasts = keys[starts], keys[starts + rows - 1]
        leaf = np.repeat(np.arange(len(rows)), rows)
        falls = np.flatnonzero((keys[1:] < keys[:-1]) & (leaf[1:] == leaf[:-1]))
        if falls.size:
            raise self._fail(group.first + int(leaf[falls[0]]), "has keys out of order")
        self._require(
            group, firsts == fences.firsts[part], "begins with another key than its fence"
        )
        before = np.r_[firsts[0] if self._last is None else self._last, lasts[:-1]]
        self._require(group, firsts >= before, "begins below the end of the previous leaf")
        same = firsts == before
        if self._last is None:
            same[0] = False
        self._require(
            group, same == (self._continued[part] == 1), "is wrongly marked as (not) continued"
        )
        if fences.greatest is not None:
            his = layout.take_keys(group.buffer, bases, slots, 1)
            greatest = np.maximum.reduceat(his, starts)
            self._require(
                group, greatest == fences.greatest[part], "has another greatest hi than its fence"
            )
        self._rows += int(rows.sum())
        self._last = int(lasts[-1])

    def _require(self, group: _Group, holds: NDArray[np.bool_], what: str) -> None:
        wrong = np.flatnonzero(~holds)
        if wrong.size:
            raise self._fail(group.first + int(wrong[0]), what)

    def counts(self) -> None:
        """The number of rows."""
        expected = self._snapshot.state.facts.rows
        if self._rows != expected:
            raise RelationError(
                f"the relation {self._where!r} is damaged: expected {expected} rows, found "
                f"{self._rows}; {AGAIN}"
            )

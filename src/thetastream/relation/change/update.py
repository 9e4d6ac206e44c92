"""A transaction under way: leaves changed in memory only.

SSIJ, Section IV-E, leaves updates of the tree to the literature; this is the usual method. A row
goes into the leaf of its key, as long as there is room (the fill of the build leaves some). A leaf
without room is split in half by bytes; rows for several leaves at once, or after all others of the
relation, are packed at the fill of the build. The first part stays in place; others take free
blocks near it, or new ones at the end of the file. A leaf without rows frees its blocks.

Equal keys may fill many leaves: new rows go to the last leaf that begins at or below their key, so
they come after older rows of the key.

Invariants: the entries describe exactly the rows of the images, in key order; no block belongs to
two leaves; every leaf that differs from the one on disk has an image here. A change that fails
leaves the draft as it was.

Cost of a change: reading and packing the leaves it touches, and O(leaves) in NumPy if the fences
change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Mask
from thetastream.relation.change.free_blocks import FreeBlocks
from thetastream.relation.disk.device import aligned
from thetastream.relation.files import splices as splicing
from thetastream.relation.files.fences import Facts
from thetastream.relation.files.journal import Contents
from thetastream.relation.files.refusals import empty_intervals
from thetastream.relation.files.scan import damaged, sequences
from thetastream.relation.files.sorting import KeyedRows, joined_chunks
from thetastream.relation.files.splices import Entries, Splices
from thetastream.relation.image.layout import LeafLayout
from thetastream.relation.image.packing import Packed

Image = NDArray[np.uint8]
Read = Callable[[Array, Array, Image], None]
Doomed = Callable[[KeyedRows], Mask]
"""Marks the rows of a chunk to delete."""

_NONE = np.empty(0, np.int64)
_GROUP = 256
"""Leaves read and changed together."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf after the change."""

    first: int
    last: int
    greatest: int
    block: int
    span: int


class Draft:
    """The relation as a transaction has made it so far."""

    def __init__(self, layout: LeafLayout, facts: Facts, entries: Entries, read: Read) -> None:
        """``read`` reads blocks of the version that the transaction started from."""
        self.layout = layout
        self.facts = facts
        self.entries = entries
        self._begun = (facts, entries)
        self._read = read
        self._images: dict[int, Image] = {}
        self._free: FreeBlocks | None = None

    def copy(self) -> Draft:
        """An independent copy."""
        other = Draft(self.layout, self.facts, self.entries, self._read)
        other._begun = self._begun
        other._images = self._images.copy()
        other._free = None if self._free is None else self._free.copy()
        return other

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        facts, entries = self._begun
        return bool(self._images) or self.facts != facts or self.entries is not entries

    def contents(self, version: int) -> tuple[Contents, list[Image]]:
        """The changes of the transaction, for the journal."""
        blocks = sorted(self._images)
        images = [self._images[block] for block in blocks]
        spans = [image.nbytes // self.layout.block_bytes for image in images]
        facts = self.facts
        contents = Contents(
            *(version, facts.rows, facts.null_keys, facts.empty_intervals, facts.blocks),
            splices=splicing.difference(self._begun[1], self.entries),
            image_blocks=np.array(blocks, np.int64),
            image_spans=np.array(spans, np.int64),
        )
        return contents, images

    def first_rows(self) -> pa.RecordBatch | None:
        """The rows of the first leaf; None if the relation has no rows."""
        if not len(self.entries):
            return None
        return self._load(np.zeros(1, np.int64))[0].batch

    # --- Changes --------------------------------------------------------------------------------

    def count_nulls(self, rows: int) -> None:
        """Count rows that were skipped for NULL keys."""
        self.facts = replace(self.facts, null_keys=self.facts.null_keys + rows)

    def change(
        self,
        rows: KeyedRows | None = None,
        keys: Array | None = _NONE,
        doomed: Doomed | None = None,
    ) -> list[KeyedRows]:
        """Insert rows in key order, and delete others; return those deleted. Changes a leaf once.

        Rows that ``doomed`` selects are deleted from the leaves that can hold the keys, which
        ascend and are distinct; None: from all leaves.
        """
        entries = self.entries
        home = _NONE if rows is None else _homes(entries, rows.keys)
        searched = np.arange(len(entries)) if keys is None else splicing.leaves_with(entries, keys)
        leaves = np.union1d(home, searched)
        gone: list[KeyedRows] = []
        edits: dict[int, list[_Leaf]] = {}
        if not len(entries) and rows is not None and len(rows):
            edits[0] = self._placed(rows, self.facts.fill, near=0)
            leaves = _NONE
        for at in range(0, len(leaves), _GROUP):
            group = leaves[at : at + _GROUP]
            first, stop = np.searchsorted(home, (group[0], group[-1] + 1)).tolist()
            fresh = None if rows is None or first == stop else rows.slice(first, stop)
            edits |= self._edit(group, fresh, home[first:stop], doomed, gone)
        for taken in gone:
            self._count(taken, -1)
        if rows is not None:
            self._count(rows, 1)
        self._replace(edits)
        return gone

    def _edit(
        self,
        group: Array,
        fresh: KeyedRows | None,
        home: Array,
        doomed: Doomed | None,
        gone: list[KeyedRows],
    ) -> dict[int, list[_Leaf]]:
        """The leaves that replace those of a group, without doomed rows and with fresh ones."""
        stored, place = self._load(group)
        mask = np.zeros(len(stored), np.bool_) if doomed is None else doomed(stored)
        if mask.any():
            gone.append(stored.take(np.flatnonzero(mask)))
        touched = np.union1d(place[mask], home)
        left = np.flatnonzero(~mask & np.isin(place, touched))
        rows, place = stored.take(left), place[left]
        appended = False
        if fresh is not None:
            appended = not len(rows) or bool(fresh.keys[0] >= rows.keys[-1])
            rows, place = joined_chunks([rows, fresh]), np.concatenate((place, home))
            order = np.lexsort((rows.keys, place))
            rows, place = rows.take(order), place[order]
        parts = dict(_parts(rows, place))
        return {leaf: self._restored(leaf, parts.get(leaf), appended) for leaf in touched.tolist()}

    def _count(self, rows: KeyedRows, sign: int) -> None:
        facts = self.facts
        empty = empty_intervals(rows.batch, self.layout, rows.keys, rows.his, None)
        count = 0 if empty is None else int(np.count_nonzero(empty))
        self.facts = replace(
            facts,
            rows=facts.rows + sign * len(rows),
            empty_intervals=facts.empty_intervals + sign * count,
        )

    # --- Leaves ---------------------------------------------------------------------------------

    def _load(self, leaves: Array) -> tuple[KeyedRows, Array]:
        """The rows of some leaves, at least one, as changed or as on disk; and their leaves."""
        size = self.layout.block_bytes
        blocks, spans = self.entries.blocks[leaves], self.entries.spans[leaves]
        dirty = np.array([block in self._images for block in blocks.tolist()], np.bool_)
        order = np.argsort(dirty, kind="stable")  # from disk first, in one read
        ends = np.cumsum(spans[order]) * size
        bases = np.empty(len(leaves), np.int64)
        bases[order] = ends - spans[order] * size
        buffer = aligned(int(ends[-1]))
        if not dirty.all():
            clean = ~dirty
            part = buffer[: int(spans[clean].sum()) * size]
            self._read(*sequences(blocks[clean], spans[clean]), part)
            wrong = self.layout.verify(part, bases[clean], blocks[clean])
            if wrong >= 0:
                raise damaged(int(blocks[clean][wrong]), note="nothing was changed; ")
        for block, base in zip(blocks[dirty].tolist(), bases[dirty].tolist(), strict=True):
            image = self._images[block]
            buffer[base : base + image.nbytes] = image
        chunk = KeyedRows(*self.layout.unpack_all(buffer, bases))
        return chunk, np.repeat(leaves, self.layout.rows_of(buffer, bases))

    def _restored(self, leaf: int, rows: KeyedRows | None, appended: bool = False) -> list[_Leaf]:
        """The leaves that replace a leaf which has these rows now; None: no rows.

        ``appended``: rows were added after all others. More will follow in the last leaf, so it is
        not halved: that would leave half-empty leaves for ever.
        """
        block, span = int(self.entries.blocks[leaf]), int(self.entries.spans[leaf])
        if rows is None:
            self._release(block, span)
            return []
        packed = self.layout.pack(rows.batch, rows.keys, rows.his, 1.0, block)
        if packed.spans.tolist() == [span]:
            return self._kept(packed, np.array([block]))
        self._release(block, span)
        if len(packed) == 2 and not (appended and leaf == len(self.entries) - 1):
            half = _half(rows.batch)
            parts = rows.slice(0, half), rows.slice(half, len(rows))
            return [new for part in parts for new in self._placed(part, 1.0, near=block)]
        return self._placed(rows, 1.0 if len(packed) == 1 else self.facts.fill, near=block)

    def _placed(self, rows: KeyedRows, fill: float, near: int) -> list[_Leaf]:
        """New leaves for rows, on newly taken blocks, each near the previous one."""
        packed = self.layout.pack(rows.batch, rows.keys, rows.his, fill, 0)
        blocks = []
        for span in packed.spans.tolist():
            near = self._take(span, near)
            blocks.append(near)
        self.layout.renumber(packed.images, packed.bases, np.array(blocks, np.int64))
        return self._kept(packed, np.array(blocks, np.int64))

    def _kept(self, packed: Packed, blocks: Array) -> list[_Leaf]:
        """Store the images of leaves for the journal."""
        sizes = packed.spans * self.layout.block_bytes
        starts = zip(blocks.tolist(), packed.bases.tolist(), sizes.tolist(), strict=True)
        for block, base, size in starts:
            self._images[block] = packed.images[base : base + size]
        greatest = np.zeros_like(blocks) if packed.greatest is None else packed.greatest
        columns = (packed.firsts, packed.lasts, greatest, blocks, packed.spans)
        return [_Leaf(*values) for values in zip(*(c.tolist() for c in columns), strict=True)]

    # --- Blocks and fences ----------------------------------------------------------------------

    def _blocks(self) -> FreeBlocks:
        if self._free is None:
            self._free = FreeBlocks.beside(self.entries, self.facts.blocks)
        return self._free

    def _take(self, span: int, near: int) -> int:
        free = self._blocks()
        block = free.take(span, near)
        self.facts = replace(self.facts, blocks=free.end)
        return block

    def _release(self, block: int, span: int) -> None:
        self._blocks().free(block, span)
        self._images.pop(block, None)

    def _replace(self, edits: dict[int, list[_Leaf]]) -> None:
        """Replace the entries of changed leaves."""
        entries = self.entries
        if all(self._as_before(leaf, fresh) for leaf, fresh in edits.items()):
            return
        leaves = sorted(edits)
        fresh = [leaf for at in leaves for leaf in edits[at]]
        # An empty relation has no leaf to remove.
        present = [int(at < len(entries)) for at in leaves]
        splices = Splices(
            np.array(leaves, np.int64),
            np.array(present, np.int64),
            np.array([len(edits[at]) for at in leaves], np.int64),
            _entries(fresh),
        )
        after = splicing.apply(entries, splices)
        self.entries = replace(after, continued=_continued(entries, splices, fresh, after.firsts))

    def _as_before(self, leaf: int, fresh: Sequence[_Leaf]) -> bool:
        """Whether the entries of a changed leaf and of the next one stay the same."""
        entries = self.entries
        if len(fresh) != 1 or leaf >= len(entries):
            return False
        new, following = fresh[0], leaf + 1
        if following < len(entries):
            meets = new.last == entries.firsts[following]
            if meets != entries.continued[following]:
                return False
        columns = entries.firsts, entries.greatest, entries.blocks, entries.spans
        fresh_values = [new.first, new.greatest, new.block, new.span]
        return [column[leaf] for column in columns] == fresh_values


def _entries(leaves: Sequence[_Leaf]) -> Entries:
    def column(name: str) -> Array:
        return np.array([getattr(leaf, name) for leaf in leaves], np.int64)

    return Entries(
        column("first"),
        np.zeros(len(leaves), np.uint8),
        *(column(name) for name in ("greatest", "block", "span")),
    )


def _continued(
    before: Entries, splices: Splices, fresh: Sequence[_Leaf], firsts: Array
) -> NDArray[np.uint8]:
    """Which leaves begin with the last key of the previous leaf, after a change.

    The last key of an untouched leaf is known only if the next leaf was continued; otherwise it
    lies below all that follow, before and after any change.
    """
    known = np.append(before.continued[1:] == 1, False)[: len(before)]
    lasts = np.append(before.firsts[1:], 0)[: len(before)]
    pairs = [
        (known, np.ones(len(fresh), np.bool_)),
        (lasts, np.array([leaf.last for leaf in fresh], np.int64)),
    ]
    known, lasts = splicing.spliced(splices, pairs)
    continued = np.zeros(len(firsts), np.uint8)
    continued[1:] = known[:-1] & (lasts[:-1] == firsts[1:])
    return continued


def _homes(entries: Entries, keys: Array) -> Array:
    """The leaf of each key: the last one that begins at or below it."""
    if not len(entries):
        return _NONE
    return np.maximum(np.searchsorted(entries.firsts, keys, "right") - 1, 0)


def _parts(rows: KeyedRows, place: Array) -> list[tuple[int, KeyedRows]]:
    """Rows by leaf; rows of one leaf are adjacent."""
    leaves, starts = np.unique(place, return_index=True)
    stops = np.append(starts, len(rows))[1:]
    triples = zip(leaves.tolist(), starts.tolist(), stops.tolist(), strict=True)
    return [(leaf, rows.slice(start, stop)) for leaf, start, stop in triples]


def _half(batch: pa.RecordBatch) -> int:
    """Where to cut rows into two parts of about the same bytes, at least one row each."""
    total = np.zeros(len(batch) + 1)
    for column in batch.columns:
        total += _sizes_before(column)
    cut = int(np.searchsorted(total, total[-1] / 2))
    return min(max(cut, 1), len(batch) - 1)


def _sizes_before(column: pa.Array) -> NDArray[np.float64]:
    """Bytes of all values before each row; an even share per row for fixed-size types."""
    kind = column.type
    if pat.is_string(kind) or pat.is_binary(kind):
        offsets = np.frombuffer(column.buffers()[1], np.int32)
    elif pat.is_large_string(kind) or pat.is_large_binary(kind):
        offsets = np.frombuffer(column.buffers()[1], np.int64)
    else:
        return np.linspace(0, column.nbytes, len(column) + 1)
    offsets = offsets[column.offset : column.offset + len(column) + 1]
    before: NDArray[np.float64] = (offsets - offsets[0]).astype(np.float64)
    return before

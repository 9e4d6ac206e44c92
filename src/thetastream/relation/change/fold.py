"""From the journal to the files of a relation, and to what a reader knows.

*Following* the journal makes the state after its records out of the state before them; a reader in
another process does so with new records only. *Folding* puts the newest images into the block file
and empties the journal. The steps of a fold, and what a crash behind each of them leaves:

1. images are written over their blocks, and synced. Journal and index still say the same as
   before: a reader takes these blocks from the journal, whatever the block file has.
2. an index of the newest version is written under a new name, and synced. CURRENT names the old
   one; the new one is a leftover, which the next writer removes.
3. CURRENT is replaced. From here on the new index holds. The journal's records are of versions up
   to that of the index, so they are passed over.
4. the journal is emptied, then the old index is removed.

Nobody else may read blocks meanwhile (an older index would meet newer blocks), so a fold needs the
exclusive lock of READERS. It can always be done later: all it does is to keep the journal short.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thetastream.errors import RelationError
from thetastream.relation.files.fences import Fences, write_index
from thetastream.relation.files.folder import Current, Folder, digest
from thetastream.relation.files.generation import stored_layout, write_generation
from thetastream.relation.files.journal import Contents, Journal, Record
from thetastream.relation.files.overlay import Overlay
from thetastream.relation.files.scan import groups
from thetastream.relation.files.snapshot import Snapshot, State
from thetastream.relation.files.sorting import KeyedRows
from thetastream.relation.files.splices import Entries, apply, runs

_PIECE_BLOCKS = 256
_GROWTH = 1 << 20
FOLD_BYTES = 16 << 20
"""A journal of so many bytes is folded after a transaction, if nobody reads."""


def with_journal(folder: Folder, state: State) -> State:
    """A state that an index file gave, after all records of the journal."""
    current = state.current
    journal = Journal(folder / current.journal, current.generation)
    return follow(folder, replace(state, overlay=Overlay.empty(journal, state.facts.block_bytes)))


def follow(folder: Folder, state: State) -> State:
    """The state after the records that came meanwhile; the same object if none did."""
    overlay = state.overlay
    assert isinstance(overlay, Overlay)
    records = overlay.journal.read(overlay.position, overlay.sequence)
    if not records:
        return state
    for record in records:
        state = after(state, record)
    blocks = folder / state.current.blocks
    size, needed = blocks.stat().st_size, state.facts.blocks * state.facts.block_bytes
    if size < needed:
        raise RelationError(
            f"the block file {str(blocks)!r} is cut short: expected {needed} bytes, found {size}; "
            "restore the folder from a copy, or build the relation again"
        )
    return state


def after(state: State, record: Record) -> State:
    """The state after a transaction."""
    overlay, contents = state.overlay, record.contents
    assert isinstance(overlay, Overlay)
    if contents.version <= state.version:  # folded; the crash came before the journal was emptied
        return replace(state, overlay=overlay.passed(record))
    if contents.version != state.version + 1:
        raise RelationError(
            f"record {record.sequence} of {overlay.journal.path.name} makes version "
            f"{contents.version}, but version {state.version} comes before it: index and journal "
            "do not belong together; restore the folder from a copy, or build the relation again"
        )
    facts = replace(
        state.facts,
        rows=contents.rows,
        null_keys=contents.null_keys,
        empty_intervals=contents.empty_intervals,
        blocks=contents.blocks,
    )
    fences = state.fences
    if len(contents.splices):
        fences = fences_of(apply(Entries.of(fences), contents.splices), fences.greatest is not None)
    return replace(
        state,
        facts=facts,
        fences=fences,
        version=contents.version,
        overlay=overlay.followed(record),
    )


def fences_of(entries: Entries, intervals: bool) -> Fences:
    """Entries as fences."""
    greatest = entries.greatest if intervals else None
    return Fences(
        entries.firsts, entries.continued, greatest, blocks=entries.blocks, spans=entries.spans
    )


def grow(path: Path, size: int) -> None:
    """Make a block file at least so many bytes long, with room on the disk, before it is needed.

    So a fold cannot fail for want of room, and readers may read where images are still in the
    journal. Grows by a mebibyte or more, since it costs a sync.
    """
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        present = os.fstat(file).st_size
        if present >= size:
            return
        try:
            _reserve(file, present, size + max(_GROWTH, size >> 6) - present)
            os.fsync(file)
        except OSError as error:
            os.ftruncate(file, present)
            raise RelationError(
                f"{path.name} could not be made larger ({error.strerror or error}); nothing was "
                "changed; make room and try again"
            ) from error
    finally:
        os.close(file)


def _reserve(file: int, start: int, count: int) -> None:
    try:
        os.posix_fallocate(file, start, count)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        os.ftruncate(file, start + count)


def fold(folder: Folder, state: State) -> State:
    """Put the journal into block file and index; LOCK and the exclusive READERS are held.

    When it fails, read the state from disk again: it is the same version, folded or not.
    """
    overlay, facts = state.overlay, state.facts
    assert isinstance(overlay, Overlay)
    _write_images(folder / state.current.blocks, overlay, Entries.of(state.fences))
    index = write_index(state.schema, facts, state.fences)
    old = state.current
    current: Current = replace(
        old,
        number=old.number + 1,
        version=state.version,
        index_bytes=len(index),
        index_checksum=digest(index),
    )
    folder.write(current.index, index)
    folder.sync()
    folder.replace(current)
    overlay.journal.empty()
    folder.remove(old.index)
    return with_journal(folder, replace(state, current=current))


def _write_images(path: Path, overlay: Overlay, entries: Entries) -> None:
    """Write the newest images of leaves over their blocks; those of freed blocks are forgotten."""
    size = overlay.block_bytes
    used = np.isin(overlay.blocks, runs(entries.blocks, entries.spans))
    blocks, offsets = overlay.blocks[used], overlay.offsets[used]
    together = (np.diff(blocks) == 1) & (np.diff(offsets) == size)
    together &= np.arange(1, len(blocks)) % _PIECE_BLOCKS != 0 if len(blocks) else together
    cuts = [0, *(np.flatnonzero(~together) + 1).tolist(), len(blocks)]
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for low, high in pairwise(cuts):
            if low == high:
                continue
            piece = bytearray((high - low) * size)
            overlay.journal.read_image(int(offsets[low]), memoryview(piece))
            _write_at(file, memoryview(piece), int(blocks[low]) * size)
        os.fsync(file)
    finally:
        os.close(file)


def _write_at(file: int, data: memoryview, at: int) -> None:
    while data:
        count = os.pwrite(file, data, at)
        data, at = data[count:], at + count


def committed(
    folder: Folder, state: State, contents: Contents, images: Sequence[NDArray[np.uint8]]
) -> State:
    """The state after a transaction that is in the journal, safe, when this returns."""
    overlay = state.overlay
    assert isinstance(overlay, Overlay)
    grow(folder / state.current.blocks, contents.blocks * state.facts.block_bytes)
    record = overlay.journal.append(overlay.position, overlay.sequence + 1, contents, images)
    return after(state, record)


def journal_bytes(state: State) -> int:
    """How much of the journal this state has read, in bytes."""
    assert isinstance(state.overlay, Overlay)
    return state.overlay.position


def compact(folder: Folder, snapshot: Snapshot) -> None:
    """Write what a snapshot sees as a new generation, in key order; LOCK is held."""
    state = snapshot.state
    stored = stored_layout(state.layout)
    chunks = (KeyedRows(*stored.unpack_all(g.buffer, g.bases)) for g in groups(snapshot))
    write_generation(
        folder,
        folder.new_generation(),
        state.layout,
        chunks,
        state.facts.fill,
        version=state.version + 1,
        null_keys=state.facts.null_keys,
        empty_intervals=state.facts.empty_intervals,
    )

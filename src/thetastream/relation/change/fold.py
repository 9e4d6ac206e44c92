"""Applying the journal: to a reader's state, and to the files of a relation.

*Following* the journal applies its records to a state; a reader in another process applies the new
records only. *Folding* writes the newest images into the block file and empties the journal. The
steps of a fold, and what a crash after each of them leaves:

1. Images are written over their blocks, and synced. Journal and index are unchanged, so readers
   take these blocks from the journal, whatever the block file holds.
2. An index of the newest version is written under a new name, and synced. CURRENT still names the
   old one; the next writer removes the new one.
3. CURRENT is replaced, and the new index is in force. The journal's records are not newer than the
   index, so they are ignored.
4. The journal is emptied, then the old index is removed.

No other process may read blocks meanwhile (an old index would meet new blocks), so a fold needs the
exclusive lock on READERS. It can always be postponed: it only keeps the journal short.
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
from thetastream.relation.files.folder import (
    AGAIN,
    FORMAT,
    Current,
    Folder,
    digest,
    opened,
    write_at,
)
from thetastream.relation.files.generation import stored_layout, write_generation
from thetastream.relation.files.journal import Contents, Record
from thetastream.relation.files.overlay import Overlay
from thetastream.relation.files.scan import groups
from thetastream.relation.files.snapshot import Snapshot, State, check_block_file
from thetastream.relation.files.sorting import KeyedRows
from thetastream.relation.files.splices import Entries, apply, runs

_PIECE_BLOCKS = 256
_GROWTH = 1 << 20
FOLD_BYTES = 16 << 20
"""A journal of this many bytes is folded after a transaction, if there are no readers."""


def follow(folder: Folder, state: State) -> State:
    """The state after the new records of the journal; the same object if there are none."""
    overlay = state.overlay
    records = overlay.journal.read(overlay.position, overlay.sequence)
    if not records:
        return state
    for record in records:
        state = after(state, record)
    check_block_file(folder / state.current.blocks, state.facts)
    return state


def after(state: State, record: Record) -> State:
    """The state after a transaction."""
    overlay, contents = state.overlay, record.contents
    if contents.version <= state.version:  # folded; a crash came before the journal was emptied
        return replace(state, overlay=overlay.passed(record))
    if contents.version != state.version + 1:
        raise RelationError(
            f"record {record.sequence} of {overlay.journal.path.name} makes version "
            f"{contents.version}, but version {state.version} comes before it: index and journal "
            f"do not belong together; {AGAIN}"
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
        entries = apply(Entries.of(fences), contents.splices)
        greatest = None if fences.greatest is None else entries.greatest
        fences = Fences(entries.firsts, entries.continued, greatest, entries.blocks, entries.spans)
    return replace(
        state,
        facts=facts,
        fences=fences,
        version=contents.version,
        overlay=overlay.followed(record),
    )


def grow(path: Path, size: int) -> None:
    """Make a block file at least ``size`` bytes long, with the space allocated on disk.

    So a fold cannot run out of space, and readers can read blocks that are still in the journal.
    Grows by a mebibyte or more, since it costs a sync.
    """
    with opened(path, os.O_RDWR) as file:
        present = os.fstat(file).st_size
        if present >= size:
            return
        try:
            _reserve(file, present, size + max(_GROWTH, size >> 6) - present)
            os.fsync(file)
        except OSError as error:
            os.ftruncate(file, present)
            raise RelationError(
                f"{path.name} could not be enlarged ({error.strerror or error}); nothing was "
                "changed; free some space and try again"
            ) from error


def _reserve(file: int, start: int, count: int) -> None:
    try:
        os.posix_fallocate(file, start, count)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        os.ftruncate(file, start + count)


def fold(folder: Folder, state: State) -> State:
    """Move the journal into block file and index; LOCK and the exclusive READERS are held.

    If it fails, read the state from disk again: the version is the same, folded or not.
    """
    overlay, old = state.overlay, state.current
    _write_images(folder / old.blocks, overlay, Entries.of(state.fences))
    index = write_index(state.schema, state.facts, state.fences, state.layout.codings)
    current: Current = replace(
        old,
        format=FORMAT,
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
    empty = Overlay.empty(overlay.journal, overlay.block_bytes)
    return replace(state, current=current, overlay=empty)


def _write_images(path: Path, overlay: Overlay, entries: Entries) -> None:
    """Write the newest images of leaves over their blocks; skip blocks that were freed."""
    size = overlay.block_bytes
    used = np.isin(overlay.blocks, runs(entries.blocks, entries.spans))
    blocks, offsets = overlay.blocks[used], overlay.offsets[used]
    together = (np.diff(blocks) == 1) & (np.diff(offsets) == size)
    together &= np.arange(1, len(blocks)) % _PIECE_BLOCKS != 0 if len(blocks) else together
    cuts = [0, *(np.flatnonzero(~together) + 1).tolist(), len(blocks)]
    with opened(path, os.O_WRONLY) as file:
        for low, high in pairwise(cuts):
            if low == high:
                continue
            piece = bytearray((high - low) * size)
            overlay.journal.read_image(int(offsets[low]), memoryview(piece))
            write_at(file, memoryview(piece), int(blocks[low]) * size)
        os.fsync(file)


def committed(
    folder: Folder, state: State, contents: Contents, images: Sequence[NDArray[np.uint8]]
) -> State:
    """Append a transaction to the journal, durably; return the state after it."""
    overlay = state.overlay
    grow(folder / state.current.blocks, contents.blocks * state.facts.block_bytes)
    record = overlay.journal.append(overlay.position, overlay.sequence + 1, contents, images)
    return after(state, record)


def compact(folder: Folder, snapshot: Snapshot) -> None:
    """Write the rows of a snapshot as a new generation, in key order; LOCK is held."""
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
        unique=state.facts.unique,
        keep_empty=state.facts.keep_empty,
    )

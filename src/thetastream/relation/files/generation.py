"""Writing a new generation of files: leaves, fences, and the CURRENT that names them.

Rows arrive in key order. They are packed into leaves, some megabytes at a time, while a thread
writes the previous ones. Then the index is written. Once everything is on disk, CURRENT is
replaced, which makes the new generation the relation, and the old files are removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.interrupt import uninterrupted
from thetastream.relation.files.fences import Facts, Fences, write_index
from thetastream.relation.files.folder import FORMAT, Current, Folder, digest, opened, write_all
from thetastream.relation.files.sorting import KeyedRows, joined_chunks
from thetastream.relation.image.columns import codec_of
from thetastream.relation.image.layout import LeafLayout
from thetastream.relation.image.packing import Packed

_PACK_BYTES = 8 << 20


def stored_layout(layout: LeafLayout) -> LeafLayout:
    """The layout for rows in their stored types: its images are the same.

    Arrow can reorder rows of those types, but not of all others.
    """
    schema = pa.schema([f.with_type(codec_of(f.type, f.name).stored) for f in layout.schema])
    if schema.equals(layout.schema):
        return layout
    return layout.with_schema(schema)


class _Leaves:
    """Collects the fences of leaves as they are written."""

    def __init__(self, layout: LeafLayout) -> None:
        self._parts: list[tuple[Array, Array, Array | None, Array]] = []
        self._layout = layout
        self.rows = self.blocks = 0

    def add(self, packed: Packed, all_of_them: bool) -> tuple[int, int]:
        """Record leaves, except the last one unless wanted; return their rows and blocks."""
        keep = len(packed)
        keep -= keep > 1 and not all_of_them
        high = None if packed.greatest is None else packed.greatest[:keep]
        spans = packed.spans[:keep]
        self._parts.append((packed.firsts[:keep], packed.lasts[:keep], high, spans))
        rows, blocks = int(packed.rows[:keep].sum()), int(spans.sum())
        self.rows += rows
        self.blocks += blocks
        return rows, blocks

    def fences(self) -> Fences:
        if not self._parts:
            none = np.empty(0, np.int64)
            interval = len(self._layout.key) == 2
            return Fences(none, np.empty(0, np.uint8), none.copy() if interval else None)
        firsts, lasts, greatest, spans = zip(*self._parts, strict=True)
        first, last = np.concatenate(firsts), np.concatenate(lasts)
        continued = np.zeros(len(first), np.uint8)
        continued[1:] = first[1:] == last[:-1]
        high = None if greatest[0] is None else np.concatenate(greatest)
        return Fences(first, continued, high, spans=np.concatenate(spans))


def write_generation(
    folder: Folder,
    generation: str,
    layout: LeafLayout,
    chunks: Iterable[KeyedRows],
    fill: float,
    *,
    version: int,
    null_keys: int = 0,
    empty_intervals: int = 0,
    unique: tuple[str, ...] = (),
    keep_empty: bool = True,
    memory: int = 1 << 28,
    written: Callable[[int], None] = lambda rows: None,
) -> Current:
    """Write chunks in key order as a new generation and make it the relation; LOCK is held.

    Packs pieces of a thirty-second of ``memory``, at most 8 MiB. On failure the new files are
    removed and CURRENT is unchanged.
    """
    try:
        piece = max(min(_PACK_BYTES, memory // 32), 16 * layout.block_bytes)
        grouped = _grouped(chunks, piece)
        leaves = _write_blocks(folder / f"blocks-{generation}", layout, grouped, fill, written)
        facts = Facts(
            key=layout.columns.names,
            block_bytes=layout.block_bytes,
            fill=fill,
            rows=leaves.rows,
            null_keys=null_keys,
            empty_intervals=empty_intervals,
            blocks=leaves.blocks,
            unique=unique,
            equal=len(layout.columns.equal),
            open_ends=layout.columns.open_ends,
            keep_empty=keep_empty,
        )
        index = write_index(layout.schema, facts, leaves.fences(), layout.codings)
        current = Current(FORMAT, generation, 0, version, len(index), digest(index))
        folder.write(current.index, index)
        folder.sync()
        with uninterrupted():
            folder.replace(current)
    except BaseException:
        if not folder.names(generation):
            for name in (f"blocks-{generation}", f"index-{generation}-0", "CURRENT.new"):
                folder.remove(name)
        raise
    with suppress(OSError):
        folder.remove_leftovers()
    return current


def _write_blocks(
    path: Path,
    layout: LeafLayout,
    groups: Iterable[tuple[list[KeyedRows], bool]],
    fill: float,
    written: Callable[[int], None],
) -> _Leaves:
    """Write the block file.

    The last leaf of a packed piece is rarely full, so its rows move to the next piece.
    """
    leaves, stored = _Leaves(layout), stored_layout(layout)
    rest: list[KeyedRows] = []
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
        with _Behind(file) as behind:
            for group, final in groups:
                chunk = joined_chunks([*rest, *group])
                packed = stored.pack(chunk.batch, chunk.keys, chunk.his, fill, leaves.blocks)
                rows, blocks = leaves.add(packed, all_of_them=final)
                behind.write(packed.images[: blocks * layout.block_bytes].data)
                rest = [chunk.slice(rows, len(chunk))] if rows < len(chunk) else []
                written(rows)
        os.fsync(file)
    return leaves


class _Behind:
    """Writes pieces in order in a thread while the next leaves are packed."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1, "thetastream-write")
        self._last: Future[None] | None = None

    def write(self, data: memoryview) -> None:
        """Wait for the previous piece, which may have failed, and start this one."""
        if self._last is not None:
            self._last.result()
        self._last = self._pool.submit(write_all, self._file, data)

    def __enter__(self) -> _Behind:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown()
        if kind is None and self._last is not None:
            self._last.result()


def _grouped(chunks: Iterable[KeyedRows], nbytes: int) -> Iterator[tuple[list[KeyedRows], bool]]:
    """Groups of chunks of about ``nbytes`` bytes, and whether a group is the last."""
    group: list[KeyedRows] = []
    size = 0
    for chunk in chunks:
        for piece in chunk.pieces(nbytes):
            if size >= nbytes:
                yield group, False
                group, size = [], 0
            group.append(piece)
            size += piece.nbytes
    if group:
        yield group, True

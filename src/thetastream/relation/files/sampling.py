"""Looking at the rows of a build before they are sorted, to learn the codes of wide keys.

Rows are read once. Those of a source that can be read again are read twice; others are kept, in
memory or, beyond a share of the budget, in a file of the build's folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thetastream._jit.arrays import Mask
from thetastream.relation.files.sources import Source
from thetastream.relation.image.coding import Coding, KeyPart, Sample, parts_of
from thetastream.relation.image.columns import codec_of
from thetastream.relation.image.layout import LeafLayout


def coded(
    source: Source, layout: LeafLayout, folder: Callable[[], Path], memory: int
) -> tuple[Source, LeafLayout]:
    """The same rows, still to be read, and the layout with what was learned from a sample."""
    parts = parts_of(layout.schema, layout.columns)
    if not any(parts):
        return source, layout
    shares = len(parts[0]) > 1 and _forms(parts[0]) == _forms(parts[1])
    samples = [Sample() if each else None for each in parts]
    if shares:  # the ends of intervals are spread as their starts are
        samples[1] = None

    def look(batch: pa.RecordBatch) -> None:
        for each, sample in zip(parts, samples, strict=True):
            if sample is not None:
                sample.add(_key_rows(batch, each))

    if source.again is not None:
        for batch in source.batches:
            look(batch)
        rows = source.again()
    else:
        rows = _kept(source, look, folder, memory // 5)
    learned = [
        None if sample is None else Coding.learned(each, sample.batches)
        for each, sample in zip(parts, samples, strict=True)
    ]
    if shares and learned[0] is not None:
        learned[1] = replace(learned[0], parts=parts[1])
    fresh = LeafLayout(layout.schema, layout.columns, layout.block_bytes, (learned[0], learned[1]))
    return Source(source.schema, rows, source.rows), fresh


def _forms(parts: tuple[KeyPart, ...]) -> list[KeyPart]:
    """The parts of a key without their names."""
    return [replace(part, name="") for part in parts]


def _key_rows(batch: pa.RecordBatch, parts: tuple[KeyPart, ...]) -> pa.RecordBatch:
    """The columns of a key in their stored types, without NULLs."""
    names = [part.name for part in parts]
    arrays = []
    for name in names:
        column = batch.column(name)
        arrays.append(codec_of(column.type, name).decode(column))
    rows = pa.RecordBatch.from_arrays(arrays, names=names)
    if any(array.null_count for array in arrays):
        present = np.logical_and.reduce(
            [array.is_valid().to_numpy(zero_copy_only=False) for array in arrays]
        )
        rows = rows.take(pa.array(np.flatnonzero(present)))
    return rows


def _kept(
    source: Source, look: Callable[[pa.RecordBatch], None], folder: Callable[[], Path], room: int
) -> Iterator[pa.RecordBatch]:
    """Look at all batches, and keep them; those that do not fit are written to a file."""
    kept: list[pa.RecordBatch] = []
    held = 0
    path: Path | None = None
    for batch in source.batches:
        look(batch)
        held += batch.nbytes
        if held <= room:
            kept.append(batch)
            continue
        path = folder() / "rows"
        with (
            pa.OSFile(os.fspath(path), "wb") as file,
            pa.ipc.new_stream(file, source.schema) as writer,
        ):
            writer.write_batch(batch)
            for later in source.batches:
                look(later)
                writer.write_batch(later)
    return _replayed(kept, path)


def _replayed(kept: list[pa.RecordBatch], path: Path | None) -> Iterator[pa.RecordBatch]:
    kept.reverse()
    while kept:
        yield kept.pop()
    if path is not None:
        with pa.OSFile(os.fspath(path)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader
        path.unlink()


def falls(low: pa.Array, high: pa.Array) -> Mask:
    """Where a value lies above the other one; False where one is NULL."""
    if pa.types.is_decimal(low.type):
        above = pc.greater(low, high)
    else:
        above = pc.greater(low.cast(pa.large_binary()), high.cast(pa.large_binary()))
    mask: Mask = above.fill_null(False).to_numpy(zero_copy_only=False)
    return mask

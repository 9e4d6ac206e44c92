"""Reading both sides: the rows to plan with, and the streamed side in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from thetastream.data.batch import one_batch
from thetastream.data.frames import RowSource
from thetastream.plan.choice import SAMPLE
from thetastream.side import Side

_TRIED = 256  # combinations of types, at most, that are tried for columns without one


def chunks_of(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Cut batches into chunks of at most ``size`` rows; long batches are not copied.

    Short ones are joined, so that a chunk has at least half of the rows, except the last.
    """
    short: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            piece = batch.slice(start, size)
            if rows + piece.num_rows > size:
                yield _joined(short)
                short, rows = [], 0
            if not short and 2 * piece.num_rows >= size:
                yield piece
                continue
            short.append(piece)
            rows += piece.num_rows
    if short:
        yield _joined(short)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else one_batch(pa.Table.from_batches(batches))


def sample_of(source: RowSource, columns: Iterable[str]) -> tuple[RowSource, pa.RecordBatch]:
    """Some rows, evenly spaced, with the columns of the condition; and the source with all rows.

    Of a reader they are from its first batch, which is kept and read again.
    """
    names = list(columns)
    if source.table is not None:
        table, rows = source.table.select(names), source.table.num_rows
        if rows > SAMPLE:
            table = table.take(pa.array(np.linspace(0, rows - 1, SAMPLE).astype(np.int64)))
        return source, _rows(table, rows)
    first = next(source.batches, None)
    if first is None:
        return source, one_batch(source.schema.empty_table().select(names))
    source = replace(source, batches=chain([first], source.batches))
    return source, _rows(pa.Table.from_batches([first.select(names)]), first.num_rows)


def _rows(table: pa.Table, rows: int) -> pa.RecordBatch:
    """A table as one batch, also one without columns."""
    if table.num_columns:
        return one_batch(table)
    nothing = pa.StructArray.from_arrays([], fields=[], mask=pa.repeat(False, min(rows, SAMPLE)))
    return pa.RecordBatch.from_struct_array(nothing)


def typed(
    sources: Mapping[Side, RowSource],
    columns: Mapping[Side, Iterable[str]],
    fits: Callable[[Mapping[Side, pa.Schema]], bool],
) -> dict[Side, RowSource]:
    """The sources, with a type for columns of the condition that have none, as all are NULL.

    An empty pandas frame has such columns, for example. They match nothing, whatever their type:
    it is the first one that ``fits`` the condition, of those that the condition compares.
    """
    schemas = {side: source.schema for side, source in sources.items()}
    kinds = {side: {n: schemas[side].field(n).type for n in columns[side]} for side in sources}
    none = [(side, n) for side in sources for n, kind in kinds[side].items() if pat.is_null(kind)]
    known = [kind for side in sources for kind in kinds[side].values() if not pat.is_null(kind)]
    choices = dict.fromkeys([*known, pa.int64(), pa.string()])
    if not none or len(choices) ** len(none) > _TRIED:
        return dict(sources)
    for chosen in product(choices, repeat=len(none)):
        found = dict(schemas)
        for (side, name), kind in zip(none, chosen, strict=True):
            at = found[side].get_field_index(name)
            found[side] = found[side].set(at, pa.field(name, kind))
        if fits(found):
            return {side: _cast(source, found[side]) for side, source in sources.items()}
    return dict(sources)


def _cast(source: RowSource, schema: pa.Schema) -> RowSource:
    """The source with columns of type null cast; others are not copied."""
    if schema == source.schema:
        return source
    table = None if source.table is None else source.table.cast(schema)
    batches = (batch.cast(schema) for batch in source.batches)
    return replace(source, schema=schema, table=table, batches=batches)


def measured(sources: Mapping[Side, RowSource]) -> dict[Side, RowSource]:
    """The sources, with the number of rows known on at least one side.

    If neither is, both are read in turns until one ends, which is then the shorter one: at most
    twice its rows are held.
    """
    if any(source.rows is not None for source in sources.values()):
        return dict(sources)
    read: dict[Side, list[pa.RecordBatch]] = {side: [] for side in sources}
    rows = dict.fromkeys(sources, 0)
    while True:
        side = min(rows, key=lambda side: rows[side])
        batch = next(sources[side].batches, None)
        if batch is None:
            break
        read[side].append(batch)
        rows[side] += batch.num_rows
    table = pa.Table.from_batches(read[side], sources[side].schema)
    other = sources[side.other]
    return {
        side: replace(sources[side], rows=rows[side], table=table),
        side.other: replace(other, batches=chain(read[side.other], other.batches)),
    }

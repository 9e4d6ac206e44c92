"""Building a relation: rows of any source, sorted by key, packed into leaves, in a new generation.

The steps: read → skip rows without a key → sort within the budget → pack leaves and write them one
after another → write the index → replace CURRENT → remove the previous generation. Until CURRENT is
replaced, readers see the old relation. A build that fails or is killed has changed nothing; its
files are removed by the build or by the next writer.

Leaves are filled to ``fill`` of their bytes, so that rows can be inserted without a split (SSIJ,
Section III: rows lie in the leaves of the index).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from thetastream.errors import OptionError, RelationError
from thetastream.relation.disk.size import read_size
from thetastream.relation.files.folder import DamagedCurrent, Folder, disk_errors
from thetastream.relation.files.generation import stored_layout, write_generation
from thetastream.relation.files.journal import Journal
from thetastream.relation.files.refusals import (
    count_lengths,
    empty_intervals,
    empty_refused,
    has_binary_ends,
    interval_text,
    refuse_lengths,
    refuse_null_ends,
    refuse_text,
)
from thetastream.relation.files.sampling import coded
from thetastream.relation.files.sorting import KeyedRows, Sorter
from thetastream.relation.files.sources import Source, open_source
from thetastream.relation.files.unique import RowKey, UniqueCheck, read_unique
from thetastream.relation.image.coding import is_wide
from thetastream.relation.image.columns import codec_of
from thetastream.relation.image.key import KeyColumns
from thetastream.relation.image.layout import LeafLayout
from thetastream.schema import KeyKind, common_domain

_PAGE = 4096
_MOST_BLOCK = 1 << 26
_LEAST_MEMORY = 1 << 16
_READ_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Progress:
    """Rows processed so far; ``total`` is None if the source does not know its size."""

    read: int = 0
    sorted: int = 0
    written: int = 0
    total: int | None = None


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of a build, validated."""

    key: KeyColumns
    block_bytes: int
    fill: float
    memory: int
    unique: str | Sequence[str] | None = None
    keep_empty: bool = False
    replace: bool = False

    @classmethod
    def checked(
        cls,
        key: str | Sequence[Any],
        block_bytes: int,
        fill: float,
        memory: str | int,
        unique: str | Sequence[str] | None = None,
        open_ends: bool | None = None,
        keep_empty: bool = False,
        replace: bool = False,
    ) -> BuildOptions:
        """Validate options before anything is written."""
        columns = KeyColumns.of(key).with_ends(open_ends)
        if not isinstance(keep_empty, bool):
            raise OptionError(f"keep_empty must be True or False; got {keep_empty!r}")
        if isinstance(block_bytes, bool) or not isinstance(block_bytes, int):
            raise OptionError(f"block_bytes must be a number of bytes; got {block_bytes!r}")
        if block_bytes % _PAGE or not _PAGE <= block_bytes <= _MOST_BLOCK:
            raise OptionError(
                f"block_bytes must be a multiple of {_PAGE} from {_PAGE} to {_MOST_BLOCK}, so that "
                f"blocks can be read past the page cache; got {block_bytes}"
            )
        if not isinstance(fill, (int, float)) or not 0 < fill <= 1:
            raise OptionError(
                f"fill, the share of a block to fill, must be above 0 and at most 1; got {fill!r}"
            )
        budget = read_size(memory)
        if budget < _LEAST_MEMORY:
            raise RelationError(f"a sort needs at least 64 KiB of memory; got {memory!r}")
        return cls(columns, block_bytes, float(fill), budget, unique, keep_empty, replace)


class _Reporter:
    """Counts skipped rows, and reports progress to the callback, if there is one."""

    def __init__(self, progress: Callable[[Progress], None] | None, total: int | None) -> None:
        self._call, self.now = progress, Progress(total=total)
        self.null_keys = self.empty_intervals = 0
        self.null_columns: Counter[str] = Counter()
        self.lengths: Counter[int] = Counter()
        self.first_empty = ""

    def add(self, read: int = 0, in_order: int = 0, written: int = 0) -> None:
        now = self.now
        self.now = replace(
            now, read=now.read + read, sorted=now.sorted + in_order, written=now.written + written
        )
        if self._call is not None:
            self._call(self.now)


def build(
    path: str | os.PathLike[str],
    source: Any,
    options: BuildOptions,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Build a relation at ``path``. See the module."""
    folder = Folder(path)
    created = _prepare(folder)
    with folder.writing("build"):
        if folder.exists() and not options.replace:
            raise RelationError(
                f"there is a relation at {str(folder.path)!r} already; pass replace=True to "
                "replace it, in one step when the new one is complete, or choose another path"
            )
        try:
            with suppress(DamagedCurrent):  # keep all files until the new relation is complete
                folder.remove_leftovers()
            _build_generation(folder, source, options, progress)
        except BaseException:
            if created:
                folder.remove_if_empty()
            raise


def next_version(folder: Folder) -> int:
    """The version of a new generation: above every version of the previous one."""
    if not folder.exists():
        return 1
    try:
        current = folder.current()
    except DamagedCurrent:
        return 1
    journal = Journal(folder / current.journal, current.generation)
    return max(current.version, journal.last_version()) + 1


def _prepare(folder: Folder) -> bool:
    """Create the folder if needed; return whether it was created. Refuse foreign files."""
    if folder.path.is_dir():
        foreign = folder.foreign()
        if foreign and not folder.exists():
            raise RelationError(
                f"the folder {str(folder.path)!r} holds other files, such as {foreign[0]!r}; "
                "choose a separate path for the relation"
            )
        return False
    if folder.path.exists():
        raise RelationError(
            f"{str(folder.path)!r} is a file; a relation is a folder: choose another path"
        )
    folder.path.mkdir(parents=True)
    Folder(folder.path.parent).sync()
    return True


def _build_generation(
    folder: Folder,
    source: Any,
    options: BuildOptions,
    progress: Callable[[Progress], None] | None,
) -> None:
    generation = folder.new_generation()
    temporary = folder / f"build-{generation}"

    def place() -> Path:
        temporary.mkdir(exist_ok=True)
        return temporary

    kept = "The existing relation is unchanged."
    after = kept if folder.exists() else "Nothing was left behind."
    try:
        with disk_errors(folder.path, "building the relation", after):
            rows = open_source(source, place)
            layout = make_layout(rows.schema, options)
            unique = read_unique(options.unique, layout.schema, layout.sorted_by)
            report = _Reporter(progress, rows.rows)
            rows, layout = coded(rows, layout, place, options.memory)
            sorter = Sorter(options.memory, place, lambda n: report.add(in_order=n))
            for chunk in _with_keys(rows, layout, report):
                sorter.add(chunk)
            refuse_null_ends(layout, report.null_keys, report.null_columns)
            refuse_lengths(report.lengths, layout.key[0])
            if report.empty_intervals and not options.keep_empty:
                raise empty_refused(report.empty_intervals, report.first_empty, "")
            chunks = sorter.sorted()
            if unique:
                key = RowKey(unique, layout.is_exact and unique == layout.sorted_by)
                chunks = UniqueCheck(key).passed(chunks)
            write_generation(
                folder,
                generation,
                layout,
                chunks,
                options.fill,
                version=next_version(folder),
                null_keys=report.null_keys,
                empty_intervals=report.empty_intervals,
                unique=unique,
                keep_empty=options.keep_empty,
                memory=options.memory,
                written=lambda n: report.add(written=n),
            )
    finally:
        folder.remove(temporary.name)


def make_layout(schema: pa.Schema, options: BuildOptions) -> LeafLayout:
    """The layout of the leaves; an error names a column that cannot be the key."""
    layout = LeafLayout(schema, options.key, options.block_bytes)
    if options.key.is_interval:
        low, high = options.key.ordered
        both = f"interval from {low!r} to {high!r}"
        domain = common_domain(schema.field(low).type, schema.field(high).type, both)
        wide = any(is_wide(schema.field(name).type) for name in (low, high))
        if options.key.open_ends and (wide or domain.kind is KeyKind.BYTES):
            raise OptionError(
                f"open_ends=True needs an interval of numbers or times; {both} is of "
                f"{schema.field(low).type}: replace NULL by the least or greatest value"
            )
    room = options.block_bytes * options.fill
    if layout.keys_at + 8 > room:
        raise RelationError(
            f"block_bytes={options.block_bytes} is too small: the head of a leaf of {len(schema)} "
            f"columns takes {layout.keys_at} of the {room:.0f} bytes to fill; use larger blocks"
        )
    return layout


def _with_keys(source: Source, layout: LeafLayout, report: _Reporter) -> Iterator[KeyedRows]:
    """The rows whose keys are not NULL, with their keys, in their stored types."""
    codecs = [codec_of(field.type, field.name) for field in layout.schema]
    stored = stored_layout(layout).schema
    binary = has_binary_ends(layout.schema, layout.columns)
    for batch in source.batches:
        for start in range(0, batch.num_rows, _READ_ROWS):
            piece = batch.slice(start, _READ_ROWS)
            refuse_text(piece, layout)
            keys, his, valid = layout.keys_of(piece)
            if binary:
                report.lengths += count_lengths(piece.column(layout.key[0]))
            empty = empty_intervals(piece, layout, keys, his, valid)
            if empty is not None and empty.any():
                report.first_empty = report.first_empty or interval_text(piece, layout, empty)
                report.empty_intervals += int(np.count_nonzero(empty))
            arrays = [c.decode(a) for c, a in zip(codecs, piece.columns, strict=True)]
            chunk = KeyedRows(pa.RecordBatch.from_arrays(arrays, schema=stored), keys, his)
            if valid is not None:
                report.null_keys += len(valid) - int(np.count_nonzero(valid))
                for name in layout.columns.names:
                    report.null_columns[name] += piece.column(name).null_count
                chunk = chunk.take(np.flatnonzero(valid))
            if len(chunk):
                yield chunk
            report.add(read=piece.num_rows)

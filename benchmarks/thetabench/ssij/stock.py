"""Relations, streams and right answers that several cells need: built once, in a folder."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType

from thetabench.shelf import Shelf
from thetabench.ssij.joins import Maker, enter
from thetabench.ssij.load import Feed, Rows, Truth, made_feed, made_table
from thetabench.ssij.plan import Cell, Stream, Table
from thetastream.relation.store import Relation

__all__ = ["Built", "Stock"]

_ROOM = 1 << 29  # bytes of keys; of streams; of answers
_DISK = 3 << 30  # bytes of relations
_LEAST_BLOCKS = 64  # a budget has room for some blocks, however small a run is


@dataclass(frozen=True)
class Built:
    """A relation on disk, and what is known of it."""

    path: Path
    rows: int
    blocks: int
    block_bytes: int
    nbytes: int
    index_bytes: int

    def budget(self, share: float) -> int:
        """Bytes of memory that are a share of the relation; never less than a few blocks."""
        return self.index_bytes + max(int(share * self.nbytes), _LEAST_BLOCKS * self.block_bytes)


class Stock:
    """All that cells share. Relations go when there is too much of them, and at the end."""

    def __init__(self, seed: int, make: Maker = enter, folder: Path | None = None) -> None:
        self.make = make
        self.seed = seed
        self._folder = Path(tempfile.mkdtemp(prefix="thetastream-ssij-", dir=folder))
        self._number = count()
        self._built: dict[Table, Built] = {}
        self._rows: Shelf[Rows] = Shelf(_ROOM)
        self._feeds: Shelf[Feed] = Shelf(_ROOM)
        self._truths: Shelf[Truth] = Shelf(_ROOM)

    def __enter__(self) -> Stock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything."""
        self._built.clear()
        self._rows.clear()
        self._feeds.clear()
        self._truths.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """A folder for what is needed for a while."""
        return self._folder

    def rows(self, table: Table) -> Rows:
        """The rows of a table; the filling factor makes no difference to them."""
        key = (table.source, table.rows, table.keys)
        return self._rows.get(key, lambda: made_table(table, self.seed), lambda r: r.keys.nbytes)

    def feed(self, stream: Stream, table: Table) -> Feed:
        """A stream over a table."""
        key = (stream, table.source, table.rows, table.keys)
        return self._feeds.get(
            key, lambda: made_feed(stream, table, self.seed), lambda feed: feed.nbytes
        )

    def truth(self, cell: Cell) -> Truth:
        """The right answers of a cell."""
        table, stream = cell.table, cell.stream
        key = (stream, table.source, table.rows, table.keys)
        return self._truths.get(
            key,
            lambda: Truth(self.rows(table).keys, self.feed(stream, table).keys),
            lambda truth: truth.nbytes,
        )

    def built(self, table: Table) -> Built:
        """The relation of a table, on disk."""
        if table not in self._built:
            self._trim()
            self._built[table] = self._build(table)
        return self._built[table]

    def _build(self, table: Table) -> Built:
        path = self._folder / f"table-{next(self._number)}.rel"
        rows = self.rows(table)
        relation = Relation.build(path, rows.batches(), key="key", fill=table.fill)
        try:
            return Built(
                path,
                int(relation.rows),
                int(relation.blocks),
                int(relation.block_bytes),
                int(relation.blocks) * int(relation.block_bytes),
                int(relation.index_bytes),
            )
        finally:
            relation.close()

    def _trim(self) -> None:
        while sum(built.nbytes for built in self._built.values()) > _DISK:
            table = next(iter(self._built))
            shutil.rmtree(self._built.pop(table).path, ignore_errors=True)

"""Relations, streams and right answers that several cells need: built once, in a folder."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq

from thetabench.race import Values
from thetabench.shelf import Shelf
from thetabench.ssij.contestant import Cell, Table
from thetabench.ssij.joins import Maker, make
from thetabench.ssij.load import Feed, Rows, Truth, made_feed, made_table
from thetastream.relation.store import Relation

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
    index_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.blocks * self.block_bytes

    def budget(self, share: float) -> int:
        """Bytes of memory that are a share of the relation; never less than a few blocks."""
        return self.index_bytes + max(int(share * self.nbytes), _LEAST_BLOCKS * self.block_bytes)


class Stock:
    """All that cells share. Relations go when there is too much of them, and at the end.

    They are in a temporary folder, in ``folder`` if one is given.
    """

    def __init__(self, seed: int, maker: Maker = make, folder: Path | None = None) -> None:
        self.make = maker
        self.seed = seed
        self.folder = Path(tempfile.mkdtemp(prefix="thetastream-ssij-", dir=folder))
        self._number = count()
        self._built: dict[Table, Built] = {}
        self._rows = Shelf[Rows](_ROOM)
        self._feeds = Shelf[Feed](_ROOM)
        self._truths = Shelf[Truth](_ROOM)

    def close(self) -> None:
        """Remove everything."""
        self._built.clear()
        for shelf in (self._rows, self._feeds, self._truths):
            shelf.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def rows(self, table: Table) -> Rows:
        """The rows of a table; the filling factor makes no difference to them."""
        return self._rows.get(
            table.content, lambda: made_table(table, self.seed), lambda rows: rows.keys.nbytes
        )

    def feed(self, cell: Cell) -> Feed:
        """The stream of a cell."""
        return self._feeds.get(
            (cell.stream, cell.table.content),
            lambda: made_feed(cell.stream, cell.table, self.seed),
            lambda feed: feed.nbytes,
        )

    def truth(self, cell: Cell) -> Truth:
        """The right answers of a cell."""
        return self._truths.get(
            (cell.stream, cell.table.content),
            lambda: Truth(self.rows(cell.table).keys, self.feed(cell).keys),
            lambda truth: truth.nbytes,
        )

    def parquet(self, table: Table) -> Path:
        """The table as a file that every system reads; see :meth:`tidy`."""
        path = self.folder / "table.parquet"
        if not path.exists():
            rows = self.rows(table)
            with pq.ParquetWriter(path, rows.schema, compression="none") as writer:
                for batch in rows.batches():
                    writer.write_batch(batch)
        return path

    def tidy(self) -> None:
        """Remove what the next cell does not need: the Parquet file."""
        (self.folder / "table.parquet").unlink(missing_ok=True)

    def built(self, table: Table) -> Built:
        """The relation of a table, on disk."""
        if table not in self._built:
            self._trim()
            self._built[table] = self._build(table)
        return self._built[table]

    def about(self, cell: Cell) -> Values:
        """What the relation of a cell is like, as columns."""
        built = self.built(cell.table)
        return {
            "table_bytes": built.nbytes,
            "blocks": built.blocks,
            "index_bytes": built.index_bytes,
            "index_mb_10gb": built.index_bytes / built.nbytes * 1e4,
            "budget_bytes": built.budget(cell.memory) if cell.memory else 0,
        }

    def _build(self, table: Table) -> Built:
        path = self.folder / f"table-{next(self._number)}.rel"
        batches = self.rows(table).batches()
        with Relation.build(path, batches, key="key", fill=table.fill) as made:
            return Built(path, made.rows, made.blocks, made.block_bytes, made.index_bytes)

    def _trim(self) -> None:
        while sum(built.nbytes for built in self._built.values()) > _DISK:
            table = next(iter(self._built))
            shutil.rmtree(self._built.pop(table).path, ignore_errors=True)

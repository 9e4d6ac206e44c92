"""Relations, streams and right answers that several cells need, built once; and joins of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thetabench.contestant import Unavailable
from thetabench.race import Values
from thetabench.rivals.mesh import MeshJoin
from thetabench.rivals.nested import IndexNestedLoop
from thetabench.shelf import Shelf
from thetabench.ssij.contestant import Cell, Contestant, Device, Table
from thetabench.ssij.load import Rows, Truth, made_feed, made_table
from thetastream.errors import RegistryError, RelationError
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.join.join import RelationJoin
from thetastream.relation.store import Relation

ON = "l.key = r.key"
KINDS: dict[str, Callable[..., RelationJoin]] = {
    "ssij": RelationJoin,
    "mesh": MeshJoin,
    "nested": IndexNestedLoop,
    "batched": partial(IndexNestedLoop, batched=True),
}
Clock = SimulatedClock | None
"""None: the machine's own."""

_ROOM = 1 << 29  # bytes of tables; of streams; of answers
_DISK = 3 << 30  # bytes of relations
_ROW_GROUP = 1 << 16  # rows
_LEAST_BLOCKS = 64  # a budget has room for some blocks, however small a run is


def make(
    who: Contestant, path: Path, budget: int, device: Device, schema: pa.Schema
) -> tuple[RelationJoin, Clock]:
    """Start a join of a stream with the relation in a folder, within a budget of bytes.

    One that says that it cannot work within the budget is not available.
    """
    if who.structure not in KINDS:
        raise RegistryError(f"method must be one of {', '.join(KINDS)}; got {who.structure!r}.")
    clock = SimulatedClock(PROFILES[device.value]) if device.simulated else None
    own: dict[str, Any] = {"device": device.value, "clock": clock} if clock else {"direct": True}
    options = {"memory": budget, "schema": schema, "clock": clock, **dict(who.parameters)}
    try:
        with Relation.open(path, **own) as relation:  # the join has a snapshot, which stays open
            return KINDS[who.structure](relation, ON, **options), clock
    except RelationError as error:
        raise Unavailable(str(error)) from None


class Stock:
    """All that cells share. Relations go when there is too much of them, and at the end."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.folder = Path(tempfile.mkdtemp(prefix="thetastream-ssij-"))
        self._number = count()
        self._built: dict[Table, Relation] = {}
        self._tables, self._feeds = Shelf[Rows](_ROOM), Shelf[Rows](_ROOM)
        self._truths = Shelf[Truth](_ROOM)

    def close(self) -> None:
        """Remove everything."""
        self._built.clear()
        for shelf in (self._tables, self._feeds, self._truths):
            shelf.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def rows(self, table: Table) -> Rows:
        """The rows of a table; the filling factor makes no difference to them."""
        return self._tables.get(
            table.content, lambda: made_table(table, self.seed), lambda rows: rows.nbytes
        )

    def feed(self, cell: Cell) -> Rows:
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
            rows = self.rows(table).table
            pq.write_table(rows, path, row_group_size=_ROW_GROUP, compression="none")
        return path

    def tidy(self) -> None:
        """Remove what the next cell does not need: the Parquet file."""
        (self.folder / "table.parquet").unlink(missing_ok=True)

    def built(self, table: Table) -> Relation:
        """The relation of a table: on disk, and closed; its facts are known."""
        if table not in self._built:
            while sum(relation.nbytes for relation in self._built.values()) > _DISK:
                oldest = next(iter(self._built))
                shutil.rmtree(self._built.pop(oldest).path, ignore_errors=True)
            path = self.folder / f"table-{next(self._number)}.rel"
            rows = self.rows(table).table
            with Relation.build(path, rows, key="key", fill=table.fill) as relation:
                self._built[table] = relation
        return self._built[table]

    def budget(self, cell: Cell) -> int:
        """Bytes of memory: a share of the relation, never less than a few blocks."""
        relation = self.built(cell.table)
        least = _LEAST_BLOCKS * relation.block_bytes
        return relation.index_bytes + max(int(cell.memory * relation.nbytes), least)

    def about(self, cell: Cell) -> Values:
        """What the relation of a cell is like, as columns."""
        relation = self.built(cell.table)
        return {
            "table_bytes": relation.nbytes,
            "blocks": relation.blocks,
            "index_bytes": relation.index_bytes,
            "index_mb_10gb": relation.index_bytes / relation.nbytes * 1e4,
            "budget_bytes": self.budget(cell) if cell.memory else 0,
        }

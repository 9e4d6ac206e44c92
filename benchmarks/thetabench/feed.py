"""The input of one measurement: the rows that fill the window, and the pushes after them.

A feed is written to a folder once and read by every contestant's process, so that all see the same
bytes and none pays for making them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from thetabench.query import Query
from thetastream.errors import DataError
from thetastream.side import Side

if TYPE_CHECKING:
    from thetastream.datasets.workloads import Workload


@dataclass(frozen=True)
class Feed:
    """Rows of both sides, cut into a prefill and pushes of equal size.

    Pushes alternate: left, right, left, …; a self-join has left pushes only. Push ``n`` is the
    same for every contestant, however many pushes it has time for.
    """

    query: Query
    batch: int
    filled: int
    """Rows per side that are loaded before the first push."""
    left: pa.Table
    right: pa.Table | None

    @classmethod
    def of(cls, workload: Workload, batch: int, filled: int | None = None) -> Feed:
        """Cut a workload; by default the window is full before the first push."""
        if batch < 1:
            raise DataError(f"a batch must have at least 1 row; got {batch}.")
        filled = workload.window if filled is None else filled
        feed = cls(
            Query.of(workload),
            batch,
            filled,
            workload.left.combine_chunks(),
            None if workload.right is None else workload.right.combine_chunks(),
        )
        if feed.pushes < 1:
            raise DataError(
                f"{workload.left.num_rows} rows leave no push of {batch} rows after the first "
                f"{filled} have filled the window; make more rows or a smaller batch."
            )
        return feed

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that are pushed, in turn."""
        return (Side.LEFT,) if self.query.self_join else (Side.LEFT, Side.RIGHT)

    @property
    def pushes(self) -> int:
        """How many pushes there are."""
        rows = int(self.left.num_rows) - self.filled
        return rows // self.batch * len(self.sides)

    def table(self, side: Side) -> pa.Table:
        """All rows of a side; in a self-join both sides are the left one."""
        return self.left if side is Side.LEFT or self.right is None else self.right

    def prefill(self) -> tuple[pa.Table, pa.Table | None]:
        """The rows that fill the window."""
        right = None if self.right is None else self.right.slice(0, self.filled)
        return self.left.slice(0, self.filled), right

    def start(self, push: int) -> int:
        """The id of the first row of a push."""
        return self.filled + push // len(self.sides) * self.batch

    def side(self, push: int) -> Side:
        """The side of a push."""
        return self.sides[push % len(self.sides)]

    def rows(self, push: int) -> pa.RecordBatch:
        """The rows of a push, without a copy."""
        piece = self.table(self.side(push)).slice(self.start(push), self.batch)
        return piece.to_batches()[0]

    def save(self, folder: Path) -> None:
        """Write the feed into an existing folder."""
        for side in self.sides:
            table = self.table(side)
            with pa.ipc.new_file(folder / f"{side.value}.arrow", table.schema) as writer:
                writer.write_table(table, max_chunksize=max(table.num_rows, 1))
        about = {
            "predicate": self.query.predicate,
            "window": self.query.window,
            "self_join": self.query.self_join,
        }
        text = json.dumps({"query": about, "batch": self.batch, "filled": self.filled})
        (folder / "feed.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Feed:
        """Read a feed into memory (no memory map: the input must not count as a peer's pages)."""
        about = json.loads((folder / "feed.json").read_text(encoding="utf-8"))
        tables = {}
        for side in Side:
            path = folder / f"{side.value}.arrow"
            if path.exists():
                with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
                    tables[side] = reader.read_all().combine_chunks()
        query = Query.parse(**about["query"])
        return cls(
            query, about["batch"], about["filled"], tables[Side.LEFT], tables.get(Side.RIGHT)
        )

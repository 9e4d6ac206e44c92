"""Stand-ins for Spark sessions: nested loops that read the files which a contestant would read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from thetabench.contestant import Failed
from thetabench.spark.cells import BLOCKS, DOUBLES, EQUI, HOME, NOOPS, REJOIN, STATE_FILES
from thetabench.spark.eventlog import Spent
from thetabench.spark.feed import link
from thetabench.spark.reference import cell_width, xxhash64
from thetastream.side import Side

Row = dict[str, Any]
Pairs = list[tuple[int, int]]
Change = Callable[[Any, Pairs, int], None]
"""Falsifies the answer of a seat's micro-batch."""


def rows_of(folder: Path) -> dict[Side, list[Row]]:
    """The rows of a folder, files in the order of their modification times."""
    found: dict[Side, list[Row]] = {}
    for side in Side:
        files = sorted((folder / side.value).iterdir(), key=lambda path: path.stat().st_mtime)
        found[side] = [row for path in files for row in pq.read_table(path).to_pylist()]
    return found


def holds(seat: Any, left: Row, right: Row) -> bool:
    if "a" in left:
        return bool(left["a"] < right["a"] and left["b"] > right["b"])
    if seat.contestant in EQUI:
        width = cell_width(seat.width)
        return bool(left["x"] // width == right["x"] // width)
    return abs(left["x"] - right["x"]) <= seat.width


def checksum(pairs: Pairs) -> tuple[int, int]:
    left, right = (np.array([pair[i] for pair in pairs], np.int64) for i in range(2))
    return len(pairs), int((xxhash64(left, right).astype(np.int64) >> 24).sum())


@dataclass
class Query:
    """What a seat has seen."""

    seen: dict[Side, list[Row]] = field(default_factory=lambda: {side: [] for side in Side})
    batches: int = 0

    def pairs(self, seat: Any, fresh: Mapping[Side, list[Row]]) -> Pairs:
        before = {side: len(rows) for side, rows in self.seen.items()}
        for side in Side:
            self.seen[side] += fresh[side]
        return [
            (left["t"], right["t"])
            for i, left in enumerate(self.seen[Side.LEFT])
            for j, right in enumerate(self.seen[Side.RIGHT])
            if (i >= before[Side.LEFT] or j >= before[Side.RIGHT])
            and abs(left["t"] - right["t"]) <= seat.window
            and holds(seat, left, right)
        ]


QUERIES: dict[str, Query] = {}
"""By checkpoint: a restarted query goes on from what it has seen."""


class FakeSession:
    """Answers like Spark. A micro-batch takes 100 ms, the first of a session a second."""

    java = "17"

    def __init__(
        self,
        folder: Path,
        runs: Path,
        cores: int,
        memory: str,
        limit: float,
        *,
        change: Change = lambda seat, pairs, batch: None,
        fails: str = "",
    ) -> None:
        self._change, self._fails = change, fails
        self._started: set[str] = set()
        self.spent: dict[tuple[str, int], Spent] = {}
        self.asked: list[str] = []
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def ask(self, what: str, seat: Any, **more: Any) -> dict[str, Any]:
        assert not self.closed
        if seat.contestant == self._fails:
            raise Failed("out of luck")
        self.asked.append(seat.name)
        if what == "step":
            return {"query": seat.name, "batches": [self._step(seat, more["batch"])]}
        count = more["untimed"] + more["timed"]
        return {
            "query": seat.name,
            "batches": [self._step(seat, batch) for batch in range(count)],
            "period": 0.5,
            "latencies": [0.1 * (1 + number) for number in range(more["timed"])],
        }

    def _step(self, seat: Any, batch: int) -> dict[str, Any]:
        files = link(Path(seat.saved), Path(seat.source), batch)
        fresh = rows_of(Path(seat.source))
        for path in files:
            path.unlink()
        query = QUERIES.setdefault(seat.checkpoint, Query())
        milliseconds = 100 if seat.name in self._started else 1000
        self._started.add(seat.name)
        number, query.batches = query.batches, query.batches + 1
        self.spent[seat.name, number] = Spent(map=0.02, join=0.03, tasks=0.08, gc=0.01)
        facts = {"triggerExecution": milliseconds, "addBatch": 80, "walCommit": 5}
        return {
            "batch": number,
            "rows": sum(map(len, fresh.values())),
            "milliseconds": facts,
            "answer": self._answer(seat, query, fresh, number),
            "join": self._join(number) if seat.contestant in (HOME, STATE_FILES) else None,
        }

    def _answer(
        self, seat: Any, query: Query, fresh: Mapping[Side, list[Row]], number: int
    ) -> tuple[int, int]:
        every = [row for side in Side for row in fresh[side]]
        if seat.contestant in NOOPS:
            assert (seat.count, seat.checksum) == ("sum(rows)", "sum(times)")
            return len(every), sum(row["t"] for row in every)
        if seat.contestant in DOUBLES:
            pairs = 2 * [(row["t"], row["x"]) for row in every]
        else:
            assert seat.contestant not in (REJOIN, BLOCKS) or "l.a" in seat.on
            pairs = query.pairs(seat, fresh)
        self._change(seat, pairs, number)
        return checksum(pairs)

    def _join(self, number: int) -> dict[str, Any]:
        names = ("open", "keys", "sort", "probe", "insert", "merge", "expire", "gather")
        attaches = number % 2
        return {
            "numRowsTotal": 99,
            "writtenBytes": 800,
            "hits": 2 - attaches,
            "catchUps": 0,
            "attaches": attaches,
            "rebuilds": 0,
            "seconds": {**dict.fromkeys(names, 0.01), "save": 0.03},
        }

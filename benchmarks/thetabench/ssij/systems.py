"""Databases and Spark beside our own join, on the real device (Figure 9, and ``spark``).

All get the same table and the same stream. A database answers batch after batch; its clock runs
during the query, not while a batch is loaded into it. Spark's clock is its own: the whole
micro-batch, the first two left out. Every answer is compared with a reference made by NumPy.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from thetabench.contestant import Unavailable
from thetabench.digest import VerificationError
from thetabench.ssij.peers import PEERS, Answer, checksum, enter, forget
from thetabench.ssij.plan import Cell, Contestant, Measured, Table
from thetabench.ssij.shapes import HOME, MICRO_BATCHES, STATIC
from thetabench.ssij.stock import Stock
from thetabench.ssij.trial import Columns, Say, about_table, served

__all__ = ["Pairs", "asked"]

_SPARK = (HOME, STATIC)
_BATCHES = 10  # of a stream, for databases
_WARM = 2  # micro-batches that are left out
_SECONDS = 300.0

Array = NDArray[np.int64]


class Pairs:
    """The right answers to batches, as a database tells them: counts and checksums."""

    def __init__(self, table: Array, stream: Array) -> None:
        self._order = np.argsort(table, kind="stable")
        self._keys = table[self._order]
        self._stream = stream

    def answer(self, start: int, stop: int) -> tuple[int, int]:
        """Number and checksum of the pairs of stream rows ``start … stop - 1``."""
        own = self._stream[start:stop]
        first = np.searchsorted(self._keys, own)
        counts = np.searchsorted(self._keys, own, side="right") - first
        ids = np.repeat(np.arange(start, stop), counts)
        before = np.cumsum(counts) - counts
        places = np.arange(ids.size) + np.repeat(first - before, counts)
        return ids.size, checksum(ids, self._order[places])


def asked(cell: Cell, stock: Stock, say: Say) -> list[Measured]:
    """Let our join and the systems work, one after the other; who cannot says why."""
    found = []
    source: Path | None = None
    try:
        for who in cell.contestants:
            say(f"{who.label}, {cell.label}: starting")
            try:
                if who.method in PEERS or who.method in _SPARK:
                    source = source or _parquet(cell.table, stock)
                    way = _database if who.method in PEERS else _spark
                    found.append(Measured(who, way(cell, who, stock, source, say)))
                else:
                    found.append(Measured(who, served(cell, who, stock, say)))
            except Unavailable as error:
                found.append(Measured(who, {}, str(error)))
    finally:
        if source is not None:
            source.unlink(missing_ok=True)
    return found


def _parquet(table: Table, stock: Stock) -> Path:
    """The table as a file that every system reads."""
    rows = stock.rows(table)
    path = stock.folder / "table.parquet"
    with pq.ParquetWriter(path, rows.schema, compression="none") as writer:
        for batch in rows.batches():
            writer.write_batch(batch)
    return path


def _database(cell: Cell, who: Contestant, stock: Stock, source: Path, say: Say) -> Columns:
    """A database with the same budget; its files are not in the page cache at the start."""
    budget = stock.built(cell.table).budget(cell.memory)
    feed = stock.feed(cell.stream, cell.table)
    right = Pairs(stock.rows(cell.table).keys, feed.keys)
    folder = stock.folder / who.method
    folder.mkdir()
    say(f"{who.label}: loading {cell.table.rows:,} rows")
    try:
        peer = enter(who.method, source, "key", budget, folder)
        try:
            forget(folder)
            seconds, rows, matches = 0.0, 0, 0
            for start, stop in _cut(feed.keys.size, _BATCHES):
                say(f"{who.label}: rows {start:,} to {stop:,}")
                answer = peer.join(_whole(feed.slice(start, stop)))
                _check(who, cell, answer, right.answer(start, stop))
                seconds, rows, matches = seconds + answer.seconds, stop, matches + answer[0]
                if seconds > _SECONDS:
                    break
        finally:
            peer.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _columns(cell, stock, rows, seconds, matches)


def _spark(cell: Cell, who: Contestant, stock: Stock, source: Path, say: Say) -> Columns:
    """Micro-batches, one file each."""
    from thetabench.ssij.peers.spark import join_stream

    feed = stock.feed(cell.stream, cell.table)
    built = stock.built(cell.table)
    right = Pairs(stock.rows(cell.table).keys, feed.keys)
    edges = _cut(feed.keys.size, MICRO_BATCHES)
    batches = [_whole(feed.slice(start, stop)) for start, stop in edges]
    say(f"{who.label}: {len(batches)} micro-batches")
    answers = join_stream(
        who.method, source, "key", batches, stock.folder,
        budget=built.budget(cell.memory), relation=built.path, limit=2 * _SECONDS,
    )  # fmt: skip
    for answer, (start, stop) in zip(answers, edges, strict=True):
        _check(who, cell, answer, right.answer(start, stop))
    timed = list(zip(answers, edges, strict=True))[_WARM:]
    rows = sum(stop - start for _, (start, stop) in timed)
    seconds = sum(answer.seconds for answer, _ in timed)
    matches = sum(answer[0] for answer, _ in timed)
    return _columns(cell, stock, rows, seconds, matches)


def _columns(cell: Cell, stock: Stock, rows: int, seconds: float, matches: int) -> Columns:
    return {
        **about_table(cell, stock),
        "rows_per_s": rows / max(seconds, 1e-9),
        "seconds": seconds,
        "matches": matches,
        "checked": rows,
    }


def _check(who: Contestant, cell: Cell, found: Answer, right: tuple[int, int]) -> None:
    if found[:2] != right:
        raise VerificationError(
            f"{who.label} ({cell.label}) gave a wrong answer: expected {right[0]:,} matches with "
            f"checksum {right[1]}, got {found[0]:,} with {found[1]}. "
            "No result was written for this cell."
        )


def _cut(rows: int, count: int) -> list[tuple[int, int]]:
    """Batches, all of about the same size.

    >>> _cut(25, 3)
    [(0, 8), (8, 16), (16, 25)]
    """
    edges = np.linspace(0, rows, count + 1).astype(int).tolist()
    return list(pairwise(edges))


def _whole(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

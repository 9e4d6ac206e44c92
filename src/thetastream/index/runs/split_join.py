"""SplitJoin: rows dealt to workers, each of which tests its own rows against every box.

    rows     r0  r1  r2  r3  r4  r5 …                       boxes go to all workers
    worker 0 r0      r2      r4         every box against every row, in a thread of its own
    worker 1     r1      r3      r5     likewise
                                        pairs of worker 0, then those of worker 1, round by round

Najafi, Sadoghi and Jacobsen, SplitJoin (USENIX ATC 2016), a baseline of SPO-Join: storing a row and
processing it are separate. One worker stores a row, in turn, so all hold the same number; all of
them process it. Workers exchange nothing, so they need no order among them and serve any predicate.
The rest is a nested loop, at best ``workers`` times as fast.

A worker stores two blocks of rows in arrival order: a large one, and the rows since it was written.
Invariants: ids ascend within and across a worker's blocks; workers get rows in turn.

Cost for ``n`` rows: insert and expire amortised O(1) per row, at most ``_SHARE`` moves; a box is
tested against all ``n`` rows, a share by each worker. Bytes: 8 per key column and 8 for the id; up
to ``1 / _SHARE`` more for rows that have expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.base import CHUNK, Answer, Index, Pair, live_rows
from thetastream.index.registry import checked
from thetastream.index.runs.kernels import scan as scans
from thetastream.index.runs.nested_loop import scanned_pairs
from thetastream.index.threads import pool

_SHARE = 16  # the large block is rewritten when this share of its rows has changed …
_LEAST = 1024  # … and at least this number of rows
_AHEAD = 1 << 18  # pairs that a worker computes ahead of the reader
Block = Pair  # keys[columns, rows], ids[rows]


class SplitJoin(Index):
    """Rows dealt to ``workers`` threads in turn, every box tested by all of them."""

    name: ClassVar[str] = "split-join"
    summary: ClassVar[str] = "rows dealt to workers in turn, each tests its own against every box"

    def __init__(self, capacity: int = 1 << 20, columns: int = 1, workers: int = 2) -> None:
        super().__init__(capacity, columns)
        checked(self.name, workers=(workers, 1))
        prepare(scans)
        self.workers = workers
        self._parts = [_Part(columns) for _ in range(workers)]
        self._dealt = 0
        self._before = 0

    def insert(self, keys: Array, ids: Array) -> None:
        """Amortised O(1) per row."""
        matrix = self._matrix(keys)
        order = np.argsort(ids, kind="stable")
        for number, part in enumerate(self._parts):
            mine = order[(number - self._dealt) % self.workers :: self.workers]
            if mine.size:
                part.insert(matrix[:, mine], ids[mine].astype(np.int64), self._before)
        self._dealt += ids.size

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """O(n) per box, by all workers at once."""
        boxes = self._matrix(lows), self._matrix(highs)
        reads = [
            partial(_pairs, part.blocks, self._before, *boxes, limit)
            for part in self._parts
            if part.blocks
        ]
        return Answer(partial(_joined, reads, self.workers))

    def expire(self, before: int) -> None:
        """Amortised O(1) per row."""
        if before > self._before:
            self._before = before
            for part in self._parts:
                part.expire(before)

    def __len__(self) -> int:
        ids = [ids for part in self._parts for _, ids in part.blocks]
        return sum(rows.size - int(np.searchsorted(rows, self._before)) for rows in ids)

    @property
    def nbytes(self) -> int:
        blocks = [block for part in self._parts for block in part.blocks]
        return sum(keys.nbytes + ids.nbytes for keys, ids in blocks)

    def dump(self) -> Pair:
        blocks = [block for part in self._parts for block in part.blocks]
        return live_rows(blocks, self.columns, self._before)

    def check(self) -> None:
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
        for part in self._parts:
            for keys, rows in part.blocks:
                assert keys.shape == (self.columns, rows.size) and keys.flags.c_contiguous
                assert rows.size and rows[-1] >= self._before, "an expired block must go"
                assert np.all(rows[:-1] < rows[1:]), "ids must ascend"
            for (_, older), (_, newer) in pairwise(part.blocks):
                assert older[-1] < newer[0], "blocks must follow each other"


class _Part:
    """The rows of a worker. Blocks are never changed, only replaced: an answer may hold them."""

    def __init__(self, columns: int) -> None:
        self._nothing = np.empty((columns, 0), np.int64), np.empty(0, np.int64)
        self._large: Block = self._nothing
        self._fresh: Block = self._nothing

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Those that hold rows."""
        return tuple(block for block in (self._large, self._fresh) if block[1].size)

    def insert(self, keys: Array, ids: Array, before: int) -> None:
        """Store rows with ids above all others, in ascending order."""
        self._fresh = _merged(self._fresh, (keys, ids), before)
        if self._fresh[1].size > max(_LEAST, self._large[1].size // _SHARE):
            self._large = _merged(self._large, self._fresh, before)
            self._fresh = self._nothing

    def expire(self, before: int) -> None:
        """Rewrite a block when a share of it has expired; drop one that has expired entirely."""
        self._large = self._trimmed(self._large, before)
        self._fresh = self._trimmed(self._fresh, before)

    def _trimmed(self, block: Block, before: int) -> Block:
        gone = int(np.searchsorted(block[1], before))
        if gone == block[1].size:
            return self._nothing
        few = gone <= max(_LEAST, block[1].size // _SHARE) and 2 * gone <= block[1].size
        return block if few else _merged(block, self._nothing, before)


def _merged(older: Block, newer: Block, before: int) -> Block:
    """Both, without the rows below ``before``."""
    gone = int(np.searchsorted(older[1], before))
    keys = np.concatenate([older[0][:, gone:], newer[0]], axis=1)
    return np.ascontiguousarray(keys), np.concatenate([older[1][gone:], newer[1]])


def _pairs(
    blocks: tuple[Block, ...], before: int, lows: Array, highs: Array, limit: int
) -> Iterator[Pair]:
    """The pairs of one worker."""
    for keys, ids in blocks:
        for positions, rows in scanned_pairs(keys, ids, lows, highs, limit):
            live = slice(None) if ids[0] >= before else rows >= before
            if rows[live].size:
                yield positions[live], rows[live]


def _joined(reads: Sequence[Callable[[], Iterator[Pair]]], workers: int) -> Iterator[Pair]:
    """Round by round: every worker computes some pairs, then they are yielded in worker order."""
    threads = pool(workers)
    if threads is None or len(reads) < 2:
        for read in reads:
            yield from read()
        return
    open_ = [read() for read in reads]
    while open_:
        futures = [threads.submit(_some, pairs) for pairs in open_]
        some = [future.result() for future in futures]
        for chunks, _ in some:
            yield from chunks
        open_ = [pairs for pairs, (_, more) in zip(open_, some, strict=True) if more]


def _some(pairs: Iterator[Pair]) -> tuple[list[Pair], bool]:
    """The next pairs, up to a limit, and whether there may be more."""
    chunks, total = [], 0
    for chunk in pairs:
        chunks.append(chunk)
        total += chunk[0].size
        if total > _AHEAD:
            return chunks, True
    return chunks, False

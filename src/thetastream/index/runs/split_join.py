"""SplitJoin: rows dealt out to workers, each of which tests its own against every box.

    rows     r0  r1  r2  r3  r4  r5 …                       boxes go to all workers
    worker 0 r0      r2      r4         every box against every row, in a thread of its own
    worker 1     r1      r3      r5     likewise
                                        pairs of worker 0, then those of worker 1, round by round

Najafi, Sadoghi and Jacobsen, SplitJoin (USENIX ATC 2016), a baseline of SPO-Join: storing a row and
processing it are split. A row is stored by one worker, in turn, so all hold the same number; it is
processed by all. Nothing passes from worker to worker, so no order among them is needed, and any
predicate can be served. What is left is a nested loop, ``workers`` times as fast at best.

A worker keeps two blocks of rows in arrival order: a large one, and the rows since it was written.
Invariants: ids ascend within and across a worker's blocks; workers are dealt rows in turn.

Cost for ``n`` rows: insert and expire amortised O(1) per row, ``_SHARE`` moves at most; a box is
tested against all ``n`` rows, each worker a share. Bytes: 8 per key column and 8 for the id; up to
``1 / _SHARE`` more for rows that have expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.base import CHUNK, Answer, Index
from thetastream.index.registry import checked
from thetastream.index.runs.kernels import scan as scans
from thetastream.index.runs.kernels.scan import scan
from thetastream.index.threads import pool

_SHARE = 16  # the large block is written anew when a share of its rows has changed
_LEAST = 1024  # and not for fewer rows than that
_AHEAD = 1 << 18  # pairs that a worker computes before they are asked for
Pair = tuple[Array, Array]
Block = tuple[Array, Array]  # keys[columns, rows], ids[rows]


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
        return sum(ids.size - self._gone(ids) for part in self._parts for _, ids in part.blocks)

    def _gone(self, ids: Array) -> int:
        return int(np.searchsorted(ids, self._before))

    @property
    def nbytes(self) -> int:
        blocks = [block for part in self._parts for block in part.blocks]
        return sum(keys.nbytes + ids.nbytes for keys, ids in blocks)

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "workers": self.workers}

    def dump(self) -> tuple[Array, Array]:
        blocks = [block for part in self._parts for block in part.blocks]
        matrix = np.concatenate(
            [np.empty((self.columns, 0), np.int64), *(keys for keys, _ in blocks)], axis=1
        )
        ids = np.concatenate([np.empty(0, np.int64), *(ids for _, ids in blocks)])
        order = np.argsort(ids)
        order = order[self._gone(ids[order]) :]
        return np.ascontiguousarray(matrix[:, order]), ids[order]

    def check(self) -> None:
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
        for part in self._parts:
            for keys, own in part.blocks:
                assert keys.shape == (self.columns, own.size) and keys.flags.c_contiguous
                assert own.size and own[-1] >= self._before, "an expired block must go"
                assert np.all(own[:-1] < own[1:]), "ids must ascend"
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
        """Take rows with ids above all others, in ascending order."""
        self._fresh = _merged(self._fresh, (keys, ids), before)
        if self._fresh[1].size > max(_LEAST, self._large[1].size // _SHARE):
            self._large = _merged(self._large, self._fresh, before)
            self._fresh = self._nothing

    def expire(self, before: int) -> None:
        """Write a block anew when a share of it has expired, drop one that is all expired."""
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
    """The pairs of one worker. Chunks start small and double while they come out full."""
    room = min(limit, max(256, 4 * lows.shape[1]))
    for keys, ids in blocks:
        cursor = np.zeros(2, np.int64)
        while cursor[0] < lows.shape[1]:
            positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
            filled = scan(keys, ids, lows, highs, cursor, 0, positions, rows)
            if filled == room:
                room = min(limit, 2 * room)
            positions, rows = positions[:filled], rows[:filled]
            if ids[0] < before:
                live = rows >= before
                positions, rows = positions[live], rows[live]
            if rows.size:
                yield positions, rows


def _joined(reads: Sequence[Callable[[], Iterator[Pair]]], workers: int) -> Iterator[Pair]:
    """Round by round: every worker computes some pairs, then they are given in order of worker."""
    threads = pool(workers)
    if threads is None or len(reads) < 2:
        for read in reads:
            yield from read()
        return
    open_ = [read() for read in reads]
    while open_:
        found = [threads.submit(_some, pairs) for pairs in open_]
        some = [future.result() for future in found]
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

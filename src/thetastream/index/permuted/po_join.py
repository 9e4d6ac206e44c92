"""PO-Join: immutable structures of permuted rows, for boxes of two and more columns.

Every insert builds a structure from its rows (``permuted.py``). Structures are kept oldest first;
while the last but one is at most ``ratio`` times as long as the last, the two are merged. With
``ratio`` 0 nothing is merged: the linked list of the paper, one structure per slide.

    ratio 4   ┌──────────────────────────────┐ ┌────────┐ ┌──┐        a probe visits 3
    ratio 0   ┌──────┐ ┌──────┐ ┌──────┐ ┌──────┐ ┌──────┐ ┌──┐       a probe visits 6

Why merge? A box costs two searches and some zones in every structure, whatever its size. Why not
with a ratio of 12, like ``sorted-runs``? A merge here writes two orders and their permutations.

Rows leave in whole structures; until then expired rows are skipped one by one, so answers are exact
(the paper removes whole slides only). With ``ratio`` above 0, a structure is rewritten once half of
it has expired.

Invariants (``check``): those of every structure; no id occurs twice; each structure is more than
``ratio`` times as long as the next; none has expired entirely.

Cost for window ``w``, insert of ``b`` rows, ``R = log_ratio(w / b) + 1`` structures: insert
O(k b log b) and amortised O(k · ratio · R) merge steps per row; probe O(k R log w) per box, plus
the cost in ``permuted.py``. Bytes: 32 per row for two columns, 16 for each further one.

A single column is stored twice, as if there were two: use another structure for that.

SPO-Join, Sections 3.3, 3.4 and 4.2; Khayyat et al., IEJoin (VLDB Journal 2017).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.errors import suggest
from thetastream.index.base import CHUNK, Answer, Index, Pair, live_rows
from thetastream.index.permuted.kernels import permute, pojoin, sweeping
from thetastream.index.permuted.permuted import PROBING, Chunk, Permuted, Tally
from thetastream.index.registry import checked, refused
from thetastream.index.threads import PairsAhead, pool

Structures = tuple[Permuted, ...]


class PoJoin(Index):
    """Immutable structures of permuted rows.

    >>> index = PoJoin(capacity=16, columns=2)
    >>> index.insert(np.array([[30, 10, 20], [1, 2, 3]]), np.array([0, 1, 2]))
    >>> boxes = np.array([[15], [2]]), np.array([[40], [9]])  # first in 15 … 40, second in 2 … 9
    >>> [(p.tolist(), i.tolist()) for p, i in index.probe(*boxes)]
    [([0], [2])]
    """

    name: ClassVar[str] = "po-join"
    summary: ClassVar[str] = "immutable rows sorted by every column, with permutations and bits"
    permuted: ClassVar[bool] = True

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        ratio: int = 4,
        probing: str = "auto",
        workers: int = 1,
    ) -> None:
        super().__init__(capacity, columns)
        checked(self.name, ratio=(ratio, 0), workers=(workers, 1))
        if probing not in PROBING:
            ways = ", ".join(PROBING)
            raise refused(
                self.name,
                f"probing must be one of {ways}; got {probing!r}",
                suggest(probing, PROBING),
            )
        prepare(permute, pojoin, sweeping)
        self.ratio, self.probing, self.workers = ratio, probing, workers
        self._structures: Structures = ()
        self._before = 0
        self._tally = Tally()
        self._merges = 0
        self._merged_rows = 0
        self._merge_seconds = 0.0

    # --- Rows come and go -----------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """O(k b log b) for b rows, plus amortised O(k · ratio) merge steps per structure."""
        matrix = self._doubled(self._matrix(keys))
        if ids.size:
            fresh = Permuted.build(matrix, ids)
            self._structures = self._settled((*self._structures, fresh), self._before)

    def _doubled(self, matrix: Array) -> Array:
        """Repeat a single column, so that there are two."""
        return matrix if self.columns > 1 else np.ascontiguousarray(np.repeat(matrix, 2, axis=0))

    def _settled(self, structures: Structures, before: int) -> Structures:
        """Merge neighbours of similar size, the youngest first; drop expired structures."""
        started = time.perf_counter()
        kept = [one for one in structures if one.last >= before]
        at = len(kept) - 2
        while at >= 0 and self.ratio:
            if len(kept[at]) > self.ratio * len(kept[at + 1]):
                at -= 1
                continue
            merged = kept[at].merged(kept[at + 1], before)
            self._merges += 1
            self._merged_rows += len(kept[at]) + len(kept[at + 1])
            kept[at : at + 2] = [] if merged is None else [merged]
            at = min(at, len(kept) - 2)
        self._merge_seconds += time.perf_counter() - started
        return tuple(kept)

    def expire(self, before: int) -> None:
        """O(structures); rewrites a structure once half of it has expired."""
        if before <= self._before:
            return
        self._before = before
        trimmed = tuple(self._trimmed(one) for one in self._structures if one.last >= before)
        kept = tuple(one for one in trimmed if one is not None)
        if kept != self._structures:
            self._structures = self._settled(kept, before)

    def _trimmed(self, one: Permuted) -> Permuted | None:
        gone, span = self._before - one.first, one.last - one.first + 1
        return one.merged(None, self._before) if self.ratio and 2 * gone > span else one

    # --- Probing --------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """O(log n) per box, column and structure, plus the cost of the way of probing."""
        boxes = self._doubled(self._matrix(lows)), self._doubled(self._matrix(highs))
        return Answer(partial(self._pairs, self._structures, *boxes, self._before, limit))

    def _pairs(
        self, structures: Structures, lows: Array, highs: Array, before: int, limit: int
    ) -> Iterator[Pair]:
        if self.workers > 1 and len(structures) > 1:
            yield from self._pairs_together(structures, lows, highs, before, limit)
            return
        chunk = Chunk(lows.shape[1], limit)
        for one in structures:
            yield from one.read(lows, highs, before, self.probing, chunk, self._tally)
        if chunk.filled:
            yield chunk.take()

    def _pairs_together(
        self, structures: Structures, lows: Array, highs: Array, before: int, limit: int
    ) -> Iterator[Pair]:
        """Threads over the list (Algorithm 4): each takes the next untaken structure."""
        threads = pool(self.workers)
        assert threads is not None
        parts = [PairsAhead(self._pairs((one,), lows, highs, before, limit)) for one in structures]
        ahead = [threads.submit(part.look_ahead) for part in parts]
        for part, done in zip(parts, ahead, strict=True):
            done.result()
            yield from part

    # --- What is held ---------------------------------------------------------------------------

    def __len__(self) -> int:
        """Counted on demand, O(n)."""
        return sum(int(np.count_nonzero(one.ids >= self._before)) for one in self._structures)

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self._structures)

    @property
    def statistics(self) -> dict[str, float]:
        return {
            "runs": len(self._structures),
            "merges": self._merges,
            "merged_rows": self._merged_rows,
            "merge_seconds": self._merge_seconds,
            **self._tally.counts,
        }

    def dump(self) -> Pair:
        rows = [one.rows() for one in self._structures]
        parts = [(keys[: self.columns], ids) for keys, ids in rows]
        return live_rows(parts, self.columns, self._before)

    def check(self) -> None:
        for one in self._structures:
            one.check()
            assert one.last >= self._before, "a structure that has expired is gone"
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
        sizes = [len(one) for one in self._structures]
        assert not self.ratio or all(a > self.ratio * b for a, b in pairwise(sizes)), sizes

"""SPO-Join: a mutable component that takes rows one by one, and a list of PO-Join structures.

    insert ──►  mutable: one B⁺-tree per column        at δ rows: leaves are read in order, and the
                probed by bits, one per row and term           mutable part becomes a structure
                         │ δ
                         ▼
                immutable:  ┌────────┐ ┌──────────────┐ …      merged like those of ``po-join``
                            └────────┘ └──────────────┘

The threshold δ is ``slide / elements`` (SPO-Join, Section 3.3), where a sixteenth of the capacity
replaces a missing slide. A box costs O(δ) in the mutable part, far more than a merge costs per row,
so by default ``elements`` is chosen such that δ is at most 4,096. Every probe reads both parts.

A batch of a quarter of δ or more becomes a structure at once: sorting it is cheaper than trees.

A merge may run in a thread (``background``). Its input stays unchanged and is probed until the
result replaces it, before the next insert or when rows expire. So no row waits, none is lost and
none is found twice. The paper instead queues the rows that arrive during a merge and lets them
probe the new structure afterwards (Section 3.4). Merges run one at a time; an insert that makes the
next one due waits.

Invariants (``check``): those of both parts; no id occurs twice; the mutable part holds fewer than δ
rows; ids of structures, of a part being merged and of the mutable part ascend in this order.

Cost: that of ``per-term`` for at most δ rows, and of ``po-join`` for the others. Bytes: 32 per row
and two columns in structures, 60 to 95 in the mutable part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.base import CHUNK, Answer, Pair
from thetastream.index.permuted.per_term import PerTerm, check_way
from thetastream.index.permuted.permuted import Permuted
from thetastream.index.permuted.po_join import PoJoin, Structures
from thetastream.index.registry import checked

_AT_ONCE = 4  # a batch of δ / 4 rows needs no trees
_SLIDES = 16  # of a window that has no slide
_ENOUGH = 4096  # rows in the mutable part


class SpoJoin(PoJoin):
    """A mutable component, and immutable structures of permuted rows."""

    name: ClassVar[str] = "spo-join"
    summary: ClassVar[str] = "trees and bits for fresh rows, permuted rows for all others"

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        slide: int = 0,
        elements: int = 0,
        ratio: int = 4,
        probing: str = "auto",
        intersect: str = "bits",
        workers: int = 1,
        background: bool = False,
    ) -> None:
        super().__init__(capacity, columns, ratio, probing, workers)
        checked(self.name, slide=(slide, 0), elements=(elements, 0))
        check_way(self.name, intersect)
        self.slide, self.elements = slide, elements
        self.intersect, self.background = intersect, background
        whole = slide or -(-capacity // _SLIDES)
        self.threshold = -(-whole // (elements or -(-whole // _ENOUGH)))
        self._mutable: PerTerm | None = None  # created on demand: its trees have room for δ rows
        self._first_mutable = 0  # the first id in the mutable part
        self._frozen: PerTerm | None = None  # the part being merged
        self._pending: Future[Structures] | None = None

    @property
    def _mutable_rows(self) -> int:
        return 0 if self._mutable is None else len(self._mutable)

    # --- Rows come and go -----------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """O(k log δ) per row in the trees, plus the cost of a merge every δ rows."""
        self._take_merged()
        matrix = self._doubled(self._matrix(keys))
        live = ids >= self._before
        if not live.all():
            matrix, ids = np.ascontiguousarray(matrix[:, live]), ids[live]
        if not ids.size:
            return
        if _AT_ONCE * ids.size >= self.threshold:
            self._merge()
            self._start(lambda: (Permuted.build(matrix, ids),))
            return
        if self._mutable is None:
            columns = max(2, self.columns)
            self._mutable = PerTerm(self.threshold, columns, "b+tree", self.intersect)
            self._first_mutable = int(ids.min())
        self._mutable.insert(matrix, ids)
        if self._mutable_rows >= self.threshold:
            self._merge()

    def _merge(self) -> None:
        """Turn the mutable part into a structure."""
        frozen = self._mutable
        if frozen is not None and len(frozen):
            self._take_merged(wait=True)
            self._frozen, self._mutable = frozen, None
            self._start(lambda: (Permuted.of_terms(frozen.sorted_terms()),))

    def _start(self, build: Callable[[], Structures]) -> None:
        """Add fresh structures to the others, here or in a thread."""
        self._take_merged(wait=True)
        older, before = self._structures, self._before

        def work() -> Structures:
            return self._settled((*older, *build()), before)

        if self.background and self._frozen is not None:
            self._pending = _merger().submit(work)
        else:
            self._structures, self._frozen = work(), None

    def _take_merged(self, *, wait: bool = False) -> None:
        """Replace the merged parts by the result of the merge, if there is one."""
        if self._pending is not None and (wait or self._pending.done()):
            merged = self._pending.result()
            self._structures = tuple(one for one in merged if one.last >= self._before)
            self._frozen, self._pending = None, None

    def expire(self, before: int) -> None:
        """O(structures), plus the cost of the trees. Skips expired rows in a part being merged."""
        self._take_merged()
        if before <= self._before:
            return
        if self._pending is None:
            super().expire(before)
        self._before = before
        self._structures = tuple(one for one in self._structures if one.last >= before)
        if self._mutable is not None and before > self._first_mutable:
            self._mutable.expire(before)  # rare: rows are usually merged long before

    # --- Probing --------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """Probes both parts: the cost of ``po-join``, and of ``per-term`` for fewer than δ rows."""
        boxes = self._doubled(self._matrix(lows)), self._doubled(self._matrix(highs))
        parts = [part for part in (self._frozen, self._mutable) if part is not None and len(part)]
        young = [part.probe(*boxes, limit=limit) for part in parts]
        return Answer(partial(self._all_pairs, young, self._structures, boxes, self._before, limit))

    def _all_pairs(
        self, young: list[Answer], structures: Structures, boxes: Pair, before: int, limit: int
    ) -> Iterator[Pair]:
        yield from self._pairs(structures, *boxes, before, limit)
        for answer in young:
            for positions, ids in answer.again():
                live = ids >= before
                if live.all():
                    yield positions, ids
                elif live.any():
                    yield positions[live], ids[live]

    # --- What is held ---------------------------------------------------------------------------

    def _frozen_rows(self) -> Pair:
        """Live rows of the part being merged, ascending by id."""
        if self._frozen is None:
            return np.empty((self.columns, 0), np.int64), np.empty(0, np.int64)
        keys, ids = self._frozen.dump()
        live = ids >= self._before
        return keys[: self.columns, live], ids[live]

    def __len__(self) -> int:
        return super().__len__() + self._frozen_rows()[1].size + self._mutable_rows

    @property
    def nbytes(self) -> int:
        parts = (self._frozen, self._mutable)
        return super().nbytes + sum(part.nbytes for part in parts if part is not None)

    @property
    def statistics(self) -> dict[str, float]:
        counters = super().statistics
        counters["runs"] += (self._frozen is not None) + (self._mutable_rows > 0)
        return counters

    @property
    def details(self) -> dict[str, Any]:
        return {
            "merge threshold": self.threshold,
            "rows in the mutable part": self._frozen_rows()[1].size + self._mutable_rows,
            "rows in structures": [len(one) for one in self._structures],
        }

    def dump(self) -> Pair:
        parts = [super().dump(), self._frozen_rows()]
        if self._mutable is not None:
            parts.append(self._mutable.dump())
        keys = np.concatenate([keys[: self.columns] for keys, _ in parts], axis=1)
        return np.ascontiguousarray(keys), np.concatenate([ids for _, ids in parts])

    def check(self) -> None:
        super().check()
        assert self._mutable_rows < self.threshold, "at δ rows they become a structure"
        assert (self._frozen is None) == (self._pending is None)
        parts = [one.ids for one in self._structures]
        parts.append(self._frozen_rows()[1])
        if self._mutable is not None:
            self._mutable.check()
            parts.append(self._mutable.dump()[1])
        parts = [ids for ids in parts if ids.size]
        assert all(a.max() < b.min() for a, b in pairwise(parts)), "parts must be in order of ids"


@cache
def _merger() -> ThreadPoolExecutor:
    """The thread in which merges run."""
    return ThreadPoolExecutor(1, thread_name_prefix="merge")

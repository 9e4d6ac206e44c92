"""SPO-Join: a mutable component that takes rows one by one, and a list of PO-Join structures.

    insert ──►  mutable: one B⁺-tree per column        δ rows: leaves are read in order, the mutable
                probed by bits, one per row and term           part becomes a structure
                         │ δ
                         ▼
                immutable:  ┌────────┐ ┌──────────────┐ …      merged like those of ``po-join``
                            └────────┘ └──────────────┘

The threshold δ is ``slide / elements`` (SPO-Join, Section 3.3): the slide of the window, divided
when it is large. Without a slide it is a sixteenth of the capacity that is divided. A box costs
O(δ) in the mutable part, far more than a merge does per row, so ``elements`` are as many as leave
at most 4,096 rows, unless told otherwise. Every probe asks both parts.

A batch of a quarter of δ or more becomes a structure at once: sorting it is cheaper than trees.

A merge may run in a thread (``background``). What is being merged stays as it was, and is probed,
until the result takes its place: before the next insert, or when rows expire. So no row waits, none
is lost and none is found twice; the paper instead queues the rows that arrive during a merge, and
lets them probe the new structure afterwards (Section 3.4). There is one merge at a time; when the
next one is due before it is done, the insert waits.

Invariants (``check``): those of both parts; no id occurs twice; the mutable part holds less than δ
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
from thetastream.index.base import CHUNK, Answer
from thetastream.index.permuted.per_term import PerTerm, check_way
from thetastream.index.permuted.permuted import Permuted
from thetastream.index.permuted.po_join import PoJoin, Structures
from thetastream.index.registry import checked

Pair = tuple[Array, Array]
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
        self._mutable: PerTerm | None = (
            None  # made when it is needed: its trees have room for δ rows
        )
        self._first_mutable = 0  # the first id in the mutable part
        self._frozen: PerTerm | None = None  # what is being merged
        self._pending: Future[Structures] | None = None

    def _fresh(self, first: int) -> PerTerm:
        """The part that takes rows; ``first`` is the id of the next one."""
        if self._mutable is None:
            columns = max(2, self.columns)
            self._mutable = PerTerm(self.threshold, columns, "b+tree", self.intersect)
            self._first_mutable = first
        return self._mutable

    @property
    def _mutable_rows(self) -> int:
        return 0 if self._mutable is None else len(self._mutable)

    # --- Rows come and go -----------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """O(k log δ) per row in the trees, and the cost of a merge every δ rows."""
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
        self._fresh(int(ids.min())).insert(matrix, ids)
        if self._mutable_rows >= self.threshold:
            self._merge()

    def _merge(self) -> None:
        """Make a structure of the mutable part."""
        frozen = self._mutable
        if frozen is not None and len(frozen):
            self._take_merged(wait=True)
            self._frozen, self._mutable = frozen, None
            self._start(lambda: (Permuted.of_terms(frozen.sorted_terms()),))

    def _start(self, build: Callable[[], Structures]) -> None:
        """Have fresh structures joined with the others, here or in a thread."""
        self._take_merged(wait=True)
        held, before = self._structures, self._before

        def work() -> Structures:
            return self._settled((*held, *build()), before)

        if self.background and self._frozen is not None:
            self._pending = _merger().submit(work)
        else:
            self._structures, self._frozen = work(), None

    def _take_merged(self, *, wait: bool = False) -> None:
        """Let the result of a merge take the place of what was merged, if it is there."""
        if self._pending is not None and (wait or self._pending.done()):
            merged = self._pending.result()
            self._structures = tuple(one for one in merged if one.last >= self._before)
            self._frozen, self._pending = None, None

    def expire(self, before: int) -> None:
        """O(structures), and what the trees take.

        What is being merged is not touched: rows of it that have expired are passed over.
        """
        self._take_merged()
        if before <= self._before:
            return
        if self._pending is None:
            super().expire(before)
        self._before = before
        self._structures = tuple(one for one in self._structures if one.last >= before)
        if self._mutable is not None and before > self._first_mutable:
            self._mutable.expire(before)  # rare: as a rule, rows are merged long before

    # --- Probing --------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """Both parts are asked: what ``po-join`` costs, and ``per-term`` for fewer than δ rows."""
        boxes = self._doubled(self._matrix(lows)), self._doubled(self._matrix(highs))
        parts = [part for part in (self._frozen, self._mutable) if part is not None and len(part)]
        young = [part.probe(*boxes, limit=limit) for part in parts]
        return Answer(partial(self._all_pairs, young, self._structures, boxes, self._before, limit))

    def _all_pairs(
        self,
        young: list[Answer],
        structures: Structures,
        boxes: Pair,
        before: int,
        limit: int,
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
        """Rows that are being merged and have not expired, ascending by id."""
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
    def parameters(self) -> dict[str, Any]:
        own = {
            "slide": self.slide,
            "elements": self.elements,
            "intersect": self.intersect,
            "background": self.background,
        }
        return {**super().parameters, **own}

    @property
    def statistics(self) -> dict[str, float]:
        found = super().statistics
        found["runs"] += (self._frozen is not None) + (self._mutable_rows > 0)
        return found

    @property
    def details(self) -> dict[str, Any]:
        return {
            "merge threshold": self.threshold,
            "rows in the mutable part": self._frozen_rows()[1].size + self._mutable_rows,
            "rows in structures": [len(one) for one in self._structures],
        }

    def dump(self) -> tuple[Array, Array]:
        found = [super().dump(), self._frozen_rows()]
        if self._mutable is not None:
            found.append(self._mutable.dump())
        keys = np.concatenate([keys[: self.columns] for keys, _ in found], axis=1)
        return np.ascontiguousarray(keys), np.concatenate([ids for _, ids in found])

    def check(self) -> None:
        super().check()
        assert self._mutable_rows < self.threshold, "at δ rows they become a structure"
        assert (self._frozen is None) == (self._pending is None)
        parts = [one.ids for one in self._structures]
        parts.append(self._frozen_rows()[1])
        if self._mutable is not None:
            self._mutable.check()
            parts.append(self._mutable.dump()[1])
        held = [ids for ids in parts if ids.size]
        assert all(a.max() < b.min() for a, b in pairwise(held)), "parts must be in order of ids"


@cache
def _merger() -> ThreadPoolExecutor:
    """The thread in which merges run."""
    return ThreadPoolExecutor(1, thread_name_prefix="merge")

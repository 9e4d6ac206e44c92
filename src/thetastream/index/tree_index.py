"""What the tree structures share: rows in a ``Pool``, other key columns beside it, open answers.

Trees change in place, but an answer is a snapshot. So whoever changes the trees first deals with
the answers that are still open: their pairs are computed and kept, or, when there are very many,
the answer gets a copy of the trees to read. An answer that was dropped costs nothing.

A row is stored as its first key and its id; the other key columns lie in a ring, by id, and are
checked on the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from thetastream.index.base import CHUNK, Answer, Array, Index
from thetastream.index.invariants import check_pool
from thetastream.index.pool import Pool, Recipe
from thetastream.kernels import css, prepare
from thetastream.kernels import store as layout
from thetastream.kernels.pairs import keep_inside
from thetastream.kernels.rows_in_trees import (
    archive,
    delete_rows,
    dump_rows,
    forget_expired,
    insert_rows,
    merge_side,
    probe_rows,
)
from thetastream.kernels.store import Store

__all__ = ["TreeIndex"]

_KEPT = 1 << 18  # pairs of an open answer that are computed and kept; above, the trees are copied


class TreeIndex(Index):
    """A window index in a ``Pool``. Subclasses say what it is made of, and how rows leave it."""

    deletes: ClassVar[bool] = False
    """Whether rows are deleted one by one when they expire."""

    per_tuple: ClassVar[bool] = True
    """Whether it is made for taking rows one by one."""

    concurrent: ClassVar[bool] = False
    """Whether several threads may work on it, or on shares of it."""

    def __init__(self, capacity: int, columns: int, **settings: Any) -> None:
        super().__init__(capacity, columns)
        prepare()
        prepare("trees")
        self._settings = settings
        self._pool = Pool([self.recipe(capacity, **settings)])
        self._beside = _Beside(columns - 1, keep_first=self.deletes)
        self._open: WeakSet[_Question] = WeakSet()
        self._merges = 0
        self._merged_rows = 0

    @classmethod
    def recipe(cls, window: int, **settings: Any) -> Recipe:
        """What an index for a window of this size is made of."""
        raise NotImplementedError

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """O(log n) per row, and whatever merging the structure does."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        self._settle_answers()
        ids = np.ascontiguousarray(ids, np.int64)
        self._beside.add(matrix, ids, int(self._facts[layout.BEFORE]))
        first, cursor = np.ascontiguousarray(matrix[0]), np.zeros(1, np.int64)
        while cursor[0] < ids.size:
            status = insert_rows(self._pool.store, 0, first, ids, cursor, self._pool.path)
            if status == layout.NO_NODES:
                self._pool.grow_nodes(0)
            if self._facts[layout.YOUNG] >= self._facts[layout.LIMIT]:
                self._maintain()

    def expire(self, before: int) -> None:
        """Row by row where the structure deletes; otherwise O(1), and rows leave with a merge."""
        facts = self._facts
        if before <= facts[layout.BEFORE]:
            return
        self._settle_answers()
        if self.deletes:
            keys, ids = self._beside.leaving(before)
            found = delete_rows(self._pool.store, 0, keys, ids, self._pool.path)
            assert found == ids.size, "a row to delete was not there"
        facts[layout.BEFORE] = before
        self._beside.expire(before)
        if facts[layout.MODE] == layout.CHAIN:
            forget_expired(self._pool.store, 0)

    def _maintain(self) -> None:
        """Merge, or archive the active subindex of a chain."""
        if self._facts[layout.MODE] == layout.CHAIN:
            self._archive(int(self._facts[layout.YOUNG]))
        else:
            self._merge()

    def _archive(self, young: int) -> None:
        """Close the active subindex; if none has expired yet to make place, let it grow on."""
        pool = self._pool
        while (status := archive(pool.store, 0)) == layout.NO_ROOM:
            pool.grow_run(0, young)
        if status == layout.NO_SLOT:
            pool.enlarge(0, status)
        else:
            self._merges += 1
            self._merged_rows += young

    def _merge(self) -> None:
        pool = self._pool
        run = int(self._facts[layout.RUNS_FIRST])
        while (status := merge_side(pool.store, 0, run)) == layout.NO_ROOM:
            pool.enlarge(0, status)
        if status == layout.NO_NODES:
            pool.enlarge(0, layout.NO_HEADS)
        self._merges += 1
        self._merged_rows += int(pool.run(run)[css.COUNT])

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """A descent per box and part, plus its matches, as they are read."""
        question = _Question(self, self._matrix(lows), self._matrix(highs), limit)
        self._open.add(question)
        return Answer(partial(question.read))

    def _settle_answers(self) -> None:
        """Before a change: give open answers what they need to stay as they are."""
        copy: _View | None = None
        for question in list(self._open):
            if question.keep(_KEPT):
                continue
            if copy is None:
                copy = self._view().copy()
            question.view = copy
        self._open.clear()

    def _view(self) -> _View:
        return _View(self._pool.store, self._beside.columns, self._beside.mask)

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def _facts(self) -> Array:
        return self._pool.side(0)

    def __len__(self) -> int:
        """Counted on demand, O(n)."""
        nothing = np.empty(0, np.int64)
        return int(dump_rows(self._pool.store, 0, nothing, nothing))

    @property
    def nbytes(self) -> int:
        return self._pool.nbytes + self._beside.nbytes

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, **self._settings}

    @property
    def statistics(self) -> dict[str, float]:
        return {"merges": self._merges, "merged_rows": self._merged_rows}

    def dump(self) -> tuple[Array, Array]:
        count = len(self)
        matrix, ids = np.empty((self.columns, count), np.int64), np.empty(count, np.int64)
        dump_rows(self._pool.store, 0, matrix[0], ids)
        order = np.argsort(ids)
        matrix, ids = matrix[:, order], ids[order]
        for column, held in enumerate(self._beside.columns, 1):
            matrix[column] = held[ids & self._beside.mask]
        return np.ascontiguousarray(matrix), ids

    def check(self) -> None:
        check_pool(self._pool, 0)
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
        assert not ids.size or ids[0] >= self._facts[layout.BEFORE]


class _View:
    """What a question reads: the trees as they are, or a copy."""

    def __init__(self, store: Store, beside: Array, mask: int) -> None:
        self.store = store
        self.beside = beside
        self.mask = mask

    def copy(self) -> _View:
        st = self.store
        store = Store(
            type(st.forest)(*(part.copy() for part in st.forest)),
            type(st.runs)(*(part.copy() for part in st.runs)),
            st.sides.copy(),
            st.lasts.copy(),
            st.locks,
        )
        return _View(store, self.beside.copy(), self.mask)


class _Question:
    """Boxes, and what their answer is read from: the trees, a copy of them, or kept chunks."""

    def __init__(self, index: TreeIndex, lows: Array, highs: Array, limit: int) -> None:
        self._index = index
        self._lows, self._highs = lows, highs
        self._limit = limit
        self._first = np.ascontiguousarray(lows[0]), np.ascontiguousarray(highs[0])
        self._chunks: list[tuple[Array, Array]] | None = None
        self.view: _View | None = None

    def read(self) -> Iterator[tuple[Array, Array]]:
        """The chunks. Readers that were under way when chunks were kept go on with those."""
        given = 0
        cursor, room = np.array([0, -1, 0, 0]), min(self._limit, max(256, 4 * self._first[0].size))
        while self._chunks is None:
            chunk, room = self._next(cursor, room)
            if chunk is None:
                return
            given += 1
            yield chunk
        yield from islice(self._chunks, given, None)

    def _next(self, cursor: Array, room: int) -> tuple[tuple[Array, Array] | None, int]:
        """The next chunk; chunks double while they come out full."""
        view = self.view or self._index._view()
        lows, highs = self._first
        while cursor[3] < lows.size:
            positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
            filled = probe_rows(view.store, 0, lows, highs, cursor, 0, positions, rows)
            if filled == room:
                room = min(self._limit, 2 * room)
            positions, rows = positions[:filled], rows[:filled]
            if len(view.beside):
                filled = keep_inside(
                    positions, rows, view.beside, view.mask, self._lows, self._highs
                )
                positions, rows = positions[:filled], rows[:filled]
            if filled:
                return (positions, rows), room
        return None, room

    def keep(self, most: int) -> bool:
        """Compute the answer and keep it, unless it has more pairs than that."""
        chunks, total = [], 0
        for chunk in self.read():
            chunks.append(chunk)
            total += chunk[0].size
            if total > most:
                return False
        self._chunks = chunks
        return True


class _Beside:
    """Key columns by id, in a ring: those that the trees do not hold, or need for deleting."""

    def __init__(self, others: int, *, keep_first: bool) -> None:
        self._keep_first = keep_first
        self._rows = np.empty((others + keep_first, 0), np.int64)
        self._marks = np.empty(0, np.int64)  # id + 1 of the row in a slot
        self._low = self._high = 0

    @property
    def columns(self) -> Array:
        """The columns that are checked on candidates."""
        return self._rows[1:] if self._keep_first else self._rows

    @property
    def mask(self) -> int:
        """Row ``id`` is in slot ``id & mask``."""
        return max(0, self._rows.shape[1] - 1)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._marks.nbytes

    def add(self, matrix: Array, ids: Array, before: int) -> None:
        """Take rows in; ids are above all that were added before."""
        if not len(self._rows):
            return
        if self._low == self._high:
            self._low = int(ids.min())
        self._low = max(self._low, before)
        self._high = int(ids.max()) + 1
        if self._high - self._low > self._rows.shape[1]:
            self._grow(self._high - self._low)
        slots = ids & self.mask
        self._rows[:, slots] = matrix if self._keep_first else matrix[1:]
        self._marks[slots] = ids + 1

    def _grow(self, span: int) -> None:
        size = 1 << max(4, (span + span // 4).bit_length())
        rows, marks = np.empty((len(self._rows), size), np.int64), np.zeros(size, np.int64)
        held = self._marks[self._marks > self._low] - 1
        rows[:, held & (size - 1)] = self._rows[:, held & self.mask]
        marks[held & (size - 1)] = held + 1
        self._rows, self._marks = rows, marks

    def leaving(self, before: int) -> tuple[Array, Array]:
        """First keys and ids of the rows below ``before``, in the order of their ids."""
        ids = np.arange(self._low, min(before, self._high))
        ids = ids[self._marks[ids & self.mask] == ids + 1] if self._marks.size else ids[:0]
        return self._rows[0, ids & self.mask], ids

    def expire(self, before: int) -> None:
        """Forget rows below ``before``."""
        self._low = min(max(self._low, before), max(self._high, before))
        self._high = max(self._high, self._low)

"""What the ordered structures that change in place share: b-tree, csb+tree, the tries.

A row is its first key and its id; rows are ordered by (key, id). Other key columns are stored in a
ring by id and checked on the candidates. Answers are snapshots (``question.py``).

Expired rows are skipped by their id and swept out once they are half of the rows held: the live
rows are read in order and inserted into the emptied structure, O(1) per row over its life.
``remove`` deletes rows one by one, each searched from the root; Ordered Indexing, Section 3.3.1,
compares that with dropping a whole index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream._jit.compiling import prepare
from thetastream.data.order import argsorted
from thetastream.errors import StateError
from thetastream.index.base import CHUNK, Answer, Index, Pair
from thetastream.index.beside import Beside
from thetastream.index.folding import Fold
from thetastream.index.question import Questions

_BUFFER = 1024  # rows folded at a time by structures without a mapper of their own
_NOTHING = np.empty(0, np.int64)


class OrderedIndex(Index):
    """Rows in one ordered structure, which a subclass holds."""

    kernels: ClassVar[ModuleType | None] = None
    """The package of its kernels, if any."""

    def __init__(self, capacity: int, columns: int, **settings: Any) -> None:
        super().__init__(capacity, columns)
        if self.kernels is not None:
            prepare(self.kernels)
        self._settings = settings
        self._beside = Beside(columns - 1, keep_first=False)
        self._questions = Questions(self, _Now)
        self._before = 0
        self._arrived: deque[tuple[int, int]] = deque()  # last id and rows of each insert
        self._expired = 0  # rows of inserts that have expired whole and are still held
        self._changes = 0
        self._sweeps = 0

    # --- What a subclass implements -------------------------------------------------------------

    @abstractmethod
    def _put(self, keys: Array, ids: Array) -> None:
        """Store rows sorted by (key, id); their ids are above all ids held."""

    @abstractmethod
    def _take_out(self, keys: Array, ids: Array) -> int:
        """Delete rows one by one, each searched from the root; returns how many were there."""

    @abstractmethod
    def _find(self, keys: Array) -> Array:
        """The highest id of each key, or -1."""

    @abstractmethod
    def _read(self, lows: Array, highs: Array, before: int, cursor: Array, *out: Array) -> int:
        """Write the rows of each box to ``out`` (positions, keys, ids), in order; returns how many.

        Starts at ``cursor`` and stops when the arrays are full. Skips ids below ``before``. The
        cursor is (box, key, skip): resume after ``skip`` rows of that key, expired ones included;
        skip = -1 means the low edge of the box. An empty ``keys`` array is not filled.
        """

    def _rows(self) -> Pair:
        """All rows held, including expired ones, in order of (key, id)."""
        positions, keys, ids = np.empty((3, self._held), np.int64)
        everything = np.array([LEAST]), np.array([MOST])
        filled = self._read(*everything, LEAST, np.array([0, 0, -1]), positions, keys, ids)
        assert filled == ids.size, (filled, ids.size)
        return keys, ids

    @abstractmethod
    def _clear(self) -> None:
        """Drop all rows."""

    @property
    @abstractmethod
    def _held(self) -> int:
        """How many rows are held, including expired ones."""

    def _fold(self, lows: Array, highs: Array, before: int, fold: Fold) -> None:
        """The mapper. This one reads rows through a small buffer; structures override it."""
        cursor = np.array([0, 0, -1])
        positions, ids = np.empty(_BUFFER, np.int64), np.empty(_BUFFER, np.int64)
        while cursor[0] < lows.size:
            filled = self._read(lows, highs, before, cursor, positions, _NOTHING, ids)
            fold.add(positions[:filled], ids[:filled])

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """Sort the batch if needed, then insert at the structure's cost per row."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        self._begin_change()
        ids = np.ascontiguousarray(ids, np.int64)
        self._beside.add(matrix, ids, self._before)
        self._arrived.append((int(ids.max()), ids.size))
        self._put(*_in_order(np.ascontiguousarray(matrix[0]), ids))

    def remove(self, keys: Array, ids: Array) -> int:
        """Delete rows one by one, each searched from the root; returns how many were there."""
        self._begin_change()
        keys, ids = (np.ascontiguousarray(part, np.int64) for part in (keys, ids))
        return self._take_out(keys, ids)

    def forget(self, before: int) -> None:
        """Drop the other key columns of rows below an id, which were removed."""
        self._beside.expire(before)
        while self._arrived and self._arrived[0][0] < before:
            self._arrived.popleft()

    def expire(self, before: int) -> None:
        """O(1); O(n) once half of the rows held have expired, so O(1) per row over its life."""
        if before <= self._before:
            return
        self._begin_change()
        self._before = before
        self._beside.expire(before)
        while self._arrived and self._arrived[0][0] < before:
            self._expired += self._arrived.popleft()[1]
        if not self._arrived:
            self._expired = 0
            self._clear()
        elif 2 * self._expired > self._held:
            self._sweep()

    def _sweep(self) -> None:
        keys, ids = self._rows()
        live = ids >= self._before
        keys, ids = keys[live], ids[live]
        self._clear()
        self._put(keys, ids)
        self._expired = 0
        self._sweeps += 1

    def _begin_change(self) -> None:
        self._questions.settle()
        self._changes += 1

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """One descent per box, plus its matches as they are read."""
        return self._questions.ask(self._matrix(lows), self._matrix(highs), limit)

    def find(self, keys: Array) -> Array:
        """The id of the newest row of each key, or -1. One descent per key."""
        self._check_single_key()
        ids = self._find(np.ascontiguousarray(keys, np.int64))
        if self._before:
            ids[ids < self._before] = -1
        return ids

    def fold_boxes(self, lows: Array, highs: Array, fold: Fold) -> None:
        """The structure's own mapper, if there is one key column."""
        lows, highs = self._matrix(lows), self._matrix(highs)
        if self.columns > 1:
            super().fold_boxes(lows, highs, fold)
        else:
            self._fold(lows[0], highs[0], self._before, fold)

    def scan(self, low: Any, high: Any, *, buffer: int = CHUNK) -> Iterator[Pair]:
        """Rows of a key range in key order. Raises StateError if the index changes meanwhile."""
        if self.columns > 1:
            return super().scan(low, high, buffer=buffer)
        return self._scanned(np.array([low], np.int64), np.array([high], np.int64), buffer)

    def _scanned(self, low: Array, high: Array, buffer: int) -> Iterator[Pair]:
        cursor, begun = np.array([0, 0, -1]), self._changes
        while cursor[0] < 1:
            if self._changes != begun:
                raise StateError(
                    f"index {self.name!r} was changed while it was scanned; read the scan to its "
                    "end first, or use probe, whose answers are snapshots"
                )
            boxes, keys, ids = (np.empty(buffer, np.int64) for _ in range(3))
            filled = self._read(low, high, self._before, cursor, boxes, keys, ids)
            if filled:
                yield keys[:filled], ids[:filled]

    # --- Facts ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Counted on demand, O(n)."""
        return int(np.count_nonzero(self._rows()[1] >= self._before))

    @property
    def nbytes(self) -> int:
        return self._beside.nbytes

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, **self._settings}

    @property
    def statistics(self) -> dict[str, float]:
        return {"sweeps": self._sweeps}

    def dump(self) -> Pair:
        keys, ids = self._rows()
        live = ids >= self._before
        return self._beside.rows(keys[live], ids[live])

    def check(self) -> None:
        keys, ids = self._rows()
        assert keys.size == ids.size == self._held
        assert _ascend(keys, ids), "rows must be in order of (key, id)"
        assert np.unique(ids).size == ids.size, "an id may occur once"
        assert 2 * self._expired <= max(1, self._held), "expired rows must have been swept"


def _in_order(keys: Array, ids: Array) -> Pair:
    """Rows in order of (key, id)."""
    if _ascend(keys, ids):
        return keys, ids
    order, ascending = argsorted(keys)
    if not _ascend(ascending, ids[order]):  # the fast sort leaves equal keys in any order
        order = np.lexsort([ids, keys])
        ascending = keys[order]
    return ascending, ids[order]


def _ascend(keys: Array, ids: Array) -> bool:
    """Whether rows are in order of (key, id)."""
    before, after = keys[:-1], keys[1:]
    if not np.all(before <= after):
        return False
    return not np.any((before == after) & (ids[:-1] >= ids[1:]))


class _Now:
    """An ordered index as it is now."""

    def __init__(self, index: OrderedIndex) -> None:
        self._index = index
        self._before = index._before
        self.beside = index._beside.columns
        self.mask = index._beside.mask

    def begin(self) -> Array:
        return np.array([0, 0, -1])

    def ended(self, cursor: Array, boxes: int) -> bool:
        return bool(cursor[0] >= boxes)

    def read(self, lows: Array, highs: Array, cursor: Array, positions: Array, rows: Array) -> int:
        return self._index._read(lows, highs, self._before, cursor, positions, _NOTHING, rows)

    def copy(self) -> _Copy:
        return _Copy(*self._index._rows(), self._before, self.beside.copy(), self.mask)


class _Copy:
    """A snapshot of the rows of an ordered index, in sorted arrays."""

    def __init__(self, keys: Array, ids: Array, before: int, beside: Array, mask: int) -> None:
        self._keys, self._ids, self._before = keys, ids, before
        self.beside, self.mask = beside, mask

    begin, ended = _Now.begin, _Now.ended

    def read(self, lows: Array, highs: Array, cursor: Array, positions: Array, rows: Array) -> int:
        """Box by box: only answers too large to be kept are read from a copy."""
        filled = 0
        while cursor[0] < lows.size and filled < positions.size:
            box, skip = int(cursor[0]), max(0, int(cursor[2]))
            low = lows[box] if cursor[2] < 0 else cursor[1]
            start = int(np.searchsorted(self._keys, low)) + skip
            stop = int(np.searchsorted(self._keys, highs[box], side="right"))
            end = min(stop, start + positions.size - filled)
            ids = self._ids[start:end]
            ids = ids[ids >= self._before]
            positions[filled : filled + ids.size] = box
            rows[filled : filled + ids.size] = ids
            filled += ids.size
            if end >= stop:
                cursor[:] = box + 1, 0, -1
            else:
                cursor[1] = self._keys[end]
                cursor[2] = end - int(np.searchsorted(self._keys, cursor[1]))
        return filled

    def copy(self) -> _Copy:
        return self

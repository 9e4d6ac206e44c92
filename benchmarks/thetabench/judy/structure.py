"""The real Judy: JudyL arrays of the C library libJudy, as a peer to compare with.

    key ──────► JudyL array (in libJudy) ──────► id, or the list of ids of several equal keys

Judy is a trie of 256-way nodes that chooses among some fifty forms of nodes by their population, so
that each fits into a cache line (Ordered Indexing, Section 2). Here are only loops that call it,
compiled, and lists for equal keys, as a JudyL array holds one word per key.

A range is read by Judy's own first and next. They have no state: every step starts at the root.
That is what Section 3.2 improves on with a mapper, and ``radix-trie`` does; so the mapper of this
structure is first and next, too.

Invariants (``check``): keys ascend; lists hold at least two ids, ascending, each list used once;
the library holds memory exactly when there are rows.

Cost: insert, search and delete a descent of at most 8 levels each, whatever the number of rows; a
row of a range a descent as well. Bytes: what the library says that it holds, and 8 per room of a
list and 32 per list.

Why not use it? It has to be installed beside this package, and ``radix-trie`` folds ranges faster.
"""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar
from weakref import finalize

import numpy as np

from thetabench.judy import kernels
from thetabench.judy.kernels import rows
from thetabench.judy.libjudy import load
from thetastream._jit.arrays import Array
from thetastream.index.folding import Fold
from thetastream.index.ordered.ordered_index import OrderedIndex

_SPARE = 1.25  # words of a new pool for each that is in use


class Judy(OrderedIndex):
    """A JudyL array of libJudy; RegistryError where the library is not installed."""

    name: ClassVar[str] = "judy"
    summary: ClassVar[str] = "the C library libJudy, where it is installed; for comparison"
    kernels: ClassVar[ModuleType | None] = kernels

    def __init__(self, capacity: int = 1 << 20, columns: int = 1) -> None:
        self._calls = np.array(load(), np.int64)
        super().__init__(capacity, columns)
        self._root = np.zeros(1, np.int64)  # the library's; it must stay where it is
        self._address = self._root.ctypes.data
        finalize(self, _freed, self._calls, self._root)
        self._moves = 0
        self._no_lists()

    def _no_lists(self) -> None:
        self._heads, self._pool = np.zeros(0, np.int64), np.empty(0, np.int64)
        self._facts = np.zeros(rows.FACTS, np.int64)
        self._facts[rows.FREE] = -1

    @property
    def _parts(self) -> tuple[Array, int, Array, Array, Array]:
        """What all loops take."""
        return self._calls, self._address, self._heads, self._pool, self._facts

    # --- Changing -------------------------------------------------------------------------------

    def _put(self, keys: Array, ids: Array) -> None:
        cursor = np.zeros(1, np.int64)
        while (status := rows.put_rows(*self._parts, keys, ids, cursor)) != rows.DONE:
            if status == rows.NO_MEMORY:
                raise MemoryError("libJudy could not allocate memory")
            if status == rows.NO_ROOM:
                self._move(int(self._facts[rows.WANTED]))
            else:
                old = self._heads
                self._heads = np.zeros(old.size + max(8, old.size // 4) * rows.HEAD, np.int64)
                self._heads[: old.size] = old

    def _take_out(self, keys: Array, ids: Array) -> int:
        found = int(rows.take_out_rows(*self._parts, keys, ids))
        if 2 * self._facts[rows.LIVE] + 64 < self._pool.size:
            self._move(0)
        return found

    def _move(self, words: int) -> None:
        """Move lists to a new pool that has room for this many words more. O(ids in lists)."""
        target = np.empty(int(self._facts[rows.LIVE] * _SPARE) + words, np.int64)
        rows.move_lists(self._heads, self._pool, target, self._facts)
        self._pool = target
        self._moves += 1

    def _clear(self) -> None:
        rows.free_all(self._calls, self._address)
        self._no_lists()

    # --- Asking ---------------------------------------------------------------------------------

    def _find(self, keys: Array) -> Array:
        found = np.empty(keys.size, np.int64)
        rows.find_rows(*self._parts, keys, found)
        return found

    def _read(self, lows: Array, highs: Array, before: int, cursor: Array, *out: Array) -> int:
        one = np.empty(2, np.int64)
        at = one.ctypes.data
        boxes = (lows, highs, before, cursor)
        return int(rows.read_rows(*self._parts, *boxes, one, at, *out))

    def _fold(self, lows: Array, highs: Array, before: int, fold: Fold) -> None:
        one = np.empty(2, np.int64)
        rows.fold_boxes(*self._parts, lows, highs, before, one, one.ctypes.data, *fold.arrays)

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def _held(self) -> int:
        return int(self._facts[rows.HELD])

    @property
    def nbytes(self) -> int:
        held = int(rows.count_bytes(self._calls, self._address))
        return super().nbytes + held + self._heads.nbytes + self._pool.nbytes + self._facts.nbytes

    @property
    def statistics(self) -> dict[str, float]:
        return {**super().statistics, "moves": self._moves}

    def check(self) -> None:
        super().check()
        keys, _ = self._rows()
        facts, heads = self._facts, self._heads.reshape(-1, rows.HEAD)
        lists = heads[: facts[rows.LISTS]]
        lists = lists[lists[:, rows.SIZE] > 0]
        assert np.all(lists[:, rows.SIZE] > 1), "a list is for several"
        assert np.all(lists[:, rows.GAP] + lists[:, rows.SIZE] <= lists[:, rows.ROOM])
        _, many = np.unique(keys, return_counts=True)
        sizes = np.sort(lists[:, rows.SIZE])
        assert np.array_equal(sizes, np.sort(many[many > 1])), "a list for each key of several"
        assert facts[rows.LIVE] == lists[:, rows.ROOM].sum() <= facts[rows.TOP]
        assert facts[rows.TOP] <= self._pool.size
        assert (rows.count_bytes(self._calls, self._address) > 0) == (self._held > 0)


def _freed(calls: Array, root: Array) -> None:
    rows.free_all(calls, root.ctypes.data)

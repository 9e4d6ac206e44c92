"""A compact trie after Judy's idea: the form of each node depends on its population.

    key 0x80000000 2A11 07C3                bytes 7 … 0 of an unsigned number in the order of keys

    root ─► LINEAR  prefix 80000000 ……      path compression: bytes that all keys share are skipped
              2A ─► FULL                    256 slots
                     11 ─► RUN              suffixes  0011 07C3 07C4 …     2 bytes each
                                            values    id   id   list       8 bytes each

A key of 64 bits is cut into bytes, so no path is longer than eight nodes, whatever the number of
keys. Leaves hold the remaining bytes of the keys, packed. They may be large, because batches arrive
sorted and are merged into a leaf in one pass. All nodes lie in one array of words
(``kernels/trie/arena.py``); ``kernels/trie/nodes.py`` describes their forms, ``trie_invariants.py``
the invariants.

Cost for ``n`` rows: insert, look-up and delete visit at most eight nodes; insert and delete also
shift up to one leaf. Bytes per row: 10 to 13 for dense keys and for random ones of 32 bits, 18 to
20 for random ones of 64 bits; a flat array of pairs takes 16.

Why not libJudy? It has no batch look-up and no mapper: it reads a range key by key from the root
(Ordered Indexing, Sections 2 and 3.2).
"""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array, Words
from thetastream.errors import StateError
from thetastream.index.folding import Fold
from thetastream.index.ordered.kernels import trie as kernels
from thetastream.index.ordered.kernels.trie import arena
from thetastream.index.ordered.kernels.trie.arena import Trie
from thetastream.index.ordered.kernels.trie.drop import drop_rows
from thetastream.index.ordered.kernels.trie.find import find_keys
from thetastream.index.ordered.kernels.trie.insertion import STACK, distinct, put_rows
from thetastream.index.ordered.kernels.trie.nodes import MOST_ROWS
from thetastream.index.ordered.kernels.trie.read import WALK, fold_boxes, fold_by_next, read_boxes
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.ordered.trie_invariants import check_trie
from thetastream.index.registry import checked, refused

_SIGN = np.uint64(1 << 63)
_GROUP = 32  # keys looked up at a time
_LEAST = 64  # units of an empty arena
_MOST_RUN = 32_768
_MOST_UNITS = 1 << 32


class RadixTrie(OrderedIndex):
    """A compact trie.

    ``run``: keys above which a leaf becomes a branch; ``linear`` and ``full``: children up to which
    a branch is a list of bytes, and from which it is an uncompressed table.
    """

    name = "radix-trie"
    summary = "compact trie over key bytes, nodes by population"
    kernels: ClassVar[ModuleType | None] = kernels

    def __init__(
        self, capacity: int = 1 << 20, columns: int = 1, *, run: int = 1024, linear: int = 8,
        full: int = 192,
    ) -> None:  # fmt: skip
        checked(self.name, run=(run, 2), linear=(linear, 2), full=(full, 32))
        if run > _MOST_RUN or linear > 8 or full > 256:
            raise refused(
                self.name,
                f"run must be at most {_MOST_RUN}, linear 8 and full 256; got {run}, {linear} and "
                f"{full}",
            )
        super().__init__(capacity, columns, run=run, linear=linear, full=full)
        self._run, self._linear, self._full = run, linear, full
        self._clear()

    def _clear(self) -> None:
        self._words = np.zeros(2 * _LEAST, np.int64)
        self._marks = np.zeros(_LEAST >> 6, np.uint64)
        self._bins = np.zeros(arena.BINS, np.int64)
        self._kinds = np.zeros(arena.BINS >> 6, np.uint64)
        self._facts = np.zeros(arena.FACTS, np.int64)
        self._facts[arena.TOP], self._facts[arena.END] = 1, _LEAST
        self._facts[arena.RUN_MOST] = self._run
        self._facts[arena.LINEAR_MOST] = self._linear
        self._facts[arena.FULL_FROM] = self._full
        self._facts[arena.BRANCH_BACK] = self._run // 2

    @property
    def _trie(self) -> Trie:
        words = self._words
        return Trie(
            words, words.view(np.uint64), words.view(np.uint32), words.view(np.uint16),
            words.view(np.uint8), self._marks, self._bins, self._kinds, self._facts,
        )  # fmt: skip

    def _grow(self) -> None:
        """Grow by an eighth, and at least by what is needed; in place where the system can."""
        if self._facts[arena.NEED] < 0:
            raise StateError(
                f"a radix-trie holds at most {MOST_ROWS:,} rows of one key; one has more now. Use "
                "ptwi/radix-trie, or sorted-runs"
            )
        end = int(self._facts[arena.END])
        end += max(int(self._facts[arena.NEED]), end >> 3)
        end = (end + 63) & -64
        if end > _MOST_UNITS:
            raise MemoryError("a radix-trie holds at most 64 GiB; use ptwi/radix-trie instead")
        self._resize(end)

    def _shrink(self) -> None:
        """Free the unused end of the arena if that is more than half of it."""
        top = int(self._facts[arena.TOP])
        end = max(_LEAST, (top + (top >> 3) + 63) & -64)
        if 2 * end < self._facts[arena.END]:
            self._resize(end)

    def _resize(self, end: int) -> None:
        self._words.resize(2 * end, refcheck=False)  # blocks are known by their offsets
        self._marks.resize(end >> 6, refcheck=False)
        self._facts[arena.END] = end

    def _put(self, keys: Array, ids: Array) -> None:
        if not keys.size:
            return
        bits = _unsigned(keys)
        entries, values = np.empty(bits.size, np.uint64), np.empty(bits.size, np.int64)
        count = distinct(bits, ids, entries, values)
        places = np.empty(bits.size, np.int64)
        hold, held = self._scratch()
        sets, stack = np.empty(9, np.uint64), np.empty(STACK, np.int64)
        stack[:5] = 1, 0, 0, count, 8
        while not put_rows(self._trie, bits, ids, entries, values, places, hold, held, sets, stack):
            self._grow()

    def _find(self, keys: Array) -> Array:
        ids = np.empty(keys.size, np.int64)
        find_keys(self._trie, _unsigned(keys), np.empty(2 * _GROUP, np.int64), ids)
        return ids

    def _read(self, lows: Array, highs: Array, before: int, cursor: Array, *out: Array) -> int:
        place = cursor.view(np.uint64)
        place[1] ^= _SIGN
        positions, keys, ids = out[0], out[1].view(np.uint64), out[2]
        boxes = (_unsigned(lows), _unsigned(highs), max(0, before), cursor, place)
        walk = np.empty(WALK, np.int64)
        filled = int(read_boxes(self._trie, *boxes, walk, positions, keys, ids))
        place[1] ^= _SIGN
        keys[:filled] ^= _SIGN
        return filled

    def _fold(self, lows: Array, highs: Array, before: int, fold: Fold) -> None:
        boxes = (_unsigned(lows), _unsigned(highs), max(0, before))
        fold_boxes(self._trie, *boxes, np.empty(WALK, np.int64), *fold.arrays)

    def first_next(self, lows: Array, highs: Array, fold: Fold) -> None:
        """The mapper with a search from the root for every key, like libJudy's next.

        For comparison (Ordered Indexing, Section 3.2).
        """
        boxes = (_unsigned(lows), _unsigned(highs), max(0, self._before))
        fold_by_next(self._trie, *boxes, np.empty(WALK, np.int64), *fold.arrays)

    @property
    def _held(self) -> int:
        return int(self._facts[arena.ROWS])

    def _take_out(self, keys: Array, ids: Array) -> int:
        cursor, path, of = np.zeros(2, np.int64), np.empty(8, np.int64), np.empty(4, np.uint64)
        bits = _unsigned(keys)
        while not drop_rows(self._trie, bits, ids, cursor, path, *self._scratch(), of):
            self._grow()
        self._shrink()
        return int(cursor[1])

    def _scratch(self) -> tuple[Words, Array]:
        """Room for the entries of a leaf plus as many fresh ones, or for the slots of a branch."""
        size = 2 * self._run + 512
        return np.empty(size, np.uint64), np.empty(size, np.int64)

    def check(self) -> None:
        super().check()
        check_trie(self._trie)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._words.nbytes + self._marks.nbytes


def _unsigned(keys: Array) -> Words:
    """Keys as unsigned integers in the same order."""
    return keys.view(np.uint64) ^ _SIGN

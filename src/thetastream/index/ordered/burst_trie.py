"""A burst trie: tables of 256 pointers by key byte, over containers of sorted rows.

                 ┌───┬───┬───┬─ ─ ─┬───┐
     byte 3      │ · │ ▼ │ · │     │ ▼ │          a full container bursts: a table replaces it,
                 └───┴─┼─┴───┴─ ─ ─┴─┼─┘          and its rows go to new containers by their next
          ┌────────────┘             │            byte
     ┌────▼──────┬─ ─ ─┐   ┌─────────▼─────────┐
     │ · │ ▼ │ ▼ │     │   │ 71…  85…  85…  9… │  containers: rows sorted by (key, id)
     └─────┼───┼─┴─ ─ ─┘   └───────────────────┘
        ┌──▼─┐ └► …
        └────┘

Containers save the tables that a plain trie would need for few keys; tables save the deep search
that one sorted array would need (Ordered Indexing, Section 2, after Heinz, Zobel and Williams).

For integer keys of 64 bits:

- A table branches on the highest byte in which the rows below it differ. Bytes that all rows share
  cost nothing: keys of a 32-bit domain have a root at byte 3. A key with different skipped bytes
  gets a table of its own above.
- Equal keys share one container, oldest first. A container of one key cannot burst, so it grows.
- Containers grow with their rows, in steps of 1.5 and 1.33, up to ``container`` rows.
- Outgrown blocks are reused. When the pool is full, containers move to a new one in key order, so
  that scans read memory sequentially.

Invariants (``check``): rows of a container are in order, agree in the bytes above its table's level
and have its slot's byte; levels descend along a path; a container with different keys holds at most
``container`` rows; counts of pointers and of words in use are right.

Cost for keys of ``b`` bytes: insert, search and delete pass at most ``b`` tables, whatever the
number of rows, and one container, whose rows an insert shifts. Rows of a batch that go to the same
container are merged into it together. Bytes: 16 per row divided by the fill of containers and pool
(about 23), 16 per container, 1,040 per table; about 35 per row right after containers burst.

Alternative: ``radix-trie`` picks the form of every node by its population. It takes less memory
after a burst, where containers hold a row or two, and has no containers to shift.

Paper: Ordered Indexing, Sections 2 and 4.1. Departure: containers hold whole keys, not suffixes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.folding import Fold
from thetastream.index.ordered.kernels import burst as kernels
from thetastream.index.ordered.kernels.burst import nodes as layout
from thetastream.index.ordered.kernels.burst import rows as reading
from thetastream.index.ordered.kernels.burst.changes import copy_trie, put_rows, take_out_rows
from thetastream.index.ordered.kernels.burst.nodes import Burst
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.registry import checked

_WORDS, _TABLES = 64, 2  # of an empty trie
_SPARE = 1.2  # words of a new pool per word in use
_EXPECTED = 2.5  # words of a new pool per row still to insert


class BurstTrie(OrderedIndex):
    """A trie whose containers burst when they exceed ``container`` rows.

    >>> index = BurstTrie(capacity=16, container=4)
    >>> index.insert(np.array([30, 10, 20]), np.array([0, 1, 2]))
    >>> [(p.tolist(), i.tolist()) for p, i in index.probe(np.array([15]), np.array([40]))]
    [([0, 0], [2, 0])]
    """

    name: ClassVar[str] = "burst-trie"
    summary: ClassVar[str] = "trie of 256-way tables over sorted containers that burst when full"
    kernels: ClassVar[ModuleType | None] = kernels

    def __init__(self, capacity: int = 1 << 20, columns: int = 1, container: int = 256) -> None:
        checked(self.name, container=(container, 1))
        super().__init__(capacity, columns, container=container)
        self._container = container
        self._trie = _empty(_WORDS, _TABLES, container)
        self._moves = 0

    # --- Changing -------------------------------------------------------------------------------

    def _put(self, keys: Array, ids: Array) -> None:
        cursor = np.zeros(1, np.int64)
        while (status := put_rows(self._trie, keys, ids, cursor)) != layout.DONE:
            if status == layout.NO_ROOM:
                wanted = int(self._trie.facts[layout.WANTED])
                self._move(wanted + int(_EXPECTED * (keys.size - cursor[0])))
            else:
                self._more_tables()

    def _take_out(self, keys: Array, ids: Array) -> int:
        removed = int(take_out_rows(self._trie, keys, ids, np.empty(layout.PATH, np.int64)))
        if 4 * self._trie.facts[layout.LIVE] + _WORDS < self._trie.pool.size:
            self._move()
        return removed

    def _move(self, words: int = 0) -> None:
        """Move everything to new arrays with room for ``words`` more. O(n)."""
        old, facts = self._trie, self._trie.facts
        room = int(facts[layout.LIVE] * _SPARE) + words
        self._trie = _empty(max(_WORDS, room), int(facts[layout.NODES]) + 2, self._container)
        copy_trie(old, self._trie, np.empty(layout.PATH, np.int64))
        self._moves += 1

    def _more_tables(self) -> None:
        old = self._trie
        nodes = old.prefixes.size + max(1, old.prefixes.size // 4)
        new = _empty(0, nodes, self._container)
        for name in ("tables", "prefixes", "counts"):
            smaller = getattr(old, name)
            getattr(new, name)[: smaller.size] = smaller
        self._trie = old._replace(tables=new.tables, prefixes=new.prefixes, counts=new.counts)

    def _clear(self) -> None:
        self._trie = _empty(_WORDS, _TABLES, self._container)

    # --- Asking ---------------------------------------------------------------------------------

    def _find(self, keys: Array) -> Array:
        ids = np.empty(keys.size, np.int64)
        reading.find_rows(self._trie, keys, np.empty(3 * reading.ABREAST, np.int64), ids)
        return ids

    def _read(self, lows: Array, highs: Array, before: int, cursor: Array, *out: Array) -> int:
        path = np.empty(layout.PATH, np.int64)
        return int(reading.read_rows(self._trie, lows, highs, before, cursor, path, *out))

    def _fold(self, lows: Array, highs: Array, before: int, fold: Fold) -> None:
        path = np.empty(layout.PATH, np.int64)
        reading.fold_boxes(*self._trie, lows, highs, before, path, *fold.arrays)

    def _rows(self) -> tuple[Array, Array]:
        keys, ids = np.empty(self._held, np.int64), np.empty(self._held, np.int64)
        reading.dump_rows(self._trie, np.empty(layout.PATH, np.int64), keys, ids)
        return keys, ids

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def _held(self) -> int:
        return int(self._trie.facts[layout.HELD])

    @property
    def nbytes(self) -> int:
        trie = self._trie
        return super().nbytes + sum(part.nbytes for part in trie if part is not trie.rooms)

    @property
    def statistics(self) -> dict[str, float]:
        return {**super().statistics, "moves": self._moves}

    @property
    def details(self) -> dict[str, Any]:
        return {**super().details, "tables": int(self._trie.facts[layout.NODES])}

    def check(self) -> None:
        super().check()
        _check(self._trie, self._container)


def _empty(words: int, nodes: int, container: int) -> Burst:
    """An empty trie. Place 0 of the pool and table 0 are reserved, so that 0 means nothing."""
    facts = np.zeros(layout.FACTS, np.int64)
    facts[layout.TOP] = layout.HEAD
    facts[layout.NODE_TOP] = 1
    facts[layout.NODE_FREE] = -1
    facts[layout.LIMIT] = container
    tables = np.empty(256 * nodes, np.int32)
    tables[0] = 0
    return Burst(
        tables=tables,
        prefixes=np.zeros(nodes, np.int64),
        counts=np.zeros(nodes, np.int64),
        pool=np.empty(layout.HEAD + words, np.int64),
        rooms=layout.ROOMS,
        free=np.full(layout.ROOMS.size, -1),
        facts=facts,
    )


# --- Invariants ---------------------------------------------------------------------------------


def _check(trie: Burst, container: int) -> None:
    """Assert the invariants in the module's docstring. O(n)."""
    walk = _Walk(trie, container)
    walk.visit(int(trie.tables[0]), 8, 0)
    facts = trie.facts
    assert walk.rows == facts[layout.HELD]
    assert walk.nodes == facts[layout.NODES]
    assert walk.words == facts[layout.LIVE]
    free = sum(walk.freed(size) for size in range(trie.free.size))
    assert walk.words + free + layout.HEAD == facts[layout.TOP] <= trie.pool.size
    node, spare = int(facts[layout.NODE_FREE]), 0
    while node >= 0:
        node, spare = int(trie.prefixes[node]), spare + 1
    assert 1 + walk.nodes + spare == facts[layout.NODE_TOP] <= trie.prefixes.size
    assert trie.counts[0] == (trie.tables[0] != 0)


class _Walk:
    """Checks every node and counts rows, nodes and words."""

    def __init__(self, trie: Burst, container: int) -> None:
        self.trie, self.container = trie, container
        self.rows = self.nodes = self.words = 0

    def visit(self, pointer: int, level: int, prefix: int) -> None:
        """Check the target of a pointer; ``prefix`` holds the bytes from ``level`` on, unsigned."""
        if pointer > 0:
            self._container(2 * pointer, level, prefix)
        elif pointer < 0:
            self._table((-pointer - 1) >> 3, (-pointer - 1) & 7, level, prefix)

    def _container(self, at: int, level: int, prefix: int) -> None:
        head, gap = (int(word) for word in self.trie.pool[at : at + 2])
        size, room = head >> 7, int(self.trie.rooms[head & 127])
        first = at + layout.HEAD + gap
        assert size > 0 and gap >= 0 and gap + size <= room
        keys = self.trie.pool[first : first + size]
        assert np.all(keys[:-1] <= keys[1:])
        assert size <= self.container or keys[0] == keys[-1], "a container should have burst"
        for key in (keys[0], keys[-1]):
            assert _unsigned(int(key)) >> (8 * level) == prefix, "a key in the wrong container"
        self.rows += size
        self.words += layout.HEAD + 2 * room

    def _table(self, node: int, level: int, outer: int, prefix: int) -> None:
        assert level < outer, "levels must descend"
        path = _unsigned(int(self.trie.prefixes[node])) >> (8 * level) >> 8
        assert path >> (8 * (outer - level - 1)) == prefix, "a table in the wrong slot"
        table = self.trie.tables[256 * node : 256 * node + 256]
        assert self.trie.counts[node] == np.count_nonzero(table) > 0
        self.nodes += 1
        for byte in np.flatnonzero(table).tolist():
            self.visit(int(table[byte]), level, (path << 8) + byte)

    def freed(self, size: int) -> int:
        """Words in the free blocks of a size class."""
        at, words = int(self.trie.free[size]), 0
        while at >= 0:
            words += layout.HEAD + 2 * int(self.trie.rooms[size])
            at = int(self.trie.pool[at])
        return words


def _unsigned(key: int) -> int:
    return key + 2**63

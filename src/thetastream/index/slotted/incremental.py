"""Incremental deletion: one ordered structure for the whole window, rows deleted one by one.

    ring by id   …  12   13   14   15  …     expire(14): ids 12 and 13 leave the ring; with their
    keys         …  70   21   70   35  …     keys, ⟨70, 12⟩ and ⟨21, 13⟩ are searched from the root
                    └ leave ┘                and deleted

Ordered Indexing, Section 3.3.1: the baseline that ``ptwi`` is measured against. ``inner`` is a
structure that can delete a row (``remove``).

Departure from the paper, which stores ⟨time, key⟩ as the key so that expired rows are adjacent. A
range of keys would then need a probe per time stamp in the window, and 64 bits cannot hold both a
time and a key. Ids are arrival numbers, so a ring of keys by id lists expiring rows in order, for
16 bytes each. As in the paper, each is searched from the root and deleted.

Invariants (``check``): those of the inner structure; it holds the rows of the ring, and no others.

Cost: insert, probe and map cost those of the inner structure; expire takes one descent and one
deletion per row. Bytes: the inner structure, and a ring of 16 bytes per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream.index.base import CHUNK, Answer, Index, Pair
from thetastream.index.beside import Beside
from thetastream.index.folding import Fold
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.registry import check_parameters, create, names, refused, structure


class Incremental(Index):
    """One index ``inner``, created with ``options``, from which expired rows are deleted."""

    name: ClassVar[str] = "incremental"
    summary: ClassVar[str] = "one ordered structure, expired rows deleted one by one"
    deletes: ClassVar[bool] = True

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        inner: str = "radix-trie",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(capacity, columns)
        if not issubclass(structure(inner), OrderedIndex):
            able = [name for name in names() if issubclass(structure(name), OrderedIndex)]
            raise refused(
                self.name,
                "inner must be a structure that deletes single rows by key and id: "
                f"{', '.join(able)}; got {inner!r}",
            )
        check_parameters(inner, options or {})
        self.inner = inner
        self.options = dict(options) if options else None
        index = create(inner, capacity=capacity, columns=columns, **(options or {}))
        assert isinstance(index, OrderedIndex)
        self._index = index
        self._ring = Beside(0, keep_first=True)
        self._before = 0
        self._deleted = 0

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """The cost of the inner structure, and O(1) per row for the ring."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        ids = np.ascontiguousarray(ids, np.int64)
        self._index.insert(matrix, ids)
        self._ring.add(matrix[:1], ids, self._before)

    def expire(self, before: int) -> None:
        """One descent and one deletion per expired row."""
        if before <= self._before:
            return
        self._before = before
        keys, ids = self._ring.leaving(before)
        if ids.size:
            removed = self._index.remove(keys, ids)
            assert removed == ids.size, "a row to delete was not there"
        self._ring.expire(before)
        self._index.forget(before)
        self._deleted += ids.size

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """The cost of the inner structure."""
        return self._index.probe(lows, highs, limit=limit)

    def fold_boxes(self, lows: Array, highs: Array, fold: Fold) -> None:
        """The mapper of the inner structure."""
        self._index.fold_boxes(lows, highs, fold)

    def scan(self, low: Any, high: Any, *, buffer: int = CHUNK) -> Iterator[Pair]:
        """The scan of the inner structure."""
        return self._index.scan(low, high, buffer=buffer)

    def find(self, keys: Array) -> Array:
        """The id of the newest row of each key, or -1. One descent per key."""
        return self._index.find(keys)

    # --- Facts ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._index._held

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._ring.nbytes

    @property
    def statistics(self) -> dict[str, float]:
        return {**self._index.statistics, "deleted_rows": self._deleted}

    @property
    def details(self) -> dict[str, Any]:
        return {"inner": self.inner, **self._index.details}

    def dump(self) -> Pair:
        return self._index.dump()

    def check(self) -> None:
        self._index.check()
        keys, ids = self.dump()
        in_ring = self._ring.leaving(MOST)
        assert np.array_equal(in_ring[1], ids), "the ring must hold the rows of the structure"
        assert np.array_equal(in_ring[0], keys[0]), "the ring must hold their keys"
        assert len(self) == ids.size and (not ids.size or ids[0] >= self._before)

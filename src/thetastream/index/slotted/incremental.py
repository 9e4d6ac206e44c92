"""Incremental deletion: one ordered structure for the whole window, rows deleted one by one.

    ring by id   …  12   13   14   15  …     expire(14): ids 12 and 13 leave the ring; their keys
    keys         …  70   21   70   35  …     say where they lie, so ⟨70, 12⟩ and ⟨21, 13⟩ are
                    └ leave ┘                searched from the root and deleted

Ordered Indexing, Section 3.3.1: the baseline that ``ptwi`` is measured against. ``inner`` is a
structure that can delete a row (``remove``).

Departure from the paper, which stores ⟨time, key⟩ as key so that expired rows lie together. A range
of keys would then lie in as many places as there are time stamps in the window, and be asked for
each of them; and 64 bits have no room for a time beside a key. Ids are arrival numbers, so a ring
of keys by id knows the rows that expire, in order, for 16 bytes each. They are deleted as in the
paper: each searched from the root.

Invariants (``check``): those of the inner structure; it holds the rows of the ring, and no others.

Cost: insert, probe and map those of the inner structure; expire one descent and one deletion per
row. Bytes: those of the inner structure, and a ring of 16 bytes per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream.index.base import CHUNK, Answer, Index
from thetastream.index.beside import Beside
from thetastream.index.folding import Fold
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.registry import check_parameters, create, names, refused, structure


class Incremental(Index):
    """One index ``inner``, made with ``options``, from which expired rows are deleted."""

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
        made = create(inner, capacity=capacity, columns=columns, **(options or {}))
        assert isinstance(made, OrderedIndex)
        self._index = made
        self._ring = Beside(0, keep_first=True)
        self._before = 0
        self._deleted = 0

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """What the inner structure takes, and O(1) per row for the ring."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        ids = np.ascontiguousarray(ids, np.int64)
        self._index.insert(matrix, ids)
        self._ring.add(matrix[:1], ids, self._before)

    def expire(self, before: int) -> None:
        """A descent and a deletion per row that leaves."""
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
        """What the inner structure takes."""
        return self._index.probe(lows, highs, limit=limit)

    def fold_boxes(self, lows: Array, highs: Array, fold: Fold) -> None:
        """The mapper of the inner structure."""
        self._index.fold_boxes(lows, highs, fold)

    def scan(self, low: Any, high: Any, *, buffer: int = CHUNK) -> Iterator[tuple[Array, Array]]:
        """The scan of the inner structure."""
        return self._index.scan(low, high, buffer=buffer)

    def find(self, keys: Array) -> Array:
        """The newest row of each key: its id, or -1. A descent per key."""
        return self._index.find(keys)

    # --- Facts ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._index._held

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._ring.nbytes

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "inner": self.inner, "options": self.options}

    @property
    def statistics(self) -> dict[str, float]:
        return {**self._index.statistics, "deleted_rows": self._deleted}

    @property
    def details(self) -> dict[str, Any]:
        return {"inner": self.inner, **self._index.details}

    def dump(self) -> tuple[Array, Array]:
        return self._index.dump()

    def check(self) -> None:
        self._index.check()
        keys, ids = self.dump()
        in_ring = self._ring.leaving(MOST)
        assert np.array_equal(in_ring[1], ids), "the ring must hold the rows of the structure"
        assert np.array_equal(in_ring[0], keys[0]), "the ring must hold their keys"
        assert len(self) == ids.size and (not ids.size or ids[0] >= self._before)

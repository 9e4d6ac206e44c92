"""What the tree structures share: rows in a ``Pool``, other key columns beside it, open answers.

Trees change in place, but an answer is a snapshot: see ``question.py``. A tree stores the first key
and the id of a row; the other key columns are in a ring, by id, and are checked on candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.base import CHUNK, Answer, Index, Pair
from thetastream.index.beside import Beside
from thetastream.index.question import Questions
from thetastream.index.registry import refused, signature
from thetastream.index.trees.invariants import check_pool
from thetastream.index.trees.kernels import css
from thetastream.index.trees.kernels import rows_in_trees as loops
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.store import Store
from thetastream.index.trees.pool import Pool, Recipe


class TreeIndex(Index):
    """A window index in a ``Pool``. Subclasses define what it is made of and how rows leave it."""

    deletes: ClassVar[bool] = False
    """Whether rows are deleted one by one when they expire."""

    per_tuple: ClassVar[bool] = True

    concurrent: ClassVar[bool] = False
    """Whether several threads may work on it, or on shares of it."""

    kernels: ClassVar[tuple[ModuleType, ...]] = (loops,)

    taker: ClassVar[str] = "recipe"

    def __init__(self, capacity: int = 1 << 20, columns: int = 1, **settings: Any) -> None:
        super().__init__(capacity, columns)
        prepare(*self.kernels)
        known = signature(type(self))
        self._settings = {**{word: known[word].default for word in known}, **settings}
        self._pool = Pool([self._recipe(capacity)])
        self._beside = Beside(columns - 1, keep_first=self.deletes)
        self._questions = Questions(self, type(self)._view)
        self._merges = 0
        self._merged_rows = 0

    @classmethod
    def recipe(cls, window: int) -> Recipe:
        """What an index for a window of this size is made of; subclasses add their settings."""
        raise NotImplementedError

    def _recipe(self, window: int) -> Recipe:
        recipe: Callable[..., Recipe] = self.recipe
        return recipe(window, **self._settings)

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """O(log n) per row, plus the structure's own merging."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        self._questions.settle()
        ids = np.ascontiguousarray(ids, np.int64)
        self._beside.add(matrix, ids, int(self._facts[layout.BEFORE]))
        self._add(np.ascontiguousarray(matrix[0]), ids)

    def _add(self, keys: Array, ids: Array) -> None:
        cursor = np.zeros(1, np.int64)
        while cursor[0] < ids.size:
            status = loops.insert_rows(self._pool.store, 0, keys, ids, cursor, self._pool.path)
            if status == layout.NO_NODES:
                self._pool.grow_nodes(0)
            if self._facts[layout.YOUNG] >= self._facts[layout.LIMIT]:
                if self._facts[layout.MODE] == layout.CHAIN:
                    self._archive(int(self._facts[layout.YOUNG]))
                else:
                    self._merge()

    def expire(self, before: int) -> None:
        """Row by row if the structure deletes; otherwise O(1), and the next merge drops rows."""
        facts = self._facts
        if before <= facts[layout.BEFORE]:
            return
        self._questions.settle()
        if self.deletes:
            keys, ids = self._beside.leaving(before)
            deleted = loops.delete_rows(self._pool.store, 0, keys, ids, self._pool.path)
            assert deleted == ids.size, "a row to delete was not there"
        facts[layout.BEFORE] = before
        self._beside.expire(before)
        if facts[layout.MODE] == layout.CHAIN:
            loops.forget_expired(self._pool.store, 0)

    def tune(self, rows: int, **parameters: Any) -> None:
        """The merge threshold changes at once, the depth of subindexes with the next merge."""
        wrong = [word for word in parameters if word not in self.tunable]
        if wrong:
            able = ", ".join(self.tunable) or "nothing"
            raise refused(self.name, f"{wrong[0]} is fixed once it is made; {able} can be changed")
        self._settings |= parameters
        recipe, facts = self._recipe(max(1, rows)), self._facts
        self._pool.recipes[0] = replace(
            self._pool.recipes[0], limit=recipe.limit, share=recipe.share, depth=recipe.depth
        )
        facts[layout.LIMIT] = facts[layout.PLAIN_LIMIT] = recipe.limit
        facts[layout.SHARE] = round(recipe.share * layout.WHOLE)
        facts[layout.ASKED_DEPTH] = recipe.depth

    def _archive(self, young: int) -> None:
        """Close the active subindex; if no slot is free yet, let it keep growing."""
        pool = self._pool
        while (status := loops.archive(pool.store, 0)) == layout.NO_ROOM:
            pool.grow_run(0, young)
        if status == layout.NO_SLOT:
            pool.enlarge(0, status)
        else:
            self._merges += 1
            self._merged_rows += young

    def _merge(self) -> None:
        pool = self._pool
        run = int(self._facts[layout.RUNS_FIRST])
        while (status := loops.merge_side(pool.store, 0, run)) == layout.NO_ROOM:
            pool.enlarge(0, status)
        if status == layout.NO_NODES:
            pool.enlarge(0, layout.NO_HEADS)
        self._merges += 1
        self._merged_rows += int(pool.run(run)[css.COUNT])

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """A descent per box and part, plus its matches, as they are read."""
        return self._questions.ask(self._matrix(lows), self._matrix(highs), limit)

    def _view(self) -> _View:
        return _View(self._pool.store, self._beside.columns, self._beside.mask)

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def _facts(self) -> Array:
        return self._pool.side(0)

    def __len__(self) -> int:
        """Counted on demand, O(n)."""
        nothing = np.empty(0, np.int64)
        return int(loops.dump_rows(self._pool.store, 0, nothing, nothing))

    @property
    def nbytes(self) -> int:
        return self._pool.nbytes + self._beside.nbytes

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, **self._settings}

    @property
    def statistics(self) -> dict[str, float]:
        return {"merges": self._merges, "merged_rows": self._merged_rows}

    def dump(self) -> Pair:
        keys, ids = np.empty((2, len(self)), np.int64)
        loops.dump_rows(self._pool.store, 0, keys, ids)
        return self._beside.rows(keys, ids)

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

    def begin(self) -> Array:
        return np.array([0, -1, 0, 0])

    def ended(self, cursor: Array, boxes: int) -> bool:
        return bool(cursor[3] >= boxes)

    def read(self, lows: Array, highs: Array, cursor: Array, positions: Array, rows: Array) -> int:
        filled: int = loops.probe_rows(self.store, 0, lows, highs, cursor, 0, positions, rows)
        return filled

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

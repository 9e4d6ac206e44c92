"""One ordered structure per term; a box is the intersection of their rows, by bits or by hash.

    box: power > 30, cool < 9                   rows by id      64  65  66  67  68  69
    power   b+tree   12:66 25:64 │ 33:65 41:68 47:67 52:69      ·   1   ·   1   1   1
    cool    b+tree   3:68 5:66 8:67 │ 9:64 11:65 14:69          ·   ·   1   1   1   ·
                                                        AND     ·   ·   ·   1   1   ·   → 67, 68

SPO-Join, Section 3.2: the mutable component of the window. The structures of the terms are
independent, so a row is inserted in O(log n) per term and nothing is merged. ``inner`` is any
registered structure; each holds one key column of all rows, with the same ids.

``intersect``: ``"bits"`` sets a bit per row, at its id, and combines words; ``"hash"`` is the
method it replaces (Section 2.4), a hash table of the ids of one term. See ``kernels/term_sets.py``.
Departure from the paper: if an interval holds more than half of the rows, its complement is set.
The paper's baselines are ``inner="css-tree"`` and ``"chained"``, with either way to intersect.

Invariants: all inner structures hold the same ids; a bit of ``present`` is set iff its row is live.

Cost for ``n`` rows and ``k`` terms: insert and expire cost those of ``k`` inner structures. Per
term, a box reads the rows inside or outside its interval, whichever are fewer, and ``n / 64``
words; with hash tables it reads all rows inside. So a box costs O(n) unless its terms are
selective: keep few rows here. Bytes: the inner structures, and a bit per id from first to last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.compiling import prepare
from thetastream.errors import suggest
from thetastream.index.base import CHUNK, Answer, Index, Pair
from thetastream.index.permuted.kernels import term_rows, term_sets
from thetastream.index.permuted.kernels.term_rows import least_id
from thetastream.index.permuted.kernels.term_sets import FILLED, HASHED, SCANNED
from thetastream.index.permuted.present import Present
from thetastream.index.permuted.term_reader import Bits, Lists, Scratch, TermReader
from thetastream.index.permuted.terms import (
    IntervalTerm,
    KeySample,
    PrefixTerm,
    ProbedTerm,
    StoredTerm,
    TermView,
)
from thetastream.index.question import KEPT, Kept
from thetastream.index.registry import create, defaults, refused
from thetastream.index.trees.css_tree import CssTree
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import dump_rows
from thetastream.index.trees.tree_index import TreeIndex

_ROOM = 2048  # least pairs of the first chunk
_WAYS = ("bits", "prefixes", "hash")
_MANY = 32  # boxes from which on prefixes are built: they cost as much as 20 boxes without
_SLOTS = 64  # rows of a tree's leaf
_PLAIN = (layout.SINGLE, layout.ROBIN, layout.CHAIN)  # trees and runs that are read one by one


class PerTerm(Index):
    """A structure ``inner`` per key column, created with ``options``."""

    name: ClassVar[str] = "per-term"
    summary: ClassVar[str] = "one structure per term, their rows intersected as bits or by hash"
    permuted: ClassVar[bool] = True

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        inner: str = "b+tree",
        intersect: str = "bits",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(capacity, columns)
        check_way(self.name, intersect)
        prepare(term_rows, term_sets)
        self.inner, self.intersect = inner, intersect
        self.options = dict(options) if options else None
        self._settings = _options(inner, options or {})
        self._tally = np.zeros(3, np.int64)
        self._scratch: list[Scratch] = []
        self._open: WeakSet[_Question] = WeakSet()
        self._before = 0
        self._inner = [create(inner, capacity, **self._settings) for _ in range(columns)]
        self._present = Present(partial(_oldest, self._inner))
        self._seen: TermView | None = None
        self._prefixed: TermView | None = None
        self._sample: KeySample | None = None
        if not all(map(_stored, self._inner)):
            self._sample = KeySample(self.columns)

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array) -> None:
        """The cost of the inner structures, each for one column."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        self._settle_answers()
        ids = np.ascontiguousarray(ids, np.int64)
        self._present.fits(ids)
        for inner, column in zip(self._inner, matrix, strict=True):
            inner.insert(column, ids)
        self._present.add(ids)
        if self._sample is not None:
            self._sample.add(matrix, ids)

    def expire(self, before: int) -> None:
        """The cost of the inner structures, and O(n / 64) for the bits."""
        if before <= self._before:
            return
        self._settle_answers()
        self._before = before
        for inner in self._inner:
            inner.expire(before)
        self._present.expire(before)
        if self._sample is not None:
            self._sample.expire(before)

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """Per box and term, reads the rows inside or outside its interval."""
        question = _Question(self, self._matrix(lows), self._matrix(highs), limit)
        self._open.add(question)
        return Answer(question.read)

    def _settle_answers(self) -> None:
        """Before a change: keep or copy what open answers still read."""
        copy: TermView | None = None
        for question in list(self._open):
            if not question.keep(KEPT):
                copy = copy or self._view_of(self._copied_terms(), self._present.words.copy())
                question.view = copy
        self._open.clear()
        self._seen = self._prefixed = None

    def _view(self, boxes: int) -> TermView:
        """What a reader of ``boxes`` boxes sees, between two changes."""
        if self.intersect == "prefixes" and boxes >= _MANY:
            if self._prefixed is None:
                self._prefixed = self._view_of(self._prefix_terms(), self._present.words)
            return self._prefixed
        if self._seen is None:
            self._seen = self._view_of(self._terms(), self._present.words)
        return self._seen

    def _view_of(self, terms: Iterator[IntervalTerm], words: NDArray[np.uint64]) -> TermView:
        bits = self._present
        return TermView(tuple(terms), words, bits.base, bits.clean, self._before, bits.rows)

    def _terms(self) -> Iterator[IntervalTerm]:
        for column, inner in enumerate(self._inner):
            if isinstance(inner, TreeIndex) and _stored(inner):
                yield StoredTerm(inner._pool.store, live=self._all_live(inner))
            else:
                assert self._sample is not None
                yield ProbedTerm(inner, self._sample.columns[column])

    def _prefix_terms(self) -> Iterator[IntervalTerm]:
        base, words = self._present.base, self._present.words.shape[1]
        for keys, ids in self.sorted_terms():
            yield PrefixTerm(keys, ids, base, words)

    def _copied_terms(self) -> Iterator[IntervalTerm]:
        """Snapshots of the terms: copies of arrays, or sorted runs of their rows."""
        for inner in self._inner:
            if isinstance(inner, TreeIndex) and _stored(inner):
                yield StoredTerm(inner._view().copy().store, live=self._all_live(inner))
            else:
                keys, ids = inner.dump()
                run = CssTree(max(1, ids.size))
                run.insert(keys, ids)
                yield StoredTerm(run._pool.store, live=True)

    def _all_live(self, inner: TreeIndex) -> bool:
        return inner.deletes or self._before == 0

    def _reader(self, lows: Array, highs: Array, scratch: Scratch) -> TermReader:
        if self.intersect != "hash":
            return Bits(lows, highs, self._tally)
        return Lists(lows, highs, self._tally, scratch)

    # --- Facts ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._present.rows

    @property
    def nbytes(self) -> int:
        beside = [] if self._prefixed is None else [t.nbytes for t in self._prefixed.terms]
        beside += [] if self._sample is None else [self._sample.nbytes]
        beside.append(self._present.words.nbytes)
        return sum(inner.nbytes for inner in self._inner) + sum(beside)

    @property
    def statistics(self) -> dict[str, float]:
        """The sums over the inner structures, and the work of intersecting."""
        total: dict[str, float] = {}
        for inner in self._inner:
            for name, value in inner.statistics.items():
                total[name] = total.get(name, 0) + value
        work = {"bits_set": FILLED, "words_scanned": SCANNED, "hashed": HASHED}
        return {**total, **{name: int(self._tally[at]) for name, at in work.items()}}

    def sorted_terms(self) -> list[Pair]:
        """The rows of each column in key order, as ``(keys, ids)``.

        Read from the leaves if a structure has one order (Section 3.3), else sorted.
        """
        return [self._in_order(inner) for inner in self._inner]

    def _in_order(self, inner: Index) -> Pair:
        if isinstance(inner, TreeIndex) and _stored(inner):
            keys, ids = np.empty(len(inner), np.int64), np.empty(len(inner), np.int64)
            dump_rows(inner._pool.store, 0, keys, ids)
        else:
            matrix, ids = inner.dump()
            keys = matrix[0]
        if np.all(keys[:-1] <= keys[1:]):
            return keys, ids
        order = np.argsort(keys, kind="stable")
        return keys[order], ids[order]

    def dump(self) -> Pair:
        """O(n): rows are placed by their ids."""
        ids = self._present.ids()
        matrix = np.empty((self.columns, ids.size), np.int64)
        if ids.size:
            by_id = np.empty(ids[-1] - ids[0] + 1, np.int64)
            for row, (keys, key_ids) in zip(matrix, self.sorted_terms(), strict=True):
                by_id[key_ids - ids[0]] = keys
                by_id.take(ids - ids[0], out=row)
        return matrix, ids

    def check(self) -> None:
        ids = self._present.ids()
        assert ids.size == len(self)
        assert not ids.size or ids[0] >= self._before
        self._present.check()
        for inner, (keys, key_ids) in zip(self._inner, self.sorted_terms(), strict=True):
            inner.check()
            assert np.array_equal(np.sort(key_ids), ids), "all terms must hold the rows that live"
            assert np.all(keys[:-1] <= keys[1:]), "keys must ascend"


def check_way(name: str, intersect: str) -> None:
    """Raise for an unknown way to intersect."""
    if intersect not in _WAYS:
        ways = ", ".join(_WAYS)
        raise refused(
            name, f"intersect must be one of {ways}; got {intersect!r}", suggest(intersect, _WAYS)
        )


def _options(inner: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the inner structures: leaves of trees are longer, unless their size is given.

    Long intervals are read leaf by leaf. With 64 rows per leaf instead of 32 that takes three
    quarters of the time, and inserting 60,000 rows a tenth less.
    """
    return {**({"slots": _SLOTS} if "slots" in defaults(inner) else {}), **given}


def _stored(inner: Index) -> bool:
    """Whether compiled loops can read a structure: trees and runs without locks or subindexes."""
    return isinstance(inner, TreeIndex) and int(inner._facts[layout.MODE]) in _PLAIN


def _oldest(inners: Sequence[Index]) -> int:
    """The least id that an inner structure holds, including expired rows that it keeps."""
    stored = (inner for inner in inners if isinstance(inner, TreeIndex) and _stored(inner))
    stores = (inner._pool.store for inner in stored if not inner.deletes)
    return min((int(least_id(store)) for store in stores), default=MOST)


class _Question(Kept):
    """Boxes, and the source of their answer: the index, a copy of it, or kept chunks."""

    def __init__(self, index: PerTerm, lows: Array, highs: Array, limit: int) -> None:
        super().__init__()
        self._index = index
        self._lows, self._highs = lows, highs
        self._limit = limit
        self.view: TermView | None = None

    def read(self) -> Iterator[Pair]:
        scratches = self._index._scratch
        try:
            scratch = scratches.pop()
        except IndexError:  # another thread may have taken the last one
            scratch = Scratch()
        try:
            reader = self._index._reader(self._lows, self._highs, scratch)
            yield from self._chunks_of(reader)
        finally:
            scratches.append(scratch)

    def _chunks_of(self, reader: TermReader) -> Iterator[Pair]:
        chunks, room = 0, min(self._limit, max(_ROOM, 4 * self._lows.shape[1]))
        while self._chunks is None:
            view = self.view or self._index._view(self._lows.shape[1])
            positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
            filled = reader.fill(view, 0, positions, rows)
            if not filled:
                return
            yield positions[:filled], rows[:filled]
            chunks += 1
            room = min(self._limit, 2 * room)
        yield from islice(self._chunks, chunks, None)

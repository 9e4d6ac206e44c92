"""Terms of a box: the rows inside one interval per box, by one key column.

A *term* returns rows as bits or as lists of ids. There are three sources:

    StoredTerm   trees and runs in the arrays of a ``Store``, read by compiled loops that write no
                 pairs
    ProbedTerm   any other index, probed for pairs; for a box with more than half of the rows, the
                 rows outside its interval are probed instead
    PrefixTerm   rows in key order and the bits of some prefixes; for many boxes at a time

A ``TermView`` is what a reader sees (``term_reader.py``): terms, and the bits of live rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, MOST, Array, Words
from thetastream.index.base import Index, Pair
from thetastream.index.permuted.kernels import term_sets
from thetastream.index.permuted.kernels.term_rows import collect_term, meet_term, parts_of
from thetastream.index.trees.kernels.store import Store

_PREFIXES = 64
_SAMPLE = 1024


class IntervalTerm(ABC):
    """The rows inside an interval of one key column."""

    @property
    def nbytes(self) -> int:
        """Bytes held besides the structure that it reads."""
        return 0

    @abstractmethod
    def meet(self, part: Slice, bits: Words, spare: Words, tally: Array) -> int:
        """AND the term into the sets of the open boxes; returns how many stay open.

        Closes boxes whose set becomes empty. ``spare`` is an empty set, to be left empty.
        """

    @abstractmethod
    def collect(self, part: Slice, ends: Array, room: Array) -> Array:
        """Lists of the live rows of the open boxes, maybe in ``room``; fills their ``ends``."""


@dataclass(frozen=True, slots=True)
class TermView:
    """What a reader sees: terms, and which rows are live."""

    terms: tuple[IntervalTerm, ...]
    present: Words  # one set, and a last word that is never read
    base: int  # the id of the first bit
    clean: bool  # whether no structure holds an id below the base
    before: int  # ids below have expired
    rows: int


@dataclass(frozen=True, slots=True)
class Slice:
    """One column of the boxes from ``first`` on; ``opened`` has an entry per box of the slice."""

    edges: Pair
    first: int
    view: TermView
    opened: Array


class StoredTerm(IntervalTerm):
    """Trees and runs in the arrays of a store."""

    def __init__(self, store: Store, *, live: bool) -> None:
        parts = parts_of(store)
        self._meet: Callable[..., int] = partial(meet_term, *parts)
        self._collect: Callable[..., int] = partial(collect_term, *parts)
        self._live = live  # whether it holds no expired rows

    def meet(self, part: Slice, bits: Words, spare: Words, tally: Array) -> int:
        place = (part.first, part.view.base, int(part.view.clean))
        return self._meet(*part.edges, *place, part.opened, bits, spare, tally)

    def collect(self, part: Slice, ends: Array, room: Array) -> Array:
        before = LEAST if self._live else part.view.before
        return room[: self._collect(*part.edges, part.first, before, part.opened, ends, room)]


class PrefixTerm(IntervalTerm):
    """Rows in key order, and the bits of some prefixes of it."""

    def __init__(self, keys: Array, ids: Array, base: int, words: int) -> None:
        self._keys = keys
        self._order = (ids - base).astype(np.uint32)
        self._step = max(1, -(-ids.size // _PREFIXES))
        self._prefixes = np.empty((-(-ids.size // self._step) + 1, words), np.uint64)
        term_sets.set_prefixes(self._order, self._step, self._prefixes)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._keys.nbytes + self._order.nbytes + self._prefixes.nbytes

    def meet(self, part: Slice, bits: Words, spare: Words, tally: Array) -> int:
        order = (self._keys, self._order, self._step, self._prefixes)
        return term_sets.meet_prefixes(*order, *part.edges, part.first, part.opened, bits, tally)

    def collect(self, part: Slice, ends: Array, room: Array) -> Array:
        raise NotImplementedError("prefixes are bits")


class ProbedTerm(IntervalTerm):
    """Any index of one key column, with a sample of its keys to estimate how much a box holds."""

    def __init__(self, inner: Index, sample: Array) -> None:
        self._inner = inner
        self._sample = sample

    def meet(self, part: Slice, bits: Words, spare: Words, tally: Array) -> int:
        opened = part.opened
        lows, highs = (edge[part.first : part.first + opened.size] for edge in part.edges)
        how = np.where(self._mostly_inside(lows, highs), term_sets.AND_NOT, term_sets.AND)
        how[(lows == LEAST) & (highs == MOST)] = term_sets.SKIP
        inside = np.flatnonzero((opened != 0) & (how == term_sets.AND))
        beside = np.flatnonzero((opened != 0) & (how == term_sets.AND_NOT))
        below, above = beside[lows[beside] > LEAST], beside[highs[beside] < MOST]
        starts = [lows[inside], np.full(below.size, LEAST), highs[above] + 1]
        stops = [highs[inside], lows[below] - 1, np.full(above.size, MOST)]
        owners, sets = np.concatenate([inside, below, above]), np.zeros_like(bits)
        for positions, ids in self._inner.probe(np.concatenate(starts), np.concatenate(stops)):
            term_sets.set_pairs(positions, ids, owners, part.view.base, sets)
            tally[term_sets.FILLED] += ids.size
        return term_sets.meet_sets(bits, sets, how, opened)

    def collect(self, part: Slice, ends: Array, room: Array) -> Array:
        owners, none = np.flatnonzero(part.opened), np.empty(0, np.int64)
        chunks = list(self._inner.probe(*(edge[part.first + owners] for edge in part.edges)))
        boxes = owners[np.concatenate([none, *(positions for positions, _ in chunks)])]
        ids = np.concatenate([none, *(ids for _, ids in chunks)])
        order = np.lexsort((ids, boxes))
        ends[:] = np.searchsorted(boxes[order], np.arange(ends.size), side="right")
        return ids[order]

    def _mostly_inside(self, lows: Array, highs: Array) -> NDArray[np.bool_]:
        inside = np.searchsorted(self._sample, highs, side="right")
        inside -= np.searchsorted(self._sample, lows)
        return 2 * inside > max(1, self._sample.size)


class KeySample:
    """The keys of about a thousand rows, evenly spaced."""

    def __init__(self, columns: int) -> None:
        self._rows = np.empty((columns, 0), np.int64)
        self._ids = np.empty(0, np.int64)
        self._stride, self._next = 1, 0
        self._sorted: Array | None = None

    def add(self, matrix: Array, ids: Array) -> None:
        """Sample these rows."""
        some = slice(self._next, None, self._stride)
        self._rows = np.concatenate([self._rows, matrix[:, some]], axis=1)
        self._ids = np.concatenate([self._ids, ids[some]])
        self._next += len(range(self._next, ids.size, self._stride)) * self._stride - ids.size
        while self._ids.size > _SAMPLE:
            self._rows, self._ids = self._rows[:, ::2], self._ids[::2]
            self._stride *= 2
        self._sorted = None

    def expire(self, before: int) -> None:
        """Drop expired rows; when few are left, sample later rows more densely."""
        live = self._ids >= before
        self._rows, self._ids = self._rows[:, live], self._ids[live]
        if self._stride > 1 and self._ids.size < _SAMPLE // 4:
            self._stride //= 2
            self._next %= self._stride
        self._sorted = None

    @property
    def columns(self) -> Array:
        """The keys of each column in ascending order."""
        if self._sorted is None:
            self._sorted = np.sort(self._rows, axis=1)
        return self._sorted

    @property
    def nbytes(self) -> int:
        """Bytes of keys and ids."""
        return self._rows.nbytes + self._ids.nbytes

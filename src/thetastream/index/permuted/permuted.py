"""Permuted rows: the immutable structure of PO-Join, and the ways to probe it.

Every column is sorted separately; permutations map the order of the first column (*places*) to the
ranks of the others and back (``kernels/permute.py``).

    place    0   1   2   3   4          rank     0   1   2   3   4
    keys[0] 10  20  20  30  50          keys[1]  3   5   7   8   9
    ids      4   0   2   1   3
    ranks    2   4   0   1   3          places   2   3   0   4   1

A box becomes an interval of ranks per column. It is answered by reading along one column and
comparing the ranks of another (``kernels/pojoin.py``), or by bits (``kernels/sweeping.py``). The
cheaper way for a batch of boxes is estimated from its rank intervals and, on a few boxes, from the
zones: the least and largest rank of every block of 64 rows, and of every 64 blocks. Costs in
nanoseconds, of which only ratios matter:

    scan    1 per group of zones in the narrowest interval, 15 per block whose zone meets the box
    sweep   1 per bit set or cleared, 3 per word with a bit, 25 to sort a box if needed
    fill    like sweep, with all bits of each box set and cleared; the paper's way

Columns from the third on are checked on the matching rows, 4 each, or swept beside the other one
and intersected with it, whichever is cheaper.

Bytes per row for k columns: 8 k for keys, 8 for the id, 8 (k - 1) for ranks and places, k / 8 for
zones: 32 for two columns.

SPO-Join, Sections 3.3 and 3.4. The paper keeps offset arrays against the stored rows of the other
stream and looks fresh rows up in them. Here a fresh batch is looked up in the keys themselves,
which needs no second stream and is exact between two stored keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.index.permuted.kernels import permute, pojoin
from thetastream.index.permuted.kernels.permute import BLOCK, Places
from thetastream.index.permuted.kernels.sweeping import sweep, travel

Pair = tuple[Array, Array]
PROBING = ("auto", "scan", "sweep", "fill")
FEW = 16  # below this many boxes nothing is swept; zones are surveyed on this many
MUCH_BETTER = 0.75  # share of the best sweep's cost below which another column is tried
GROUP_NS = 1.0  # skipping 64 zones by their group
BLOCK_NS = 15.0
BIT_NS = 1.0  # one bit of a sweep, set or cleared
WORD_NS = 3.0  # 64 bits read
WORDS_NS = 0.4  # 64 words, by one word of the second bit array
SORT_NS = 25.0  # one row in one column of a batch
CHECK_NS = 4.0  # one column of a matching row


class Chunk:
    """Arrays to fill with pairs: small at first, then doubled up to a limit."""

    def __init__(self, boxes: int, limit: int) -> None:
        self._limit = limit
        self.filled = 0
        self._renew(min(limit, max(256, 4 * boxes)))

    def _renew(self, room: int) -> None:
        self.positions, self.rows = np.empty(room, np.int64), np.empty(room, np.int64)

    @property
    def full(self) -> bool:
        """Whether the arrays are full."""
        return self.filled == self.positions.size

    def take(self) -> Pair:
        """Return the pairs and start new arrays."""
        pair = self.positions[: self.filled], self.rows[: self.filled]
        self._renew(min(self._limit, 2 * self.positions.size))
        self.filled = 0
        return pair


class Tally:
    """Counters of probing work."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("bits_set", "words_scanned", "fills", "sweeps", "scans"), 0)

    def add(self, way: str, boxes: int, state: Array) -> None:
        """Count boxes that a structure has answered."""
        self.counts[f"{way}s"] += boxes
        self.counts["bits_set"] += int(state[pojoin.SET])
        self.counts["words_scanned"] += int(state[pojoin.READ])


class Way(NamedTuple):
    """How to probe: sweep ``column`` (-1: fill) with boxes in ``order``, and a ``further`` one."""

    name: str
    column: int = -1
    order: Array | None = None
    further: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Permuted:
    """Rows, sorted by every column, with permutations. At least two columns."""

    keys: Array  # [column, rank]
    ids: Array  # by place
    places: Places  # [column - 1, rank]
    ranks: Places  # [column - 1, place]
    zones: Places  # [column, least or largest, block of 64 rows]
    groups: Places  # the same of 64 blocks
    first: int
    last: int

    @classmethod
    def build(cls, matrix: Array, ids: Array) -> Permuted:
        """From rows in any order. O(n log n) per column, O(n) for the first if it is sorted."""
        first = matrix[0]
        if not np.all(first[:-1] <= first[1:]):
            order = np.argsort(first)
            matrix, ids = matrix[:, order], ids[order]
        keys = np.empty(matrix.shape, np.int64)
        keys[0] = matrix[0]
        places = np.empty((len(matrix) - 1, ids.size), np.int32)
        for column, target, place in zip(matrix[1:], keys[1:], places, strict=True):
            order = np.argsort(column)
            place[:] = order
            np.take(column, order, out=target, mode="clip")
        return cls._finished(keys, np.array(ids, np.int64), places)

    @classmethod
    def of_terms(cls, terms: Sequence[tuple[Array, Array]]) -> Permuted:
        """From each column's keys and ids in key order (Algorithm 2). O(n) per column."""
        keys = np.stack([column for column, _ in terms])
        ids = np.array(terms[0][1], np.int64)
        base = int(ids.min())
        placed = np.empty(int(ids.max()) - base + 1, np.int32)  # the paper's ``tmp``
        placed[ids - base] = np.arange(ids.size, dtype=np.int32)
        places = np.stack([placed[term_ids - base] for _, term_ids in terms[1:]])
        return cls._finished(keys, ids, places)

    @classmethod
    def _finished(cls, keys: Array, ids: Array, places: Places) -> Permuted:
        ranks = np.empty_like(places)
        for place, rank in zip(places, ranks, strict=True):
            permute.invert(place, rank)
        bounds = int(ids.min()), int(ids.max())
        return cls(keys, ids, places, ranks, *_zones(places, ranks), *bounds)

    def merged(self, newer: Permuted | None, before: int) -> Permuted | None:
        """Merge with a newer structure, if any, and drop expired rows; None if all have expired.

        O(n + m).
        """
        new = newer if newer is not None else self._none()
        size = int(np.count_nonzero(self.ids >= before) + np.count_nonzero(new.ids >= before))
        if not size:
            return None
        columns = len(self.keys)
        keys, ids = np.empty((columns, size), np.int64), np.empty(size, np.int64)
        places, ranks = (np.empty((columns - 1, size), np.int32) for _ in range(2))
        moved = np.empty(self.ids.size + new.ids.size, np.int32)
        permute.merge_first(
            self.keys[0], self.ids, new.keys[0], new.ids, before, keys[0], ids, moved
        )
        for c in range(1, columns):
            old, young = (self.keys[c], self.places[c - 1]), (new.keys[c], new.places[c - 1])
            permute.merge_term(*old, *young, moved, keys[c], places[c - 1], ranks[c - 1])
        first, last = min(self.first, new.first), max(self.last, new.last)
        zones = _zones(places, ranks)
        return Permuted(keys, ids, places, ranks, *zones, max(first, before), last)

    def _none(self) -> Permuted:
        """An empty structure with the same columns."""
        empty = self.places[:, :0].copy()
        keys, ids = self.keys[:, :0].copy(), self.ids[:0].copy()
        zones = self.zones[:, :, :0]
        return Permuted(keys, ids, empty, empty, zones, zones, self.first, self.last)

    def __len__(self) -> int:
        return self.ids.size

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.keys, self.ids, self.places, self.ranks, self.zones, self.groups)
        return sum(array.nbytes for array in arrays)

    # --- Probing --------------------------------------------------------------------------------

    def read(
        self, lows: Array, highs: Array, before: int, probing: str, chunk: Chunk, tally: Tally
    ) -> Iterator[Pair]:
        """Fill the chunk with pairs of box and id; yields its pairs whenever it is full."""
        starts, stops = np.empty_like(lows), np.empty_like(lows)
        pojoin.offsets(self.keys, lows, highs, starts, stops)
        way = self.way(starts, stops, probing)
        state = np.zeros(pojoin.STATE, np.int64)
        state[pojoin.AT] = -1
        boxes = lows.shape[1]
        fill = self._scanner(way, starts, stops, before)
        while state[pojoin.BOX] < boxes:
            chunk.filled = fill(state, chunk.filled, chunk.positions, chunk.rows)
            if chunk.full:
                yield chunk.take()
        tally.add(way.name, boxes, state)

    def _scanner(
        self, way: Way, starts: Array, stops: Array, before: int
    ) -> Callable[[Array, int, Array, Array], int]:
        """A function that fills arrays with the next pairs."""
        rows = (self.ids, self.places, self.ranks)
        if way.order is None:
            return partial(pojoin.scan_ranks, *rows, self.zones, self.groups, starts, stops, before)
        # One extra word, because the last interval may end at a word boundary.
        sides = 2 if way.further else 1
        bits = np.zeros((sides, self.ids.size // BLOCK + 2), np.uint64)
        words = np.zeros((sides, bits.shape[1] // BLOCK + 1), np.uint64)
        columns = (way.order, way.column, way.further)
        return partial(sweep, *rows, starts, stops, *columns, before, bits, words)

    def way(self, starts: Array, stops: Array, probing: str) -> Way:
        """The cheapest way for these rank intervals among those that ``probing`` allows."""
        boxes = starts.shape[1]
        if probing == "fill":
            return Way("fill", order=np.arange(boxes))
        if probing == "scan" or not boxes or (probing == "auto" and boxes < FEW):
            return Way("scan")
        spans, means = np.empty((len(starts), 2)), np.empty(2)
        pojoin.survey(self.zones, self.groups, starts, stops, FEW, spans, means)
        narrow, blocks = means.tolist()
        scan = narrow / BLOCK**2 * GROUP_NS + blocks * BLOCK_NS
        met = min(1.0, blocks * BLOCK / (narrow + 1))
        cost, best = self._best_sweep(starts, stops, spans, met)
        return Way("scan") if probing == "auto" and scan <= cost else best

    def _best_sweep(
        self, starts: Array, stops: Array, spans: NDArray[np.float64], met: float
    ) -> tuple[float, Way]:
        """The best sweep, and its nanoseconds per box.

        ``spans`` holds, per column, the mean length of the intervals and the distance from the
        first to the last. ``met`` is the share of zones in the narrowest interval that meet a box.
        """
        boxes, rows = starts.shape[1], len(self)
        widths, reach = spans.T.tolist()
        least, best = math.inf, Way("sweep")
        for column in range(len(starts)):
            read = widths[1 if column == 0 else 0]
            filled = 1 - math.exp(-BLOCK * widths[column] / rows)
            cost = read / BLOCK * filled * met * WORD_NS + read / BLOCK**2 * WORDS_NS
            if cost + reach[column] / boxes * BIT_NS > MUCH_BETTER * least:
                continue
            order, moves = np.arange(boxes), np.empty(2, np.int64)
            travel(starts, stops, order, column, moves)
            if moves.min() > 2 * rows:
                order = np.argsort((starts[column] << 32) | stops[column])
                travel(starts, stops, order, column, moves)
                cost += SORT_NS
            if moves[1] < moves[0]:
                order = order[::-1].copy()
            cost += float(moves.min()) / boxes * BIT_NS
            if cost < least:
                least, best = cost, Way("sweep", column, order)
        return least, self._with_further(best, starts, stops, widths, met)

    def _with_further(
        self, way: Way, starts: Array, stops: Array, widths: list[float], met: float
    ) -> Way:
        """Also sweep another column if that is cheaper than checking it on matching rows.

        It is when its interval hardly moves from box to box, such as that of the event time.
        """
        if way.column < 1 or way.order is None:
            return way
        rows, boxes = len(self), starts.shape[1]
        candidates, best = widths[0] * widths[way.column] / rows * met, 0.0
        for column in range(1, len(starts)):
            if column != way.column:
                moves = np.empty(2, np.int64)
                travel(starts, stops, way.order, column, moves)
                spared = candidates * (1 - widths[column] / rows) * CHECK_NS
                gain = spared - float(moves[0]) / boxes * BIT_NS
                if gain > best:
                    best, way = gain, way._replace(further=column)
        return way

    # --- All rows -------------------------------------------------------------------------------

    def rows(self) -> tuple[Array, Array]:
        """The keys of all columns by place, and the ids."""
        columns = [keys[rank] for keys, rank in zip(self.keys[1:], self.ranks, strict=True)]
        return np.stack([self.keys[0], *columns]), self.ids

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self) > 0 and len(self.keys) == len(self.places) + 1
        assert self.keys.shape[1] == self.places.shape[1] == self.ranks.shape[1] == len(self)
        assert np.all(self.keys[:, :-1] <= self.keys[:, 1:]), "every column must ascend"
        for place, rank in zip(self.places, self.ranks, strict=True):
            assert np.array_equal(rank[place], np.arange(len(self))), "ranks undo places"
        zones, groups = _zones(self.places, self.ranks)
        right = np.array_equal(self.zones, zones) and np.array_equal(self.groups, groups)
        assert right, "zones hold the extremes of their blocks"
        assert self.first <= self.ids.min() and self.ids.max() <= self.last


def _zones(places: Places, ranks: Places) -> tuple[Places, Places]:
    """The least and largest value of each block along every column, and of each group of blocks."""
    columns, blocks = len(places) + 1, -(-places.shape[1] // BLOCK)
    zones = np.empty((columns, 2, blocks), np.int32)
    groups = np.empty((columns, 2, -(-blocks // BLOCK)), np.int32)
    for column in range(columns):
        values = ranks[0] if column == 0 else places[column - 1]
        permute.zone(values, values, zones[column])
        permute.zone(zones[column, 0], zones[column, 1], groups[column])
    return zones, groups

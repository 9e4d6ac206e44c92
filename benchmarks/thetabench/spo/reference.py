"""The right answers, computed without any of the structures.

`Census` counts what boxes hold in a window that stays as it is. The rows lie in the order of the
first column, cut into blocks; each block is sorted by the second column, with running sums of row
hashes (see :mod:`thetabench.digest`). A block that lies inside the first interval takes
two binary searches, the two blocks at the ends are looked at row by row. So the cost does
not depend on how many rows match: w / 2,048 searches per box.

`moving` is for windows that move or grow: it looks at all candidates of an offline search, as
:mod:`thetabench.reference` does, and tests the terms and the window on each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from thetabench.arrays import Array, Sums
from thetabench.digest import Digest, digest_by_group, row_hash, weighed, weights
from thetabench.feed import Feed
from thetabench.query import Query, Values
from thetabench.reference import candidates
from thetabench.spo.load import Load
from thetastream.side import Side

_BLOCK = 1 << 11
_AT_ONCE = 256  # boxes whose end blocks are looked at together
_PIECE = 1 << 9  # fresh rows whose answers are computed together


class Census:
    """What boxes hold, of rows with these columns and the ids 0, 1, 2, …"""

    def __init__(self, first: Values, second: Values) -> None:
        order = np.argsort(first, kind="stable")
        self._first = first[order]
        self._second = second[order]
        self._hashes = row_hash(order)
        self._blocks = [
            self._block(slice(start, start + _BLOCK)) for start in range(0, len(order), _BLOCK)
        ]

    def _block(self, rows: slice) -> tuple[Values, Sums]:
        order = np.argsort(self._second[rows], kind="stable")
        sums = np.zeros(order.size + 1, np.uint64)
        np.cumsum(self._hashes[rows][order], out=sums[1:])
        return self._second[rows][order], sums

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 5 * 8 * len(self._first)

    def boxes(self, lows: Sequence[Values], highs: Sequence[Values]) -> tuple[Array, Sums]:
        """Number and hash sum of the rows in each closed box."""
        begin = np.searchsorted(self._first, lows[0], side="left")
        end = np.maximum(np.searchsorted(self._first, highs[0], side="right"), begin)
        counts, sums = np.zeros(begin.size, np.int64), np.zeros(begin.size, np.uint64)
        whole = -(-begin // _BLOCK)  # blocks whole … last - 1 lie inside
        last = end // _BLOCK
        for number, (keys, upto) in enumerate(self._blocks):
            inside = np.flatnonzero((whole <= number) & (number < last))
            if inside.size:
                low = np.searchsorted(keys, lows[1][inside], side="left")
                high = np.maximum(np.searchsorted(keys, highs[1][inside], side="right"), low)
                counts[inside] += high - low
                sums[inside] += upto[high] - upto[low]
        front = np.minimum(whole * _BLOCK, end)
        back = np.maximum(last * _BLOCK, front)
        for start, stop in ((begin, front), (back, end)):
            self._ends(start, stop, lows[1], highs[1], counts, sums)
        return counts, sums

    def _ends(
        self, start: Array, stop: Array, low: Values, high: Values, counts: Array, sums: Sums
    ) -> None:
        """Add the rows ``start … stop - 1`` of each box, less than a block."""
        for first in range(0, start.size, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            places = start[part, None] + np.arange(int((stop - start)[part].max(initial=0)))
            inside = places < stop[part, None]
            places = np.minimum(places, len(self._first) - 1)
            keys = self._second[places]
            inside &= (keys >= low[part, None]) & (keys <= high[part, None])
            counts[part] += inside.sum(axis=1)
            sums[part] += np.where(inside, self._hashes[places], np.uint64(0)).sum(
                axis=1, dtype=np.uint64
            )


class Answers:
    """What fresh rows match among the first ``window`` stored rows; computed when asked for."""

    def __init__(self, load: Load, window: int) -> None:
        self._load = load
        self._census = Census(*(column[:window] for column in load.stored.values()))
        self._pieces: dict[int, tuple[Array, Sums]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._census.nbytes

    def digest(self, start: int, stop: int) -> Digest:
        """The digest of the right answer to fresh rows that ask together."""
        parts = [self._piece(n) for n in range(start // _PIECE, -(-stop // _PIECE))]
        cut = slice(start % _PIECE, start % _PIECE + stop - start)
        # role by role, as boxes are
        counts, sums = (
            np.concatenate([part[what] for part in parts], axis=1)[:, cut].ravel()
            for what in range(2)
        )
        return Digest(int(counts.sum()), weighed(np.arange(counts.size), sums))

    def _piece(self, number: int) -> tuple[Array, Sums]:
        if number not in self._pieces:
            lows, highs = self._load.intervals(number * _PIECE, (number + 1) * _PIECE)
            counts, sums = self._census.boxes(lows, highs)
            roles = len(self._load.roles)
            self._pieces[number] = counts.reshape(roles, -1), sums.reshape(roles, -1)
        return self._pieces[number]


class Step(NamedTuple):
    """Fresh rows ``start … stop - 1`` ask for stored rows ``begin … end - 1``."""

    start: int
    stop: int
    begin: int
    end: int


def moving(load: Load, steps: Sequence[Step]) -> list[Digest]:
    """The digests of the right answers of steps, in order and without gaps.

    Cost: a sort of all rows that are stored in some step, and the candidates.
    """
    total, base = len(steps), steps[0].begin
    fresh = load.fresh(steps[0].start, steps[-1].stop)
    sizes = np.array([step.stop - step.start for step in steps])
    step_of = np.repeat(np.arange(total), sizes)
    within = np.arange(step_of.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    begins = np.array([step.begin for step in steps])
    ends = np.array([step.end for step in steps])
    stored = {name: column[base : int(ends.max())] for name, column in load.stored.items()}
    counts, sums = np.zeros(total, np.int64), np.zeros(total, np.uint64)
    for role, rows, partners in _matches(load.query, load.roles, fresh, stored):
        step, ids = step_of[rows], partners + base
        kept = (ids >= begins[step]) & (ids < ends[step])
        step, rows, ids = step[kept], rows[kept], ids[kept]
        counts += np.bincount(step, minlength=total)
        positions = within[rows] + load.roles.index(role) * sizes[step]
        np.add.at(sums, step, weights(positions) * row_hash(ids))
    return [Digest(int(n), int(s)) for n, s in zip(counts, sums, strict=True)]


def _matches(
    query: Query, roles: Iterable[Side], fresh: dict[str, Values], stored: dict[str, Values]
) -> Iterator[tuple[Side, Array, Array]]:
    """Yield roles and positions of fresh and stored rows that hold all terms.

    The last term is tested first: candidates come from the first one.
    """
    for role in roles:
        terms = tuple(query.terms_for(role))
        for rows, partners in candidates(query, terms, fresh, stored):
            for term in reversed(terms):
                kept = term.holds(fresh[term.column][rows], stored[term.column][partners])
                rows, partners = rows[kept], partners[kept]
            yield role, rows, partners


def pushed(feed: Feed, pushes: int) -> list[Digest]:
    """The digests of the right answers of a self-join with inequalities, push by push.

    Each row asks in both roles for the rows at most a window before it.
    """
    query, stop = feed.query, feed.start(pushes)
    columns = {name: feed.left.column(name).to_numpy() for name in query.columns}
    fresh = {name: column[feed.filled : stop] for name, column in columns.items()}
    base = max(feed.filled - query.window, 0)
    stored = {name: column[base:stop] for name, column in columns.items()}
    counts, sums = np.zeros(pushes, np.int64), np.zeros(pushes, np.uint64)
    for role, rows, partners in _matches(query, Side, fresh, stored):
        mine, ids = rows + feed.filled, partners + base
        kept = (ids < mine) & (ids >= mine - query.window)
        mine, ids, push = mine[kept], ids[kept], rows[kept] // feed.batch
        pair = (mine, ids) if role is Side.LEFT else (ids, mine)
        more = digest_by_group(*pair, push, pushes)
        counts += more[0]
        sums += more[1]
    return [Digest(int(n), int(s)) for n, s in zip(counts, sums, strict=True)]

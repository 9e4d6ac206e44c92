"""The truth about a feed, found in another way than any contestant's: offline, by sorting.

For each stretch of pushes all rows that can take part are known. The stored rows are sorted once
by a key, every fresh row asks for the slice of them that its box covers, and the exact terms and
the window are tested on these candidates. A pair belongs to the push of its later row.

- A band is such a slice.
- Two bands: rows are sorted by *cell* of the second key, then by the first key.
- ``l.a < r.a AND l.b > r.b``: with ``e = b - a`` the second condition becomes
  ``r.a < l.a + e_l - e_r``, so ``r.a`` lies between ``l.a`` and ``l.a + e_l - min(e_r)``. For
  correlated keys that is a narrow slice.

The nested loop in the tests checks this module on small feeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thetabench.arrays import Array
from thetabench.digest import Digest, digest_by_group
from thetabench.feed import Feed
from thetabench.query import Op, Query, Term, Values
from thetastream.side import Side

_CANDIDATES = 1 << 22
_STRETCH = 1 << 16


def reference(feed: Feed, pushes: int) -> list[Digest]:
    """The digest of the right answer of each of the first pushes.

    Cost: one sort of about two windows per window's worth of fresh rows, and about twice the
    matches as candidates.
    """
    counts = np.zeros(pushes, dtype=np.int64)
    sums = np.zeros(pushes, dtype=np.uint64)
    stretch = max(feed.query.window, _STRETCH) // feed.batch * len(feed.sides)
    stretch = max(stretch, len(feed.sides))
    for first in range(0, pushes, stretch):
        last = min(first + stretch, pushes)
        for side in feed.sides:
            for left, right, push in matches(feed, side, first, last):
                more = digest_by_group(left, right, push, pushes)
                counts += more[0]
                sums += more[1]
    return [Digest(int(n), int(s)) for n, s in zip(counts, sums, strict=True)]


def matches(feed: Feed, side: Side, first: int, last: int) -> Iterator[tuple[Array, Array, Array]]:
    """Yield left ids, right ids and push numbers of matches of one side's fresh rows."""
    query, turn = feed.query, len(feed.sides)
    pushes = np.array([p for p in range(first, last) if feed.side(p) is side], dtype=np.int64)
    if not len(pushes):
        return
    starts = feed.filled + pushes // turn * feed.batch
    fresh_ids = (starts[:, None] + np.arange(feed.batch)).ravel()
    push_of = np.repeat(pushes, feed.batch)
    seen = _rows_before(feed, side, fresh_ids, push_of)
    begin, end = max(int(seen.min()) - query.window, 0), int(seen.max())
    fresh = _columns(feed, side, int(fresh_ids[0]), int(fresh_ids[-1]) + 1)
    stored = _columns(feed, side.other, begin, end)
    terms = query.terms_for(side)
    for rows, found in candidates(query, terms, fresh, stored):
        ids, before = found + begin, seen[rows]
        keep = (ids < before) & (ids >= before - query.window)
        for term in terms:
            keep &= term.holds(fresh[term.column][rows], stored[term.column][found])
        rows, ids = rows[keep], ids[keep]
        pair = (fresh_ids[rows], ids) if side is Side.LEFT else (ids, fresh_ids[rows])
        yield *pair, push_of[rows]
        if query.self_join:
            yield pair[1], pair[0], push_of[rows]


def _rows_before(feed: Feed, side: Side, ids: Array, push_of: Array) -> Array:
    """How many rows of the other side arrived before each fresh row."""
    if feed.query.self_join:
        return ids
    turns = push_of // 2 + (1 if side is Side.RIGHT else 0)  # a left push comes first
    return np.asarray(feed.filled + turns * feed.batch)


def _columns(feed: Feed, side: Side, begin: int, end: int) -> dict[str, Values]:
    rows = feed.table(side).slice(begin, end - begin)
    return {name: rows.column(name).to_numpy() for name in feed.query.columns}


def candidates(
    query: Query, terms: tuple[Term, ...], fresh: dict[str, Values], stored: dict[str, Values]
) -> Iterator[tuple[Array, Array]]:
    """Yield positions of fresh and stored rows whose boxes may meet, in bounded pieces."""
    first = terms[0].column
    lows, highs = terms[0].bounds(fresh[first])
    if len(terms) == 2 and terms[0].op is not Op.BAND:
        lows, highs = _narrowed(terms, fresh, stored, lows, highs)
    ranked = np.sort(stored[first])
    rank = np.searchsorted(ranked, stored[first])
    low = np.searchsorted(ranked, lows, side="left")
    high = np.searchsorted(ranked, highs, side="right")
    base = len(ranked) + 1
    for own, asked in _cells(query, fresh, stored):
        codes = own * base + rank
        order = np.argsort(codes)
        codes = codes[order]
        begin = np.searchsorted(codes, asked * base + low, side="left")
        end = np.searchsorted(codes, asked * base + high, side="left")
        for rows, places in expanded(begin, np.maximum(end, begin)):
            yield rows, order[places]


def _cells(
    query: Query, fresh: dict[str, Values], stored: dict[str, Values]
) -> Iterator[tuple[Values, Values]]:
    """Yield the cells of stored rows and a cell that each fresh row asks, until all are asked."""
    if len(query.bands) < 2:
        yield np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        return
    band = query.bands[1]
    width = 2 * band.width + 1
    lowest = stored[band.column].min(initial=0) // width
    own = (stored[band.column] // width - lowest).astype(np.int64)
    first = ((fresh[band.column] - band.width) // width - lowest).astype(np.int64)
    last = ((fresh[band.column] + band.width) // width - lowest).astype(np.int64)
    yield own, first
    yield own, np.where(last != first, last, own.max(initial=0) + 2)


def _narrowed(
    terms: tuple[Term, ...],
    fresh: dict[str, Values],
    stored: dict[str, Values],
    lows: Values,
    highs: Values,
) -> tuple[Values, Values]:
    """Close the open end of ``a`` with the help of ``b``; see the module text."""
    a, b = terms
    rises = a.op in (Op.LT, Op.LE)
    if rises == (b.op in (Op.LT, Op.LE)):
        return lows, highs  # both in the same direction: nothing follows
    mine = fresh[b.column] - fresh[a.column]
    theirs = stored[b.column] - stored[a.column]
    slack = 1e-9 * (1 + np.abs(fresh[a.column]) + np.abs(fresh[b.column]))
    if rises:
        return lows, fresh[a.column] + mine - theirs.min(initial=np.inf) + slack
    return fresh[a.column] + mine - theirs.max(initial=-np.inf) - slack, highs


def expanded(begin: Array, end: Array) -> Iterator[tuple[Array, Array]]:
    """Turn slices into pairs of a row and a place, a bounded number at a time."""
    sizes = end - begin
    total = np.cumsum(sizes)
    row = 0
    while row < len(sizes):
        limit = (total[row - 1] if row else 0) + _CANDIDATES
        until = max(int(np.searchsorted(total, limit, side="right")), row + 1)
        piece = sizes[row:until]
        rows = np.repeat(np.arange(row, until), piece)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(piece) - piece, piece)
        yield rows, begin[rows] + offsets
        row = until

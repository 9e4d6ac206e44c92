"""How the fences of a relation change: runs of leaves replaced by others.

::

    before   a  b  c  d  e          splice (at 1, removed 2, added 3): b and c became p, q, r
    after    a  p  q  r  d  e

A record of the journal holds such splices instead of all fences, so that a small transaction of a
large relation is a small record, and a reader in another process follows by applying them.

Invariant: ``apply(before, difference(before, after))`` is ``after``. Cost: O(leaves), in a few
passes of NumPy; nothing when the fences did not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.relation.files.fences import Fences


@dataclass(frozen=True, slots=True)
class Entries:
    """What the fences say of each leaf, in key order, as plain arrays that nobody changes."""

    firsts: Array
    """First key."""
    continued: NDArray[np.uint8]
    """1: begins with the key that ends the leaf before."""
    greatest: Array
    """Greatest key of ``hi``; 0 in relations without intervals."""
    blocks: Array
    """First block."""
    spans: Array
    """Number of blocks."""

    @staticmethod
    def none() -> Entries:
        """The entries of no leaves."""
        empty = np.empty(0, np.int64)
        return Entries(empty, np.empty(0, np.uint8), empty, empty, empty)

    @staticmethod
    def of(fences: Fences) -> Entries:
        """What fences say; O(leaves)."""
        firsts = fences.firsts
        zeros = np.zeros(len(firsts), np.int64)
        return Entries(
            firsts,
            fences.continued,
            zeros if fences.greatest is None else fences.greatest,
            fences.blocks,
            np.ones(len(firsts), np.int64) if fences.spans is None else fences.spans,
        )

    def __len__(self) -> int:
        return len(self.firsts)

    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays, in the order of the fields."""
        return self.firsts, self.continued, self.greatest, self.blocks, self.spans

    def where(self, chosen: NDArray[np.bool_] | Array | slice) -> Entries:
        """Some of the leaves: those of a mask, of positions, or of a slice."""
        return Entries(*(column[chosen] for column in self.columns()))  # type: ignore[arg-type]

    def same(self, other: Entries) -> NDArray[np.bool_]:
        """Where both, of the same length, say the same."""
        equal = np.ones(len(self), np.bool_)
        for mine, theirs in zip(self.columns(), other.columns(), strict=True):
            equal &= mine == theirs
        return equal


@dataclass(frozen=True, slots=True)
class Splices:
    """Runs of leaves that were replaced: ascending, none overlaps another."""

    at: Array
    """First leaf of the run, counted before the change."""
    removed: Array
    """How many leaves it had."""
    added: Array
    """How many it has now."""
    entries: Entries
    """Those it has now, run after run."""

    @staticmethod
    def none() -> Splices:
        """No change."""
        empty = np.empty(0, np.int64)
        return Splices(empty, empty, empty, Entries.none())

    def __len__(self) -> int:
        return len(self.at)


def difference(before: Entries, after: Entries) -> Splices:
    """The splices that lead from one to the other.

    Leaves are recognised by their block. One that moved behind another counts as removed and added.
    """
    if before is after:
        return Splices.none()
    front, back = _common(before, after)
    inner = _difference(
        before.where(slice(front, len(before) - back)), after.where(slice(front, len(after) - back))
    )
    return Splices(inner.at + front, inner.removed, inner.added, inner.entries)


def _common(before: Entries, after: Entries) -> tuple[int, int]:
    """How many leaves are the same at the front and, of the others, at the back: often most."""
    count = min(len(before), len(after))
    differ = ~before.where(slice(count)).same(after.where(slice(count)))
    front = int(np.argmax(differ)) if differ.any() else count
    tails = (e.where(slice(len(e) - count + front, None)) for e in (before, after))
    differ = ~next(tails).same(next(tails))
    places = np.flatnonzero(differ)
    return front, count - front - (int(places[-1]) + 1 if len(places) else 0)


def _difference(before: Entries, after: Entries) -> Splices:
    size = 1 + max((int(e.blocks.max()) for e in (before, after) if len(e)), default=0)
    place = np.full(size, -1, np.int64)
    place[before.blocks] = np.arange(len(before))
    match = place[after.blocks]
    kept = match >= 0
    if len(before):
        kept &= after.same(before.where(match))
    greatest = np.maximum.accumulate(np.where(kept, match, -1))
    kept[1:] &= match[1:] > greatest[:-1]
    old = np.concatenate(([-1], match[kept], [len(before)]))
    new = np.concatenate(([-1], np.flatnonzero(kept), [len(after)]))
    removed, added = np.diff(old) - 1, np.diff(new) - 1
    changed = (removed > 0) | (added > 0)
    at = old[:-1] + 1
    return Splices(at[changed], removed[changed], added[changed], after.where(~kept))


def apply(before: Entries, splices: Splices) -> Entries:
    """The entries after a change."""
    if not len(splices):
        return before
    pairs = zip(before.columns(), splices.entries.columns(), strict=True)
    return Entries(*spliced(splices, pairs))  # type: ignore[arg-type]


def spliced(
    splices: Splices, columns: Iterable[tuple[NDArray[np.generic], NDArray[np.generic]]]
) -> list[NDArray[np.generic]]:
    """Arrays with one value per leaf after a change, of those before and the values added."""
    stops = splices.at.tolist()
    starts = [0, *(splices.at + splices.removed).tolist()]
    cuts = [0, *np.cumsum(splices.added).tolist()]
    results = []
    for old, fresh in columns:
        parts = [old[starts[-1] :]]
        for i in reversed(range(len(stops))):
            parts += fresh[cuts[i] : cuts[i + 1]], old[starts[i] : stops[i]]
        results.append(np.concatenate(parts[::-1]))
    return results


def runs(starts: Array, counts: Array) -> Array:
    """The numbers of all runs ``starts[i] … starts[i] + counts[i] - 1``."""
    total = int(counts.sum())
    offsets = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return offsets + np.arange(total, dtype=np.int64)


def leaves_with(entries: Entries, keys: Array) -> Array:
    """Leaves that can hold one of the keys (ascending, no key twice), ascending.

    A key can lie in the leaf that begins below it, and in all that begin with it.
    """
    if not len(entries) or not len(keys):
        return np.empty(0, np.int64)
    first = np.searchsorted(entries.firsts, keys, "left")
    stop = np.searchsorted(entries.firsts, keys, "right")
    begins = first < stop
    ahead = np.where(begins, entries.continued[np.minimum(first, len(entries) - 1)] == 1, first > 0)
    first = first - (ahead & (first > 0))
    return np.unique(runs(first, stop - first))

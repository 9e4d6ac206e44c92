"""Changes of a relation's fences: runs of leaves replaced by others.

::

    before   a  b  c  d  e          splice (at 1, removed 2, added 3): b and c became p, q, r
    after    a  p  q  r  d  e

A journal record holds splices instead of all fences, so that a small transaction on a large
relation is a small record. A reader in another process applies them to follow.

Invariant: ``apply(before, difference(before, after))`` is ``after``. Cost: O(leaves), in a few
passes of NumPy; nothing if the fences did not change.
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
    """The fences as plain, immutable arrays with one value per leaf, in key order."""

    firsts: Array
    """First key."""
    continued: NDArray[np.uint8]
    """1: begins with the last key of the previous leaf."""
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
        """The entries of fences; O(leaves)."""
        greatest = np.zeros(len(fences), np.int64) if fences.greatest is None else fences.greatest
        return Entries(fences.firsts, fences.continued, greatest, fences.blocks, fences.all_spans)

    def __len__(self) -> int:
        return len(self.firsts)

    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays, in the order of the fields."""
        return self.firsts, self.continued, self.greatest, self.blocks, self.spans

    def where(self, chosen: NDArray[np.bool_] | Array | slice) -> Entries:
        """The leaves chosen by a mask, positions or a slice."""
        return Entries(*(column[chosen] for column in self.columns()))  # type: ignore[arg-type]

    def same(self, other: Entries) -> NDArray[np.bool_]:
        """Where two entries of the same length agree."""
        equal = np.ones(len(self), np.bool_)
        for mine, theirs in zip(self.columns(), other.columns(), strict=True):
            equal &= mine == theirs
        return equal


@dataclass(frozen=True, slots=True)
class Splices:
    """Runs of leaves that were replaced: ascending, without overlap."""

    at: Array
    """First leaf of each run, numbered as before the change."""
    removed: Array
    """Leaves of each run before the change."""
    added: Array
    """Leaves of each run after the change."""
    entries: Entries
    """The new leaves, run after run."""

    @staticmethod
    def none() -> Splices:
        """No change."""
        empty = np.empty(0, np.int64)
        return Splices(empty, empty, empty, Entries.none())

    def __len__(self) -> int:
        return len(self.at)


def difference(before: Entries, after: Entries) -> Splices:
    """The splices that turn ``before`` into ``after``.

    Leaves are identified by their block. A leaf that moved counts as removed and added.
    """
    if before is after:
        return Splices.none()
    front, back = _common(before, after)
    inner = _difference(
        before.where(slice(front, len(before) - back)), after.where(slice(front, len(after) - back))
    )
    return Splices(inner.at + front, inner.removed, inner.added, inner.entries)


def _common(before: Entries, after: Entries) -> tuple[int, int]:
    """Equal leaves at the front and, among the others, at the back: often most of them."""
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
    """Per-leaf arrays after a change, from pairs of the old array and the values added."""
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
    """All numbers of the runs ``starts[i] … starts[i] + counts[i] - 1``."""
    total = int(counts.sum())
    offsets = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return offsets + np.arange(total, dtype=np.int64)


def leaves_with(entries: Entries, keys: Array) -> Array:
    """Leaves that can hold one of the keys (ascending, distinct), ascending.

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

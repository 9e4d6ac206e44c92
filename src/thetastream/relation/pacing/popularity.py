"""The distribution of questions over leaves, and where those lie: estimated from a small sample.

A sample of a few thousand questions cannot show the popularity of each of a million leaves. So
leaves are grouped into classes by their count in the sample, and a class gets the popularity that
its size makes likely: Good and Turing's estimate for leaves seen one to four times, the plain share
for those seen more often. Unseen leaves form classes too: their share of the questions is that of
leaves seen once, and their number continues that of the rare ones, up to the size of the relation.
So a uniform stream is recognised as uniform although its sample has leaves seen three times and
others never, and a skewed stream is expected to have a long tail. The positions of leaves are a
histogram per class over 64 equal parts of the relation: adjacent hot leaves need fewer seeks.

The sample is taken evenly from all questions of a *period*, usually from one join phase to the
next: when it is full, every other entry is dropped and the sampling rate is halved. (Questions are
in leaf order: a ring of the last ones would cover one end of the relation only.) The previous
period is kept too, so that a new period does not start empty, while a changing stream is followed.
Cost: O(1) memory; a summary sorts the sample once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thetastream._jit.arrays import Array, Floats

PARTS = 64
"""Equal parts of the relation with separate densities."""

_EXACT = 8  # counts up to this have a class each; above, two classes per doubling
_TURING = 4  # counts up to this are corrected
_UNSEEN = 4  # classes of unseen leaves


@dataclass(frozen=True, slots=True)
class Popularity:
    """Classes of leaves, the most popular first."""

    share: Floats
    """Per class: the probability that a question asks for a given leaf of it."""
    leaves: Floats
    """Per class: number of leaves."""
    places: Floats
    """Per class and part of the relation: number of leaves."""


class LeafSample:
    """Questions of this period and the previous one: at most ``size`` leaf numbers in all."""

    def __init__(self, leaves: int, size: int) -> None:
        self._leaves = leaves
        kind = np.int64 if leaves > 2**31 - 1 else np.int32
        self._now, self._before = (np.zeros(size // 2, kind) for _ in range(2))
        self._count = self._count_before = 0
        self._every = 1  # one question in this many is taken
        self._skip = 0  # questions until the next one is taken
        self._random = np.random.default_rng(8)
        self.nbytes = self._now.nbytes + self._before.nbytes

    @property
    def count(self) -> int:
        """Questions in the sample."""
        return self._count + self._count_before

    def add(self, leaves: Array) -> None:
        """Sample questions; all those of a period are equally likely."""
        room = self._now.size
        picks = np.arange(self._skip, leaves.size, self._every)
        self._skip += picks.size * self._every - leaves.size
        if self._every > 1:  # a random one of each stretch
            picks += self._random.integers(0, self._every, picks.size)
            picks = np.minimum(picks, leaves.size - 1)
        taken = leaves[picks]
        while self._count + taken.size > room:
            kept = self._now[: self._count : 2]
            self._now[: kept.size] = kept.copy()
            self._count = kept.size
            taken = taken[::2]
            self._every *= 2
        self._now[self._count : self._count + taken.size] = taken
        self._count += taken.size

    def end_period(self) -> None:
        """Start a new period, if this one has enough questions."""
        if self._count >= self._now.size // 4:
            self._now, self._before = self._before, self._now
            self._count, self._count_before = 0, self._count
            self._every = max(1, self._every // 2)
            self._skip = 0

    def summary(self) -> Popularity:
        """Classify the leaves. Cost O(n log n) in the size of the sample, some 0.4 ms."""
        known = np.concatenate([self._now[: self._count], self._before[: self._count_before]])
        seen, counts = np.unique(known, return_counts=True)
        ranks = _class_of(counts)
        classes = int(ranks.max()) + 1
        # Leaves that updates have added since count to the last part.
        parts = np.minimum(seen.astype(np.int64) * PARTS // self._leaves, PARTS - 1)
        places = np.bincount(ranks * PARTS + parts, minlength=classes * PARTS).astype(np.float64)
        places = places.reshape(classes, PARTS)
        leaves = places.sum(axis=1)
        asked = np.bincount(ranks, weights=counts, minlength=classes)
        each = np.divide(asked, leaves, out=np.zeros(classes), where=leaves > 0)
        each, leaves, places = self._with_unseen(each, leaves, places)
        used = leaves > 0
        each, leaves, places = each[used], leaves[used], places[used]
        each /= float(each @ leaves)
        order = np.argsort(-each)
        return Popularity(each[order], leaves[order], places[order])

    def _with_unseen(
        self, each: Floats, leaves: Floats, places: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Correct rare leaves, and add classes of unseen leaves.

        Ranks continue as a power law with the slope of the rare leaves, until the unseen leaves'
        share of the questions is used up. Without a slope this is Chao's estimate.
        """
        once = leaves[1] if leaves.size > 1 else 0.0
        twice = leaves[2] if leaves.size > 2 else 0.0
        room = float(self._leaves) - leaves.sum()
        if once < 2.0 or room < 1.0:
            return each, leaves, places
        distinct = leaves.sum()
        each[1] = min(2.0 * (twice + 1.0) / (once - 1.0), 1.0)
        for count in range(2, min(_TURING, leaves.size - 2) + 1):
            if leaves[count] and leaves[count + 1]:
                likely = (count + 1) * leaves[count + 1] / leaves[count]
                each[count] = min(max(likely, each[count - 1]), count)
        slope = 0.0
        if leaves.size > _TURING and 0.0 < (often := leaves[_TURING:].sum()) < distinct:
            slope = np.log(max(each[_TURING] / each[1], 1.0)) / np.log(distinct / often)
        last = min(_last_rank(distinct, once / each[1], float(slope)), distinct + room)
        ranks = np.geomspace(distinct, last, _UNSEEN + 1)
        unseen = np.diff(ranks)
        rarity = np.sqrt(ranks[1:] * ranks[:-1]) ** -slope
        rarity *= once / float(rarity @ unseen)
        spread = self._spread(places, last - distinct)
        return (
            np.concatenate([each, rarity]),
            np.concatenate([leaves, unseen]),
            np.concatenate([places, np.outer(unseen / unseen.sum(), spread)]),
        )

    def _spread(self, places: Floats, unseen: float) -> Floats:
        """Distribute unseen leaves like those seen once, within the size of each part."""
        free = np.maximum(self._leaves / PARTS - places.sum(axis=0), 0.0)
        spread: Floats = np.minimum(places[1] * (unseen / places[1].sum()), free)
        missing = unseen - float(spread.sum())
        if missing > 0.0 and (left := float((free - spread).sum())) > 0.0:
            spread += (free - spread) * min(missing / left, 1.0)
        return spread


def _last_rank(first: float, amount: float, slope: float) -> float:
    """The ``x`` with ∫ (r / first)^-slope dr = amount for r from ``first`` to ``x``."""
    if abs(slope - 1.0) < 1e-6:
        return float(first * np.exp(min(amount / first, 50.0)))
    base = 1.0 + (1.0 - slope) * amount / first
    return float(first * base ** (1.0 / (1.0 - slope))) if base > 0.0 else float("inf")


def _class_of(counts: Array) -> Array:
    """1 … 8 for these counts, then two classes per doubling."""
    above = 2.0 * np.log2(np.maximum(counts, _EXACT) / _EXACT)
    return np.where(counts <= _EXACT, counts, _EXACT + 1 + above.astype(np.int64))

"""Which share of questions goes to how many leaves, and where they lie: from a small sample.

A sample of a few thousand questions cannot know the popularity of a million leaves one by one.
So leaves are put into classes by how often the sample has them, and a class gets the popularity
that its size makes likely: Good and Turing's estimate for leaves seen once to four times, the plain
share for those seen more often. Leaves that were not seen form classes too: their share of the
questions is that of leaves seen once, their number goes on from the rare ones, at most to what the
relation has. So a uniform stream is recognised as uniform although its sample has leaves seen three
times and others never, and a long tail is expected behind a skewed one. Where the leaves lie is
kept as a histogram per class, in 64 equal parts of the relation: hot leaves that lie together are
read by fewer seeks.

The sample is taken evenly from all questions of a *period*, usually from one join phase to the
next: when it is full, every other entry goes and half as many questions are taken from then on.
(Questions come in the order of the leaves: a ring of the last ones would know one end of the
relation only.) The period before is kept beside it, so that a new period does not begin with
nothing, and a stream that moves on is followed. Cost: O(1) memory; a summary sorts the sample once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

PARTS = 64
"""Equal parts of the relation whose densities are told apart."""

_EXACT = 8  # counts up to this have a class each; above, two classes per doubling
_TURING = 4  # counts up to this are corrected
_UNSEEN = 4  # classes of leaves that were not seen

_Floats: TypeAlias = npt.NDArray[np.float64]
_Triple: TypeAlias = tuple[_Floats, _Floats, _Floats]


@dataclass(frozen=True, slots=True)
class Popularity:
    """Classes of leaves, the most asked ones first."""

    share: _Floats
    """Per class: the probability that a question is about one certain leaf of it."""
    leaves: _Floats
    """Per class: how many leaves."""
    places: _Floats
    """Per class and part of the relation: how many leaves."""


class LeafSample:
    """Questions of this period and the one before: at most ``size`` leaf numbers in all."""

    def __init__(self, leaves: int, size: int) -> None:
        self._leaves = leaves
        kind = np.int64 if leaves > 2**31 - 1 else np.int32
        self._now, self._before = (np.zeros(size // 2, kind) for _ in range(2))
        self._count = self._count_before = 0
        self._every = 1  # one of so many questions is taken
        self._skip = 0  # questions until the next one is
        self._random = np.random.default_rng(8)
        self.nbytes = self._now.nbytes + self._before.nbytes

    @property
    def count(self) -> int:
        """How many questions are known."""
        return self._count + self._count_before

    def add(self, leaves: npt.NDArray[np.int64]) -> None:
        """Take some of the questions; every one of a period is as likely as any other."""
        room = self._now.size
        picks = np.arange(self._skip, leaves.size, self._every)
        self._skip += picks.size * self._every - leaves.size
        if self._every > 1:  # anyone of each stretch
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
        """Begin a new period, if this one has shown enough."""
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
        # Leaves that updates have added since lie in the last part.
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

    def _with_unseen(self, each: _Floats, leaves: _Floats, places: _Floats) -> _Triple:
        """Correct rare leaves, and add classes of leaves that were not seen.

        Ranks go on as a power law with the slope of the rare leaves, to where the share of the
        questions that is due to unseen leaves is used up. Without a slope that is Chao's estimate.
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

    def _spread(self, places: _Floats, unseen: float) -> _Floats:
        """Where leaves were seen once there are others; no part holds more than it has."""
        free = np.maximum(self._leaves / PARTS - places.sum(axis=0), 0.0)
        spread: _Floats = np.minimum(places[1] * (unseen / places[1].sum()), free)
        missing = unseen - float(spread.sum())
        if missing > 0.0 and (left := float((free - spread).sum())) > 0.0:
            spread += (free - spread) * min(missing / left, 1.0)
        return spread


def _last_rank(first: float, amount: float, slope: float) -> float:
    """Give ``x`` with ∫ (r / first)^-slope dr = amount for r from ``first`` to ``x``."""
    if abs(slope - 1.0) < 1e-6:
        return float(first * np.exp(min(amount / first, 50.0)))
    base = 1.0 + (1.0 - slope) * amount / first
    return float(first * base ** (1.0 / (1.0 - slope))) if base > 0.0 else float("inf")


def _class_of(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 … 8 for these counts, then two classes per doubling."""
    above = 2.0 * np.log2(np.maximum(counts, _EXACT) / _EXACT)
    return np.where(counts <= _EXACT, counts, _EXACT + 1 + above.astype(np.int64))

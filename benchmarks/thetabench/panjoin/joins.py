"""A whole ``StreamJoin`` at work: two sides, count windows, Arrow in, Arrow out.

Pushes alternate between the sides; each row meets the last w rows of the other side. Everything
that the engine does is timed: keys, sorting, probing, inserting, expiring, giving results.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.digest import Digest, digest
from thetabench.feed import Feed
from thetabench.panjoin.plan import Contestant
from thetabench.panjoin.reference import Truth, check_pairs, weighed, weights
from thetabench.panjoin.structures import Unavailable
from thetabench.panjoin.trial import Trial
from thetabench.peers.engine import Thetastream
from thetabench.query import Op, Query, Term
from thetabench.reference import matches, reference
from thetastream.datasets.keys import DOMAIN
from thetastream.datasets.rates import uniform_band_width
from thetastream.errors import RegistryError
from thetastream.side import Side

__all__ = ["REPEATED", "Joining", "feed_of", "truths"]

Array = NDArray[np.int64]
REPEATED = "repeated"
"""The distribution of keys that repeat, so that an equality finds S of them."""
_TIMED_ROWS = 1 << 21  # per side, after the windows are full
_PUSHES = 4  # of each side, at least
_SEARCHED = 16  # matches per row above which pairs are too many to look at one by one


def feed_of(who: Contestant, seed: int) -> Feed:
    """The rows of a join: an equality where keys repeat, a band otherwise."""
    rng = np.random.default_rng(seed)
    pushes = max(_PUSHES, -(-min(_TIMED_ROWS, who.rows) // who.batch))
    rows = who.rows + pushes * who.batch
    if who.distribution == REPEATED:
        distinct = max(1, round(who.rows / who.matches))
        query = Query("l.x = r.x", (Term("x", Op.BAND, 0),), who.rows)
        step = DOMAIN // distinct
    else:
        width = uniform_band_width(DOMAIN, window=who.rows, match_rate=who.matches)
        query = Query.parse(f"abs(l.x - r.x) <= {width}", who.rows)
        distinct, step = DOMAIN, 1
    left, right = (
        pa.table({"x": rng.integers(0, distinct, rows) * step, "id": np.arange(rows)}) for _ in Side
    )
    return Feed(query, who.batch, who.rows, left, right)


class Joining(Trial):
    """Pushes, one side at a time; the first one is not timed."""

    def __init__(self, who: Contestant, label: str, feed: Feed) -> None:
        super().__init__(who, label)
        self.feed = feed
        self.digests: list[Digest] = []
        try:
            self._join = Thetastream(feed.query, tactic=who.structure, output=who.output)
        except RegistryError as error:
            raise Unavailable(str(error)) from None
        self._join.prefill(*feed.prefill())
        self.step()
        self.restart()

    def step(self) -> bool:
        """Push one batch."""
        push, feed = len(self.digests), self.feed
        if push == feed.pushes:
            return False
        side, rows = feed.side(push), feed.rows(push)
        answer = self.timed(lambda: self._join.push(side, rows))
        found = digest(answer) if self.who.output == "rows" else _counted(answer, side)
        self.digests.append(found)
        self.tuples += rows.num_rows
        self.pairs += found.matches
        return True

    def restart(self) -> None:
        """Set clock and counters to zero; answers so far are checked all the same."""
        super().restart()
        self.tuples = self.pairs = 0

    def verify(self, right: list[Digest]) -> None:
        """Compare the answers of all pushes."""
        for push, found in enumerate(self.digests):
            check_pairs(self.name, push, found, right[push])
        self.checked = len(self.digests) * self.who.batch

    @property
    def nbytes(self) -> int:
        """Bytes of both sides' indexes."""
        return self._join.index_bytes()


def truths(feed: Feed, pushes: int, output: str, rate: float) -> list[Digest]:
    """The right answers of the first pushes: of rows, or of the number of each row's matches."""
    if output == "rows":
        return reference(feed, pushes)
    if rate > _SEARCHED:
        return [_searched(feed, push) for push in range(pushes)]
    counts, sums = np.zeros(pushes, np.int64), np.zeros(pushes, np.uint64)
    for side in Side:
        for left, right, push in matches(feed, side, 0, pushes):
            counts += np.bincount(push, minlength=pushes)
            np.add.at(sums, push, weights(left if side is Side.LEFT else right))
    return [Digest(int(n), int(s)) for n, s in zip(counts, sums, strict=True)]


def _searched(feed: Feed, push: int) -> Digest:
    """One push: its rows all meet the same rows of the other side."""
    side, start = feed.side(push), feed.start(push)
    seen = feed.filled + (push + 1) // 2 * feed.batch  # rows of the other side, a left push first
    window = feed.table(side.other).column("x").to_numpy()[seen - feed.query.window : seen]
    fresh = feed.rows(push).column("x").to_numpy()
    order = np.argsort(fresh)
    lows, highs = feed.query.terms[0].bounds(fresh[order])
    counts = Truth(window).boxes(lows, highs)[0]
    return Digest(int(counts.sum()), weighed(start + order, counts))


def _counted(answer: pa.Table, side: Side) -> Digest:
    assert set(answer.column("side").to_pylist()[:1]) <= {side.value}
    counts = answer.column("matches").to_numpy()
    return Digest(int(counts.sum()), weighed(answer.column("row").to_numpy(), counts))

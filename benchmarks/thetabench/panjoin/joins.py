"""A whole ``StreamJoin`` at work: two sides, count windows, Arrow in, Arrow out.

Pushes alternate between the sides; each row meets the last w rows of the other side. Everything
that the engine does is timed: keys, sorting, probing, inserting, expiring, making the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thetabench.contestant import Unavailable
from thetabench.digest import Digest, digest, verify, weighed, weights
from thetabench.feed import Feed
from thetabench.panjoin.contestant import Contestant
from thetabench.panjoin.reference import Truth
from thetabench.panjoin.trial import Timed
from thetabench.peers.engine import Thetastream
from thetabench.query import Op, Query, Term
from thetabench.race import Values
from thetabench.reference import matches, reference
from thetastream.datasets.keys import DOMAIN
from thetastream.datasets.rates import uniform_band_width
from thetastream.errors import RegistryError
from thetastream.side import Side

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


class Joining(Timed):
    """Pushes, one side at a time; the first one is not timed."""

    def __init__(self, who: Contestant, label: str, feed: Feed) -> None:
        super().__init__(who, label)
        self.feed = feed
        self.digests: list[Digest] = []
        self.result_share = 0.0
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
        self.digests.append(digest(answer) if self.who.output == "rows" else _counted(answer, side))
        self.tuples += rows.num_rows
        self.pairs += self.digests[-1].matches
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of both sides' indexes."""
        return self._join.index_bytes()

    @property
    def columns(self) -> Values:
        """The columns of its line."""
        return {**super().columns, "result_share": self.result_share}


def check(trials: Sequence[Joining]) -> None:
    """Compare the answers of joins, all of which had the same input; then their times.

    The share of the time that making rows takes is known where a join was also timed counting them.
    """
    for output in dict.fromkeys(trial.who.output for trial in trials):
        own = [trial for trial in trials if trial.who.output == output]
        pushes = max(len(trial.digests) for trial in own)
        right = truths(own[0].feed, pushes, output, own[0].who.matches)
        for trial in own:
            verify(trial.name, trial.digests, right, "batch")
            trial.checked = len(trial.digests) * trial.who.batch
    counting = {own.who.structure: own.ns_per_tuple for own in trials if own.who.output == "count"}
    for trial in trials:
        if trial.who.output == "rows" and trial.who.structure in counting:
            counted = counting[trial.who.structure]
            trial.result_share = max(0.0, 1 - counted / trial.ns_per_tuple)


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

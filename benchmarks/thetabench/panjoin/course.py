"""The course on which all contestants race, and whole joins on it.

A join is a ``StreamJoin`` of two sides with count windows, which answers with rows or counts them.
Each row meets the last w rows of the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from thetabench import windows
from thetabench.answers import Tally, Truth
from thetabench.digest import Digest, weighed, weights
from thetabench.feed import Feed
from thetabench.figure import Sizes
from thetabench.panjoin import splitters
from thetabench.panjoin.contestant import BTREES, REPEATED, Cell, Contestant, Maker, Work, make
from thetabench.panjoin.phases import Changing, Story
from thetabench.panjoin.stock import Stock
from thetabench.panjoin.trial import Insertion, Probing, Sliding
from thetabench.query import Op, Query, Term
from thetabench.race import Say, Trial, Values
from thetabench.reference import matches, reference
from thetastream._jit.compiling import warm
from thetastream.datasets.keys import DOMAIN
from thetastream.datasets.rates import uniform_band_width
from thetastream.side import Side

_PACKAGES = {BTREES: ["BTrees"], "bi-sort-opencl": ["pyopencl"]}
_WINDOWED: dict[Work, Callable[[Contestant, str, Stock], Trial[Contestant]]] = {
    Work.INSERT: Insertion,
    Work.EQUI: Probing,
    Work.BAND: Probing,
    Work.SLIDE: Sliding,
}
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


class Joining(windows.Joining[Contestant]):
    """Pushes, one side at a time; the first one is not timed."""

    result_share = 0.0

    def __init__(self, who: Contestant, label: str, feed: Feed) -> None:
        spec = f"thetastream:tactic={who.structure},output={who.output}"
        super().__init__(who, label, feed, spec)

    def digest(self, answer: pa.Table, side: Side) -> Digest:
        """The digest of rows, or of the number of each row's matches."""
        if self.who.output == "rows":
            return super().digest(answer, side)
        assert set(answer.column("side").to_pylist()[:1]) <= {side.value}
        counts = answer.column("matches").to_numpy()
        return Digest(int(counts.sum()), weighed(answer.column("row").to_numpy(), counts))

    @property
    def columns(self) -> Values:
        """The columns of its line."""
        return {**super().columns, "result_share": self.result_share}


def compare_times(joins: Sequence[Joining]) -> None:
    """Find the share of the time that making rows takes, where a join was also timed counting."""
    counting = {own.who.structure: own.ns_per_tuple for own in joins if own.who.output == "count"}
    for trial in joins:
        if trial.who.output == "rows" and trial.who.structure in counting:
            counted = counting[trial.who.structure]
            trial.result_share = max(0.0, 1 - counted / trial.ns_per_tuple)


def truths(feed: Feed, pushes: int, output: str, rate: float) -> list[Digest]:
    """The right answers of the first pushes: of rows, or of the number of each row's matches."""
    if output == "rows":
        return reference(feed, pushes)
    if rate > _SEARCHED:
        return [_searched(feed, push) for push in range(pushes)]
    tally = Tally(pushes)
    for side in Side:
        for left, right, push in matches(feed, side, 0, pushes):
            tally.add(push, weights(left if side is Side.LEFT else right))
    return tally.digests


def _right(trial: Joining, pushes: int) -> list[Digest]:
    return truths(trial.feed, pushes, trial.who.output, trial.who.matches)


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


class PanCourse(windows.Sharing[Cell, Contestant]):
    """Filled structures, and the input of the present join or story."""

    def __init__(self, sizes: Sizes, maker: Maker = make) -> None:
        super().__init__(sizes)
        warm("data", "index", "index.runs", "index.trees", "index.subwindows")
        self._stock = Stock(maker, sizes.seed)

    def tidy(self) -> None:
        """The input of a join or a story needs the room of everything else."""
        self._stock.clear()

    def enter(self, cell: Cell, who: Contestant, say: Say) -> Trial[Contestant]:
        """A contestant with a full window, or a half-full one that is to grow."""
        stock, seed = self._stock, self.sizes.seed
        if who.work is Work.SPLITTERS:
            return windows.Reported(who, cell.label, splitters.lines_of(who, stock.make, seed))
        if who.work is Work.JOIN:
            return Joining(who, cell.label, self.shared(cell, lambda: feed_of(who, seed)))
        if who.work is Work.PHASES:
            story = self.shared(cell, lambda: Story(who.rows, seed))
            return Changing(who, cell.label, stock.make(who), story)
        return _WINDOWED[who.work](who, cell.label, stock)

    def check(self, cell: Cell, trials: Sequence[Trial[Contestant]]) -> None:
        """Check what is left; joins with the same form of answer at once."""
        super().check(cell, trials)
        joins = [trial for trial in trials if isinstance(trial, Joining)]
        for output in dict.fromkeys(trial.who.output for trial in joins):
            own = [trial for trial in joins if trial.who.output == output]
            windows.check_joins(own, _right)
        compare_times(joins)

    def packages(self, cell: Cell, who: Contestant) -> Sequence[str]:
        """Those of a peer, or of a device."""
        return _PACKAGES.get(who.structure, [])

    def about(self, cell: Cell, who: Contestant) -> Values:
        """The work and its sizes."""
        same = ("structure", "rows", "batch", "matches", "output", "distribution")
        own = {name: getattr(who, name) for name in same}
        return {"work": who.work.value, "parameters": who.settings, **own}

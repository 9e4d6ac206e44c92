"""The course on which structures and whole joins race: what the cells of a run share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thetabench.digest import Digest
from thetabench.feed import Feed
from thetabench.figure import Sizes
from thetabench.machine import hold_to_one_thread
from thetabench.peers import contestant_class
from thetabench.race import Course, Say, Trial, Values
from thetabench.spo.contestant import Cell, Contestant, Rows, Work
from thetabench.spo.joins import Joining, feed_of, truths
from thetabench.spo.stock import Maker, Stock, make
from thetabench.spo.trial import Asking, Growing, Inserting, Merging, Probing, Sliding, Weighing
from thetastream._jit.compiling import warm

_TRIALS: dict[Work, Callable[[Contestant, str, float, Stock], Asking]] = {
    Work.PROBE: Probing,
    Work.GROW: Growing,
    Work.SLIDE: Sliding,
    Work.INSERT: Inserting,
    Work.MEMORY: Weighing,
    Work.MERGE: Merging,
}


class SpoCourse(Course[Cell, Contestant]):
    """A stock of structures; the input and the right answers of the joins of one figure.

    Peers have one thread each; Polars takes that from the environment, when it is imported.
    """

    def __init__(self, sizes: Sizes, maker: Maker = make) -> None:
        super().__init__(sizes)
        hold_to_one_thread()
        warm("data", "index", "index.runs", "index.trees", "index.permuted")
        self._stock = Stock(maker)
        self._figure = ""
        self._feeds: dict[tuple[Rows, int], Feed] = {}
        self._pushes: dict[int, list[Digest]] = {}

    def enter(self, cell: Cell, who: Contestant, say: Say) -> Trial[Contestant]:
        """A structure, filled, or a join with a full window, that has shown its speed."""
        if cell.figure != self._figure:
            self._tidy(cell.figure)
        budget = self.sizes.seconds * cell.weight
        if who.work is not Work.JOIN:
            return _TRIALS[who.work](who, cell.label, budget, self._stock)
        key = who.rows, who.batch
        if key not in self._feeds:
            self._feeds[key] = feed_of(who)
        return Joining(who, cell.label, budget, self._feeds[key])

    def _tidy(self, figure: str) -> None:
        """Forget what another figure will hardly need."""
        self._figure = figure
        self._stock.tidy()
        self._feeds.clear()
        self._pushes.clear()

    def check(self, cell: Cell, trials: Sequence[Trial[Contestant]]) -> None:
        """Compare all answers; joins with the same input share the reference."""
        super().check(cell, trials)
        joins = [trial for trial in trials if isinstance(trial, Joining)]
        for feed in {id(trial.feed): trial.feed for trial in joins}.values():
            own = [trial for trial in joins if trial.feed is feed]
            pushes = max(len(trial.digests) for trial in own)
            if len(self._pushes.get(id(feed), ())) < pushes:
                self._pushes[id(feed)] = truths(feed, pushes)
            for trial in own:
                trial.verify(self._pushes[id(feed)])

    def packages(self, cell: Cell, who: Contestant) -> Sequence[str]:
        """The packages of a peer."""
        if who.work is not Work.JOIN:
            return ()
        shared = ("thetastream", "numpy", "numba")
        return [own for own in contestant_class(who.structure).packages if own not in shared]

    def about(self, cell: Cell, who: Contestant) -> Values:
        """The workload and the settings."""
        return {
            "work": who.work.value,
            "structure": who.structure,
            "parameters": who.settings,
            "query": who.rows.query,
            "window": who.window,
            "slide": who.step,
            "batch": who.batch,
            "asked": who.batch,
            "rate": float(who.rows.rate),
            "output": who.output,
            "distribution": who.rows.source,
        }

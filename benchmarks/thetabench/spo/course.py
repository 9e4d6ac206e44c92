"""The course on which structures and whole joins race; and the joins, thetastream's and peers'."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thetabench import windows
from thetabench.contestant import Unavailable
from thetabench.digest import Digest
from thetabench.feed import Feed
from thetabench.figure import Sizes
from thetabench.machine import hold_to_one_thread
from thetabench.peers import contestant_class
from thetabench.race import Say, Trial, Values
from thetabench.reference import reference
from thetabench.spo.contestant import Cell, Contestant, Work
from thetabench.spo.load import one_way, query_of, workload_of
from thetabench.spo.stock import Maker, Stock, make, pushed
from thetabench.spo.trial import (
    Asking,
    Inserting,
    Merging,
    Probing,
    Recorded,
    Sliding,
    Weighing,
    row_columns,
)
from thetastream._jit.compiling import warm
from thetastream.errors import DataError

_TRIALS: dict[Work, Callable[[Contestant, str, float, Stock], Asking]] = {
    Work.PROBE: Probing,
    Work.GROW: Recorded,
    Work.SLIDE: Sliding,
    Work.INSERT: Inserting,
    Work.MEMORY: Weighing,
    Work.MERGE: Merging,
}
_TIMED_ROWS = 1 << 20  # of a side, after the windows are full
_TIMED_PAIRS = 1 << 25
_TIMED_PUSHES = 1 << 12
_PUSHES = 4  # of each side, at least
_UNTIMED = 2  # pushes at the beginning


def feed_of(who: Contestant) -> Feed:
    """The rows of a join."""
    rows = min(_TIMED_ROWS, max(who.rows.after, who.window), int(_TIMED_PAIRS / who.rows.rate))
    pushes = min(_TIMED_PUSHES, max(_PUSHES, rows // who.batch))
    try:
        workload = workload_of(who.rows, pushes * who.batch)
    except DataError as error:
        raise Unavailable(str(error)) from None
    right = None if workload.right is None else workload.right.combine_chunks()
    left = workload.left.combine_chunks()
    return Feed(query_of(workload), who.batch, who.rows.window, left, right)


class Joining(windows.Joining[Contestant]):
    """Pushes, one side at a time; the first ones are not timed."""

    def __init__(self, who: Contestant, label: str, budget: float, feed: Feed) -> None:
        options = (f"{word}={value}" for word, value in who.parameters)
        super().__init__(who, label, feed, ",".join([who.structure, *options]), _UNTIMED, budget)

    @property
    def columns(self) -> Values:
        return {**super().columns, **row_columns(self, self.who.batch)}


def truths(feed: Feed, pushes: int) -> list[Digest]:
    """The right answers of the first pushes."""
    return (pushed if one_way(feed.query) else reference)(feed, pushes)


class SpoCourse(windows.Sharing[Cell, Contestant]):
    """A stock of structures, and the input of the present join.

    Peers have one thread each; Polars takes that from the environment, when it is imported.
    """

    def __init__(self, sizes: Sizes, maker: Maker = make) -> None:
        super().__init__(sizes)
        hold_to_one_thread()
        warm("data", "index", "index.runs", "index.trees", "index.permuted")
        self._stock = Stock(maker)

    def enter(self, cell: Cell, who: Contestant, say: Say) -> Trial[Contestant]:
        """A structure, filled, or a join with a full window, that has shown its speed."""
        budget = self.sizes.seconds * cell.weight
        if who.work is not Work.JOIN:
            return _TRIALS[who.work](who, cell.label, budget, self._stock)
        return Joining(who, cell.label, budget, self.shared(cell, lambda: feed_of(who)))

    def check(self, cell: Cell, trials: Sequence[Trial[Contestant]]) -> None:
        """Compare all answers; joins share the reference."""
        super().check(cell, trials)
        joins = [trial for trial in trials if isinstance(trial, Joining)]
        windows.check_joins(joins, lambda trial, pushes: truths(trial.feed, pushes))

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
            "output": "rows",
            "distribution": who.rows.source,
        }

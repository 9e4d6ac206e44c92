"""What the cells of a run share: keys, indexes that grow, minutes of reports, both streams."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from thetabench.contestant import MissingPackage, Unavailable
from thetabench.figure import Contestant, Sizes
from thetabench.machine import hold_to_one_thread
from thetabench.ordered.contestant import BATCH, Cell, Work
from thetabench.ordered.expiring import DROP, MINUTES, Deletion, Moving
from thetabench.ordered.growing import FLAT, TRIALS, Flat, Held
from thetabench.ordered.load import WINDOW, Load, Minutes
from thetabench.ordered.matches import Feed, Matching
from thetabench.ordered.questions import WAYS, Asking, Window
from thetabench.race import Course, Say, Trial, Values
from thetabench.structures import made
from thetastream._jit.compiling import warm
from thetastream.index import Index

T = TypeVar("T")


class OrderedCourse(Course[Cell, Contestant]):
    """What the present scene needs; the next one clears it.

    Peers have one thread each; Polars takes that from the environment, when it is imported.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        hold_to_one_thread()
        warm("data", "index", "index.runs", "index.trees", "index.ordered")
        self._scene = ""
        self._kept: dict[Hashable, Any] = {}

    def enter(self, cell: Cell, who: Contestant, say: Say) -> Trial[Contestant]:
        """A contestant whose index or window is filled."""
        if cell.scene != self._scene:
            self._scene = cell.scene
            self._kept.clear()
        try:
            return self._trial(cell, who)
        except MissingPackage as error:
            raise Unavailable(str(error)) from None

    def _trial(self, cell: Cell, who: Contestant) -> Trial[Contestant]:
        seed, name = self.sizes.seed, who.structure
        match cell.work:
            case Work.GROW if name == FLAT:
                return Flat(who, cell)
            case Work.GROW:
                return TRIALS[cell.measure](who, cell, self._held(cell, who), seed)
            case Work.DELETE:
                index = _index(who, cell.size * (WINDOW if name.startswith(DROP) else 1))
                return Deletion(who, cell, Held(index, self._load(cell)))
            case Work.WINDOW:
                minutes = self._keep("minutes", lambda: Minutes(cell.size, MINUTES, seed))
                return Moving(who, cell, _index(who, int(minutes.edges[WINDOW])), minutes)
            case Work.QUESTION:
                window = self._keep("window", lambda: Window(Minutes(cell.size, WINDOW, seed)))
                way = self._keep(name, lambda: WAYS[name](window))
                return Asking(who, cell, way, window, seed)
            case Work.AGGREGATE:
                feed = self._keep(cell.rate, lambda: Feed(cell.size, cell.rate, seed))
                return Matching(who, cell, feed)

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = make()
        value: T = self._kept[key]
        return value

    def _load(self, cell: Cell) -> Load:
        """One key more than is asked for: the rest of a dropped window."""
        count = max(cell.most, cell.size) + 1
        return self._keep(cell.keys, lambda: Load(cell.keys, count, self.sizes.seed))

    def _held(self, cell: Cell, who: Contestant) -> Held:
        """An index as earlier cells of the scene have left it, filled up to where work begins."""
        key = cell.keys, who.structure, who.parameters
        start = cell.size - cell.step
        if key in self._kept and self._kept[key].count > start:
            del self._kept[key]  # first, so that both are not there at a time
        held = self._keep(key, lambda: Held(_index(who, cell.size), self._load(cell)))
        held.fill(start)
        return held

    def about(self, cell: Cell, who: Contestant) -> Values:
        return {
            "work": cell.work.value,
            "structure": who.structure,
            "parameters": who.settings,
            "distribution": cell.keys.value,
            "size": cell.size,
            "batch": BATCH,
        }

    def packages(self, cell: Cell, who: Contestant) -> Sequence[str]:
        return [name for name in ("duckdb", "polars", "pyarrow") if name in who.structure]


def _index(who: Contestant, capacity: int) -> Index:
    return made(who.structure, capacity, who.parameters)

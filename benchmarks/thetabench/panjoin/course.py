"""The course on which the contestants race: what cells share, and who does which work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thetabench.figure import Sizes
from thetabench.panjoin import joins
from thetabench.panjoin.contestant import BTREES, Cell, Contestant, Maker, Work, make
from thetabench.panjoin.phases import Changing, Story
from thetabench.panjoin.splitters import Adjusting
from thetabench.panjoin.stock import Stock
from thetabench.panjoin.trial import Insertion, Probing, Sliding, Windowed
from thetabench.race import Course, Say, Trial, Values
from thetastream._jit.compiling import warm

_PACKAGES = {BTREES: ["BTrees"], "bi-sort-opencl": ["pyopencl"]}
_WINDOWED: dict[Work, type[Windowed]] = {
    Work.INSERT: Insertion,
    Work.EQUI: Probing,
    Work.BAND: Probing,
    Work.SLIDE: Sliding,
}


class PanCourse(Course[Cell, Contestant]):
    """Filled structures, and the input of the present join or story."""

    def __init__(self, sizes: Sizes, maker: Maker = make) -> None:
        super().__init__(sizes)
        warm("data", "index", "index.runs", "index.trees", "index.subwindows")
        self._stock = Stock(maker, sizes.seed)
        self._cell: Cell | None = None
        self._input: Any = None

    def enter(self, cell: Cell, who: Contestant, say: Say) -> Trial[Contestant]:
        """A contestant with a full window, or a half-full one that is to grow."""
        stock = self._stock
        if who.work is Work.SPLITTERS:
            return Adjusting(who, cell.label, stock.make, self.sizes.seed)
        if who.work is Work.JOIN:
            return joins.Joining(who, cell.label, self._shared(cell, joins.feed_of))
        if who.work is Work.PHASES:
            story = self._shared(cell, lambda one, seed: Story(one.rows, seed))
            return Changing(who, cell.label, stock.make(who), story)
        return _WINDOWED[who.work](who, cell.label, stock)

    def _shared(self, cell: Cell, make: Callable[[Contestant, int], Any]) -> Any:
        """The input of all contestants of a cell, which needs the room of everything else."""
        if self._cell is not cell:
            self._input = None
            self._stock.clear()
            self._cell, self._input = cell, make(cell.contestants[0], self.sizes.seed)
        return self._input

    def check(self, cell: Cell, trials: Sequence[Any]) -> None:
        """Check what is left; joins all at once."""
        super().check(cell, trials)
        joins.check([trial for trial in trials if isinstance(trial, joins.Joining)])

    def packages(self, cell: Cell, who: Contestant) -> Sequence[str]:
        """Those of a peer, or of a device."""
        return _PACKAGES.get(who.structure, [])

    def about(self, cell: Cell, who: Contestant) -> Values:
        """The work and its sizes."""
        return {
            "work": who.work.value,
            "structure": who.structure,
            "parameters": who.settings,
            "rows": who.rows,
            "batch": who.batch,
            "matches": float(who.matches),
            "output": who.output,
            "distribution": who.distribution,
        }

"""The course of the SSIJ paper: which trial a cell asks for, and what the cells of a run share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from thetabench.figure import Sizes
from thetabench.race import Course, Say, Trial, Values
from thetabench.rivals import kernels
from thetabench.ssij.contestant import Cell, Contestant, Shape, Work
from thetabench.ssij.peers import PEERS
from thetabench.ssij.peers.spark import HOME, STATIC
from thetabench.ssij.readplans import Planning, compare
from thetabench.ssij.stock import Stock
from thetabench.ssij.systems import Asking, Streaming
from thetabench.ssij.trial import Bursting, Hurrying, Indexing, Serving, Sustaining
from thetastream._jit.compiling import prepare, warm

_PACKAGES = {"duckdb": "duckdb", "spark": "pyspark"}
_GENERATOR = "tpchgen-cli"
_SYSTEMS = {**dict.fromkeys(PEERS, Asking), HOME: Streaming, STATIC: Streaming}


class SsijCourse(Course[Cell, Contestant]):
    """A stock of relations and streams, and the rates that are sustained without a burst."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        warm("data", "boxes", "relation.disk", "relation.image", "relation.join")
        prepare(kernels)
        self._stock = Stock(sizes.seed)
        self._nominal: dict[str, float] = {}
        self._trials: dict[Work, Callable[..., Trial[Contestant]]] = {
            Work.SERVICE: Serving,
            Work.SUSTAINED: Sustaining,
            Work.DEADLINE: Hurrying,
            Work.BURST: partial(Bursting, self._nominal),
            Work.PLAN: Planning,
            Work.INDEX: Indexing,
        }

    def enter(self, cell: Cell, who: Contestant, say: Say) -> Trial[Contestant]:
        """A contestant that has done its work."""
        if cell.work is Work.SYSTEM:
            return _SYSTEMS.get(who.structure, Serving)(cell, who, self._stock, say)
        return self._trials[cell.work](cell, who, self._stock, say)

    def check(self, cell: Cell, trials: Sequence[Any]) -> None:
        """Compare read plans; other answers were checked as they came."""
        if cell.work is Work.PLAN:
            compare(trials)
        self._stock.tidy()
        self._nominal.clear()

    def packages(self, cell: Cell, who: Contestant) -> Sequence[str]:
        """Those of systems and of the generator of data."""
        own = [package for word, package in _PACKAGES.items() if word in who.structure]
        return [*own, _GENERATOR] if cell.stream.shape is Shape.LINEITEM else own

    def about(self, cell: Cell, who: Contestant) -> Values:
        """The workload and the settings."""
        table, stream = cell.table, cell.stream
        return {
            "work": cell.work.value,
            "method": who.structure,
            "parameters": who.settings,
            "distribution": stream.shape.value if stream.rows else table.source.value,
            "skew": stream.skew,
            "device": cell.device.value,
            "table_rows": table.rows,
            "keys": table.keys,
            "fill": table.fill,
            "stream_rows": stream.rows,
            "memory": cell.memory,
        }

    def close(self) -> None:
        """Remove the relations."""
        self._stock.close()

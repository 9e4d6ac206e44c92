"""Runs cells, one after the other, and makes lines of what was measured."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from thetabench.figure import Sizes
from thetabench.machine import provenance, thread_settings
from thetabench.ordered.deleting import deleted
from thetabench.ordered.figures import FIGURES
from thetabench.ordered.growing import Growth
from thetabench.ordered.matches import matched
from thetabench.ordered.plan import BATCH, Cell, Keys, Measured, Work
from thetabench.ordered.questions import answered
from thetabench.ordered.result import OrderedResult
from thetabench.ordered.stock import Maker, Stock, make
from thetabench.ordered.windows import moved
from thetastream._jit.compiling import warm

__all__ = ["run"]

Progress = Callable[[str], None]

_PACKAGES = ("thetastream", "numpy", "numba")
_PEERS = {"duckdb": "duckdb", "polars": "polars", "pyarrow": "pyarrow"}


def run(
    cells: Sequence[Cell],
    sizes: Sizes,
    *,
    progress: Progress = lambda step: None,
    make: Maker = make,
) -> Iterator[list[OrderedResult]]:
    """Yield the results of one cell after the other. ``progress`` hears of every step.

    Peers have one thread each; Polars takes that from the environment, when it is imported.
    """
    progress("compiling")
    for name, value in thread_settings(1).items():
        os.environ.setdefault(name, value)
    pa.set_cpu_count(1)
    warm("data", "index", "index.runs", "index.trees", "index.ordered")
    stock = Stock(_most(cells), sizes.seed, make)
    for cell in cells:
        progress(cell.label)
        found = _measured(cell, stock, sizes.seconds, progress)
        yield [_line(cell, one, sizes) for one in found]
        gc.collect()


def _most(cells: Sequence[Cell]) -> dict[Keys, int]:
    """How many keys of each kind are needed; one more, for the rest of a dropped window."""
    return {
        kind: max((cell.size for cell in cells if cell.keys is kind), default=0) + 1
        for kind in Keys
    }


def _measured(cell: Cell, stock: Stock, seconds: float, say: Progress) -> list[Measured]:
    match cell.work:
        case Work.GROW:
            shown = {name: FIGURES[name].measures for name in cell.figures}
            return Growth(cell, stock, seconds, say).measured(shown)
        case Work.DELETE:
            return deleted(cell, stock, say)
        case Work.WINDOW:
            return moved(cell, stock, say)
        case Work.QUESTION:
            return answered(cell, stock, seconds, say)
        case Work.AGGREGATE:
            return matched(cell, stock, seconds, say)


def _line(cell: Cell, found: Measured, sizes: Sizes) -> OrderedResult:
    who = found.who
    packages = [*_PACKAGES, *(package for word, package in _PEERS.items() if word in who.structure)]
    about: dict[str, Any] = {
        "figure": found.figure,
        "contestant": who.label,
        "axis": FIGURES[found.figure].axis,
        "place": float(who.place),
        "work": cell.work.value,
        "structure": who.structure,
        "parameters": who.settings,
        "distribution": cell.keys.value,
        "size": cell.size,
        "batch": BATCH,
        "scale": sizes.scale,
        **provenance(packages),
    }
    if found.reason:
        return OrderedResult(**about, status="not run", reason=found.reason)
    return OrderedResult(**about, status="ok", verified=True, **found.columns)

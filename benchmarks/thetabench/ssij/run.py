"""Runs cells, one after the other, and makes lines of what was measured."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from thetabench.figure import Sizes
from thetabench.machine import provenance
from thetabench.rivals import kernels
from thetabench.ssij.figures import FIGURES
from thetabench.ssij.joins import Maker, enter
from thetabench.ssij.plan import Cell, Contestant, Measured, Shape, Work
from thetabench.ssij.readplans import planned
from thetabench.ssij.result import SsijResult
from thetabench.ssij.stock import Stock
from thetabench.ssij.systems import asked
from thetabench.ssij.trial import about_table, gone_through
from thetastream._jit.compiling import prepare, warm

__all__ = ["run"]

Progress = Callable[[str], None]

_PACKAGES = ("thetastream", "numpy", "numba")
_SYSTEMS = {"duckdb": "duckdb", "spark": "pyspark"}
_GENERATOR = "tpchgen-cli"


def run(
    cells: Sequence[Cell],
    sizes: Sizes,
    *,
    progress: Progress = lambda step: None,
    make: Maker = enter,
    folder: Path | None = None,
) -> Iterator[list[SsijResult]]:
    """Yield the results of one cell after the other. ``progress`` hears of every step.

    Relations are in a temporary folder, in ``folder`` if one is given, until the run ends.
    """
    progress("compiling")
    warm("data", "boxes", "relation.disk", "relation.image", "relation.join")
    prepare(kernels)
    with Stock(sizes.seed, make, folder) as stock:
        for cell in cells:
            progress(cell.label)
            found = _measured(cell, stock, progress)
            yield [_line(cell, one, sizes) for one in found]
            gc.collect()


def _measured(cell: Cell, stock: Stock, say: Progress) -> list[Measured]:
    match cell.work:
        case Work.PLAN:
            return planned(cell, cell.table.rows, stock.seed)
        case Work.INDEX:
            return [Measured(who, about_table(cell, stock)) for who in cell.contestants]
        case Work.SYSTEM:
            return asked(cell, stock, say)
        case _:
            return gone_through(cell, stock, say)


def _line(cell: Cell, found: Measured, sizes: Sizes) -> SsijResult:
    who = found.who
    about: dict[str, Any] = {
        "figure": cell.figure,
        "contestant": who.label,
        "axis": FIGURES[cell.figure].axis,
        "place": float(who.place),
        "work": cell.work.value,
        "method": who.method,
        "parameters": who.settings,
        "distribution": cell.stream.shape.value if cell.stream.rows else cell.table.source.value,
        "skew": cell.stream.skew,
        "device": cell.device.value,
        "table_rows": cell.table.rows,
        "keys": cell.table.keys,
        "fill": cell.table.fill,
        "stream_rows": cell.stream.rows,
        "memory": cell.memory,
        "scale": sizes.scale,
        **provenance(_packages(cell, who)),
    }
    if found.reason:
        return SsijResult(**about, status="not run", reason=found.reason)
    return SsijResult(**about, status="ok", verified="checked" in found.columns, **found.columns)


def _packages(cell: Cell, who: Contestant) -> list[str]:
    found = [*_PACKAGES, *(package for word, package in _SYSTEMS.items() if word in who.method)]
    return [*found, _GENERATOR] if cell.stream.shape is Shape.LINEITEM else found

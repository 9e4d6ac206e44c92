"""What contestants of a cell do, one after the other, and the columns of their lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from thetabench.contestant import Unavailable
from thetabench.ssij.drive import Drive
from thetabench.ssij.plan import Cell, Contestant, Measured, Work
from thetabench.ssij.rates import arrivals, burst, met, sustained
from thetabench.ssij.stock import Stock

__all__ = ["Columns", "Say", "about_table", "driven", "gone_through", "served"]

Columns = dict[str, Any]
Say = Callable[[str], None]

_EASY = 0.8  # of the sustainable rate: where deadlines are counted
_DEADLINES = 100  # that a run with deadlines lasts …
_LEAST = 2_000  # … and the rows that it has at least
_SHORT = 0.2  # of the stream: enough to guess a rate that is then looked for


def gone_through(cell: Cell, stock: Stock, say: Say) -> list[Measured]:
    """Let all contestants work; who cannot says why."""
    ways = {
        Work.SERVICE: served,
        Work.SUSTAINED: _sustained,
        Work.DEADLINE: _in_time,
        Work.BURST: _bursts,
    }
    nominal: dict[str, float] = {}
    found = []
    for who in cell.contestants:
        here = _within(say, f"{who.label}, {cell.label}")
        here("starting")
        try:
            if cell.work is Work.BURST:
                columns = _bursts(cell, who, stock, here, nominal)
            else:
                columns = ways[cell.work](cell, who, stock, here)  # type: ignore[operator]
            found.append(Measured(who, columns))
        except Unavailable as error:
            found.append(Measured(who, {}, str(error)))
    return found


def _within(say: Say, where: str) -> Say:
    return lambda step: say(f"{where}: {step}")


def driven(cell: Cell, who: Contestant, stock: Stock, most: float = math.inf) -> Drive:
    """A contestant that is ready to be fed ``most`` rows at most."""
    built = stock.built(cell.table)
    feed, truth = stock.feed(cell.stream, cell.table), stock.truth(cell)
    rows = max(1, int(min(feed.keys.size * who.part, most)))
    budget = built.budget(cell.memory)
    entered = stock.make(who, built.path, budget, cell.device, feed.schema)
    return Drive(f"{who.label} ({cell.label})", entered.join, entered.watch, feed, truth, rows)


def served(cell: Cell, who: Contestant, stock: Stock, say: Say) -> Columns:
    """The service rate."""
    say("as fast as it takes")
    drive = driven(cell, who, stock)
    try:
        drive.serve()
        return _columns(cell, drive, stock, drive.rate)
    finally:
        drive.join.close()


def _service(cell: Cell, who: Contestant, stock: Stock, say: Say) -> float:
    return float(served(cell, who, stock, say)["rows_per_s"])


def _sustained(cell: Cell, who: Contestant, stock: Stock, say: Say) -> Columns:
    service = _service(cell, who, stock, say)
    found = sustained(lambda rate: driven(cell, who, stock), service, say)
    return _columns(cell, found.drive, stock, found.rate)


def _in_time(cell: Cell, who: Contestant, stock: Stock, say: Say) -> Columns:
    """The rate that is sustained with deadlines met, and the share that is met at 0.8 of it.

    Runs last for a hundred deadlines or for the whole stream, whichever is shorter.
    """
    lasting = _DEADLINES * who.place

    def start(rate: float) -> Drive:
        return driven(cell, who, stock, max(rate * lasting, _LEAST))

    service = _service(cell, replace(who, part=_SHORT), stock, say)
    found = sustained(start, service, say, deadline=who.place)
    say(f"at {_EASY:g} of {found.rate:,.0f} rows per second")
    drive = start(_EASY * found.rate)
    try:
        if not drive.arrive(arrivals(_EASY * found.rate, who.place)):
            raise Unavailable(f"{_EASY:g} of a rate that is sustained is not sustained")
        columns = _columns(cell, drive, stock, found.rate)
        return {**columns, "met_share": met(drive, who.place)}
    finally:
        drive.join.close()


def _bursts(
    cell: Cell, who: Contestant, stock: Stock, say: Say, nominal: dict[str, float]
) -> Columns:
    """How long a burst lasts; the rate before it is that which is sustained without one."""
    if who.label not in nominal:
        service = _service(cell, who, stock, say)
        nominal[who.label] = sustained(lambda rate: driven(cell, who, stock), service, say).rate
    rate = nominal[who.label]
    seconds, drive = burst(lambda: driven(cell, who, stock), rate, 1 + who.place / 100, say)
    columns = _columns(cell, drive, stock, rate * (1 + who.place / 100))
    return {**columns, "burst_ms": seconds * 1e3, "nominal_per_s": rate}


def about_table(cell: Cell, stock: Stock) -> Columns:
    """What the relation of a cell is like."""
    built = stock.built(cell.table)
    return {
        "table_bytes": built.nbytes,
        "blocks": built.blocks,
        "index_bytes": built.index_bytes,
        "index_mb_10gb": built.index_bytes / built.nbytes * 1e4,
        "budget_bytes": built.budget(cell.memory) if cell.memory else 0,
    }


def _columns(cell: Cell, drive: Drive, stock: Stock, rate: float) -> Columns:
    """The columns of a line: the rate, and what the join has counted."""
    metrics = drive.join.metrics()
    questions = _of(metrics, "hits") + _of(metrics, "misses")
    return {
        **about_table(cell, stock),
        "rows_per_s": rate,
        "seconds": drive.seconds,
        "cpu_us": drive.watch.cpu / max(drive.offered, 1) * 1e6,
        "matches": drive.found.matches,
        "hit_share": _of(metrics, "hits") / questions if questions else 0.0,
        "blocks_per_row": _of(metrics, "blocks_read") / max(drive.offered, 1),
        "checked": drive.offered,
        **{name: int(_of(metrics, name)) for name in _COUNTED},
        **_latencies(drive, metrics),
    }


def _latencies(drive: Drive, metrics: Any) -> Columns:
    """From arrivals to answers; as the join tells them, where rows came as fast as it took them."""
    latencies = drive.latencies
    if not latencies.size:
        return {name: _of(metrics, name) for name in ("latency_p50", "latency_p99")}
    middle, high = np.quantile(latencies, (0.5, 0.99))
    return {"latency_p50": float(middle), "latency_p99": float(high)}


_COUNTED = (
    "peak_bytes",
    "seeks",
    "blocks_read",
    "blocks_wasted",
    "cached_blocks",
    "online_phases",
    "join_phases",
)


def _of(metrics: Any, name: str) -> float:
    """A metric, 0 where a join has none."""
    return float(getattr(metrics, name, 0) or 0)

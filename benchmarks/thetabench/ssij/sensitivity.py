"""Figures 10–16, Table III (SSIJ, Section VI-D), read plans and the index: what the parts bring."""

from __future__ import annotations

from collections.abc import Callable

from thetabench.figure import Figure, Parameters, Sizes
from thetabench.ssij.plan import Cell, Contestant, Shape, Source, Stream, Table, Work
from thetabench.ssij.readplans import WAYS
from thetabench.ssij.shapes import ROWS, fitting, local, mesh, scaled, ssij, table, zipf

__all__ = ["BURSTS", "DYNAMIC", "LRU", "SENSITIVITY", "SPLITS", "UTILITY"]

DYNAMIC, UTILITY, LRU, NONE = "dynamic", "utility", "lru", "no cache"
SPLITS = {
    DYNAMIC: (),
    "20 % cache": (("split", 0.2),),
    "50 % cache": (("split", 0.5),),
    "70 % cache": (("split", 0.7),),
    NONE: (("cache", "none"),),
}
"""How memory is divided, and the options that say so."""
BURSTS = {10: 700.0, 25: 562.0, 50: 400.0, 70: 225.0}
"""Table III: percent above the nominal rate, and the paper's milliseconds."""

_INPUT = (250, 1_000, 4_000, 8_000, 16_000, 32_000)  # rows, at scale 1
_STREAM = (500, 1_000, 2_000, 4_000, 6_000, 8_000)
_SCANS = (1, 4, 16, 32, 64, 128)
_FILLS = (0.5, 0.65, 0.8, 1.0)
_DEADLINES = (0.1, 0.25, 0.5, 1.0, 2.0)  # seconds, at scale 1
_DENSITIES = (0.01, 0.05, 0.1, 0.2, 0.5)
_PLANNED = 195_000  # blocks of 8 KiB: a table of 1.25 GB
_MEMORIES = (1.0, 2.5, 5.0, 10.0)


def _splits(sizes: Sizes) -> list[Cell]:
    held, stream = local(sizes)
    return [
        Cell("10", Work.SUSTAINED, held, stream, percent / 100,
             tuple(ssij(percent, own, label=label) for label, own in SPLITS.items()))
        for percent in (2.5, 10.0)
    ]  # fmt: skip


def _policies(sizes: Sizes) -> list[Cell]:
    return [
        Cell("11", Work.SERVICE, table(sizes), zipf(sizes, percent / 100, 1.0), percent / 100,
             tuple(
                 ssij(percent, (("cache", name),), label=label)
                 for label, name in ((UTILITY, "utility"), (LRU, "lru"), (NONE, "none"))
             ))
        for percent in _MEMORIES
    ]  # fmt: skip


def _input(sizes: Sizes) -> list[Cell]:
    held, stream = local(sizes)
    who = tuple(
        ssij(rows, (("input_rows", _few(sizes, rows)),), label="input threshold") for rows in _INPUT
    )
    return [Cell("12", Work.SERVICE, held, stream, 0.1, who)]


def _stream(sizes: Sizes) -> list[Cell]:
    who = tuple(
        ssij(rows, (("stream_rows", _few(sizes, rows)),), label="stream threshold")
        for rows in _STREAM
    )
    return [Cell("13", Work.SERVICE, table(sizes), zipf(sizes, 0.01, 1.0), 0.01, who)]


def _fills(sizes: Sizes) -> list[Cell]:
    """The budget is a share of the same bytes at every filling factor: those of a full table."""
    return [
        Cell("14", Work.SERVICE, table(sizes, fill=fill), zipf(sizes, percent / 100, 1.0),
             percent / 100 * fill, (ssij(percent, label=f"filling factor {fill:g}"),))
        for fill in _FILLS
        for percent in (2.5, 10.0)
    ]  # fmt: skip


def _scans(sizes: Sizes) -> list[Cell]:
    who = tuple(ssij(blocks, (("max_scan", blocks),), label="maxScan") for blocks in _SCANS)
    return [Cell("15", Work.SERVICE, table(sizes), zipf(sizes, 0.01, 1.0), 0.01, who)]


def _deadlines(sizes: Sizes) -> list[Cell]:
    """Half of the table, as in the paper: 5 GB instead of 10."""
    memory = 0.075
    held = table(sizes, rows=ROWS / 2)
    stream = Stream(Shape.ZIPF, fitting(sizes, memory, rows=ROWS / 2, sweeps=5), 1.0)
    found = []
    for seconds in _DEADLINES:
        limit: Parameters = (("deadline", f"{seconds * 1e3:g} ms"),)
        found.append(
            Cell("16", Work.DEADLINE, held, stream, memory, (ssij(seconds, limit),))
        )  # fmt: skip
    found.append(
        Cell("16", Work.SUSTAINED, held, stream, memory, (mesh(_DEADLINES[-1]),))
    )  # fmt: skip
    return found


def _bursts(sizes: Sizes) -> list[Cell]:
    held, stream = local(sizes)
    who = tuple(ssij(percent, label="dynamic") for percent in BURSTS)
    return [Cell("table3", Work.BURST, held, stream, 0.1, who)]


def _plans(sizes: Sizes) -> list[Cell]:
    blocks = scaled(sizes, _PLANNED)
    held = Table(Source.UNIFORM, blocks, blocks)
    nothing = Stream(Shape.ZIPF, 0)
    return [
        Cell("plan", Work.PLAN, held, nothing, share,
             tuple(Contestant(way, way, share) for way in WAYS))
        for share in _DENSITIES
    ]  # fmt: skip


def _index(sizes: Sizes) -> list[Cell]:
    found = []
    for times in (1, 5, 400):
        rows = scaled(sizes, ROWS) // times * times or times
        held = Table(Source.REPEATED, rows, rows // times)
        found.append(
            Cell("index", Work.INDEX, held, Stream(Shape.ZIPF, 0), 0.0,
                 (Contestant("fences", "fences", times),))
        )  # fmt: skip
    return found


def _few(sizes: Sizes, rows: int) -> int:
    return max(8, round(rows * sizes.scale))


_MEMORY_AXIS = "memory, % of the table"
_RATE = ("rows_per_s",)


def _line(
    name: str, about: str, axis: str, cells: Callable[[Sizes], list[Cell]], *measures: str
) -> Figure[Cell]:
    return Figure(name, about, axis, cells, measures or _RATE, logarithmic=False)


SENSITIVITY: tuple[Figure[Cell], ...] = (
    _line("10", "memory divided, temporal locality, rate sustained", _MEMORY_AXIS, _splits),
    _line("11", "which blocks are kept, skew 1", _MEMORY_AXIS, _policies),
    Figure("12", "input threshold, temporal locality, 10 % memory", "rows, at scale 1", _input,
           ("rows_per_s", "cpu_us")),
    Figure("13", "stream threshold, skew 1, 1 % memory", "rows, at scale 1", _stream,
           ("rows_per_s", "hit_share")),
    _line("14", "filling factor, skew 1", _MEMORY_AXIS, _fills),
    Figure("15", "longest sequence (maxScan), skew 1, 1 % memory", "blocks", _scans,
           ("rows_per_s", "hit_share")),
    Figure("16", "deadlines, skew 1, 7.5 % memory, rate sustained", "seconds", _deadlines,
           ("rows_per_s", "met_share", "latency_p99")),
    _line("table3", "bursts, temporal locality, 10 % memory", "% above the rate", _bursts,
          "burst_ms", "nominal_per_s"),
    Figure("plan", "read plans, 1.25 GB, disk", "share of blocks wanted", _plans,
           ("plan_cost_ms", "plan_ms", "plan_share")),
    _line("index", "bytes of the index in memory", "rows per key", _index, "index_bytes",
          "index_mb_10gb"),
)  # fmt: skip

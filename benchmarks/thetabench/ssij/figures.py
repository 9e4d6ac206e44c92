"""The named experiments: Figures 3–16 and Table III of the SSIJ paper, and some of our own.

Lists are chosen so that all of it takes some 20 minutes on two cores, databases aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from thetabench import figure as plans
from thetabench.figure import Figure, Sizes
from thetabench.ssij.plan import (
    Cell,
    Contestant,
    Device,
    Shape,
    Source,
    Stream,
    Table,
    Work,
)
from thetabench.ssij.sensitivity import SENSITIVITY
from thetabench.ssij.shapes import (
    FEW_COLUMNS,
    HOME,
    MESH,
    MICRO_BATCHES,
    ROWS,
    SSIJ,
    STATIC,
    fitting,
    mesh,
    scaled,
    ssij,
    table,
    zipf,
)
from thetastream.relation.disk.clock import PROFILES

__all__ = ["ABSENT", "FIGURES", "cells", "chosen"]

_SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MEMORY = 7.5
"""Percent of the table, where memory is not the axis."""
_MEMORIES = (1.0, 2.5, 5.0, 10.0)
_SOME = (1.0, 5.0, 10.0)
_SHOWN_SKEWS = (0.0, 0.5, 1.0)
_MATCHES = (1, 10, 100, 400)
_LONG, _SMALL = 100, (1.0, 5.0)  # rows per key above which memory, and so streams, are smaller
_PAIRS = 16_000_000  # of an answer, at most
_SWEEPS = 4  # of Figures 7 and 8: how often the rows in memory are replaced
_GIGABYTES = (0.5, 1.5)
_ROWS_PER_GB = 1_000_000_000 // 128
_DATABASES = ("postgresql", "sqlite", "duckdb")  # the first at every size
_BATCH = 100_000
_PARTS = 312_500  # rows of TPC-H's Part: 1/64 of the paper's
_SLOW = 0.02  # of the stream, for a nested loop

ABSENT = {"1": "a picture of the algorithm", "2": "a picture of the algorithm"}
"""Figures of the paper that are no measurements."""


# --- Figures 3–6: skew and memory ----------------------------------------------------------------


def _skews(name: str, permuted: bool, sizes: Sizes) -> list[Cell]:
    share = _MEMORY / 100
    found = []
    for skew in _SHOWN_SKEWS if permuted else _SKEWS:
        who = [ssij(skew), mesh(skew)]
        if not permuted:
            who.append(Contestant("index nested loop", "nested", skew, part=_SLOW))
            who.append(Contestant("index nested loop, batches", "batched", skew, part=0.2))
        stream = zipf(sizes, share, skew, permuted=permuted)
        found.append(Cell(name, Work.SERVICE, table(sizes), stream, share, tuple(who)))
    return found


def _memories(name: str, permuted: bool, sizes: Sizes) -> list[Cell]:
    found = []
    for percent in _SOME if permuted else _MEMORIES:
        for skew in _SHOWN_SKEWS:
            who = [ssij(percent, label=f"{SSIJ}, skew {skew:g}")]
            if not skew:
                who.append(mesh(percent, label=f"{MESH}, skew 0"))
            stream = zipf(sizes, percent / 100, skew, permuted=permuted)
            found.append(
                Cell(name, Work.SERVICE, table(sizes), stream, percent / 100, tuple(who))
            )  # fmt: skip
    return found


# --- Figure 7: 1:K joins -------------------------------------------------------------------------


def _many(name: str, sizes: Sizes, matches: Sequence[int], memories: Sequence[float]) -> list[Cell]:
    """A quarter of the table, and shorter streams: answers are long."""
    found = []
    for times in matches:
        rows = max(scaled(sizes, ROWS / 4) // times, 4) * times
        held = Table(Source.REPEATED, rows, rows // times)
        for percent in _SMALL if times > _LONG and len(memories) > 2 else memories:
            length = max(_SWEEPS * percent / 100 * rows * 1.25, 2_000)
            stream = Stream(Shape.ZIPF, min(int(length), _PAIRS // times), 1.0)
            who = (
                ssij(percent, label=f"{SSIJ}, 1:{times}"),
                mesh(percent, label=f"{MESH}, 1:{times}"),
            )
            found.append(Cell(name, Work.SERVICE, held, stream, percent / 100, who))
    return found


# --- Figure 8: TPC-H, and the taxi zones ---------------------------------------------------------


def _tpch(sizes: Sizes) -> list[Cell]:
    parts = scaled(sizes, _PARTS)
    held = Table(Source.PART, parts, parts)
    found = []
    for percent in _MEMORIES:
        lines = Stream(Shape.LINEITEM, scaled(sizes, max(_SWEEPS * percent / 100, 0.06) * _PARTS))
        who = (ssij(percent, label=f"{SSIJ}, TPC-H"), mesh(percent, label=f"{MESH}, TPC-H"))
        found.append(Cell("8", Work.SERVICE, held, lines, percent / 100, who))
    zones = Table(Source.ZONES, 265, 265)
    trips = Stream(Shape.TRIPS, scaled(sizes, 100_000))
    whole = 100.0  # a few blocks: the least that a join can have is all of it
    found.append(
        Cell("8", Work.SERVICE, zones, trips, whole / 100,
             (ssij(whole, label=f"{SSIJ}, taxi zones"), mesh(whole, label=f"{MESH}, taxi zones")))
    )  # fmt: skip
    return found


# --- Figure 9 and Spark: other systems, on the real device ---------------------------------------


def _systems(sizes: Sizes) -> list[Cell]:
    share = 0.1
    found = []
    for gigabytes in _GIGABYTES:
        held = table(sizes, rows=gigabytes * _ROWS_PER_GB)
        stream = Stream(Shape.ZIPF, max(scaled(sizes, 1_000_000), 2 * _batch(sizes)))
        few = ssij(gigabytes, (("columns", ("id", "rid")),), label=FEW_COLUMNS)
        who = [ssij(gigabytes), few, mesh(gigabytes)]
        names = _DATABASES if gigabytes == _GIGABYTES[0] else _DATABASES[:1]
        who += [Contestant(name, name, gigabytes) for name in names]
        found.append(Cell("9", Work.SYSTEM, held, stream, share, tuple(who), Device.DIRECT))
    return found


def _spark(sizes: Sizes) -> list[Cell]:
    held = table(sizes, rows=_ROWS_PER_GB)
    stream = Stream(Shape.ZIPF, MICRO_BATCHES * _batch(sizes))
    who = tuple(Contestant(name, name, 1.0) for name in (HOME, STATIC))
    return [Cell("spark", Work.SYSTEM, held, stream, 0.1, who, Device.DIRECT)]


def _batch(sizes: Sizes) -> int:
    return scaled(sizes, _BATCH)


# --- The real device, smaller --------------------------------------------------------------------


def _direct(name: str, made: list[Cell], sizes: Sizes) -> list[Cell]:
    """The same cells on the real device: half the table, and fewer rows."""
    found = []
    for cell in made:
        held, stream = cell.table, cell.stream
        if held.source is Source.UNIFORM:
            held = table(sizes, rows=ROWS / 2)
            few = fitting(sizes, cell.memory, rows=ROWS / 2, sweeps=6)
            stream = replace(stream, rows=few)
        who = tuple(one for one in cell.contestants if one.method in ("ssij", "mesh"))
        found.append(
            Cell(name, cell.work, held, stream, cell.memory, who, Device.DIRECT)
        )  # fmt: skip
    return found


def _skews_direct(sizes: Sizes) -> list[Cell]:
    made = [cell for cell in _skews("3", False, sizes) if cell.stream.skew in _SHOWN_SKEWS]
    return _direct("3-direct", made, sizes)


def _memories_direct(sizes: Sizes) -> list[Cell]:
    made = [
        cell
        for cell in _memories("5", False, sizes)
        if cell.memory in (0.01, 0.1) and cell.stream.skew in (0.0, 1.0)
    ]
    return _direct("5-direct", made, sizes)


def _many_direct(sizes: Sizes) -> list[Cell]:
    return _direct("7-direct", _many("7", sizes, (1, 400), (2.5,)), sizes)


# --- Our own -------------------------------------------------------------------------------------


def _worst(sizes: Sizes) -> list[Cell]:
    rows = scaled(sizes, ROWS)
    held = Table(Source.REPEATED, rows, rows)
    return [
        Cell("worst", Work.SERVICE, held, Stream(Shape.SPREAD, fitting(sizes, percent / 100)),
             percent / 100, (ssij(percent), mesh(percent)))
        for percent in (1.0, 5.0, 10.0)
    ]  # fmt: skip


def _devices(sizes: Sizes) -> list[Cell]:
    """The same join on devices whose seeks cost more or less."""
    share = 0.05
    found = []
    for device in (Device.SSD, Device.DISK, Device.STORE):
        costs = PROFILES[device.value]
        place = round(costs.seek / costs.transfer, 1)
        who = (
            ssij(place),
            ssij(place, (("plan", "single"),), label=f"{SSIJ}, single reads"),
            mesh(place),
        )
        stream = zipf(sizes, share, 1.0)
        found.append(Cell("devices", Work.SERVICE, table(sizes), stream, share, who, device))
    return found


_MEMORY_AXIS = "memory, % of the table"
_RATE = ("rows_per_s",)
_GB = "gigabytes"

_ALL: tuple[Figure[Cell], ...] = (
    Figure("3", "skew, plain zipf, 7.5 % memory", "skew", partial(_skews, "3", False),
           _RATE, logarithmic=False),
    Figure("4", "skew, permuted zipf, 7.5 % memory", "skew", partial(_skews, "4", True),
           _RATE, logarithmic=False),
    Figure("5", "memory, plain zipf", _MEMORY_AXIS, partial(_memories, "5", False),
           _RATE, logarithmic=False),
    Figure("6", "memory, permuted zipf", _MEMORY_AXIS, partial(_memories, "6", True),
           _RATE, logarithmic=False),
    Figure("7", "1:K joins, skew 1", _MEMORY_AXIS,
           partial(_many, "7", matches=_MATCHES, memories=_SOME), _RATE,
           logarithmic=False),
    Figure("8", "TPC-H Part × LineItem, and taxi zones", _MEMORY_AXIS, _tpch, _RATE,
           logarithmic=False),
    Figure("9", "databases, real device, 10 % memory", _GB, _systems, _RATE, logarithmic=False),
    *SENSITIVITY,
    Figure("3-direct", "Figure 3 on the real device", "skew", _skews_direct, _RATE,
           logarithmic=False),
    Figure("5-direct", "Figure 5 on the real device", _MEMORY_AXIS, _memories_direct, _RATE,
           logarithmic=False),
    Figure("7-direct", "Figure 7 on the real device", _MEMORY_AXIS, _many_direct, _RATE,
           logarithmic=False),
    Figure("worst", "the worst case of Section V", _MEMORY_AXIS, _worst, _RATE,
           logarithmic=False),
    Figure("devices", "SSD, disk and object store, skew 1, 5 % memory", "S/T", _devices,
           ("rows_per_s", "latency_p99")),
    Figure("spark", "Spark's stream-static join, micro-batches of 0.1 M rows", _GB, _spark, _RATE,
           logarithmic=False),
)  # fmt: skip

FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}


def chosen(names: Sequence[str] = ()) -> list[Figure[Cell]]:
    """The experiments asked for, or all."""
    return plans.chosen(FIGURES, names, ABSENT)


def cells(names: Sequence[str], sizes: Sizes) -> list[Cell]:
    """The cells of the experiments asked for; those of one table stand together where they can."""
    return [cell for figure in chosen(names) for cell in figure.cells(sizes)]

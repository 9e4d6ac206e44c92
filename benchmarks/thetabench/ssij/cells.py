"""The cells of the figures: who joins which stream to which table, within which memory.

Scale 1 is 1/64 of the paper's Table II: a table of 1.25 million rows of 128 bytes. Rates do not
change with the scale as long as reading decides, since memory and table shrink alike. Lists are
chosen so that all figures take some 20 minutes on two cores, databases aside.

A *plan* makes the cells of a figure at a scale; the figure puts its name into them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from thetabench.figure import Parameters, Sizes
from thetabench.ssij.contestant import (
    Cell,
    Contestant,
    Device,
    Shape,
    Source,
    Stream,
    Table,
    Work,
)
from thetabench.ssij.peers.spark import HOME, STATIC
from thetabench.ssij.readplans import WAYS
from thetabench.ssij.systems import MICRO_BATCHES
from thetastream.relation.disk.clock import PROFILES

MESH, SSIJ = "mesh-join", "ssij"
FEW_COLUMNS = "ssij, two columns"
"""Our join returning what the databases' query reads, and not whole rows."""
DYNAMIC, UTILITY, LRU, NONE = "dynamic", "utility", "lru", "no cache"
SPLITS: dict[str, Parameters] = {
    DYNAMIC: (),
    **{f"{share} % cache": (("split", share / 100),) for share in (20, 50, 70)},
    NONE: (("cache", "none"),),
}
"""How memory is divided, and the options that say so."""
POLICIES: dict[str, Parameters] = {
    UTILITY: (("cache", "utility"),),
    LRU: (("cache", "lru"),),
    NONE: (("cache", "none"),),
}
"""Which blocks are kept."""
BURSTS = {10: 700.0, 25: 562.0, 50: 400.0, 70: 225.0}
"""Table III: percent above the nominal rate, and the paper's milliseconds."""
DATABASES = ("postgresql", "sqlite", "duckdb")
"""The first is measured at every size."""

ROWS = 1_250_000
KEYS = 250_000
"""Domain of the keys, as in Table II, at every scale: so a stream row has five matches."""
SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
SHOWN_SKEWS = (0.0, 0.5, 1.0)
MEMORIES = (1.0, 2.5, 5.0, 10.0)
SOME = (1.0, 5.0, 10.0)
INPUT = (250, 1_000, 4_000, 8_000, 16_000, 32_000)  # rows, at scale 1
STREAM = (500, 1_000, 2_000, 4_000, 6_000, 8_000)
SCANS = (1, 4, 16, 32, 64, 128)
_MEMORY = 7.5  # percent of the table, where memory is not the axis
_LOCAL_KEYS = ROWS // 16
_LEAST = 3_000  # rows
_ON_DISK = 1.25  # bytes on disk per byte of rows, at a filling factor of 0.8
_SWEEPS = 4  # how often the rows that fit into memory are to be replaced
_FEW, _MANY = 60_000, 500_000  # rows of a stream
_SKEWED = 4  # times as many rows at skew 1, where most are answered from the cache
_LONG, _SMALL = 100, (1.0, 5.0)  # rows per key above which memory, and so streams, are smaller
_PAIRS = 16_000_000  # of an answer, at most
_GIGABYTES = (0.5, 1.5)
_ROWS_PER_GB = 1_000_000_000 // 128
_BATCH = 100_000
_PARTS = 312_500  # rows of TPC-H's Part: 1/64 of the paper's
_SLOW, _SLOWER = 0.2, 0.02  # of the stream, for nested loops
_FILLS = (0.5, 0.65, 0.8, 1.0)
_DEADLINES = (0.1, 0.25, 0.5, 1.0, 2.0)  # seconds, at scale 1
_DENSITIES = (0.01, 0.05, 0.1, 0.2, 0.5)
_PLANNED = 195_000  # blocks of 8 KiB: a table of 1.25 GB
_NOTHING = Stream(Shape.ZIPF, 0)

Plan = Callable[[Sizes], list[Cell]]
Who = Callable[[float], Sequence[Contestant]]
"""The contestants at a place of the axis."""
Load = Callable[[Sizes, float], tuple[Table, Stream]]
"""What is joined there."""

# --- Tables, streams and contestants -------------------------------------------------------------


def scaled(sizes: Sizes, rows: float) -> int:
    """A number of rows.

    >>> scaled(Sizes(0.02), 1_250_000), scaled(Sizes(1e-4), 1_250_000)
    (25000, 3000)
    """
    return max(_LEAST, round(rows * sizes.scale))


def table(sizes: Sizes, *, rows: float = ROWS, fill: float = 0.8) -> Table:
    """The table of most figures."""
    count = scaled(sizes, rows)
    return Table(Source.UNIFORM, count, min(KEYS, count), fill)


def fitting(
    sizes: Sizes, percent: float, skew: float = 0.0, *, rows: float = ROWS, sweeps: float = _SWEEPS
) -> int:
    """Rows of a stream: enough to replace those in memory several times."""
    fit = percent / 100 * rows * _ON_DISK
    more = 1 + (_SKEWED - 1) * skew
    return scaled(sizes, more * min(max(sweeps * fit, _FEW), _MANY))


def zipf(sizes: Sizes, percent: float, skew: float, *, permuted: bool = False) -> Stream:
    """A zipf stream, with some percent of the table as memory."""
    shape = Shape.PERMUTED if permuted else Shape.ZIPF
    return Stream(shape, fitting(sizes, percent, skew), skew)


def skewed(sizes: Sizes, percent: float) -> tuple[Table, Stream]:
    """Skew 1."""
    return table(sizes), zipf(sizes, percent, 1.0)


def local(sizes: Sizes, percent: float) -> tuple[Table, Stream]:
    """Temporal locality: 16 rows per key, as in the paper, and a stream through all of the keys."""
    rows = scaled(sizes, ROWS)
    keys = max(200, round(_LOCAL_KEYS * sizes.scale))
    return Table(Source.UNIFORM, rows, keys), Stream(Shape.LOCAL, scaled(sizes, 187_500), 1.0)


def spread(sizes: Sizes, percent: float) -> tuple[Table, Stream]:
    """The worst case of Section V."""
    rows = scaled(sizes, ROWS)
    return Table(Source.REPEATED, rows, rows), Stream(Shape.SPREAD, fitting(sizes, percent))


def ssij(place: float, parameters: Parameters = (), *, label: str = SSIJ) -> Contestant:
    """Our join."""
    return Contestant(label, "ssij", place, parameters)


def mesh(place: float, *, label: str = MESH) -> Contestant:
    """MeshJoin, which chooses its own parameters."""
    return Contestant(label, "mesh", place)


def two(place: float, name: str = "") -> list[Contestant]:
    """Our join and MeshJoin."""
    note = f", {name}" if name else ""
    return [ssij(place, label=f"{SSIJ}{note}"), mesh(place, label=f"{MESH}{note}")]


def four(place: float) -> list[Contestant]:
    """Index nested loops as well."""
    nested = Contestant("index nested loop", "nested", place, part=_SLOWER)
    batched = Contestant("index nested loop, batches", "batched", place, part=_SLOW)
    return [*two(place), nested, batched]


def variants(options: Mapping[str, Parameters]) -> Who:
    """Our join with other options, by label."""
    return lambda place: [ssij(place, own, label=label) for label, own in options.items()]


# --- Plans ---------------------------------------------------------------------------------------


def _cell(
    who: Sequence[Contestant], percent: float, held: Table, stream: Stream, **more: Any
) -> Cell:
    return Cell("", tuple(who), table=held, stream=stream, memory=percent / 100, **more)


def by_memory(memories: Sequence[float], who: Who, load: Load, **more: Any) -> Plan:
    """A cell per percentage of the table that is memory."""
    return lambda sizes: [
        _cell(who(percent), percent, *load(sizes, percent), **more) for percent in memories
    ]


def by_skew(skews: Sequence[float], who: Who, *, permuted: bool = False) -> Plan:
    """A cell per skew (Figures 3 and 4)."""
    return lambda sizes: [
        _cell(who(skew), _MEMORY, table(sizes), zipf(sizes, _MEMORY, skew, permuted=permuted))
        for skew in skews
    ]


def by_both(
    memories: Sequence[float], skews: Sequence[float] = SHOWN_SKEWS, *, permuted: bool = False
) -> Plan:
    """A cell per memory and skew; MeshJoin without skew only (Figures 5 and 6)."""
    return lambda sizes: [
        _cell(two(percent, f"skew {skew:g}")[: 1 if skew else 2], percent, table(sizes),
              zipf(sizes, percent, skew, permuted=permuted))
        for percent in memories
        for skew in skews
    ]  # fmt: skip


def by_setting(
    label: str, option: str, values: Sequence[int], percent: float, load: Load, *, rows: bool = True
) -> Plan:
    """One cell: our join with values of an option, which are scaled if they are ``rows``."""

    def who(value: int, scale: float) -> Contestant:
        own = max(8, round(value * scale)) if rows else value
        return ssij(value, ((option, own),), label=label)

    return lambda sizes: [
        _cell([who(value, sizes.scale) for value in values], percent, *load(sizes, percent))
    ]


def by_matches(matches: Sequence[int], memories: Sequence[float]) -> Plan:
    """1:K joins: a quarter of the table, and shorter streams, since answers are long."""

    def cells(sizes: Sizes) -> list[Cell]:
        made = []
        for times in matches:
            rows = max(scaled(sizes, ROWS / 4) // times, 4) * times
            held = Table(Source.REPEATED, rows, rows // times)
            for percent in _SMALL if times > _LONG and len(memories) > 2 else memories:
                length = max(_SWEEPS * percent / 100 * rows * 1.25, 2_000)
                stream = Stream(Shape.ZIPF, min(int(length), _PAIRS // times), 1.0)
                made.append(_cell(two(percent, f"1:{times}"), percent, held, stream))
        return made

    return cells


def direct(plan: Plan) -> Plan:
    """The same cells on the real device: half the table, and fewer rows."""

    def moved(cell: Cell, sizes: Sizes) -> Cell:
        held, stream = cell.table, cell.stream
        if held.source is Source.UNIFORM:
            held = table(sizes, rows=ROWS / 2)
            few = fitting(sizes, 100 * cell.memory, rows=ROWS / 2, sweeps=6)
            stream = replace(stream, rows=few)
        return replace(cell, table=held, stream=stream, device=Device.DIRECT)

    return lambda sizes: [moved(cell, sizes) for cell in plan(sizes)]


def real(sizes: Sizes) -> list[Cell]:
    """TPC-H; and taxi zones, a few blocks: the least that a join can have is all of it."""
    parts, cells = scaled(sizes, _PARTS), []
    for percent in MEMORIES:
        lines = Stream(Shape.LINEITEM, scaled(sizes, max(_SWEEPS * percent / 100, 0.06) * _PARTS))
        held = Table(Source.PART, parts, parts)
        cells.append(_cell(two(percent, "TPC-H"), percent, held, lines))
    zones, trips = Table(Source.ZONES, 265, 265), Stream(Shape.TRIPS, scaled(sizes, 100_000))
    return [*cells, _cell(two(100.0, "taxi zones"), 100.0, zones, trips)]


def _system(sizes: Sizes, size: float, who: Sequence[Contestant], rows: int) -> Cell:
    """A table of some gigabytes, and rows of a stream without skew."""
    held, stream = table(sizes, rows=size * _ROWS_PER_GB), Stream(Shape.ZIPF, rows)
    return _cell(who, 10, held, stream, work=Work.SYSTEM, device=Device.DIRECT)


def databases(sizes: Sizes) -> list[Cell]:
    """Databases, and our join returning whole rows or two columns."""
    cells, batch = [], scaled(sizes, _BATCH)
    for size in _GIGABYTES:
        few = ssij(size, (("columns", ("id", "rid")),), label=FEW_COLUMNS)
        names = DATABASES if size == _GIGABYTES[0] else DATABASES[:1]
        who = [ssij(size), few, mesh(size), *(Contestant(name, name, size) for name in names)]
        cells.append(_system(sizes, size, who, max(scaled(sizes, 10 * _BATCH), 2 * batch)))
    return cells


def spark(sizes: Sizes) -> list[Cell]:
    """Contestants on Spark."""
    who = [Contestant(name, name, 1.0) for name in (HOME, STATIC)]
    return [_system(sizes, 1.0, who, MICRO_BATCHES * scaled(sizes, _BATCH))]


def fills(sizes: Sizes) -> list[Cell]:
    """The budget is a share of the same bytes at every filling factor: those of a full table."""
    return [
        _cell([ssij(percent, label=f"filling factor {fill:g}")], percent * fill,
              table(sizes, fill=fill), zipf(sizes, percent, 1.0))
        for fill in _FILLS
        for percent in (2.5, 10.0)
    ]  # fmt: skip


def deadlines(sizes: Sizes) -> list[Cell]:
    """Half of the table, as in the paper: 5 GB instead of 10. MeshJoin has no deadline."""
    held = table(sizes, rows=ROWS / 2)
    stream = Stream(Shape.ZIPF, fitting(sizes, _MEMORY, rows=ROWS / 2, sweeps=5), 1.0)
    who = {
        **{ssij(own, (("deadline", f"{own * 1e3:g} ms"),)): Work.DEADLINE for own in _DEADLINES},
        mesh(_DEADLINES[-1]): Work.SUSTAINED,
    }
    return [_cell([one], _MEMORY, held, stream, work=work) for one, work in who.items()]


def bursts(sizes: Sizes) -> list[Cell]:
    """Bursts of Table III."""
    who = [ssij(percent, label=DYNAMIC) for percent in BURSTS]
    return [_cell(who, 10, *local(sizes, 10), work=Work.BURST)]


def read_plans(sizes: Sizes) -> list[Cell]:
    """Ways to read a share of the blocks; there is no stream."""
    blocks = scaled(sizes, _PLANNED)
    held = Table(Source.UNIFORM, blocks, blocks)
    return [
        _cell([Contestant(way, way, share) for way in WAYS], 100 * share, held, _NOTHING,
              work=Work.PLAN)
        for share in _DENSITIES
    ]  # fmt: skip


def index(sizes: Sizes) -> list[Cell]:
    """Relations whose keys occur more or less often; there is no stream."""
    cells = []
    for times in (1, 5, 400):
        rows = scaled(sizes, ROWS) // times * times or times
        held = Table(Source.REPEATED, rows, rows // times)
        who = [Contestant("fences", "fences", times)]
        cells.append(_cell(who, 0, held, _NOTHING, work=Work.INDEX))
    return cells


def devices(sizes: Sizes) -> list[Cell]:
    """The same join on devices whose seeks cost more or less."""
    cells = []
    for device in (Device.SSD, Device.DISK, Device.STORE):
        costs = PROFILES[device.value]
        place = round(costs.seek / costs.transfer, 1)
        single = ssij(place, (("plan", "single"),), label=f"{SSIJ}, single reads")
        who = [ssij(place), single, mesh(place)]
        cells.append(_cell(who, 5, *skewed(sizes, 5), device=device))
    return cells

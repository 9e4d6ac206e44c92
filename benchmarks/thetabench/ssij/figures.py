"""The figures of the SSIJ paper, 3 to 16 and Table III, and some of our own: cells and claims.

Lists are chosen so that all of it takes some 20 minutes on two cores, databases aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from thetabench.figure import Figure, Lines, Parameters, Sizes, power
from thetabench.measure import Measure
from thetabench.score import at_least, first, last, least, most, only, ratio, relative
from thetabench.ssij.contestant import (
    FEW_COLUMNS,
    HOME,
    MESH,
    MICRO_BATCHES,
    ROWS,
    SSIJ,
    STATIC,
    Cell,
    Contestant,
    Device,
    Shape,
    Source,
    Stream,
    Table,
    Work,
    fitting,
    local,
    mesh,
    scaled,
    ssij,
    table,
    zipf,
)
from thetabench.ssij.readplans import GREEDY, OPTIMAL, WAYS
from thetastream.relation.disk.clock import PROFILES

DYNAMIC, UTILITY, LRU, NONE = "dynamic", "utility", "lru", "no cache"
SPLITS: dict[str, Parameters] = {
    DYNAMIC: (),
    **{f"{share} % cache": (("split", share / 100),) for share in (20, 50, 70)},
    NONE: (("cache", "none"),),
}
"""How memory is divided, and the options that say so."""
BURSTS = {10: 700.0, 25: 562.0, 50: 400.0, 70: 225.0}
"""Table III: percent above the nominal rate, and the paper's milliseconds."""
DATABASES = ("postgresql", "sqlite", "duckdb")
"""The first is measured at every size."""
ABSENT = {"1": "a picture of the algorithm", "2": "a picture of the algorithm"}
"""Figures of the paper that are no measurements."""
MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("thousand stream rows per second", 1e-3),
    "hit_share": Measure("answered from the cache, %", 100.0),
    "cpu_us": Measure("processor microseconds per row"),
    "latency_p99": Measure("seconds to the answer, 99th percentile"),
    "met_share": Measure("deadlines met, %", 100.0, digits=4),
    "nominal_per_s": Measure("thousand stream rows per second before", 1e-3),
    "burst_ms": Measure("milliseconds until memory is full"),
    "plan_cost_ms": Measure("milliseconds to read"),
    "plan_ms": Measure("milliseconds to plan"),
    "plan_share": Measure("planning, % of the phase", 100.0),
    "index_bytes": Measure("kilobytes of index", 1e-3),
    "index_mb_10gb": Measure("megabytes of index per 10 GB"),
}

_SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
_SHOWN_SKEWS = (0.0, 0.5, 1.0)
_MEMORY = 7.5  # percent of the table, where memory is not the axis
_MEMORIES = (1.0, 2.5, 5.0, 10.0)
_SOME = (1.0, 5.0, 10.0)
_MATCHES = (1, 10, 100, 400)
_LONG, _SMALL = 100, (1.0, 5.0)  # rows per key above which memory, and so streams, are smaller
_PAIRS = 16_000_000  # of an answer, at most
_SWEEPS = 4  # of Figures 7 and 8: how often the rows in memory are replaced
_GIGABYTES = (0.5, 1.5)
_ROWS_PER_GB = 1_000_000_000 // 128
_BATCH = 100_000
_PARTS = 312_500  # rows of TPC-H's Part: 1/64 of the paper's
_SLOW = 0.02  # of the stream, for a nested loop
_INPUT = (250, 1_000, 4_000, 8_000, 16_000, 32_000)  # rows, at scale 1
_STREAM = (500, 1_000, 2_000, 4_000, 6_000, 8_000)
_SCANS = (1, 4, 16, 32, 64, 128)
_FILLS = (0.5, 0.65, 0.8, 1.0)
_DEADLINES = (0.1, 0.25, 0.5, 1.0, 2.0)  # seconds, at scale 1
_DENSITIES = (0.01, 0.05, 0.1, 0.2, 0.5)
_PLANNED = 195_000  # blocks of 8 KiB: a table of 1.25 GB
_NOTHING = Stream(Shape.ZIPF, 0)


def _cell(
    figure: str, who: Sequence[Contestant], percent: float, held: Table, stream: Stream, **more: Any
) -> Cell:
    """``percent`` of the table is memory."""
    return Cell(figure, tuple(who), table=held, stream=stream, memory=percent / 100, **more)


def _both(place: float, name: str) -> list[Contestant]:
    """Our join and MeshJoin."""
    return [ssij(place, label=f"{SSIJ}, {name}"), mesh(place, label=f"{MESH}, {name}")]


# --- Skew and memory: Figures 3–6 ----------------------------------------------------------------


def _skews(name: str, permuted: bool, sizes: Sizes) -> list[Cell]:
    cells = []
    for skew in _SHOWN_SKEWS if permuted else _SKEWS:
        who = [ssij(skew), mesh(skew)]
        if not permuted:
            who.append(Contestant("index nested loop", "nested", skew, part=_SLOW))
            who.append(Contestant("index nested loop, batches", "batched", skew, part=0.2))
        stream = zipf(sizes, _MEMORY / 100, skew, permuted=permuted)
        cells.append(_cell(name, who, _MEMORY, table(sizes), stream))
    return cells


def _memories(name: str, permuted: bool, sizes: Sizes) -> list[Cell]:
    return [
        _cell(name, _both(percent, f"skew {skew:g}")[: 1 if skew else 2], percent, table(sizes),
              zipf(sizes, percent / 100, skew, permuted=permuted))
        for percent in (_SOME if permuted else _MEMORIES)
        for skew in _SHOWN_SKEWS
    ]  # fmt: skip


# --- Figures 7 to 9: 1:K joins, real data, other systems -----------------------------------------


def _many(name: str, sizes: Sizes, matches: Sequence[int], memories: Sequence[float]) -> list[Cell]:
    """A quarter of the table, and shorter streams: answers are long."""
    cells = []
    for times in matches:
        rows = max(scaled(sizes, ROWS / 4) // times, 4) * times
        held = Table(Source.REPEATED, rows, rows // times)
        for percent in _SMALL if times > _LONG and len(memories) > 2 else memories:
            length = max(_SWEEPS * percent / 100 * rows * 1.25, 2_000)
            stream = Stream(Shape.ZIPF, min(int(length), _PAIRS // times), 1.0)
            cells.append(_cell(name, _both(percent, f"1:{times}"), percent, held, stream))
    return cells


def _real(sizes: Sizes) -> list[Cell]:
    """TPC-H; and taxi zones, a few blocks: the least that a join can have is all of it."""
    parts, cells = scaled(sizes, _PARTS), []
    for percent in _MEMORIES:
        lines = Stream(Shape.LINEITEM, scaled(sizes, max(_SWEEPS * percent / 100, 0.06) * _PARTS))
        held = Table(Source.PART, parts, parts)
        cells.append(_cell("8", _both(percent, "TPC-H"), percent, held, lines))
    zones, trips = Table(Source.ZONES, 265, 265), Stream(Shape.TRIPS, scaled(sizes, 100_000))
    return [*cells, _cell("8", _both(100.0, "taxi zones"), 100.0, zones, trips)]


def _systems(sizes: Sizes) -> list[Cell]:
    cells = []
    for size in _GIGABYTES:
        batch = scaled(sizes, _BATCH)
        stream = Stream(Shape.ZIPF, max(scaled(sizes, 10 * _BATCH), 2 * batch))
        few = ssij(size, (("columns", ("id", "rid")),), label=FEW_COLUMNS)
        names = DATABASES if size == _GIGABYTES[0] else DATABASES[:1]
        who = [ssij(size), few, mesh(size), *(Contestant(name, name, size) for name in names)]
        held = table(sizes, rows=size * _ROWS_PER_GB)
        cells.append(_cell("9", who, 10, held, stream, work=Work.SYSTEM, device=Device.DIRECT))
    return cells


def _spark(sizes: Sizes) -> list[Cell]:
    stream = Stream(Shape.ZIPF, MICRO_BATCHES * scaled(sizes, _BATCH))
    who = [Contestant(name, name, 1.0) for name in (HOME, STATIC)]
    held = table(sizes, rows=_ROWS_PER_GB)
    return [_cell("spark", who, 10, held, stream, work=Work.SYSTEM, device=Device.DIRECT)]


# --- Figures 10 to 16, Table III -----------------------------------------------------------------


def _splits(sizes: Sizes) -> list[Cell]:
    return [
        _cell("10", [ssij(percent, own, label=label) for label, own in SPLITS.items()], percent,
              *local(sizes), work=Work.SUSTAINED)
        for percent in (2.5, 10.0)
    ]  # fmt: skip


def _policies(sizes: Sizes) -> list[Cell]:
    names = {UTILITY: "utility", LRU: "lru", NONE: "none"}
    return [
        _cell("11", [ssij(percent, (("cache", own),), label=label) for label, own in names.items()],
              percent, table(sizes), zipf(sizes, percent / 100, 1.0))
        for percent in _MEMORIES
    ]  # fmt: skip


def _thresholds(name: str, option: str, counts: Sequence[int], sizes: Sizes) -> list[Contestant]:
    return [
        ssij(rows, ((option, max(8, round(rows * sizes.scale))),), label=name) for rows in counts
    ]


def _input(sizes: Sizes) -> list[Cell]:
    who = _thresholds("input threshold", "input_rows", _INPUT, sizes)
    return [_cell("12", who, 10, *local(sizes))]


def _stream(sizes: Sizes) -> list[Cell]:
    who = _thresholds("stream threshold", "stream_rows", _STREAM, sizes)
    return [_cell("13", who, 1, table(sizes), zipf(sizes, 0.01, 1.0))]


def _fills(sizes: Sizes) -> list[Cell]:
    """The budget is a share of the same bytes at every filling factor: those of a full table."""
    return [
        _cell("14", [ssij(percent, label=f"filling factor {fill:g}")], percent * fill,
              table(sizes, fill=fill), zipf(sizes, percent / 100, 1.0))
        for fill in _FILLS
        for percent in (2.5, 10.0)
    ]  # fmt: skip


def _scans(sizes: Sizes) -> list[Cell]:
    who = [ssij(blocks, (("max_scan", blocks),), label="maxScan") for blocks in _SCANS]
    return [_cell("15", who, 1, table(sizes), zipf(sizes, 0.01, 1.0))]


def _deadlines(sizes: Sizes) -> list[Cell]:
    """Half of the table, as in the paper: 5 GB instead of 10. MeshJoin has no deadline."""
    held = table(sizes, rows=ROWS / 2)
    stream = Stream(Shape.ZIPF, fitting(sizes, _MEMORY / 100, rows=ROWS / 2, sweeps=5), 1.0)
    who = {
        **{ssij(own, (("deadline", f"{own * 1e3:g} ms"),)): Work.DEADLINE for own in _DEADLINES},
        mesh(_DEADLINES[-1]): Work.SUSTAINED,
    }
    return [_cell("16", [one], _MEMORY, held, stream, work=work) for one, work in who.items()]


def _bursts(sizes: Sizes) -> list[Cell]:
    who = [ssij(percent, label=DYNAMIC) for percent in BURSTS]
    return [_cell("table3", who, 10, *local(sizes), work=Work.BURST)]


# --- The same on the real device, smaller; and our own -------------------------------------------


def _direct(name: str, made: Sequence[Cell], sizes: Sizes) -> list[Cell]:
    """The same cells on the real device: half the table, and fewer rows."""
    cells = []
    for cell in made:
        held, stream = cell.table, cell.stream
        if held.source is Source.UNIFORM:
            held = table(sizes, rows=ROWS / 2)
            few = fitting(sizes, cell.memory, rows=ROWS / 2, sweeps=6)
            stream = replace(stream, rows=few)
        who = tuple(one for one in cell.contestants if one.structure in ("ssij", "mesh"))
        cells.append(replace(cell, figure=name, contestants=who, table=held, stream=stream,
                             device=Device.DIRECT))  # fmt: skip
    return cells


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


def _worst(sizes: Sizes) -> list[Cell]:
    rows = scaled(sizes, ROWS)
    return [
        _cell("worst", [ssij(percent), mesh(percent)], percent, Table(Source.REPEATED, rows, rows),
              Stream(Shape.SPREAD, fitting(sizes, percent / 100)))
        for percent in _SOME
    ]  # fmt: skip


def _plans(sizes: Sizes) -> list[Cell]:
    blocks = scaled(sizes, _PLANNED)
    return [
        _cell("plan", [Contestant(way, way, share) for way in WAYS], 100 * share,
              Table(Source.UNIFORM, blocks, blocks), _NOTHING, work=Work.PLAN)
        for share in _DENSITIES
    ]  # fmt: skip


def _index(sizes: Sizes) -> list[Cell]:
    cells = []
    for times in (1, 5, 400):
        rows = scaled(sizes, ROWS) // times * times or times
        held = Table(Source.REPEATED, rows, rows // times)
        who = [Contestant("fences", "fences", times)]
        cells.append(_cell("index", who, 0, held, _NOTHING, work=Work.INDEX))
    return cells


def _devices(sizes: Sizes) -> list[Cell]:
    """The same join on devices whose seeks cost more or less."""
    cells = []
    for device in (Device.SSD, Device.DISK, Device.STORE):
        costs = PROFILES[device.value]
        place = round(costs.seek / costs.transfer, 1)
        single = ssij(place, (("plan", "single"),), label=f"{SSIJ}, single reads")
        who = [ssij(place), single, mesh(place)]
        cells.append(_cell("devices", who, 5, table(sizes), zipf(sizes, 0.05, 1.0), device=device))
    return cells


# --- Claims --------------------------------------------------------------------------------------

_LESS = ("plan_cost_ms", "index_bytes")  # where less is better
_SHARED_BLOCKS = (
    "ten keys share a block, so a cached block holds cold keys too; in the paper, a key has "
    "six blocks of its own."
)
_FAST_DEVICE = (
    "blocks are read so fast that checking and searching one takes about as long as reading "
    "it, so a hit saves less."
)
_EIGHT_LEAVES = (
    "a row with 400 matches needs eight leaves, some of which are cached and some not, so it "
    "waits although most of its answer is available."
)
_LATE_LOOKUPS = "rows that arrive during a join phase are looked up only after it"


def _ranking(axis: str, column: str, lines: Lines) -> str:
    """All contestants at the first and at the last place, the best first."""
    measure, shown = MEASURES[column], []
    places = [line.place for line in lines]
    for place in dict.fromkeys((min(places), max(places))):
        there = [own for own in lines if own.place == place and getattr(own, column)]
        there.sort(key=lambda own: getattr(own, column), reverse=column not in _LESS)
        values = [f"{own.contestant} {measure.text(getattr(own, column))}" for own in there]
        shown.append(f"{axis} {power(place)}: {', '.join(values)}")
    return f"{measure.title}; {'; '.join(shown)}."


def _best_place(axis: str, column: str, lines: Lines) -> str:
    """Where the rate is greatest, and what it is at both ends."""
    measure = MEASURES[column]
    best = max(lines, key=lambda own: getattr(own, column))
    ends = (min(lines, key=lambda own: own.place), max(lines, key=lambda own: own.place))
    shown = [f"{measure.text(getattr(own, column))} at {power(own.place)}" for own in ends]
    return (
        f"{measure.title}: most at {power(best.place)} {axis}, "
        f"{measure.text(getattr(best, column))}; {' and '.join(shown)}."
    )


Holds = Callable[[Lines], bool]


def _figure(
    name: str, about: str, axis: str, cells: Callable[[Sizes], list[Cell]],
    measures: tuple[str, ...] = ("tuples_per_s",), *, logarithmic: bool = False, claim: str = "",
    holds: Holds | None = None, missed: str = "", remark: str = "",
    say: Callable[[str, str, Lines], str] = _ranking,
) -> Figure[Cell]:  # fmt: skip
    """A figure whose verdict has the numbers, after why its claim is ``missed`` or a ``remark``."""

    def because(lines: Lines) -> str:
        own = [line for line in lines if line.ran]
        if not own:
            return missed
        numbers = say(axis, measures[0], own)
        text = missed if holds and not holds(own) else remark
        return f"{text} {numbers[0].upper()}{numbers[1:]}" if text else numbers

    return Figure(name, about, axis, cells, measures, logarithmic, claim=claim, holds=holds,
                  because=because)  # fmt: skip


def _rises(times: float) -> Holds:
    """Whether the rate of our join rises that much from the first skew to the last."""
    rise = relative(0.0, "place")
    return at_least(times, last, lambda lines: rise(only(contestant=SSIJ)(lines)))


def _peaks(lines: Lines) -> bool:
    """Whether the rate falls again in the end."""
    best = max(lines, key=lambda own: own.tuples_per_s, default=None)
    return best is not None and best.place < max(own.place for own in lines)


def _bears(lines: Lines) -> bool:
    """Whether every burst of Table III is borne."""
    return all(own.burst_ms >= BURSTS[int(own.place)] for own in lines)


def _small(lines: Lines) -> bool:
    """Whether the index is as small as the paper's."""
    return all(own.index_mb_10gb <= 13 for own in lines)


_ON_MEMORY = "memory, % of the table"
_AT_SCALE_1 = "rows, at scale 1"
_FASTER = ratio(SSIJ, MESH)
_SIX_TIMES = at_least(6.0, most, ratio(f"{SSIJ}, skew 1", f"{MESH}, skew 0"))
_NINE_TIMES = at_least(9.0, most, ratio(f"{SSIJ}, 1:400", f"{MESH}, 1:400"))

_ALL: tuple[Figure[Cell], ...] = (
    _figure("3", "skew, plain zipf, 7.5 % memory", "skew", partial(_skews, "3", False),
            claim="from skew 0 to skew 1 the rate of SSIJ rises several times, that of MeshJoin "
            "falls slightly.", holds=_rises(3.0),
            missed="a join phase reads every leaf that any row waits for, also those that few "
            "rows need, so the rate of SSIJ only doubles."),
    _figure("4", "skew, permuted zipf, 7.5 % memory", "skew", partial(_skews, "4", True),
            claim="as in Figure 3: hot keys at random places change little.", holds=_rises(3.0),
            missed=_SHARED_BLOCKS),
    _figure("5", "memory, plain zipf", _ON_MEMORY, partial(_memories, "5", False),
            claim="both rise with memory; SSIJ is up to six times as fast as MeshJoin at skew 1, "
            "and about the same without skew at 1 %.", holds=_SIX_TIMES,
            missed="our MeshJoin is better than the paper's: it holds a row in 25 bytes beside "
            "its payload, so a pass over the table serves many rows."),
    _figure("6", "memory, permuted zipf", _ON_MEMORY, partial(_memories, "6", True),
            claim="as in Figure 5.", holds=_SIX_TIMES, missed=_SHARED_BLOCKS),
    _figure("7", "1:K joins, skew 1", _ON_MEMORY,
            partial(_many, "7", matches=_MATCHES, memories=_SOME),
            claim="up to 3 times MeshJoin for 1:1, up to 9 times for 1:400, more with more "
            "memory.", holds=_NINE_TIMES, missed=_EIGHT_LEAVES),
    _figure("8", "TPC-H Part × LineItem, and taxi zones", _ON_MEMORY, _real,
            claim="SSIJ is faster at every memory, most of all at little.",
            holds=at_least(1.0, least, ratio(f"{SSIJ}, TPC-H", f"{MESH}, TPC-H")),
            missed="with 1 % memory a sequence cannot be longer than a few dozen blocks, where "
            "the paper reads 200; both joins are equally fast there."),
    _figure("9", "databases, real device, 10 % memory", "gigabytes", _systems,
            claim="3 to 24 times as fast as two databases, which had 1 GB of buffers and the "
            "whole stream in memory.", holds=at_least(3.0, least, ratio(SSIJ, DATABASES[0])),
            missed="PostgreSQL is faster here.",
            remark="for databases that store rows. DuckDB reads two columns only, and is faster."),
    _figure("10", "memory divided, temporal locality, rate sustained", _ON_MEMORY, _splits,
            claim="the more of the memory is cache, the better; moving memory is better than "
            "every fixed split, and more so with more memory.",
            holds=at_least(1.0, least, ratio("70 % cache", "50 % cache")),
            missed=f"{_LATE_LOOKUPS}, and take memory that a large cache leaves too little "
            "of. Moving memory is better than every fixed split, by a few percent."),
    _figure("11", "which blocks are kept, skew 1", _ON_MEMORY, _policies,
            claim="LRU keeps the blocks that were read last, and loses those that are useful.",
            holds=at_least(1.2, first, ratio(UTILITY, LRU)), missed="LRU is as good."),
    _figure("12", "input threshold, temporal locality, 10 % memory", _AT_SCALE_1, _input,
            ("tuples_per_s", "cpu_us"), logarithmic=True, say=_best_place,
            claim="the rate rises with the input threshold up to a point.",
            holds=at_least(1.0, last, relative(_INPUT[0], "place")),
            missed="in simulated time a look-up has a fixed price per row.",
            remark="in simulated time a look-up has a fixed price per row, so the gain of batches "
            "shows in the processor time."),
    _figure("13", "stream threshold, skew 1, 1 % memory", _AT_SCALE_1, _stream,
            ("tuples_per_s", "hit_share"), logarithmic=True, say=_best_place,
            claim="the rate rises, stays for long, and falls when the stream buffer takes the "
            "cache's memory.", holds=_peaks,
            missed="the rate still rises at the largest threshold: fewer rows are answered from "
            "the cache, but a read serves more of them."),
    _figure("14", "filling factor, skew 1", _ON_MEMORY, _fills,
            claim="fuller blocks are better: fewer of them to read, more rows per cached block.",
            holds=at_least(1.0, least, ratio("filling factor 1", "filling factor 0.5")),
            missed="fuller blocks are not faster."),
    _figure("15", "longest sequence (maxScan), skew 1, 1 % memory", "blocks", _scans,
            ("tuples_per_s", "hit_share"), logarithmic=True, say=_best_place,
            claim="short sequences seek too often; very long ones push useful blocks out of the "
            "cache.", holds=_peaks, missed="the longest sequences are the best."),
    _figure("16", "deadlines, skew 1, 7.5 % memory, rate sustained", "seconds", _deadlines,
            ("tuples_per_s", "met_share", "latency_p99"), logarithmic=True,
            claim="550 rows per second with 10 s, 22,000 with 2 minutes; MeshJoin has 5,500 and "
            "answers after 9 minutes.", holds=at_least(1.0, last, _FASTER),
            missed="deadlines are shorter here and seeks are not, so there is time for fewer "
            "reads."),
    _figure("table3", "bursts, temporal locality, 10 % memory", "% above the rate", _bursts,
            ("burst_ms", "nominal_per_s"), holds=_bears,
            claim="700, 562, 400 and 225 ms at 10, 25, 50 and 70 % above 480,000 rows per second.",
            missed=f"{_LATE_LOOKUPS}, so memory is full earlier. Bursts of 50 and 70 % are "
            "borne longer than in the paper."),
    _figure("plan", "read plans, 1.25 GB, disk", "share of blocks wanted", _plans,
            ("plan_cost_ms", "plan_ms", "plan_share"), logarithmic=True,
            claim="the dynamic programme is optimal in O(|P|·maxScan); the greedy plan of Seeger "
            "et al. has no bound.",
            holds=at_least(1.0, least, ratio(GREEDY, OPTIMAL, "plan_cost_ms")),
            missed="a greedy plan is cheaper."),
    _figure("index", "bytes of the index in memory", "rows per key", _index,
            ("index_bytes", "index_mb_10gb"), claim="13 MB for 10 GB.", holds=_small,
            missed="the index is larger."),
    _figure("3-direct", "Figure 3 on the real device", "skew", _skews_direct,
            claim="as in Figure 3.", holds=_rises(3.0), missed=_FAST_DEVICE),
    _figure("5-direct", "Figure 5 on the real device", _ON_MEMORY, _memories_direct,
            claim="as in Figure 5.", holds=_SIX_TIMES, missed=_FAST_DEVICE),
    _figure("7-direct", "Figure 7 on the real device", _ON_MEMORY, _many_direct,
            claim="as in Figure 7.", holds=_NINE_TIMES, missed=_EIGHT_LEAVES),
    _figure("worst", "the worst case of Section V", _ON_MEMORY, _worst,
            claim="SSIJ is never below MeshJoin (Section V): no row finds its block in the cache, "
            "no two rows ask for the same one, and wanted blocks are far apart.",
            holds=at_least(1.0, least, _FASTER), missed="MeshJoin is faster."),
    _figure("devices", "SSD, disk and object store, skew 1, 5 % memory", "S/T", _devices,
            ("tuples_per_s", "latency_p99"), logarithmic=True),
    _figure("spark", "Spark's stream-static join, micro-batches of 0.1 M rows", "gigabytes",
            _spark),
)  # fmt: skip

FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}

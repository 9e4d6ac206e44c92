"""The figures of the SSIJ paper, 3 to 16 and Table III, and some of our own: what is claimed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thetabench.figure import Figure, Lines, Sizes, power
from thetabench.measure import Measure
from thetabench.score import at_least, first, last, least, most, only, ratio, relative
from thetabench.ssij import cells
from thetabench.ssij.cells import BURSTS, DATABASES, LRU, MESH, SSIJ, UTILITY, Plan
from thetabench.ssij.contestant import Cell, Work
from thetabench.ssij.readplans import GREEDY, OPTIMAL

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
    name: str, about: str, axis: str, plan: Plan,
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

    def named(sizes: Sizes) -> list[Cell]:
        return [replace(cell, figure=name) for cell in plan(sizes)]

    return Figure(name, about, axis, named, measures, logarithmic, claim=claim, holds=holds,
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
    _figure("3", "skew, plain zipf, 7.5 % memory", "skew", cells.by_skew(cells.SKEWS, cells.four),
            claim="from skew 0 to skew 1 the rate of SSIJ rises several times, that of MeshJoin "
            "falls slightly.", holds=_rises(3.0),
            missed="a join phase reads every leaf that any row waits for, also those that few "
            "rows need, so the rate of SSIJ only doubles."),
    _figure("4", "skew, permuted zipf, 7.5 % memory", "skew",
            cells.by_skew(cells.SHOWN_SKEWS, cells.two, permuted=True),
            claim="as in Figure 3: hot keys at random places change little.", holds=_rises(3.0),
            missed=_SHARED_BLOCKS),
    _figure("5", "memory, plain zipf", _ON_MEMORY, cells.by_both(cells.MEMORIES),
            claim="both rise with memory; SSIJ is up to six times as fast as MeshJoin at skew 1, "
            "and about the same without skew at 1 %.", holds=_SIX_TIMES,
            missed="our MeshJoin is better than the paper's: it holds a row in 25 bytes beside "
            "its payload, so a pass over the table serves many rows."),
    _figure("6", "memory, permuted zipf", _ON_MEMORY,
            cells.by_both(cells.SOME, permuted=True),
            claim="as in Figure 5.", holds=_SIX_TIMES, missed=_SHARED_BLOCKS),
    _figure("7", "1:K joins, skew 1", _ON_MEMORY, cells.by_matches((1, 10, 100, 400), cells.SOME),
            claim="up to 3 times MeshJoin for 1:1, up to 9 times for 1:400, more with more "
            "memory.", holds=_NINE_TIMES, missed=_EIGHT_LEAVES),
    _figure("8", "TPC-H Part × LineItem, and taxi zones", _ON_MEMORY, cells.real,
            claim="SSIJ is faster at every memory, most of all at little.",
            holds=at_least(1.0, least, ratio(f"{SSIJ}, TPC-H", f"{MESH}, TPC-H")),
            missed="with 1 % memory a sequence cannot be longer than a few dozen blocks, where "
            "the paper reads 200; both joins are equally fast there."),
    _figure("9", "databases, real device, 10 % memory", "gigabytes", cells.databases,
            claim="3 to 24 times as fast as two databases, which had 1 GB of buffers and the "
            "whole stream in memory.", holds=at_least(3.0, least, ratio(SSIJ, DATABASES[0])),
            missed="PostgreSQL is faster here.",
            remark="for databases that store rows. DuckDB reads two columns only, and is faster."),
    _figure("10", "memory divided, temporal locality, rate sustained", _ON_MEMORY,
            cells.by_memory((2.5, 10.0), cells.variants(cells.SPLITS), cells.local,
                            work=Work.SUSTAINED),
            claim="the more of the memory is cache, the better; moving memory is better than "
            "every fixed split, and more so with more memory.",
            holds=at_least(1.0, least, ratio("70 % cache", "50 % cache")),
            missed=f"{_LATE_LOOKUPS}, and take memory that a large cache leaves too little "
            "of. Moving memory is better than every fixed split, by a few percent."),
    _figure("11", "which blocks are kept, skew 1", _ON_MEMORY,
            cells.by_memory(cells.MEMORIES, cells.variants(cells.POLICIES), cells.skewed),
            claim="LRU keeps the blocks that were read last, and loses those that are useful.",
            holds=at_least(1.2, first, ratio(UTILITY, LRU)), missed="LRU is as good."),
    _figure("12", "input threshold, temporal locality, 10 % memory", _AT_SCALE_1,
            cells.by_setting("input threshold", "input_rows", cells.INPUT, 10, cells.local),
            ("tuples_per_s", "cpu_us"), logarithmic=True, say=_best_place,
            claim="the rate rises with the input threshold up to a point.",
            holds=at_least(1.0, last, relative(cells.INPUT[0], "place")),
            missed="in simulated time a look-up has a fixed price per row.",
            remark="in simulated time a look-up has a fixed price per row, so the gain of batches "
            "shows in the processor time."),
    _figure("13", "stream threshold, skew 1, 1 % memory", _AT_SCALE_1,
            cells.by_setting("stream threshold", "stream_rows", cells.STREAM, 1, cells.skewed),
            ("tuples_per_s", "hit_share"), logarithmic=True, say=_best_place,
            claim="the rate rises, stays for long, and falls when the stream buffer takes the "
            "cache's memory.", holds=_peaks,
            missed="the rate still rises at the largest threshold: fewer rows are answered from "
            "the cache, but a read serves more of them."),
    _figure("14", "filling factor, skew 1", _ON_MEMORY, cells.fills,
            claim="fuller blocks are better: fewer of them to read, more rows per cached block.",
            holds=at_least(1.0, least, ratio("filling factor 1", "filling factor 0.5")),
            missed="fuller blocks are not faster."),
    _figure("15", "longest sequence (maxScan), skew 1, 1 % memory", "blocks",
            cells.by_setting("maxScan", "max_scan", cells.SCANS, 1, cells.skewed, rows=False),
            ("tuples_per_s", "hit_share"), logarithmic=True, say=_best_place,
            claim="short sequences seek too often; very long ones push useful blocks out of the "
            "cache.", holds=_peaks, missed="the longest sequences are the best."),
    _figure("16", "deadlines, skew 1, 7.5 % memory, rate sustained", "seconds", cells.deadlines,
            ("tuples_per_s", "met_share", "latency_p99"), logarithmic=True,
            claim="550 rows per second with 10 s, 22,000 with 2 minutes; MeshJoin has 5,500 and "
            "answers after 9 minutes.", holds=at_least(1.0, last, _FASTER),
            missed="deadlines are shorter here and seeks are not, so there is time for fewer "
            "reads."),
    _figure("table3", "bursts, temporal locality, 10 % memory", "% above the rate", cells.bursts,
            ("burst_ms", "nominal_per_s"), holds=_bears,
            claim="700, 562, 400 and 225 ms at 10, 25, 50 and 70 % above 480,000 rows per second.",
            missed=f"{_LATE_LOOKUPS}, so memory is full earlier. Bursts of 50 and 70 % are "
            "borne longer than in the paper."),
    _figure("plan", "read plans, 1.25 GB, disk", "share of blocks wanted", cells.read_plans,
            ("plan_cost_ms", "plan_ms", "plan_share"), logarithmic=True,
            claim="the dynamic programme is optimal in O(|P|·maxScan); the greedy plan of Seeger "
            "et al. has no bound.",
            holds=at_least(1.0, least, ratio(GREEDY, OPTIMAL, "plan_cost_ms")),
            missed="a greedy plan is cheaper."),
    _figure("index", "bytes of the index in memory", "rows per key", cells.index,
            ("index_bytes", "index_mb_10gb"), claim="13 MB for 10 GB.", holds=_small,
            missed="the index is larger."),
    _figure("3-direct", "Figure 3 on the real device", "skew",
            cells.direct(cells.by_skew(cells.SHOWN_SKEWS, cells.two)),
            claim="as in Figure 3.", holds=_rises(3.0), missed=_FAST_DEVICE),
    _figure("5-direct", "Figure 5 on the real device", _ON_MEMORY,
            cells.direct(cells.by_both((1.0, 10.0), (0.0, 1.0))),
            claim="as in Figure 5.", holds=_SIX_TIMES, missed=_FAST_DEVICE),
    _figure("7-direct", "Figure 7 on the real device", _ON_MEMORY,
            cells.direct(cells.by_matches((1, 400), (2.5,))),
            claim="as in Figure 7.", holds=_NINE_TIMES, missed=_EIGHT_LEAVES),
    _figure("worst", "the worst case of Section V", _ON_MEMORY,
            cells.by_memory(cells.SOME, cells.two, cells.spread),
            claim="SSIJ is never below MeshJoin (Section V): no row finds its block in the cache, "
            "no two rows ask for the same one, and wanted blocks are far apart.",
            holds=at_least(1.0, least, _FASTER), missed="MeshJoin is faster."),
    _figure("devices", "SSD, disk and object store, skew 1, 5 % memory", "S/T", cells.devices,
            ("tuples_per_s", "latency_p99"), logarithmic=True),
    _figure("spark", "Spark's stream-static join, micro-batches of 0.1 M rows", "gigabytes",
            cells.spark),
)  # fmt: skip

FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}

"""The SSIJ paper as a value: its figures, columns and goals."""

from __future__ import annotations

from collections.abc import Callable

from thetabench.figure import Lines
from thetabench.line import Columns
from thetabench.paper import Paper
from thetabench.score import Goal, Ratios, at, first, least, most, ratio, taken
from thetabench.ssij.cells import (
    BURSTS,
    DATABASES,
    DYNAMIC,
    FEW_COLUMNS,
    LRU,
    MESH,
    SPLITS,
    SSIJ,
    UTILITY,
)
from thetabench.ssij.course import SsijCourse
from thetabench.ssij.figures import ABSENT, FIGURES, MEASURES
from thetabench.ssij.peers.spark import HOME, STATIC
from thetabench.ssij.readplans import GREEDY, OPTIMAL

COLUMNS = Columns(
    """
work            text   service, sustained, deadline, burst, plan, index or system: see `Work`
method          text   ssij, mesh, nested, batched, a system, or a way to plan
parameters      text   of the method
distribution    text   of the stream
skew            float
device          text   disk, ssd, object-store (simulated time), or direct (real time)
table_rows      int
keys            int    domain of the table's keys
fill            float
stream_rows     int
memory          float  budget as a share of the table's bytes on disk
budget_bytes    int
peak_bytes      int    the most that was accounted for
table_bytes     int
blocks          int
index_bytes     int
index_mb_10gb   float  megabytes of index for a table of 10 GB
cpu_us          float  real processor time per stream row, microseconds, in every case
matches         int
hit_share       float  share of the questions that were answered from the cache
seeks           int
blocks_read     int
blocks_wasted   int
blocks_per_row  float  blocks read per stream row
cached_blocks   int
online_phases   int
join_phases     int
latency_p50     float  seconds from arrival to answer
latency_p99     float
met_share       float  share of deadlines that were met, at 0.8 of the sustainable rate
nominal_per_s   float  of bursts: rows per second before the burst
burst_ms        float  how long a burst is borne
plan_cost_ms    float  what a read plan costs on the device
plan_ms         float  real time to make it …
plan_share      float  … and that as a share of the phase
""",
    renamed={"tuples": "checked", "tuples_per_s": "rows_per_s"},
)
"""``seconds`` go from the first row to the last answer: simulated, or real and without the checking
where the device is ``direct``. ``checked`` are stream rows whose answers were compared."""

_FASTER = ratio(SSIJ, MESH)


def _over(name: str) -> str:
    return f"{SSIJ} over {MESH}, {name}"


def _by_memory(figure: str, where: str) -> list[Goal]:
    """At the least memory without skew; and the most that is reached anywhere."""
    plain, skewed = (ratio(f"{SSIJ}, skew {skew}", f"{MESH}, skew 0") for skew in (0, 1))
    return [
        Goal(_over(f"{where}, skew 0, 1 % memory"), figure, plain, at(1.0), 1.0),
        Goal(_over(f"{where}, skew 1, most over memory"), figure, skewed, most, 6.0),
    ]


def _one_to_many(figure: str, where: str) -> list[Goal]:
    """The most over memory, for each K: 3 × for 1:1, 9 × for 1:400."""
    return [
        Goal(_over(f"1:{times}, {where}, most over memory"), figure,
             ratio(f"{SSIJ}, 1:{times}", f"{MESH}, 1:{times}"), most, must,
             where=_with(f"{MESH}, 1:{times}"))
        for times, must in ((1, 3.0), (10, 3.0), (100, 3.0), (400, 9.0))
    ]  # fmt: skip


def _with(label: str) -> Callable[[Lines], Lines]:
    """All lines, if a contestant is among them."""
    return lambda lines: lines if any(own.contestant == label for own in lines) else []


def _over_best_split(lines: Lines) -> Ratios:
    """Dynamic memory against the best of the fixed splits, at each memory."""
    fixed = [label for label, own in SPLITS.items() if own and own[0][0] == "split"]
    ratios = [ratio(DYNAMIC, label)(lines) for label in fixed]
    places = dict.fromkeys(place for own in ratios for place in own)
    return {place: min(own[place] for own in ratios if place in own) for place in places}


def _growth(ratios: Ratios) -> float:
    return ratios[max(ratios)] / ratios[min(ratios)]


GOALS: tuple[Goal, ...] = (
    *(
        Goal(_over(f"{where}, 7.5 % memory, least over skew"), figure, _FASTER, least, 1.0)
        for figure, where in (
            ("3", "zipf, disk"), ("4", "permuted zipf, disk"), ("3-direct", "zipf, real device"),
        )
    ),
    *_by_memory("5", "zipf, disk"),
    *_by_memory("6", "permuted zipf, disk"),
    *_by_memory("5-direct", "zipf, real device"),
    *_one_to_many("7", "zipf, disk"),
    *_one_to_many("7-direct", "zipf, real device"),
    *(
        Goal(_over(f"{name}, least over memory"), "8",
             ratio(f"{SSIJ}, {name}", f"{MESH}, {name}"), least)
        for name in ("TPC-H", "taxi zones")
    ),
    *(
        Goal(f"{ours} over {other}, real device, 10 % memory, least over sizes", "9",
             ratio(ours, other), least, 3.0 if other == DATABASES[0] else None, where=_with(other))
        for other in (MESH, *DATABASES)
        for ours in (SSIJ, FEW_COLUMNS)
    ),
    Goal("dynamic memory over the best fixed split, least over memory", "10", _over_best_split,
         least, 1.2),
    Goal("the same, at the most memory over the least", "10", _over_best_split, _growth, 1.0,
         shown=""),
    Goal("utility cache over LRU, skew 1, least over memory", "11", ratio(UTILITY, LRU), least,
         1.0),
    Goal("utility cache over LRU, skew 1, least memory", "11", ratio(UTILITY, LRU), first, 1.2,
         shown=""),
    Goal("deadlines met at 0.8 of the sustainable rate, least over deadlines", "16",
         taken(SSIJ, "met_share", factor=100), least, 99.9, unit="%"),
    *(
        Goal(f"burst of {percent} % is borne", "table3", taken({}, "burst_ms"), at(percent), must,
             unit="ms", shown="")
        for percent, must in BURSTS.items()
    ),
    Goal("read plan: cost over greedy, most", "plan", ratio(OPTIMAL, GREEDY, "plan_cost_ms"), most,
         1.0, more=False),
    Goal("read plan: planning, share of the phase, most", "plan",
         taken(OPTIMAL, "plan_share", factor=100), most, 5.0, unit="%", more=False),
    Goal(f"worst case (Section V): {SSIJ} over {MESH}, least over memory", "worst", _FASTER, least,
         1.0),
    Goal(f"{HOME} over Spark's stream-static join, 1 GB", "spark", ratio(HOME, STATIC), least,
         5.0),
    Goal("index in memory per 10 GB (paper: 13 MB), most over rows per key", "index",
         taken({}, "index_mb_10gb"), most, unit="MB", more=False),
)  # fmt: skip
"""What must be reached, in the order of the requirements."""

PAPER = Paper("ssij", "SSIJ", FIGURES, MEASURES, COLUMNS, SsijCourse, GOALS, absent=ABSENT)

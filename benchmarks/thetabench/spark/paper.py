"""The Spark benchmark as a value: its figures, columns, goals and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from thetabench.figure import Figure, Lines
from thetabench.line import Columns, Line
from thetabench.measure import Measure
from thetabench.paper import Paper
from thetabench.plots import COLOURS
from thetabench.score import Goal, Ratios, Values, first, most, only, ratio, taken
from thetabench.spark.cells import (
    ATTACH,
    BLOCKS,
    BUCKETS,
    DOUBLE,
    DOUBLE_FILES,
    DOUBLES,
    EQUI,
    FULL,
    HIT,
    HOME,
    KEPT,
    LOST,
    NOOP,
    NOOP_FILES,
    NOOPS,
    QUICK,
    REBUILD,
    REJOIN,
    STATE_FILES,
    Plan,
    figures,
)
from thetabench.spark.course import SparkCourse

COLUMNS = Columns("""
workload           text
predicate          text
window             int    rows per side that the time window holds
batch              int    rows of a micro-batch, both sides together
partitions         int    of the join
tuples_per_s_low   float  the slowest timed micro-batch
tuples_per_s_high  float  the fastest timed micro-batch
p50_s              float  seconds per timed micro-batch
max_s              float
pushes             int    timed micro-batches
first_s            float  the first micro-batch: of a restart, that after it
total_rows         int    rows of all micro-batches, the untimed ones too
total_s            float  seconds of all micro-batches
add_batch_s        float  of p50_s: the tasks; what is left is Spark's planning and bookkeeping
planning_s         float
bookkeeping_s      float  write-ahead log, offsets, commits
map_s              float  of add_batch_s, from Spark's event log: all stages but the last
join_s             float  the last stage
task_s             float  run time of all tasks of a micro-batch, added up
gc_s               float  of which the JVM's collector
ns_open            float  ns_…: of theta_join, nanoseconds per row,
ns_keys            float  all partitions added up; so these overlap in time
ns_sort            float
ns_probe           float
ns_insert          float
ns_merge           float
ns_expire          float
ns_gather          float
ns_save            float
save_share         float  ns_save over the sum of ns_…
stored_rows        int    rows in the state after the last micro-batch, copies included
packed_bytes       float  bytes of a row in Arrow's format
written_bytes      float  bytes given to the state store, per row of the timed micro-batches
store_bytes        float  bytes of the store's files in the checkpoint, per row of all micro-batches
hits               int    how often a partition was found alive,
catch_ups          int    alive and some micro-batches behind,
attaches           int    mapped,
rebuilds           int    or read from the state store
hit_s              float  seconds per timed micro-batch without an attach,
attach_s           float  and with some
attach_r           float  correlation of attaches and seconds over timed micro-batches
cpu_s              float  processor seconds of a step, without Spark
normal_s           float  a restart: the median micro-batch before the stop, the first left out
cold_s             float  a restart: the first micro-batch of the first start, which had no state
slower_s           float  a restart: first_s less normal_s
latency_p50        float  seconds from a file in the source folder to its rows in the sink
latency_p99        float
period_s           float  seconds between two files of a side
checked_pushes     int
matches            int
checksum           text
""")
"""A *push* is a micro-batch. ``tuples_per_s`` is the rows of the timed micro-batches over the sum
of their ``triggerExecution``."""

MEASURES = {
    "tuples_per_s": Measure("rows/s", digits=4),
    "p50_s": Measure("median, s"),
    "max_s": Measure("worst, s"),
    "map_s": Measure("first stages, s"),
    "join_s": Measure("last stage, s"),
    "planning_s": Measure("planning, s"),
    "bookkeeping_s": Measure("logs, s"),
    "first_s": Measure("first micro-batch, s"),
    "normal_s": Measure("before the stop, s"),
    "cold_s": Measure("a first start, s"),
    "slower_s": Measure("slower by, s"),
    "cpu_s": Measure("processor time, ms", 1e3),
    "latency_p50": Measure("p50, s"),
    "latency_p99": Measure("p99, s"),
}


def named(values: Values) -> Values:
    """Values of lines whose contestants have no options."""
    return lambda lines: values([own.but(contestant=own.contestant.partition(":")[0])
                                 for own in reversed(lines)])  # fmt: skip


def over_best(others: Sequence[str], home: str = HOME) -> Values:
    """Rows per second of the join over those of the fastest of some contestants, by place."""

    def ratios(lines: Lines) -> Ratios:
        all_of = [taken(name)(lines) for name in others]
        ours = taken(home)(lines)
        best = {place: max(own.get(place, 0.0) for own in all_of) for place in ours}
        return {place: value / best[place] for place, value in ours.items() if best[place]}

    return named(ratios)


def _spread(home: str) -> Values:
    """The worst micro-batch over the median."""
    return named(lambda lines: {
        own.place: own.max_s / own.p50_s for own in only(contestant=home)(lines) if own.p50_s
    })  # fmt: skip


def _state(lines: Lines) -> Ratios:
    own = [line for line in only(contestant=HOME)(lines) if line.packed_bytes]
    return {line.place: line.written_bytes / line.packed_bytes for line in own}


def _jitter(lines: Lines) -> str:
    """How even the micro-batches of others are."""
    own = [line for line in lines if line.p50_s and line.contestant in (*NOOPS, *DOUBLES)]
    return ", ".join(f"{line.contestant}: {line.max_s / line.p50_s:.2f}" for line in own)


def _attaching(home: str) -> Callable[[Lines], str]:
    return lambda lines: "; ".join(
        f"{line.hits} hits, {line.catch_ups} catch-ups, {line.attaches} attaches, {line.rebuilds} "
        "rebuilds; median "
        f"{line.hit_s:.2f} s without an attach, {line.attach_s:.2f} s with some, r = "
        f"{line.attach_r:.2f}"
        for line in lines
        if line.contestant.partition(":")[0] == home
    )


def _restarted(lines: Lines) -> str:
    return "; ".join(
        f"normal {line.normal_s:.1f} s, a first start without state {line.cold_s:.1f} s"
        for line in lines
        if line.contestant == KEPT
    )


def _with(*names: str) -> Callable[[Lines], Lines]:
    """All lines, if some of these contestants are among them."""
    return lambda lines: lines if any(own.contestant.startswith(names) for own in lines) else []


def _join_goals(home: str, noop: str, double: str, form: str) -> Iterator[Goal]:
    """What a form of the join must reach."""
    here = _with(f"{home}:", home) if form else list
    half, more, small = (f"{text}{form}" for text in (
        "micro-batches of half a window", "micro-batches of 2.5 windows", "small micro-batches"
    ))  # fmt: skip
    for figure, text, must, aim in (("join", half, 9, 12), ("large", more, 15, 20)):
        yield Goal(f"{text}, over hand-made buckets in the better store", figure,
                   over_best(BUCKETS, home), first, must, aim, where=here, shown="")  # fmt: skip
    for figure, text in (("join", half), ("large", more)):
        yield Goal(f"{text}, over an empty joiner with our output", figure,
                   over_best((double,), home), first, 0.9, 1.0, "", where=here,
                   shown="")  # fmt: skip
    yield Goal(f"{small}: median time", "small", named(taken(home, "p50_s")), first, 0.42, 0.3,
               "s", False, where=here, shown=_attaching(home))  # fmt: skip
    yield Goal(f"{small}: over the same plan with a joiner that does nothing", "small",
               named(ratio(home, noop, "p50_s")), first, 1.15, 1.05, "×", False, where=here,
               shown="")  # fmt: skip
    yield Goal(f"{small}: saving, share of the engine's own time", "small",
               named(taken(home, "save_share")), first, 0.35, None, "", False, where=here,
               shown="")  # fmt: skip
    for figure, text in (("small", small), ("join", half)):
        yield Goal(f"{text}: worst over median after warm-up", figure, _spread(home), first, 1.2,
                   None, "×", False, where=here, shown=_jitter)  # fmt: skip


GOALS: tuple[Goal, ...] = (
    *_join_goals(HOME, NOOP, DOUBLE, ""),
    Goal("attach over hit, processor time of a step", "attach", ratio(ATTACH, HIT, "cpu_s"), first,
         2.0, 1.3, more=False, shown=""),
    Goal("rebuild over hit, processor time of a step", "attach", ratio(REBUILD, HIT, "cpu_s"),
         first, more=False, shown=""),
    Goal("first micro-batch after a restart, run files kept", "restart", taken(KEPT, "first_s"),
         first, 6.0, unit="s", more=False, shown=_restarted),
    Goal("restart, run files lost: slower by", "restart", taken(LOST, "slower_s"), first, 10.0,
         3.0, unit="s", more=False, shown=""),
    *_join_goals(STATE_FILES, NOOP_FILES, DOUBLE_FILES, ", state in files"),
    *(
        Goal(f"small micro-batches, over Spark's own equi-join, {name.partition('-')[2]}", "small",
             over_best((name,)), first, shown="", where=_with(name))
        for name in EQUI
    ),
    Goal("W2, over foreachBatch", "w2", over_best((REJOIN,)), first, 20, 50, shown=""),
    Goal("W2, over foreachBatch by hand-made blocks", "w2", over_best((BLOCKS,)), first, shown=""),
    *(
        Goal(f"state bytes written, {where}", figure, named(_state), first, 3, 1.5,
             unit="× packed", more=False, shown="")
        for figure, where in (("small", "small micro-batches"), ("join", "of half a window"))
    ),
    Goal("latency, p99, most over sizes", "latency", taken(HOME, "latency_p99"), most, unit="s",
         more=False, shown="{raw:,.0f} rows: {value:.2f} s"),
)  # fmt: skip
"""What must be reached, in the order of the requirements."""

_SHARED = "2026-11-17"
"""Since then contestants of a figure share a session."""


def measured(figures: Iterable[str], lines: Lines) -> str:
    """When each figure was measured, and which have not been: results may be of several runs."""
    dates = sorted({line.date for line in lines})
    own = {date: dict.fromkeys(line.figure for line in lines if line.date == date)
           for date in dates}  # fmt: skip
    parts = [f"on {date}: {', '.join(names)}" for date, names in own.items()]
    missing = [name for name in figures if not any(name in names for names in own.values())]
    text = f"Measured {'; '.join(parts)}."
    if missing:
        text += f" Not measured yet: {', '.join(missing)}."
    if dates and dates[0] < _SHARED:
        text += (
            f" Figures from before {_SHARED} are of older code: every contestant had a session of "
            "its own and ten timed micro-batches at most, and `empty` returned every row once."
        )
    return f"{text}\n\n"


# --- Plots ---------------------------------------------------------------------------------------

_PARTS = ("map_s", "join_s", "planning_s", "bookkeeping_s")


def _stages(panel: Any, lines: Lines) -> None:
    """Where the time of a micro-batch goes, a bar per contestant; what is left comes last."""
    names = [line.contestant for line in lines]
    below = [0.0] * len(lines)
    parts = {MEASURES[part].title.partition(",")[0]: [getattr(line, part) for line in lines]
             for part in _PARTS}  # fmt: skip
    parts["other"] = [
        max(line.p50_s - sum(getattr(line, part) for part in _PARTS), 0.0) for line in lines
    ]
    for number, (title, values) in enumerate(parts.items()):
        panel.barh(names, values, left=below, color=COLOURS[1 + number], label=title)
        below = [low + value for low, value in zip(below, values, strict=True)]
    panel.invert_yaxis()
    panel.set_xlabel("seconds per micro-batch")
    panel.set_title(_title(lines), fontsize=9)


def _speeds(panel: Any, lines: Lines) -> None:
    """A bar per contestant, logarithmic."""
    colours = [COLOURS[4 if line.contestant == HOME else 7] for line in lines]
    speeds = [line.tuples_per_s for line in lines]
    bars = panel.barh([line.contestant for line in lines], speeds, color=colours)
    panel.bar_label(bars, [f"{speed:,.0f}" for speed in speeds], padding=3)
    panel.set_xscale("log")
    panel.margins(x=0.25)
    panel.invert_yaxis()
    panel.set_xlabel("rows per second")
    panel.set_title(_title(lines), fontsize=9)


def _title(lines: Sequence[Line]) -> str:
    line = lines[0]
    return f"{line.workload}, window {line.window:,}, micro-batches of {line.batch:,} rows"


def paper(name: str, plan: Plan) -> Paper:
    """The benchmark in some size."""
    made: dict[str, Figure[Any]] = dict(figures(plan))
    return Paper(
        name, "Spark", made, MEASURES, COLUMNS, SparkCourse, GOALS,
        panels={"small": _stages, "join": _speeds, "large": _speeds, "w2": _speeds},
        note=partial(measured, tuple(made)),
    )  # fmt: skip


PAPER = replace(paper("spark", FULL), quick=paper("spark-quick", QUICK))

"""The PIM-Tree paper as a value: its figures, columns, measures, goals and plots."""

from __future__ import annotations

from typing import Any

from thetabench.figure import Lines, power
from thetabench.line import Columns, Line
from thetabench.measure import Measure
from thetabench.paper import Paper
from thetabench.pim.figures import FIGURES, NOT_MEASURED
from thetabench.pim.trial import PimCourse
from thetabench.plots import COLOURS, MARKERS
from thetabench.score import Goal, Judge, Score, least, mean, most, only, ratio, relative

COLUMNS = Columns("""
structure         text   name of the index, or of an ordered set
window            int    rows of the left side's window
window_right      int    rows of the right side's
self_join         bool
threads           int    0: one thread, without concurrency control
task_size         int    tuples that a thread takes from the queue at a time
merge             text   blocking or non-blocking
parameters        text   of the structure
distribution      text   of the keys
match_rate        float  as wanted; what came is pairs / tuples
share             float  part of the tuples that arrive on the left
ns_per_tuple      float
fill_s            float  seconds to fill the windows, without searches
pairs             int    pairs of the timed tuples
checked_tuples    int    tuples that were compared with the reference, untimed ones included
checksum          text
ns_search         float  nanoseconds per tuple and step, looking at the clock included
ns_descend        float  of ns_search: going down, as measured with boxes that hold nothing
ns_scan           float  of ns_search: the rest, reading rows
ns_delete         float
ns_insert         float
ns_merge          float
merges            int
merge_ms          float  milliseconds of one merge
index_bytes       int
bytes_per_row     float  index_bytes over the rows of full windows
tasks             int    tasks with a latency: all, or in figure merge those that overlap a merge
p50_us            float  microseconds per task
p99_us            float
p999_us           float
max_us            float
top_share         float  part of all inserts that went to the busiest subindex
idle_share        float  part of the subindexes with less than a hundredth of the average
predicted_ns      float  what the cost model says, per tuple and by step
predicted_search  float
predicted_delete  float
predicted_insert  float
predicted_merge   float
constants         text   where the constants of the cost model come from
""")

_STEPS = ("search", "delete", "insert", "merge")
MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("million tuples per second", 1e-6),
    "bytes_per_row": Measure("bytes per row"),
    "merge_ms": Measure("milliseconds per merge"),
    "p50_us": Measure("p50, µs"),
    "p99_us": Measure("p99, µs"),
    "p999_us": Measure("p99.9, µs"),
    "top_share": Measure("inserts into the busiest subindex, %", 100),
    "idle_share": Measure("idle subindexes, %", 100),
    "ns_per_tuple": Measure("ns per tuple"),
    "predicted_ns": Measure("predicted"),
    "ns_descend": Measure("search, ns"),
    "ns_scan": Measure("scan, ns"),
    **{f"ns_{step}": Measure(f"{step}, ns") for step in _STEPS},
    **{f"predicted_{step}": Measure(f"{step}, predicted") for step in _STEPS},
}

_SHOWN = "{key}: {value:.2f}"
_RECOVERED = 0.95  # of the first phase's throughput; less would be more than noise


def _large_tasks(lines: Lines) -> Lines:
    """Tasks of 8 tuples or more at the largest window."""
    largest = max((line.window for line in lines), default=0)
    return [line for line in lines if line.window == largest and 8 <= line.task_size <= 64]


def _control(lines: Lines) -> list[Score]:
    """What concurrency control costs a single thread."""
    scores = []
    own = [line for line in lines if line.figure == "12a" and line.ran]
    for label in dict.fromkeys(line.contestant for line in own):
        speeds = {line.threads: line.tuples_per_s for line in own if line.contestant == label}
        if {0, 1} <= set(speeds):
            lost = 100 * (1 - speeds[1] / speeds[0])
            shown = [f"{n} threads: {v / speeds[1]:.2f} ×" for n, v in speeds.items() if n > 1]
            measure = f"cost of concurrency control, {label}"
            scores.append(Score(measure, lost, "%", remark=", ".join(shown)))
    return scores


def _both_latencies(lines: Lines) -> str:
    times = {line.merge: line.p999_us for line in lines}
    return f"{times.get('blocking', 0):,.0f} and {times.get('non-blocking', 0):,.0f} µs"


def _label(line: Line) -> str:
    return line.contestant


def _drift(line: Line) -> str:
    return line.contestant.partition(",")[0]


def _threads(line: Line) -> str:
    return f"{line.threads or 'one'} thread{'s' * (line.threads > 1)}"


GOALS: tuple[Goal | Judge, ...] = (
    *(
        Goal(f"{name} over b+tree, one thread, mean over windows", "10a", ratio(name, "b+tree"),
             mean, must, 2.5, shown=_SHOWN)
        for name, must in (("im-tree", 1.5), ("pim-tree", 1.6))
    ),
    Goal("IB-chain over B-chain, mean over lengths", "8b", ratio("IB-chain", "B-chain"), mean, 1.3,
         shown="L = {raw:g}: {value:.2f}"),
    *(
        Goal(f"pim-tree over {name}", "peers", ratio("pim-tree", name), mean, must, shown="")
        for name, must in (("btrees", 5), ("sortedcontainers", 15))
    ),
    Goal("two threads over one, mean over task sizes 8 … 64", "10c",
         ratio({"threads": 2}, {"threads": 1}, by="task_size"), mean, 1.5, where=_large_tasks,
         shown="{raw}: {value:.2f}"),
    _control,
    *(
        goal
        for m, must, at_least in ((1 / 16, 5.0, 0.9), (1.0, None, None))
        for goal in (
            Goal(f"p99.9 of a task during a merge, blocking over non-blocking, m = {power(m)}",
                 "merge", ratio({"merge": "blocking"}, {"merge": "non-blocking"}, "p999_us"),
                 mean, must, where=only(place=m), shown=_both_latencies),
            Goal(f"throughput, non-blocking over blocking, m = {power(m)}", "merge",
                 ratio({"merge": "non-blocking"}, {"merge": "blocking"}), mean, at_least,
                 unit="", where=only(place=m), shown=""),
        )
    ),
    *(
        Goal(f"memory of {name}, over b+tree, at most", "11a",
             ratio(name, "b+tree", "bytes_per_row"), most, 2, 1.3, more=False, shown="")
        for name in ("pim-tree, m = 1, with merge buffer", "pim-tree, m = 1")
    ),
    Goal("skewed over uniform keys, {each}, least", "12b", relative("uniform", "distribution"),
         least, 0.85, unit="", each=_label, shown=_SHOWN),
    Goal("after a drift over before, {each}, least", "13b",
         ratio({"place": 3}, {"place": 1}, by=_drift), least, _RECOVERED, unit="",
         each=_threads, shown=_SHOWN),
)  # fmt: skip
"""What must be reached, in the order of the requirements."""


def _where(lines: Lines) -> str:
    windows = {line.window for line in lines}
    return f", w = {power(windows.pop())}" if len(windows) == 1 else ""


def _scatter(panel: Any, lines: Lines) -> None:
    """Predicted over measured cost, one marker per structure, one point per window."""
    plain = [line for line in lines if not line.ns_search]
    for number, name in enumerate(dict.fromkeys(line.structure for line in plain)):
        own = [line for line in plain if line.structure == name]
        panel.plot(
            [line.ns_per_tuple for line in own],
            [line.predicted_ns for line in own],
            label=name,
            color=COLOURS[number],
            marker=MARKERS[number],
        )
    ends = [min(line.ns_per_tuple for line in plain), max(line.ns_per_tuple for line in plain)]
    panel.plot(ends, ends, color="#bbbbbb", linestyle=":", label="exact")
    panel.set_xlabel("measured ns per tuple")
    panel.set_ylabel("predicted ns per tuple")


PAPER = Paper(
    "pim", "PIM-Tree", FIGURES, MEASURES, COLUMNS, PimCourse, GOALS,
    absent=NOT_MEASURED, where=_where, panels={"cost": _scatter},
)  # fmt: skip

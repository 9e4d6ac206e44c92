"""The PanJoin paper as a value: its figures, columns, measures and goals."""

from __future__ import annotations

from thetabench.figure import Lines, power
from thetabench.line import Columns, Line
from thetabench.measure import Measure
from thetabench.panjoin.contestant import Work
from thetabench.panjoin.course import PanCourse
from thetabench.panjoin.figures import FIGURES, HOME, NOT_MEASURED, SMALL, small
from thetabench.panjoin.splitters import INCREASING
from thetabench.paper import Paper
from thetabench.score import Goal, Ratios, at, least, mean, most, only, ratio, relative, taken

COLUMNS = Columns("""
work            text   insert, equi, band, slide, phases, join or splitters: see ``Work``
structure       text   name of the index; of the tactic of a ``StreamJoin``
parameters      text   of the structure
rows            int    N_Sub, or the window where it has several subwindows
batch           int    N_Bat: rows per insertion, boxes per probe, rows per push
matches         float  S, as wanted; what came is pairs / tuples
output          text   the form of answers: pairs, ranges, rows or count
distribution    text   of the keys; the name of a phase
batches         int    timed batches
ns_per_tuple    float  tuples: rows inserted, boxes asked, rows pushed; rows for splitters
pairs           int    pairs of the timed tuples, whether or not they were written down
checked_tuples  int    tuples whose answer, or presence, was compared, untimed ones included
index_bytes     int
bytes_per_row   float
splitter_error  float  normalised mean absolute error of the partitions of a subwindow; 10f
outside_share   float  part of a subwindow's rows outside the range of its splitters; 10f
iterations      int    adjustments until the error stayed below 0.1, or fell no more; -1: never
bound           int    the paper's limit of adjustments in the worst case
result_share    float  part of the time that making rows takes, against counting them; 15c
""")

MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("million tuples per second", 1e-6),
    "ns_per_tuple": Measure("ns per tuple"),
    "splitter_error": Measure("normalised error of the partitions"),
    "iterations": Measure("adjustments needed"),
    "bound": Measure("the paper's bound"),
    "result_share": Measure("time for giving rows, %", 100),
}

_LARGE = 1 << 14  # a selectivity
_ADJUSTMENTS = 3
_W1_BATCH = 1 << 15


def _written(lines: Lines) -> str:
    pairs = ratio("bi-sort, pairs", "rap-table")(lines).get(_LARGE)
    return f"with pairs written down: {pairs:.2f}" if pairs else ""


def _settled(lines: Lines) -> Lines:
    """Splitters after the adjustments that must be enough."""
    own = [line for line in lines if line.place == _ADJUSTMENTS]
    return [line for line in own if line.distribution != INCREASING]


def _when(lines: Lines) -> str:
    shown = (f"{line.contestant}: {_count(line)}" for line in lines)
    return f"below 0.1 after: {', '.join(shown)}"


def _outside(lines: Lines) -> str:
    share = 100 * lines[0].outside_share
    return f"reported: {share:.0f} % of the rows outside the splitters"


def _part_of_bound(lines: Lines) -> Ratios:
    return {
        line.place: line.iterations / line.bound if line.iterations >= 0 else float("inf")
        for line in lines
    }


def _of_bound(lines: Lines) -> str:
    return ", ".join(f"P = {power(line.place)}: {_count(line)} of {line.bound}" for line in lines)


def _count(line: Line) -> str:
    return "never" if line.iterations < 0 else str(line.iterations)


def _judged(lines: Lines) -> Lines:
    return [line for line in lines if line.batch == min(_W1_BATCH, line.rows)]


def _inside(line: Line) -> str:
    return line.structure.rpartition("/")[2]  # type: ignore[no-any-return]


GOALS = (
    *(
        Goal(f"wib-tree over {other}, {what}, mean over batches", "11f",
             ratio(f"wib-tree, {what}", f"{other}, {what}"), mean,
             3.0 if (what, other) == ("insertion", "b+tree") else None)
        for what in ("insertion", "equi probing", "band probing") for other in ("b+tree", "btrees")
    ),
    Goal("unsorted over sorted leaves, insertion, mean over leaf widths", "leaves",
         ratio("unsorted leaves", "sorted leaves"), mean, 2.0),
    Goal(f"bi-sort over rap-table, band probing, S < {power(SMALL)}, least", "13b",
         ratio("bi-sort", "rap-table"), least, 1.5, where=small),
    Goal(f"bi-sort over rap-table, band probing, S = {power(_LARGE)}", "13b",
         ratio("bi-sort", "rap-table"), at(_LARGE), 20.0, shown=_written),
    Goal(f"rap-table over wib-tree, band probing, S < {power(SMALL)}, least", "13b",
         ratio("rap-table", "wib-tree"), least, 1.3, where=small),
    Goal(f"error of the splitters after {_ADJUSTMENTS} adjustments, largest", "10f",
         taken({}, "splitter_error", "contestant"), most, 0.1, unit="", more=False,
         where=_settled, shown=_when),
    Goal("error of the splitters, {each}", "10f", taken({}, "splitter_error"), most, unit="",
         each=lambda line: line.contestant,
         where=only(place=_ADJUSTMENTS, distribution=INCREASING), shown=_outside),
    Goal("worst case: adjustments over the paper's bound, most", "4", _part_of_bound, most, 1.0,
         unit="", more=False, shown=_of_bound),
    *(
        Goal(f"{name} over nested loops, per probe, S = 1", "15e", ratio(name, "nested-loop"),
             at(1.0), must)
        for name, must in (("bi-sort", 1000.0), ("rap-table", 100.0), ("wib-tree", 100.0))
    ),
    Goal("W1, {each}: best structure over the default index", "w1", relative(HOME, _inside), most,
         each=lambda line: f"w = {power(line.rows)}", where=_judged, shown="{raw}: {value:.2f}"),
)  # fmt: skip
"""What must be reached, in the order of the requirements."""


def _where(lines: Lines) -> str:
    rows = {line.rows for line in lines}
    if len(rows) > 1:
        return ""
    several = lines[0].work in (Work.JOIN.value, Work.SLIDE.value)
    several = several or "subwindows=16" in lines[0].parameters
    return f", {'w' if several else 'N_Sub'} = {power(rows.pop())}"


PAPER = Paper(
    "panjoin", "PanJoin", FIGURES, MEASURES, COLUMNS, PanCourse, GOALS,
    seconds=0.3, absent=NOT_MEASURED, where=_where,
)  # fmt: skip
"""Timed for 0.3 seconds per contestant and cell."""

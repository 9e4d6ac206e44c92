"""The SPO-Join paper as a value: its figures, columns, measures, goals and plots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thetabench.figure import Lines, power
from thetabench.line import Columns, Line
from thetabench.measure import Measure
from thetabench.paper import Paper
from thetabench.plots import COLOURS, MARKERS
from thetabench.score import Goal, Judge, Score, at, first, last, least, mean, most, ratio, taken
from thetabench.spo.contestant import BATCH, CHAINS, CSS, LOOPS, batched
from thetabench.spo.course import SpoCourse
from thetabench.spo.figures import DUCKDB, FIGURES, MERGING, NOT_MEASURED, POLARS, RATES

COLUMNS = Columns("""
work             text   probe, grow, slide, insert, memory, merge or join: see `Work`
structure        text   name of the index; of a whole join the peer: `thetastream:tactic=auto`
parameters       text   of the structure
query            text
window           int    rows stored: of the window, or of the growing part when it is full
slide            int    rows per insertion while the window was filled
batch            int    rows that ask at a time, as planned …
asked            int    … and as there was time for
rate             float  matches per row at the full window, as wanted; what came: pairs_per_tuple
output           text
distribution     text   synthetic, or taxi
batches          int
ns_per_tuple     float
p50_us           float  microseconds per row, where single rows ask
p75_us           float
p95_us           float
p99_us           float
max_us           float
pairs            int    pairs of the timed rows
pairs_per_tuple  float
checked_tuples   int    rows whose answer, or presence, was compared; untimed ones included
index_bytes      int
bytes_per_row    float
runs             float  structures that a probe visits, at the end
merges           float
merge_ms         float  milliseconds of one merge
stall_ms         float  milliseconds of the longest insertion
""")

_PARTS = {0.5: "p50_us", 0.75: "p75_us", 0.95: "p95_us", 0.99: "p99_us"}
MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("thousand rows per second", 1e-3),
    "ns_per_tuple": Measure("ns per row"),
    "p50_us": Measure("µs per row, median"),
    **{f"p{part}_us": Measure(f"µs per row, {part} %") for part in (75, 95, 99)},
    "max_us": Measure("µs per row, longest"),
    "pairs_per_tuple": Measure("matches per row"),
    "bytes_per_row": Measure("bytes per stored row"),
    "merge_ms": Measure("merge, ms"),
    "stall_ms": Measure("longest insertion, ms"),
}

# --- What must be reached ------------------------------------------------------------------------

CLUSTER = 6167.0
"""Rows per second of the paper's cluster, on average: Figure 17, 20 elements on 9 nodes."""
_NOTES = {"row by row": "", f"batches of {BATCH:,}": batched("", BATCH)}
_OURS = "thetastream:tactic="
_JUDGED = 1 << 13  # the batch at which W2 and W3 are judged
_TREES = ratio("pim-tree, two", "spo-join", "bytes_per_row")


def _loops(figure: str, query: str, must: float | None) -> Judge:
    """Throughput against nested loops at the first window of the figure."""

    def judge(lines: Lines) -> list[Score]:
        own = [line for line in lines if line.figure == figure and line.ran]
        scores = []
        for label, way in ((loop, way) for loop in LOOPS if own for way in _NOTES):
            note = _NOTES[way]
            ratios = ratio(f"spo-join{note}", f"{label}{note}")(own)
            where = f", w = {min(ratios):,.0f}" if ratios else ""
            measure = f"{query}: spo-join over {label}, {way}{where}"
            scores.append(Score(measure, first(ratios), "×", must, remark=_by_place(ratios)))
        return scores

    return judge


def _by_place(ratios: Any) -> str:
    return ", ".join(f"{power(place)}: {value:.3g}" for place, value in ratios.items())


def _against(figure: str, peer: str, must: float | None, aim: float | None = None) -> Goal:
    """``auto`` against a peer at the largest window, judged at one batch size."""
    ratios = ratio({"structure": f"{_OURS}auto"}, {"structure": peer})

    def remark(lines: Lines) -> str:
        ours = [own for own in lines if own.batch == _JUDGED and own.structure.startswith(_OURS)]
        best = max(ours, key=lambda own: own.tuples_per_s, default=None)
        tactic = best.structure.removeprefix(_OURS) if best else ""
        return f"{_by_place(ratios(lines))}; best tactic at {power(_JUDGED)}: {tactic}"

    return Goal(f"{figure.upper()}, {{each}}, batch {power(_JUDGED)}: auto over {peer}", figure,
                ratios, at(_JUDGED), must, aim, where=_largest("window"),
                each=lambda line: f"w = {line.window:,}", shown=remark)  # fmt: skip


def _largest(column: str, label: str = "") -> Callable[[Lines], Lines]:
    """Lines with the largest value in a column; of one contestant, if it is named."""

    def where(lines: Lines) -> Lines:
        most = max((getattr(line, column) for line in lines), default=0)
        own = [line for line in lines if getattr(line, column) == most]
        return [line for line in own if not label or line.contestant == label]

    return where


def _cluster(rate: float, must: float | None) -> Goal:
    """One thread against the paper's cluster; judged up to the paper's least match rate."""
    suffix = f", {rate:,.0f} matches per row"
    return Goal(
        f"Q3{suffix}: one thread over the paper's cluster, the faster tactic", "17",
        taken({"place": 1}, by=lambda own: own.contestant.removesuffix(suffix), factor=1 / CLUSTER),
        most, must, where=lambda lines: [own for own in lines if own.contestant.endswith(suffix)],
        shown="{key}: {value:.3g}",
    )  # fmt: skip


def _slide(line: Line) -> str:
    return f"{line.place:,.0f} rows, {line.contestant}"


def _stall(lines: Lines) -> str:
    return f"longest insertion {lines[0].stall_ms / 1e3:.3g} s; paper: 10–15 s"


GOALS: tuple[Goal | Judge, ...] = (
    *(
        Goal(f"{query}: po-join over {other}, {way}, mean", figure,
             ratio(f"po-join{note}", f"{other}{note}"), mean, must)
        for figure, query, musts in (
            ("7a", "Q3", (10.0, 20.0)), ("7c", "Q3, 5 % match", (None, None)),
            ("8a", "Q2", (None, None)), ("9a", "Q1", (None,)),
        )
        for other, must in zip(CSS, musts, strict=False)
        for way, note in _NOTES.items()
    ),
    *(
        Goal(f"{query}, mutable part: bits over hash, {way}, mean", figure,
             ratio(f"bits{note}", f"hash{note}"), mean, must)
        for figure, query, must in (("7b", "Q3", 5.0), ("8b", "Q2", None), ("9b", "Q1", None))
        for way, note in _NOTES.items()
    ),
    *(
        Goal(f"{query}: spo-join over {chain}, 95 % latency, least over windows", figure,
             ratio(chain, "spo-join", "p95_us"), least, must if chain == CHAINS[0] else None)
        for figure, query, must in (("11c", "Q1", 10.0), ("11a", "Q3", None))
        for chain in CHAINS
    ),
    _loops("11d", "Q1", 40.0),
    _loops("11b", "Q3", None),
    _against("w2", DUCKDB, 20.0, 50.0),
    _against("w2", POLARS, 20.0),
    _against("w3", "duckdb-bucket", 5.0),
    _against("w3", "polars-bucket", None),
    *(_cluster(rate, must) for rate, must in zip(RATES, (10.0, 10.0, None), strict=True)),
    *(
        Goal(f"bytes per stored row, {label}, most", "13", taken(label, "bytes_per_row"), most,
             40.0, unit="", more=False)
        for label in ("spo-join", "po-join")
    ),
    Goal("memory of two pim-trees over that of spo-join, mean", "13", _TREES, mean,
         shown=lambda lines: f"paper: 1.5–2.5; {_by_place(_TREES(lines))}"),
    *(
        Goal("merge of a slide of {each}", "20", taken(label, "merge_ms", factor=1e-3), last,
             None if "background" in label else 0.1, unit="s", more=False, each=_slide,
             where=_largest("place", label), shown=_stall)
        for label in MERGING
    ),
    *(
        Goal(f"Q1 with equality: {one} over spo-join, mean", "22", ratio(one, "spo-join"), mean)
        for one in ("hash", "auto")
    ),
)  # fmt: skip
"""What must be reached, in the order of the requirements."""


# --- Plots ---------------------------------------------------------------------------------------


def _where(lines: Lines) -> str:
    windows = {line.window for line in lines}
    return f", w = {windows.pop():,}" if len(windows) == 1 else ""


def _quantiles(panel: Any, lines: Lines) -> None:
    """Which part of the rows was answered within how long."""
    for number, line in enumerate(lines):
        panel.plot(
            [getattr(line, column) for column in _PARTS.values()],
            list(_PARTS),
            label=line.contestant,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
        )
    panel.set_xscale("log")
    panel.set_xlabel("µs per row")
    panel.set_ylabel("part of the rows")
    panel.set_yticks(list(_PARTS))


PAPER = Paper(
    "spo", "SPO-Join", FIGURES, MEASURES, COLUMNS, SpoCourse, GOALS, seconds=0.3,
    absent=NOT_MEASURED, where=_where, panels={"10a": _quantiles, "10b": _quantiles},
)  # fmt: skip

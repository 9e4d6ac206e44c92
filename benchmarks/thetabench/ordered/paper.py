"""The Ordered Indexing paper as a value: its figures, columns, goals and Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thetabench.figure import Lines, Sizes
from thetabench.line import Columns
from thetabench.ordered import matches, questions
from thetabench.ordered.contestant import Cell
from thetabench.ordered.course import OrderedCourse
from thetabench.ordered.expiring import DROP, ONE_BY_ONE
from thetabench.ordered.figures import FIGURES, MEASURES
from thetabench.ordered.growing import FIRST_NEXT, FLAT
from thetabench.ordered.summary import table
from thetabench.paper import Paper
from thetabench.score import Goal, Judge, Score, last, least, most, ratio, taken

COLUMNS = Columns("""
work            text   grow, delete, window, question or aggregate: see ``Work``
structure       text   name of the index; of a way or a peer its own name
parameters      text   of the structure
distribution    text   linear road, or random
size            int    keys held; of windows rows per minute, of aggregates rows of the window
batch           int    rows per insertion
ns_insert       float  nanoseconds per inserted key
ns_find         float  nanoseconds per key that is looked up
us_range        float  microseconds per range search
rows_per_range  float  rows that a range search meets
ns_row          float  nanoseconds per row of a range search
index_bytes     int
bytes_per_pair  float  index_bytes over the rows held
empty_ms        float  milliseconds of the calls that empty an index: the hot path
free_ms         float  milliseconds in which a dropped index is freed in the background
longest_ms      float  milliseconds of the longest single call
us_question     float  microseconds per question
matches         int    rows that the timed ranges, questions or rows met
checked         int    operations whose effect was compared with the reference
code_lines      int    lines of the modules that only this structure needs
""", renamed={"tuples": "operations"})  # fmt: skip
"""Operations: keys inserted, found or removed, ranges, questions, rows that ask."""

TABLE = "table1"
"""Not a figure: Table 1 is made of the lines of Figures 4–12."""
_TRIE, _TREE, _JUDY = "radix-trie", "b-tree", "judy"
_ROAD, _RANDOM = "Linear Road", "random"


def _constant(figure: str, what: str, column: str, must: float | None) -> Judge:
    """The largest size against a quarter of it."""

    def scores(lines: Lines) -> list[Score]:
        own = [line for line in lines if line.figure == figure and line.ran]
        times = taken(_TRIE, column)(own)
        large = max(times, default=0.0)
        value = times[large] / times[large / 4] if large / 4 in times else None
        measure = f"{_TRIE}: time {what}, {large:.3g} M keys over {large / 4:.3g} M"
        remark = ", ".join(f"{place:g}: {time:.3g} ns" for place, time in times.items())
        return [Score(measure, value, "×", must, more=False, remark=remark)] if own else []

    return scores


def _aggregates(lines: Lines) -> list[Score]:
    """At the larger match rate."""
    largest = max((line.place for line in lines if line.figure == "aggregate"), default=0.0)
    return [
        score
        for other in matches.MATCHED[1:]
        for score in Goal(
            f"W1, {largest:,.0f} matches per row: {matches.OURS} over {other}", "aggregate",
            ratio(matches.OURS, other), last, 10.0 if other in matches.JOINED else None,
        ).scores(lines)
    ]  # fmt: skip


GOALS: tuple[Goal | Judge, ...] = (
    *(
        Goal(f"PTWI drop over deletion one by one, {inner}, least over sizes", "13",
             ratio(f"{inner}, {ONE_BY_ONE}", f"{inner}, {DROP}", "empty_ms"), least, must)
        for inner, must in ((_TREE, 100.0), (_TRIE, 100.0), (_JUDY, None))
    ),
    _constant("4", f"per insert, {_ROAD}", "ns_insert", 1.2),
    _constant("6", f"per look-up, {_ROAD}", "ns_find", 1.2),
    _constant("5", f"per insert, {_RANDOM}", "ns_insert", None),
    _constant("7", f"per look-up, {_RANDOM}", "ns_find", None),
    *(
        Goal(f"{_TRIE}: memory over {other}, {keys}", figure,
             ratio(_TRIE, other, "bytes_per_pair"), last, must, more=False)
        for figure, keys, flat in (("8", f"{_ROAD}, dense", 1.0), ("10", _RANDOM, 1.5))
        for other, must in ((FLAT, flat), (_TREE, 1.0))
    ),
    *(
        Goal(f"{_TRIE}: mapper over {name}, {keys}, least over sizes", figure,
             ratio(other, _TRIE, "us_range"), least, must)
        for figure, keys in (("11", _ROAD), ("12", _RANDOM))
        for other, name, must in ((f"{_TRIE}, {FIRST_NEXT}", FIRST_NEXT, 5.0),
                                  (_JUDY, f"libJudy's {FIRST_NEXT}", 3.0))
    ),
    *(
        Goal(f"range search: {_TRIE} over {_TREE}, {keys}, most over sizes", figure,
             ratio(_TRIE, _TREE, "us_range"), most, must, more=False)
        for figure, keys, must in (("11", _ROAD, 1.3), ("12", _RANDOM, 3.0))
    ),
    *(
        Goal(f"{what}: {_TRIE} over {_JUDY}, {keys}, most over sizes", figure,
             ratio(_TRIE, _JUDY, column), most, 1.5, more=False)
        for what, column, figures in (("insertion", "ns_insert", "45"),
                                      ("look-up", "ns_find", "67"))
        for figure, keys in zip(figures, (_ROAD, _RANDOM), strict=True)
    ),
    *(
        Goal(f"{name}: {questions.OURS} over {other}, per question, least", name.lower(),
             ratio(other, questions.OURS, "us_question"), least, must)
        for name, must in (("Q2", 50.0), ("Q1", None))
        for other in questions.ASKED[1:]
    ),
    _aggregates,
)  # fmt: skip


@dataclass(frozen=True)
class OrderedPaper(Paper):
    """An index grows once for all figures with the same keys; Table 1 can be asked for."""

    def cells(self, names: Sequence[str], sizes: Sizes) -> list[Cell]:
        """Cells by scene, those of a scene by size; ``table1`` asks for all that it is made of."""
        grown = [name for name in self.figures if name.isdigit() and int(name) < 13]
        wanted = [part for name in names for part in (grown if name == TABLE else [name])]
        cells: list[Cell] = super().cells(wanted, sizes)
        scenes = list(dict.fromkeys(cell.scene for cell in cells))
        return sorted(cells, key=lambda cell: (scenes.index(cell.scene), cell.size))


PAPER = OrderedPaper(
    "ordered", "Ordered Indexing", FIGURES, MEASURES, COLUMNS, OrderedCourse, GOALS,
    seconds=0.3, derived={TABLE: table},
)  # fmt: skip

"""The figures of the Ordered Indexing paper, 4 to 13, and some of our own: cells and claims.

Lists are chosen so that all of it takes less than 15 minutes on two cores. One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from thetabench.figure import Contestant, Figure, Lines, Parameters, Sizes, power, sized
from thetabench.measure import Measure
from thetabench.ordered.contestant import STRUCTURES, Cell, Work
from thetabench.ordered.expiring import DROP, ONE_BY_ONE
from thetabench.ordered.growing import FIRST_NEXT, FLAT
from thetabench.ordered.load import MINUTE, WINDOW, Keys
from thetabench.ordered.matches import MATCHED
from thetabench.ordered.questions import ASKED
from thetabench.score import at_least, mean, ratio

_MILLION = 1_000_000
_SIZES = tuple(n * _MILLION for n in (1, 2, 3, 4, 6, 8, 12, 16))
_DELETED = tuple(n * _MILLION for n in (1, 2, 4, 8, 16))
_NODE_BYTES = (256, 512, 768, 1024, 2048, 4096)
_RATES = (100.0, 1_000.0)
_INNER = ("radix-trie", "b-tree", "sorted-runs")
_RANGED = (*STRUCTURES, f"radix-trie, {FIRST_NEXT}")

MEASURES: dict[str, Measure] = {
    "ns_insert": Measure("nanoseconds per insertion"),
    "ns_find": Measure("nanoseconds per look-up"),
    "us_range": Measure("microseconds per range search"),
    "ns_row": Measure("nanoseconds per row of a range"),
    "bytes_per_pair": Measure("bytes per key and id"),
    "empty_ms": Measure("milliseconds to empty"),
    "free_ms": Measure("milliseconds in the background"),
    "tuples_per_s": Measure("thousand rows per second", 1e-3),
    "longest_ms": Measure("longest call, milliseconds"),
    "us_question": Measure("microseconds per question"),
}
_MORE = ("tuples_per_s",)  # where more is better


# --- Cells ---------------------------------------------------------------------------------------


def _grow(figure: str, measure: str, keys: Keys, sizes: Sizes, size: int,
          who: Iterable[Contestant], **more: Any) -> Cell:  # fmt: skip
    """A measure of indexes that grow; only insertion needs room for a step."""
    step = min(sized(sizes, _MILLION // 2)[0], size) if measure == "ns_insert" else 0
    return Cell(figure, tuple(who), work=Work.GROW, keys=keys, size=size, measure=measure,
                step=step, **more)  # fmt: skip


def _growth(name: str, measure: str, keys: Keys, labels: Iterable[str], sizes: Sizes) -> list[Cell]:
    places = sized(sizes, *_SIZES)
    return [
        _grow(name, measure, keys, sizes, size,
              [Contestant(label, label.partition(",")[0], size / _MILLION) for label in labels],
              scene=keys.value, most=places[-1])
        for size in places
    ]  # fmt: skip


def _node_sizes(sizes: Sizes) -> list[Cell]:
    (size,) = sized(sizes, 4 * _MILLION)
    measures = FIGURES["node-size"].measures
    return [
        _grow("node-size", measure, keys, sizes, size, (
            Contestant(keys.value, "b-tree", room, (("node_bytes", room),)) for room in _NODE_BYTES
        ), scene=f"node-size, {keys.value}", rest=measure != measures[-1])
        for keys in Keys for measure in measures
    ]  # fmt: skip


def _deletion(sizes: Sizes) -> list[Cell]:
    places = sized(sizes, *_DELETED)
    return [
        Cell("13", tuple(
            Contestant(label, structure, size / _MILLION, parameters)
            for inner in ("b-tree", "radix-trie", "judy")
            for label, structure, parameters in (
                (f"{inner}, {ONE_BY_ONE}", inner, ()),
                (f"{inner}, {DROP}", f"{DROP}/{inner}",
                 (("subwindows", WINDOW), ("stride", size))),
            )
        ), work=Work.DELETE, keys=Keys.ROAD, size=size, scene="13", most=places[-1])
        for size in places
    ]  # fmt: skip


def _windows(sizes: Sizes) -> list[Cell]:
    (rows,) = sized(sizes, _MILLION)
    cut: Parameters = (("subwindows", WINDOW), ("stride", MINUTE))
    names = [*(f"{DROP}/{inner}" for inner in _INNER), "incremental/radix-trie",
             "incremental/b-tree", "sorted-runs"]  # fmt: skip
    who = [
        Contestant(name, name, rows / _MILLION, cut if name.startswith(DROP) else ())
        for name in names
    ]
    return [Cell("ptwi", tuple(who), work=Work.WINDOW, keys=Keys.ROAD, size=rows, scene="ptwi")]


def _questions(name: str, sizes: Sizes) -> list[Cell]:
    (rows,) = sized(sizes, _MILLION)
    return [
        Cell(name, tuple(Contestant(label, label, asked) for label in ASKED),
             work=Work.QUESTION, keys=Keys.ROAD, size=rows, scene="questions")
        for asked in (1, 100)
    ]  # fmt: skip


def _aggregates(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, _MILLION)
    return [
        Cell("aggregate", tuple(Contestant(label, label, rate) for label in MATCHED),
             work=Work.AGGREGATE, keys=Keys.RANDOM, size=window, rate=rate, scene="aggregate")
        for rate in dict.fromkeys(min(rate, window / 8) for rate in _RATES)
    ]  # fmt: skip


# --- What figures show, in a sentence made of their lines ----------------------------------------


def _here(reason: str = "", *, growth: bool = False, best: bool = False) -> Callable[[Lines], str]:
    """A reason, and numbers: the ranking at the last place, or where each measure is ``best``.

    ``growth``: also how the time grows from a quarter of the largest size on.
    """

    def remark(lines: Lines) -> str:
        ran = [line for line in lines if line.ran]
        if not ran:
            return reason
        numbers = _best_places(ran) if best else _ranking(ran)
        if reason:
            numbers = numbers[0].upper() + numbers[1:]
        return " ".join(filter(None, [reason, numbers, _growing(ran) if growth else ""]))

    return remark


def _ranking(lines: Lines) -> str:
    """All contestants at the last place, the best first."""
    figure, last = FIGURES[lines[0].figure], max(line.place for line in lines)
    column, measure = figure.measures[0], MEASURES[figure.measures[0]]
    values = {line.contestant: getattr(line, column) for line in lines if line.place == last}
    order = sorted(filter(values.get, values), key=values.__getitem__, reverse=column in _MORE)
    shown = ", ".join(f"{label} {measure.text(values[label])}" for label in order)
    return f"{measure.title}, {figure.axis} {power(last)}: {shown}."


def _best_places(lines: Lines) -> str:
    """Where each measure is least."""
    figure, sentences = FIGURES[lines[0].figure], []
    for column in figure.measures:
        places = []
        for label in dict.fromkeys(line.contestant for line in lines):
            own = {getattr(line, column): line.place for line in lines if line.contestant == label}
            places.append(f"{own[min(own)]:,.0f} ({label})")
        where = " and ".join(places)
        sentences.append(f"{MEASURES[column].title}: least at {where} {figure.axis}")
    return f"{'; '.join(sentences)}."


def _growing(lines: Lines) -> str:
    figure, last = FIGURES[lines[0].figure], max(line.place for line in lines)
    times = {(line.contestant, line.place): getattr(line, figure.measures[0]) for line in lines}
    shown = [
        f"{label} × {time / times[label, last / 4]:.2f}"
        for (label, place), time in times.items()
        if place == last and times.get((label, last / 4))
    ]
    return f"From {last / 4:g} to {last:g} {figure.axis}: {', '.join(shown)}." if shown else ""


# --- Figures -------------------------------------------------------------------------------------


def _grown(
    name: str, about: str, measure: str, keys: Keys, claim: str,
    holds: bool | Callable[[Lines], bool], because: str = "",
    labels: Iterable[str] = STRUCTURES,
) -> Figure[Cell]:  # fmt: skip
    remark = _here(because, growth=measure in ("ns_insert", "ns_find"))
    cells = partial(_growth, name, measure, keys, tuple(labels))
    return Figure(name, about, "million keys", cells, (measure,), claim=claim, holds=holds,
                  because=remark)  # fmt: skip


_ALL: tuple[Figure[Cell], ...] = (
    _grown("4", "insertion, Linear Road keys", "ns_insert", Keys.ROAD,
           "tries take constant time from about 4 M keys on, burst tries less than Judy; trees "
           "grow with the logarithm, the csb+tree is faster than the b-tree.", False,
           "the time of radix-trie and judy grows with the index. Each row touches a leaf of the "
           "trie elsewhere in memory and moves the rows after it. Burst tries jump when many "
           "containers burst at once, and the csb+tree is not faster than the b-tree."),
    _grown("5", "insertion, random keys", "ns_insert", Keys.RANDOM,
           "trees as in Figure 4; burst tries, and less so Judy, are unstable around 3 M keys, "
           "when containers burst.", False,
           "the csb+tree is slower than the b-tree here, too. Tries are as in the paper: the time "
           "of burst tries rises steeply up to 3 M keys, and Judy has a peak there."),
    _grown("6", "look-up, Linear Road keys", "ns_find", Keys.ROAD,
           "Judy is fastest and takes constant time, as do burst tries; csb+trees are faster than "
           "b-trees.", False,
           "a call looks up many keys. In most of our own structures their memory accesses "
           "overlap, while libJudy takes one key after the other. The csb+tree is faster than "
           "the b-tree, and the radix-trie, which follows Judy's idea, is fastest."),
    _grown("7", "look-up, random keys", "ns_find", Keys.RANDOM,
           "trees as in Figure 6; burst tries peak before their containers burst; Judy is stable.",
           False,
           "burst tries have no peak at these sizes: their time grows evenly. The csb+tree is "
           "faster than the b-tree at most sizes."),
    _grown("8", "memory, Linear Road keys", "bytes_per_pair", Keys.ROAD,
           "Judy needs less than a flat array once keys are dense; b-trees are stable; burst tries "
           "get worse when containers burst.", True,
           labels=(FLAT, *(name for name in STRUCTURES if name != "csb+tree"))),
    _grown("9", "memory of the full csb+tree, Linear Road keys", "bytes_per_pair", Keys.ROAD,
           "several times that of the b-tree: siblings are allocated with every new node.",
           at_least(2.0, mean, ratio("csb+tree", "b-tree", "bytes_per_pair")),
           "our csb+tree needs only half as much again as the b-tree. The nodes of the paper's, a "
           "download, had few keys.", labels=(FLAT, "b-tree", "csb+tree")),
    _grown("10", "memory, random keys", "bytes_per_pair", Keys.RANDOM,
           "Judy needs slightly more than a flat array; burst tries much more, as most new "
           "containers hold one key.", False,
           "burst tries need hardly more than Judy. A pair has 16 bytes here and 8 in the paper, "
           "so what a container needs besides its pairs weighs less.", labels=(FLAT, *STRUCTURES)),
    _grown("11", "range search (Q2), Linear Road keys", "us_range", Keys.ROAD,
           "Judy with a mapper is far faster than with first/next, and almost as fast as the "
           "b-tree; the csb+tree is not faster than the b-tree.", False,
           "our csb+tree reads ranges faster than the b-tree. Mappers are as in the paper: that of "
           "the radix-trie is 8 to 10 times as fast as first/next, and from 8 M keys on faster "
           "than the b-tree.", labels=_RANGED),
    _grown("12", "range search (10 % of the domain), random keys", "us_range", Keys.RANDOM,
           "Judy with a mapper is slower than the b-tree, as it has many small nodes.", False,
           "leaves of the radix-trie hold up to 1,024 keys, so it is slower than the b-tree up to "
           "2 M keys only.", labels=_RANGED),
    Figure("13", "deletion, one by one and PTWI, Linear Road keys", "million keys", _deletion,
           ("empty_ms", "free_ms"), holds=True, because=_here(),
           claim="dropping takes a small part of the time of deleting one by one; dropping Judy "
           "takes longer than dropping a b-tree, as it has more nodes."),
    Figure("node-size", "b-tree by bytes of a node, 4 M keys", "bytes", _node_sizes,
           ("ns_insert", "ns_find", "us_range", "bytes_per_pair"), claim="750 bytes were best.",
           holds=False, because=_here("the best size depends on what is measured.", best=True)),
    Figure("ptwi", "a five-minute window that moves", "million rows per minute", _windows,
           ("tuples_per_s", "longest_ms", "bytes_per_pair"), because=_here()),
    Figure("q1", "Q1: a vehicle in the last minute", "questions at a time",
           partial(_questions, "q1"), ("us_question",), because=_here()),
    Figure("q2", "Q2: a segment in the last five minutes", "questions at a time",
           partial(_questions, "q2"), ("us_question",), because=_here()),
    Figure("aggregate", "W1, aggregates over matches", "matches per row", _aggregates,
           because=_here()),
)  # fmt: skip

FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}
"""Every experiment by name, in the order of the paper."""

"""The named experiments: Figures 4–13 of the Ordered Indexing paper, and some of our own.

Lists are chosen so that all of it takes less than 15 minutes on two cores. One thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from thetabench import figure as plans
from thetabench.figure import Figure, Parameters, Sizes, sized
from thetabench.ordered.deleting import DROP, ONE_BY_ONE
from thetabench.ordered.matches import MATCHED
from thetabench.ordered.minutes import MINUTE, WINDOW
from thetabench.ordered.plan import Cell, Contestant, Keys, Work, merged
from thetabench.ordered.questions import ASKED

__all__ = ["FIGURES", "SECONDS", "STRUCTURES", "TABLE", "cells", "chosen"]

SECONDS = 0.3
"""Timed seconds per contestant, measure and cell."""
STRUCTURES = ("b-tree", "csb+tree", "burst-trie", "radix-trie", "judy", "b+tree", "sorted-runs")
TABLE = "table1"
"""Not a figure: Table 1 is made of the lines of Figures 4–12."""

_MILLION = 1_000_000
_SIZES = tuple(n * _MILLION for n in (1, 2, 3, 4, 6, 8, 12, 16))
_STEP = _MILLION // 2
_DELETED = tuple(n * _MILLION for n in (1, 2, 4, 8, 16))
_NODE_BYTES = (256, 512, 768, 1024, 2048, 4096)
_RATES = (100.0, 1_000.0)


# --- Figures 4–12: indexes that grow -------------------------------------------------------------


def _growth(name: str, keys: Keys, sizes: Sizes) -> list[Cell]:
    return [
        Cell(
            (name,), Work.GROW, keys, size,
            tuple(Contestant(name, name, size / _MILLION) for name in STRUCTURES),
            min(_scaled(sizes, _STEP), size),
        )
        for size in sized(sizes, *_SIZES)
    ]  # fmt: skip


def _node_sizes(sizes: Sizes) -> list[Cell]:
    (size,) = sized(sizes, 4 * _MILLION)
    return [
        Cell(
            ("node-size",), Work.GROW, keys, size,
            tuple(
                Contestant(keys.value, "b-tree", room, (("node_bytes", room),))
                for room in _NODE_BYTES
            ),
            min(_scaled(sizes, _STEP), size),
        )
        for keys in Keys
    ]  # fmt: skip


# --- Figure 13 and windows -----------------------------------------------------------------------


def _deletion(sizes: Sizes) -> list[Cell]:
    found = []
    for size in sized(sizes, *_DELETED):
        dropped: Parameters = (("subwindows", WINDOW), ("stride", size))
        place, who = size / _MILLION, []
        for inner in ("b-tree", "radix-trie", "judy"):
            who.append(Contestant(f"{inner}, {ONE_BY_ONE}", inner, place))
            who.append(Contestant(f"{inner}, {DROP}", f"{DROP}/{inner}", place, dropped))
        found.append(Cell(("13",), Work.DELETE, Keys.ROAD, size, tuple(who)))
    return found


def _windows(sizes: Sizes) -> list[Cell]:
    (rows,) = sized(sizes, _MILLION)
    cut: Parameters = (("subwindows", WINDOW), ("stride", MINUTE))
    names = [
        *(f"ptwi/{inner}" for inner in _INNER),
        *(f"incremental/{inner}" for inner in _INNER[:2]),
        "sorted-runs",
    ]
    who = [
        Contestant(name, name, rows / _MILLION, cut if name.startswith(DROP) else ())
        for name in names
    ]
    return [Cell(("ptwi",), Work.WINDOW, Keys.ROAD, rows, tuple(who))]


_INNER = ("radix-trie", "b-tree", "sorted-runs")


# --- Questions and aggregates --------------------------------------------------------------------


def _questions(name: str, sizes: Sizes) -> list[Cell]:
    (rows,) = sized(sizes, _MILLION)
    return [
        Cell((name,), Work.QUESTION, Keys.ROAD, rows,
             tuple(Contestant(label, label, asked) for label in ASKED))
        for asked in (1, 100)
    ]  # fmt: skip


def _aggregates(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, _MILLION)
    rates = dict.fromkeys(min(rate, window / 8) for rate in _RATES)
    return [
        Cell(("aggregate",), Work.AGGREGATE, Keys.RANDOM, window,
             tuple(Contestant(label, label, rate) for label in MATCHED), rate=rate)
        for rate in rates
    ]  # fmt: skip


def _scaled(sizes: Sizes, count: int) -> int:
    return sized(sizes, count)[0]


_SIZE = "million keys"
_ROAD, _RANDOM = "Linear Road keys", "random keys"


def _grown(name: str, about: str, keys: Keys, *measures: str) -> Figure[Cell]:
    return Figure(name, about, _SIZE, partial(_growth, name, keys), measures)


_ALL: tuple[Figure[Cell], ...] = (
    _grown("4", f"insertion, {_ROAD}", Keys.ROAD, "ns_insert"),
    _grown("5", f"insertion, {_RANDOM}", Keys.RANDOM, "ns_insert"),
    _grown("6", f"look-up, {_ROAD}", Keys.ROAD, "ns_find"),
    _grown("7", f"look-up, {_RANDOM}", Keys.RANDOM, "ns_find"),
    _grown("8", f"memory, {_ROAD}", Keys.ROAD, "bytes_per_pair"),
    _grown("9", f"memory of the full csb+tree, {_ROAD}", Keys.ROAD, "bytes_per_pair"),
    _grown("10", f"memory, {_RANDOM}", Keys.RANDOM, "bytes_per_pair"),
    _grown("11", f"range search (Q2), {_ROAD}", Keys.ROAD, "us_range"),
    _grown("12", f"range search (10 % of the domain), {_RANDOM}", Keys.RANDOM, "us_range"),
    Figure("13", f"deletion, one by one and PTWI, {_ROAD}", _SIZE, _deletion,
           ("empty_ms", "free_ms")),
    Figure("node-size", "b-tree by bytes of a node, 4 M keys", "bytes", _node_sizes,
           ("ns_insert", "ns_find", "us_range", "bytes_per_pair")),
    Figure("ptwi", "a five-minute window that moves", "million rows per minute", _windows,
           ("tuples_per_s", "longest_ms", "bytes_per_pair")),
    Figure("q1", "Q1: a vehicle in the last minute", "questions at a time",
           partial(_questions, "q1"), ("us_question",)),
    Figure("q2", "Q2: a segment in the last five minutes", "questions at a time",
           partial(_questions, "q2"), ("us_question",)),
    Figure("aggregate", "W1, aggregates over matches", "matches per row", _aggregates),
)  # fmt: skip

FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}
"""Every experiment by name, in the order of the paper."""

_GROWN = [name for name in FIGURES if name.isdigit() and int(name) < 13]


def chosen(names: Sequence[str] = ()) -> list[Figure[Cell]]:
    """The experiments asked for, or all; ``table1`` asks for all that it is made of.

    >>> [figure.name for figure in chosen(["13", "q2"])]
    ['13', 'q2']
    >>> len(chosen(["table1"]))
    9
    """
    wanted = [part for name in names for part in (_GROWN if name == TABLE else [name])]
    return plans.chosen(FIGURES, wanted, {})


def cells(names: Sequence[str], sizes: Sizes) -> list[Cell]:
    """All cells of the experiments asked for; what several figures show is measured once."""
    return merged([cell for figure in chosen(names) for cell in figure.cells(sizes)])

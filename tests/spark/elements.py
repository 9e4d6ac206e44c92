"""Processing elements as the paper on SPO-Join has them, in plain Python: what goes wrong there.

Two models, each with a switch between the paper's way and an exact one, so that a test can show
that a situation is real before it shows that the operator is not touched by it.

``joined_by_elements``  Section 4.2, Figure 19. An element joins its own rows; it removes rows of a
                        stream by its own clock. A clock that moves when the element gets a row of
                        that stream lags behind in an element that gets few, so rows that have
                        expired are still there to be met.
``combined_partials``   Section 4.3, Figure 18. The partial results of a row, one per term, meet at
                        an element of the logical operator. Without a table keyed by row, one that
                        waits is overwritten by the next row's, and results of two rows are mixed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream.condition.predicate import Predicate
from thetastream.side import Side
from thetastream.spark.theta.spec import JoinSpec
from thetastream.testing.streams import Scenario
from thetastream.truth.oracle import matches
from thetastream.window import CountWindow

Pair = tuple[int | None, int | None]
Codes = NDArray[np.int64]


# --- Where rows go ------------------------------------------------------------------------------


def targets_of(spec: JoinSpec, side: Side, table: Any) -> list[list[int]]:
    """The partitions that each row is sent to."""
    (batch,) = table.combine_chunks().to_batches()
    sent = spec.routing.route({side: spec.binding.keys(side, batch)})
    found: list[list[int]] = [[] for _ in range(table.num_rows)]
    for row, target in zip(sent.rows.tolist(), sent.targets.tolist(), strict=True):
        found[row].append(target)
    return found


# --- Figure 19: expiry --------------------------------------------------------------------------


@dataclass
class Row:
    """A row of one side: its place on that side, its rank or event time, where it is sent."""

    side: Side
    place: int
    moment: int
    values: Mapping[str, Any]
    targets: Sequence[int]


@dataclass
class Element:
    """Rows that came here, and how far this element believes each stream to be."""

    stored: dict[Side, list[Row]] = field(default_factory=lambda: {side: [] for side in Side})
    clocks: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(Side, 0))


def rows_of(scenario: Scenario, spec: JoinSpec, moment: str) -> list[Row]:
    """All rows in order of arrival, ``moment`` naming their rank or event time."""
    found = []
    for side in Side:
        table = scenario.table(side.position)
        sent = targets_of(spec, side, table)
        for place, values in enumerate(table.to_pylist()):
            found.append(Row(side, place, values[moment], values, sent[place]))
    return sorted(found, key=lambda row: (row.moment, row.side.position))


def joined_by_elements(
    scenario: Scenario, spec: JoinSpec, rows: Sequence[Row], *, lagging: bool
) -> set[Pair]:
    """What elements give that remove rows by a clock, their own or one that all share.

    A clock of a stream counts its rows (count windows) or is its latest event time. A row meets
    whatever has not been removed. With a shared clock that is the window.
    """
    elements = [Element() for _ in range(spec.partitions)]
    predicate, counted = Predicate.of(scenario.on), isinstance(scenario.window, CountWindow)
    found: set[Pair] = set()
    for row in rows:
        for number, element in enumerate(elements):
            if number in row.targets or not lagging:
                element.clocks[row.side] = row.place + 1 if counted else row.moment
                if not (lagging or counted):  # time is one clock for both streams
                    element.clocks[row.side.other] = row.moment
        for number in row.targets:
            for other in _left_there(elements[number], row.side.other, scenario.window):
                left, right = (row, other) if row.side is Side.LEFT else (other, row)
                if matches(predicate, left.values, right.values):
                    found.add((left.place, right.place))
            elements[number].stored[row.side].append(row)
    return found


def _left_there(element: Element, side: Side, window: Any) -> list[Row]:
    """Rows of a stream that the element has not removed: whole slides leave at once."""
    size, slide = window.sizes[side.position], window.slide
    if isinstance(window, CountWindow):
        first = (element.clocks[side] - 1) // slide - size // slide
        return [row for row in element.stored[side] if row.place // slide > first]
    first = element.clocks[side] // slide - size // slide
    return [row for row in element.stored[side] if row.moment // slide > first]


# --- Figure 18: partial results -----------------------------------------------------------------


def combined_partials(
    terms: Sequence[NDArray[np.bool_]], elements: int, *, delay: float, keyed: bool, seed: int
) -> Codes:
    """Pairs (as codes) that come of partial results, one Boolean matrix of rows × stored per term.

    A row arrives every unit of time; each of its partial results takes up to ``delay`` units to its
    element, where ``keyed`` ones wait in a table, and others in one slot per term.
    """
    rng = random.Random(seed)
    count = len(terms[0])
    events = [(row + rng.random() * delay, row, term) for row in range(count) for term in (0, 1)]
    waiting: dict[tuple[int, ...], int] = {}
    found = []
    for _, row, term in sorted(events):
        place: tuple[int, ...] = (row,) if keyed else (row % elements,)
        other = waiting.pop((*place, 1 - term), None)
        if other is None:
            waiting[*place, term] = row
            continue
        at = np.flatnonzero(terms[term][row] & terms[1 - term][other])
        found.append(codes(np.full(at.size, row), at))
    return np.concatenate(found)


def codes(left: NDArray[Any], right: NDArray[Any]) -> Codes:
    """Pairs of row numbers as one number each."""
    return (left.astype(np.int64) << 32) | right.astype(np.int64)


def share_correct(given: Codes, truth: Codes, rows: int) -> float:
    """The share of left rows with exactly the right partners: none missing, none more, none twice.

    >>> truth = codes(np.array([0, 1, 1]), np.array([5, 5, 6]))
    >>> share_correct(truth[::-1], truth, 4), share_correct(truth[:2], truth, 4)
    (1.0, 0.75)
    """
    counts: list[dict[int, int]] = []
    for pairs in (given, truth):
        values, times = np.unique(pairs, return_counts=True)
        counts.append(dict(zip(values.tolist(), times.tolist(), strict=True)))
    wrong = {code >> 32 for code, _ in counts[0].items() ^ counts[1].items()}
    return 1 - len(wrong) / rows


def pairs_on_diagonals(
    left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]], window: int
) -> Codes:
    """``l.a < r.a AND l.b > r.b`` of rows at most ``window`` places apart: all are compared."""
    (a, b), (c, d) = left, right
    count, found = len(a), []
    for shift in range(-window, window + 1):
        low, high = max(0, -shift), min(count, len(c) - shift)
        met = (a[low:high] < c[low + shift : high + shift]) & (
            b[low:high] > d[low + shift : high + shift]
        )
        at = np.flatnonzero(met) + low
        found.append(codes(at, at + shift))
    return np.concatenate(found)

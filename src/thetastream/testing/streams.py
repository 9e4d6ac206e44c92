"""Hypothesis strategies for streams: rows, windows, arrival, and how a stream is cut into pushes.

A ``Scenario`` is everything a join needs. Rows carry key columns and an ``id``; an event time ``t``
or an arrival rank ``o`` where the window reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from thetastream.data.batch import in_python
from thetastream.testing.kinds import PAIRINGS, Kind
from thetastream.testing.predicates import predicates
from thetastream.window import CountWindow, SessionWindow, TimeWindow, Unbounded, Window

MODES = ("inner", "left", "right", "full", "semi", "anti")
Kinds = Mapping[str, tuple[Kind, Kind]]
On = str | Callable[[Kinds], st.SearchStrategy[str]]


@dataclass(frozen=True)
class Scenario:
    """Pushes in order, each ``(left, right)`` or None for nothing, and the join to run on them.

    ``arrival`` is the side (0 or 1) of each arriving row, if no other cutting makes a row late.
    """

    pushes: tuple[tuple[Any, Any], ...]
    on: str
    window: Window
    how: str = "inner"
    self_join: bool = False
    arrival: tuple[int, ...] | None = None

    def with_pushes(self, pushes: Sequence[tuple[Any, Any]]) -> Scenario:
        """The same join over other pushes."""
        return replace(self, pushes=tuple(pushes))

    def table(self, position: int) -> Any:
        """All rows of one side (0 left, 1 right) in one table, or None if it never had any."""
        parts = [push[position] for push in self.pushes if push[position] is not None]
        return pa.concat_tables(parts) if parts else None

    def __repr__(self) -> str:
        """Show every push by its columns, so that a failure can be read and copied."""
        mode = f"how={self.how!r}, self_join={self.self_join}"
        lines = [f"Scenario: {self.on!r}, {self.window}, {mode}"]
        for push in self.pushes:
            for name, table in zip(("left", "right"), push, strict=True):
                if table is not None:
                    columns = {n: in_python(table[n]) for n in table.column_names}
                    lines.append(f"  push {name} {columns}")
        for name, table in (("left", self.table(0)), ("right", self.table(1))):
            if table is not None:
                types = ", ".join(f"{field.name} {field.type}" for field in table.schema)
                lines.append(f"  type {name} {types}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


# --- Rows ---------------------------------------------------------------------------------------


@st.composite
def keys(
    draw: st.DrawFn, pairings: Sequence[tuple[Kind, Kind]] = PAIRINGS, least: int = 1
) -> Kinds:
    """Key columns ``a``, and perhaps ``b`` and ``c``: a left and a right kind for each."""
    pairs = draw(st.lists(st.sampled_from(pairings), min_size=least, max_size=3))
    return dict(zip("abc", pairs, strict=False))


@st.composite
def _condition(draw: st.DrawFn, on: On, kinds: Kinds) -> str:
    return on if isinstance(on, str) else draw(on(kinds))


def _types(kinds: Kinds, position: int) -> dict[str, Any]:
    return {**{name: pair[position].type for name, pair in kinds.items()}, "id": pa.int64()}


@st.composite
def _rows(draw: st.DrawFn, kinds: Kinds, position: int, count: int) -> dict[str, list[Any]]:
    columns = {
        name: draw(st.lists(st.sampled_from(pair[position].values), min_size=count, max_size=count))
        for name, pair in kinds.items()
    }
    return {**columns, "id": list(range(count))}


def _table(columns: dict[str, list[Any]], types: dict[str, Any]) -> Any:
    arrays = [pa.array(columns[name], types[name]) for name in types]
    return pa.table(arrays, names=list(types))


@st.composite
def _cuts(draw: st.DrawFn, count: int, pieces: int) -> list[tuple[int, int]]:
    """Cut ``count`` rows into ``pieces`` runs, some of them empty."""
    at = sorted(draw(st.lists(st.integers(0, count), min_size=pieces - 1, max_size=pieces - 1)))
    return list(pairwise([0, *at, count]))


@st.composite
def _pushes(
    draw: st.DrawFn, left: Any, right: Any, max_pushes: int = 5
) -> tuple[tuple[Any, Any], ...]:
    """Cut both streams independently into pushes; an empty piece is an empty table or None."""
    pieces = draw(st.integers(1, max_pushes))
    sides = []
    for table in (left, right):
        if table is None:
            sides.append([None] * pieces)
            continue
        cuts = draw(_cuts(table.num_rows, pieces))
        parts = [table.slice(a, b - a) for a, b in cuts]
        absent = draw(st.lists(st.booleans(), min_size=pieces, max_size=pieces))
        sides.append(
            [None if g and not p.num_rows else p for p, g in zip(parts, absent, strict=True)]
        )
    return tuple(zip(*sides, strict=True))


@st.composite
def recut(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """The same rows, arriving in the same order, cut into other pushes.

    The left rows of a push come first, so it can always be cut into left pieces followed by right
    pieces. With ranks, both sides can be cut independently. A time window needs a punctual
    scenario.
    """
    tables = [table for table in (scenario.table(0), scenario.table(1)) if table is not None]
    if scenario.window.timed:
        assert scenario.arrival is not None, "only a punctual scenario can be cut anew"
        cuts = draw(_cuts(len(scenario.arrival), draw(st.integers(1, 8))))
        return scenario.with_pushes(_arrived(tables, scenario.arrival, cuts))
    if scenario.window.order is not None:
        return scenario.with_pushes(draw(_pushes(scenario.table(0), scenario.table(1), 8)))
    pushes: list[tuple[Any, Any]] = []
    for push in scenario.pushes:
        for position, table in enumerate(push):
            if table is not None:
                for a, b in draw(_cuts(table.num_rows, draw(st.integers(1, 3)))):
                    piece = table.slice(a, b - a)
                    pushes.append((piece, None) if position == 0 else (None, piece))
    return scenario.with_pushes(pushes)


# --- Windows ------------------------------------------------------------------------------------


@st.composite
def _sizes(draw: st.DrawFn, unit: int, symmetric: bool) -> Any:
    first = unit * draw(st.integers(1, 5))
    return first if symmetric or draw(st.booleans()) else (first, unit * draw(st.integers(1, 5)))


@st.composite
def count_scenarios(
    draw: st.DrawFn,
    pairings: Sequence[tuple[Kind, Kind]] = PAIRINGS,
    *,
    on: On = predicates,
    columns: int = 1,
    modes: Sequence[str] = MODES,
    self_join: bool | None = False,
    max_rows: int = 9,
) -> Scenario:
    """A join over a count window: sizes of one or two values, with or without slide and ranks.

    ``on`` is a predicate, or a strategy of them for given columns; ``columns`` the least number of
    key columns.
    """
    alone = draw(st.booleans()) if self_join is None else self_join
    kinds = draw(keys([p for p in pairings if not alone or p[0] is p[1]], columns))
    counts = [draw(st.integers(0, max_rows)) for _ in range(1 if alone else 2)]
    ranked = draw(st.booleans())
    tables = []
    for position, count in enumerate(counts):
        values, types = draw(_rows(kinds, position, count)), _types(kinds, position)
        if ranked:
            ranks = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
            values["o"], types["o"] = sorted(ranks), pa.int64()
        tables.append(_table(values, types))
    slide = draw(st.sampled_from([None, None, 1, 2, 3]))
    window = CountWindow(
        draw(_sizes(slide or 1, alone)), order="o" if ranked else None, slide=slide
    )
    return Scenario(
        draw(_pushes(tables[0], None if alone else tables[1])),
        draw(_condition(on, kinds)),
        window,
        draw(st.sampled_from(modes)),
        alone,
    )


# Event-time types of both sides, and one step of time as it is written in a window.
_CLOCKS: tuple[tuple[Any, Any, str | None, tuple[int, int]], ...] = (
    (pa.int64(), pa.int64(), None, (1, 1)),
    (pa.int32(), pa.int64(), None, (1, 1)),
    (pa.timestamp("s"), pa.timestamp("s"), "seconds", (1, 1)),
    (pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"), "seconds", (10**3, 10**9)),
    (pa.date32(), pa.date32(), "days", (1, 1)),
)


@st.composite
def time_scenarios(
    draw: st.DrawFn,
    pairings: Sequence[tuple[Kind, Kind]] = PAIRINGS,
    *,
    on: On = predicates,
    columns: int = 1,
    modes: Sequence[str] = MODES,
    self_join: bool | None = False,
    punctual: bool | None = None,
    max_rows: int = 9,
) -> Scenario:
    """A join over a time window. ``punctual``: no row is late, however the stream is cut."""
    alone = draw(st.booleans()) if self_join is None else self_join
    keeps_time = draw(st.booleans()) if punctual is None else punctual
    kinds = draw(keys([p for p in pairings if not alone or p[0] is p[1]], columns))
    clock = draw(st.sampled_from([c for c in _CLOCKS if not alone or c[0] == c[1]]))
    lateness = draw(st.integers(0, 4 if keeps_time else 1))
    times, sides = draw(_event_times(1 if alone else 2, max_rows, lateness, keeps_time))
    tables = []
    for position, moments in enumerate(times):
        values = draw(_rows(kinds, position, len(moments)))
        types = {**_types(kinds, position), "t": clock[position]}
        scale = clock[3][position]
        values["t"] = [None if t is None else t * scale for t in moments]
        tables.append(_table(values, types))
    slide = draw(st.sampled_from([None, None, 1, 2, 3]))
    sizes = draw(_sizes(slide or 1, alone))

    def spoken(value: int) -> Any:
        return value if clock[2] is None else f"{value} {clock[2]}"

    window = TimeWindow(
        tuple(map(spoken, sizes)) if isinstance(sizes, tuple) else spoken(sizes),
        time="t",
        lateness=spoken(lateness),
        slide=None if slide is None else spoken(slide),
    )
    if keeps_time:
        pushes = _arrived(tables, sides, draw(_cuts(len(sides), draw(st.integers(1, 6)))))
    else:
        pushes = draw(_pushes(tables[0], None if alone else tables[1]))
    return Scenario(
        pushes,
        draw(_condition(on, kinds)),
        window,
        draw(st.sampled_from(modes)),
        alone,
        tuple(sides) if keeps_time else None,
    )


@st.composite
def session_scenarios(draw: st.DrawFn, /, **options: Any) -> Scenario:
    """A join over sessions, with or without a key; options are those of ``time_scenarios``."""
    scenario = draw(time_scenarios(**options))
    window: Any = scenario.window
    by = draw(st.sampled_from([None, "a"]))
    sessions = SessionWindow(window.sizes[0], time="t", by=by, lateness=window.lateness)
    return replace(scenario, window=sessions)


@st.composite
def unbounded_scenarios(draw: st.DrawFn, /, **options: Any) -> Scenario:
    """A join without a window; options are those of ``count_scenarios``."""
    return replace(draw(count_scenarios(**options)), window=Unbounded())


@st.composite
def _event_times(
    draw: st.DrawFn, streams: int, max_rows: int, lateness: int, punctual: bool
) -> tuple[list[list[int | None]], list[int]]:
    """Event times per stream, and which stream each arriving row belongs to."""
    times: list[list[int | None]] = [[] for _ in range(streams)]
    sides = draw(st.lists(st.integers(0, streams - 1), max_size=max_rows * streams))
    start = draw(st.sampled_from([0, -5, 100]))
    latest: dict[int, int] = {}
    for side in sides:
        frontier = start
        if punctual and len(latest) == streams:
            frontier = min(latest.values()) - lateness
        time = draw(st.one_of(st.integers(0, 6 if punctual else 12), st.integers(0, 6), st.none()))
        if time is not None:
            latest[side] = max(latest.get(side, frontier + time), frontier + time)
        times[side].append(None if time is None else frontier + time)
    return times, sides


def _arrived(
    tables: list[Any], sides: Sequence[int], cuts: list[tuple[int, int]]
) -> tuple[tuple[Any, Any], ...]:
    """Pushes that bring the rows in their order of arrival."""
    pushes, taken = [], [0, 0]
    for a, b in cuts:
        push: list[Any] = [None, None]
        for side in range(len(tables)):
            count = list(sides[a:b]).count(side)
            push[side] = tables[side].slice(taken[side], count)
            taken[side] += count
        pushes.append((push[0], push[1]))
    return tuple(pushes)


def scenarios(
    pairings: Sequence[tuple[Kind, Kind]] = PAIRINGS,
    *,
    on: On = predicates,
    columns: int = 1,
    modes: Sequence[str] = MODES,
    self_join: bool | None = False,
    max_rows: int = 9,
) -> st.SearchStrategy[Scenario]:
    """A join over a count window or a time window."""
    options: dict[str, Any] = {
        "on": on,
        "columns": columns,
        "modes": modes,
        "self_join": self_join,
        "max_rows": max_rows,
    }
    return st.one_of(count_scenarios(pairings, **options), time_scenarios(pairings, **options))

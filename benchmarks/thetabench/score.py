"""Measures beside what they must reach and what they aim at.

A :class:`Goal` declares a measure: the figure it is taken from, values made of its lines (mostly
ratios of two contestants), how the values become one number, and its limits. :func:`judged` makes
the score table of a result file from them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from thetabench.figure import Lines, power
from thetabench.line import Line

Ratios = Mapping[Any, float]
Values = Callable[[Lines], Ratios]
Whole = Callable[[Ratios], float | None]
Pick = str | Mapping[str, Any]
"""Lines of a contestant, or lines with these values in some columns."""


Key = str | Callable[[Line], Any]
"""What values are kept by: a column, or something made of a line."""


@dataclass(frozen=True)
class Score:
    """One measure beside its limits; ``None`` where there is none, or no number."""

    measure: str
    value: float | None
    unit: str
    must: float | None = None
    aim: float | None = None
    more: bool = True
    """Whether more is better."""
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Say how the value stands to its limits.

        >>> Score("speed", 12.0, "×", must=10, aim=25).verdict
        'reached'
        >>> Score("speed", 8.0, "×", must=10, aim=25).verdict
        'MISSED'
        """
        if self.value is None:
            return "not measured"
        if self.aim is not None and self._holds(self.aim):
            return "aim reached"
        if self.must is None:
            return "reported"
        return "reached" if self._holds(self.must) else "MISSED"

    def _holds(self, limit: float) -> bool:
        assert self.value is not None
        return self.value >= limit if self.more else self.value <= limit

    def text(self, value: float | None) -> str:
        """A value or a limit with its unit.

        >>> Score("", None, "×").text(12.345), Score("", None, "s").text(None)
        ('12.3 ×', '–')
        """
        return "–" if value is None else f"{value:.3g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Goal:
    """A measure, declared. A goal without lines to judge is left out of the table."""

    measure: str
    """May hold ``{each}``; see there."""
    figure: str
    values: Values
    whole: Whole
    """How values become one: :func:`mean`, :func:`least`, :func:`most`, :func:`last` …"""
    must: float | None = None
    aim: float | None = None
    unit: str = "×"
    more: bool = True
    """Whether more is better."""
    each: Callable[[Line], str] | None = None
    """Where there is a score per group of lines: the name of a line's group."""
    where: Callable[[Lines], Lines] = list
    """Which lines of the figure count."""
    shown: str | Callable[[Lines], str] = "{key}: {value:.3g}"
    """The remark: how a value is written, where ``key`` has powers of two as such and ``raw`` has
    not; or how it is made of the lines; "" for none."""

    def scores(self, lines: Lines) -> list[Score]:
        """The scores of a file."""
        own = self.where([line for line in lines if line.figure == self.figure and line.ran])
        groups: dict[str, list[Line]] = {}
        for line in own:
            groups.setdefault(self.each(line) if self.each else "", []).append(line)
        return [self._score(name, group) for name, group in groups.items()]

    def _score(self, name: str, lines: Lines) -> Score:
        values = self.values(lines)
        if callable(self.shown):
            remark = self.shown(lines)
        else:
            remark = ", ".join(self.shown.format(key=_key(k), raw=k, value=v)
                               for k, v in values.items()) if self.shown else ""  # fmt: skip
        measure = self.measure.format(each=name)
        whole = self.whole(values) if values else None
        return Score(measure, whole, self.unit, self.must, self.aim, self.more, remark)


Judge = Callable[[Lines], Sequence[Score]]
"""Scores that no goal can declare."""


def judged(goals: Iterable[Goal | Judge], lines: Lines) -> list[Score]:
    """The score table, in the order of the goals."""
    return [
        score
        for goal in goals
        for score in (goal.scores(lines) if isinstance(goal, Goal) else goal(lines))
    ]


# --- Values, made of lines -----------------------------------------------------------------------


def ratio(one: Pick, other: Pick, column: str = "tuples_per_s", by: Key = "place") -> Values:
    """Ratios of two contestants in a column, by place or by something else."""

    def ratios(lines: Lines) -> Ratios:
        below = taken(other, column, by)(lines)
        above = taken(one, column, by)(lines)
        return {key: value / below[key] for key, value in above.items() if below.get(key)}

    return ratios


def relative(base: Hashable, by: Key, column: str = "tuples_per_s") -> Values:
    """Values by a column, over that of one of its values."""

    def ratios(lines: Lines) -> Ratios:
        values = dict(taken({}, column, by)(lines))
        below = values.pop(base, None)
        return {key: value / below for key, value in values.items()} if below else {}

    return ratios


def taken(
    pick: Pick, column: str = "tuples_per_s", by: Key = "place", factor: float = 1.0
) -> Values:
    """Values of a column, by place or by something else."""

    def values(lines: Lines) -> Ratios:
        own = [line for line in lines if _is(line, pick)]
        keys = [getattr(line, by) if isinstance(by, str) else by(line) for line in own]
        return {key: getattr(line, column) * factor for key, line in zip(keys, own, strict=True)}

    return values


def only(**columns: Any) -> Callable[[Lines], Lines]:
    """Lines with these values in some columns."""
    return lambda lines: [line for line in lines if _is(line, columns)]


def _is(line: Line, pick: Pick) -> bool:
    if isinstance(pick, str):
        return line.contestant == pick
    return all(getattr(line, name) == value for name, value in pick.items())


def _key(key: Any) -> str:
    return power(key) if isinstance(key, int | float) else str(key)


# --- One number of many --------------------------------------------------------------------------


def mean(ratios: Ratios) -> float | None:
    """The mean of ratios, None when there are none.

    >>> mean({1: 2.0, 2: 4.0}), mean({})
    (3.0, None)
    """
    return fmean(ratios.values()) if ratios else None


def least(ratios: Ratios) -> float | None:
    """The smallest ratio."""
    return min(ratios.values(), default=None)


def most(ratios: Ratios) -> float | None:
    """The largest ratio."""
    return max(ratios.values(), default=None)


def first(ratios: Ratios) -> float | None:
    """The ratio at the smallest place."""
    return ratios[min(ratios)] if ratios else None


def last(ratios: Ratios) -> float | None:
    """The ratio at the largest place."""
    return ratios[max(ratios)] if ratios else None


def at(place: Any) -> Whole:
    """The ratio at one place."""
    return lambda ratios: ratios.get(place)


def at_least(limit: float, whole: Whole, values: Values) -> Callable[[Lines], bool]:
    """Whether one number of many values reaches a limit: for ``Figure.holds``."""

    def holds(lines: Lines) -> bool:
        value = whole(values([line for line in lines if line.ran]))
        return value is not None and value >= limit

    return holds

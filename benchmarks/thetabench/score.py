"""A measure beside what it must reach and what it aims at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

__all__ = ["Score", "mean", "over"]


class _Placed(Protocol):
    @property
    def contestant(self) -> str: ...
    @property
    def place(self) -> float: ...


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
        """Give a value or a limit with its unit.

        >>> Score("", None, "×").text(12.345), Score("", None, "s").text(None)
        ('12.3 ×', '–')
        """
        return "–" if value is None else f"{value:.3g} {self.unit}".rstrip()


def over(
    results: Iterable[_Placed], one: str, other: str, column: str = "tuples_per_s"
) -> dict[float, float]:
    """Ratios of two contestants, by place."""
    values: dict[tuple[str, float], float] = {
        (result.contestant, result.place): getattr(result, column) for result in results
    }
    return {
        place: value / values[other, place]
        for (label, place), value in values.items()
        if label == one and values.get((other, place))
    }


def mean(ratios: Mapping[float, float] | Mapping[int, float]) -> float | None:
    """The mean of ratios, None when there are none.

    >>> mean({1: 2.0, 2: 4.0}), mean({})
    (3.0, None)
    """
    return fmean(ratios.values()) if ratios else None

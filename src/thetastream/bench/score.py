"""A measure beside what it must reach and what it aims at."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Score"]


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

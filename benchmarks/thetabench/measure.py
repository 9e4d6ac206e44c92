"""How a column of a result file is shown: its name in tables and plots, its unit, its digits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A column, scaled."""

    title: str
    """With its unit."""
    factor: float = 1.0
    digits: int = 3
    """Significant digits."""

    def text(self, value: float) -> str:
        """A value as text; a dash for nothing.

        >>> speed = Measure("million tuples per second", 1e-6)
        >>> speed.text(1_234_567.0), speed.text(0.0)
        ('1.23', '–')
        """
        if not value:
            return "–"
        shown = value * self.factor
        return f"{shown:,.0f}" if shown >= 10**self.digits else f"{shown:.{self.digits}g}"

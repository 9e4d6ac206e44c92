"""A title and a few facts, as aligned text or as an HTML table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

Facts = Mapping[str, object]


def as_text(title: str, facts: Facts) -> str:
    """A title, then one indented line per fact.

    >>> print(as_text("box", {"low": 1, "size": 20}))
    box
      low   1
      size  20
    """
    width = max((len(name) for name in facts), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {shown(v)}" for name, v in facts.items())])


def as_html(title: str, facts: Facts) -> str:
    """The same as an HTML table."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(shown(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def shown(value: object) -> str:
    """A value as text, whole numbers with thousands separators.

    >>> shown(1234567), shown(0.25), shown("sorted-runs")
    ('1,234,567', '0.25', 'sorted-runs')
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class Shown:
    """Objects that show themselves as a table; they say what is in it."""

    def _shown(self) -> tuple[str, Facts]:
        """The title and the facts."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return as_text(*self._shown())

    def _repr_html_(self) -> str:
        return as_html(*self._shown())

"""Options that several verbs share, and parsers of their text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from thetastream.errors import SchemaError

WindowText = Annotated[
    str | None, typer.Option(help='Time window: "10 minutes", or one per side: "1 h,5 min".')
]
Time = Annotated[str | None, typer.Option(help="Event time column, or one per side: t,sent_at.")]
Lateness = Annotated[
    str | None, typer.Option(help='How late a row may arrive: "5 s". Later ones are dropped.')
]
Slide = Annotated[
    str | None, typer.Option(help="Rows leave at multiples of this only; exact without it.")
]
Session = Annotated[
    str | None, typer.Option(help='Sessions that end with a pause longer than this: "30 s".')
]
By = Annotated[
    str | None,
    typer.Option(help="With --session, a column: each of its values has separate sessions."),
]
Unbounded = Annotated[bool, typer.Option("--unbounded", help="No window: rows never leave.")]
TacticText = Annotated[
    str, typer.Option(help='As in "spo-join(elements=8)"; see `thetastream index`.')
]
HowText = Annotated[str, typer.Option(help="inner, left, right, full, semi or anti.")]
Aggregate = Annotated[
    list[str] | None,
    typer.Option(
        help='One row per left row, with aggregates of its matches: "n=count", '
        '"avg=mean(r.speed)"; count, sum, min, max or mean. Repeat for several.'
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Threads that share the parts of a window.")]
Collect = Annotated[
    int | None, typer.Option(min=1, help="Rows per side that are processed together.")
]
CollectTime = Annotated[
    str | None, typer.Option(help='How long rows may wait to be collected: "100 ms".')
]

Columns = Annotated[
    str | None, typer.Option(help="Output columns to keep, comma-separated; all without it.")
]
BatchRows = Annotated[int, typer.Option(min=1, help="Rows read per push, and per output batch.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Limit = Annotated[int, typer.Option(min=0, help="Rows of the preview.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_FORM = re.compile(r"\s*([^=]+?)\s*=\s*(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*")


def read_columns(text: str | None) -> list[str] | None:
    """The names in a comma-separated list; None without one."""
    return [name.strip() for name in text.split(",")] if text else None


def read_aggregates(texts: Sequence[str] | None) -> dict[str, str | tuple[str, str]] | None:
    """The ``aggregate`` argument of a join; None without any.

    >>> read_aggregates(["n=count", "avg = mean(r.speed)"])
    {'n': 'count', 'avg': ('r.speed', 'mean')}
    """
    if not texts:
        return None
    aggregates: dict[str, str | tuple[str, str]] = {}
    for text in texts:
        parts = _FORM.fullmatch(text)
        if parts is None:
            raise SchemaError(
                "--aggregate takes NAME=FUNCTION(r.COLUMN), such as avg=mean(r.speed), or "
                f"NAME=count; got {text!r}"
            )
        name, function, column = parts.groups()
        if name in aggregates:
            raise SchemaError(f"two aggregates are called {name!r}; choose another name")
        aggregates[name] = function if column in (None, "", "*") else (column, function)
    return aggregates

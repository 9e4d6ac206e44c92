"""Options that several verbs share; aggregates as words: ``n=count``, ``avg=mean(r.speed)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from thetastream.errors import SchemaError

Session = Annotated[
    str | None, typer.Option(help='Sessions that end with a pause longer than this: "30 s".')
]
By = Annotated[
    str | None, typer.Option(help="With --session, a column whose values have own sessions.")
]
Unbounded = Annotated[bool, typer.Option("--unbounded", help="No window: rows never leave.")]
TacticText = Annotated[
    str, typer.Option(help='As in "spo-join(elements=8)"; see `thetastream index`.')
]
Workers = Annotated[int, typer.Option(min=1, help="Threads that parts of a window are dealt to.")]
Collect = Annotated[
    int | None, typer.Option(min=1, help="Rows per side that are processed together.")
]
CollectTime = Annotated[
    str | None, typer.Option(help='How long rows may wait to be collected: "100 ms".')
]

_FORM = re.compile(r"\s*([^=]+?)\s*=\s*(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*")


def read_aggregates(texts: Sequence[str] | None) -> dict[str, str | tuple[str, str]] | None:
    """What ``aggregate=`` of a join takes; None without any.

    >>> read_aggregates(["n=count", "avg = mean(r.speed)"])
    {'n': 'count', 'avg': ('r.speed', 'mean')}
    """
    if not texts:
        return None
    found: dict[str, str | tuple[str, str]] = {}
    for text in texts:
        parts = _FORM.fullmatch(text)
        if parts is None:
            raise SchemaError(
                "--aggregate takes NAME=FUNCTION(r.COLUMN), such as avg=mean(r.speed), or "
                f"NAME=count; got {text!r}"
            )
        name, function, column = parts.groups()
        if name in found:
            raise SchemaError(f"two aggregates are called {name!r}; choose another name")
        found[name] = function if column in (None, "", "*") else (column, function)
    return found

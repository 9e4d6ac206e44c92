"""Options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["By", "Collect", "CollectTime", "Session", "TacticText", "Unbounded", "Workers"]

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

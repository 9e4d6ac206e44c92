"""``thetastream explain``: how a join would be executed, without any rows."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thetastream.cli import options
from thetastream.cli.windows import WindowOptions

if TYPE_CHECKING:
    import pyarrow as pa


EPILOG = """\
Examples:

  thetastream explain "abs(l.price - r.price) <= 0.05 AND l.size < r.size"

  thetastream explain "l.a < r.a AND l.b > r.b" --count 50000 --json
"""


def explain(
    on: Annotated[str, typer.Argument(metavar="CONDITION", help="The condition, over l. and r.")],
    left_schema: Annotated[
        Path | None, typer.Option(help="A data file with the columns of the left side.")
    ] = None,
    right_schema: Annotated[
        Path | None, typer.Option(help="The same for the right side; by default LEFT-SCHEMA.")
    ] = None,
    window: options.WindowText = None,
    time: options.Time = None,
    lateness: options.Lateness = None,
    count: Annotated[
        str | None, typer.Option(help="Count window; 1048576 when no window is given.")
    ] = None,
    slide: options.Slide = None,
    session: options.Session = None,
    by: options.By = None,
    unbounded: options.Unbounded = False,
    how: options.HowText = "inner",
    aggregate: options.Aggregate = None,
    tactic: options.TacticText = "auto",
    workers: options.Workers = 1,
    collect: options.Collect = None,
    collect_time: options.CollectTime = None,
    self_join: Annotated[bool, typer.Option("--self-join", help="One stream with itself.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also the plans that were rejected, and why.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show which terms are indexed and how, which are checked on candidates, and the cost."""
    import thetastream as ts

    if window is None and count is None and session is None and not unbounded:
        count = str(1 << 20)
    limits = WindowOptions(window, time, lateness, count, None, slide, session, by, unbounded)
    join = ts.StreamJoin(
        on,
        window=limits.build(),
        how=how,
        tactic=tactic,
        workers=workers,
        collect=collect,
        collect_time=collect_time,
        self_join=self_join,
        schemas=_schemas(left_schema, right_schema),
        aggregate=options.read_aggregates(aggregate),
    )
    explanation = join.explain(verbose=verbose)
    if json:
        typer.echo(json_text.dumps(explanation.as_dict(), indent=2, default=str))
    else:
        typer.echo(str(explanation))
        if left_schema is None:
            typer.echo(
                "costs and structures follow from the types of the columns: pass "
                "--left-schema FILE (and --right-schema FILE)"
            )


def _schemas(left: Path | None, right: Path | None) -> tuple[pa.Schema, pa.Schema] | None:
    from thetastream.cli.files import InputFile

    if left is None:
        if right is not None:
            raise typer.BadParameter("--right-schema needs --left-schema")
        return None
    schema = InputFile(left, 1).typed().schema
    return schema, schema if right is None else InputFile(right, 1).typed().schema

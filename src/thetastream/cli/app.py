"""The command: its verbs, ``--version``, and exit codes.

Exit codes: 0 success, 1 a check of the answer failed, 2 wrong input or output (such as a full
disk), 130 stopped by Ctrl-C. If the reader of standard output goes away, as ``head`` does, the
command ends with 0: what was asked for was delivered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from thetastream import __version__
from thetastream.cli import bench, demo, explain, index, join, relation
from thetastream.errors import ThetastreamError

EPILOG = """\
Examples:

  thetastream demo

  thetastream explain "abs(l.price - r.price) <= 0.05 AND l.size < r.size"

  thetastream join trades.parquet quotes.parquet --on "abs(l.price - r.price) <= 0.05"
  --window "10 minutes" --time t --lateness "5 s" --output matched.parquet
"""


class Verbs(TyperGroup):
    """The group of verbs: a user error is one short message, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; turn its errors into a message on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except ThetastreamError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None
        except OSError as error:
            raise typer.Exit(_ended_by(error)) from None
        except KeyboardInterrupt:
            typer.echo("stopped by Ctrl-C", err=True)
            raise typer.Exit(130) from None


def _ended_by(error: OSError) -> int:
    """Say why, and return the exit code; a reader that went away is no failure.

    Nothing can be written to standard output any more, what is buffered included.
    """
    if not isinstance(error, BrokenPipeError):
        typer.echo(f"error: {error}", err=True)
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if isinstance(error, BrokenPipeError) else 2


app = typer.Typer(
    name="thetastream",
    cls=Verbs,
    help="Join streams on any comparison: bands, inequalities, several at once, equality too.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"thetastream {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options before the verb."""


app.command()(demo.demo)
app.command(epilog=join.EPILOG)(join.join)
app.add_typer(relation.group, name="relation")
app.command(epilog=explain.EPILOG)(explain.explain)
app.add_typer(index.group, name="index")
app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(bench.bench)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of the verb."""
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="thetastream")
    except OSError as error:  # of --help and --version, which no verb writes
        sys.exit(_ended_by(error))

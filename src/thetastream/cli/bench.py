"""``thetastream bench``: the door to the laboratory, which is a package of its own."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import typer

from thetastream.errors import StateError

LABORATORY = "thetabench"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line; its options are the laboratory's."""
    app.command(
        "bench",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(bench)


def bench(context: typer.Context) -> None:
    """Measure thetastream and its peers side by side (in a checkout, after `make setup`)."""
    if find_spec(LABORATORY) is None:
        raise StateError(
            "the benchmarks are not part of the installed package: they are the laboratory in the "
            "folder benchmarks/ of a checkout. Clone the repository and run 'make setup' there, "
            "or 'pip install -e benchmarks' if thetastream is installed already"
        )
    import_module(f"{LABORATORY}.cli.bench").main(context.args)

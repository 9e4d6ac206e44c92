"""``thetastream bench``: runs the laboratory, a separate package that parses its own options."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import typer

from thetastream.errors import StateError

LABORATORY = "thetabench"


def bench(context: typer.Context) -> None:
    """Measure thetastream and its peers side by side (in a checkout, after `make setup`)."""
    if find_spec(LABORATORY) is None:
        raise StateError(
            "the benchmarks are not part of the installed package: they are the laboratory in the "
            "folder benchmarks/ of a checkout. Clone the repository and run 'make setup' there, "
            "or 'pip install -e benchmarks' if thetastream is installed already"
        )
    import_module(f"{LABORATORY}.cli.bench").main(context.args)

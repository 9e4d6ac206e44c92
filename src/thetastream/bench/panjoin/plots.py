"""Plots of a result file: ``python -m thetastream.bench.panjoin.plots FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thetastream.bench.figure_plots import plot
from thetastream.bench.panjoin.paper import PAPER


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")],
    output: Annotated[Path | None, typer.Option(help="Folder; default: beside the file.")] = None,
) -> None:
    """Draw the plots of a result file."""
    for path in plot(PAPER, PAPER.read(file), output or file.parent, file.stem):
        typer.echo(path)


if __name__ == "__main__":
    typer.run(main)

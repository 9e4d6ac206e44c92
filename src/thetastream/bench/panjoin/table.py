"""The tables of a result file, written into a page; see :mod:`thetastream.bench.figure_table`.

python -m thetastream.bench.panjoin.table
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thetastream.bench.figure_table import written
from thetastream.bench.panjoin.paper import PAPER


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/panjoin.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the tables into.")] = Path(
        "docs/panjoin-benchmarks.md"
    ),
) -> None:
    """Write the tables of a result file into a page, between their marks."""
    typer.echo(written(PAPER, file, page))


if __name__ == "__main__":
    typer.run(main)

"""The tables of a result file, written into a page; see :mod:`thetastream.bench.figure_table`.

python -m thetastream.bench.pim.table benchmarks/results/pim.csv --page docs/pim-benchmarks.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thetastream.bench.figure_table import written
from thetastream.bench.pim.paper import PAPER


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/pim.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the tables into.")] = Path(
        "docs/pim-benchmarks.md"
    ),
) -> None:
    """Write the tables of a result file into a page, between their marks."""
    typer.echo(written(PAPER, file, page))


if __name__ == "__main__":
    typer.run(main)

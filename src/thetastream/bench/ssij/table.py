"""The tables of a result file, written into a page; see :mod:`thetastream.bench.figure_table`.

python -m thetastream.bench.ssij.table
"""

from __future__ import annotations

import typer

from thetastream.bench.figure_table import command
from thetastream.bench.ssij.paper import PAPER

main = command(PAPER)

if __name__ == "__main__":
    typer.run(main)

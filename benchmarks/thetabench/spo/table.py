"""The tables of a result file, written into a page; see :mod:`thetabench.figure_table`.

python -m thetabench.spo.table
"""

from __future__ import annotations

import typer

from thetabench.figure_table import command
from thetabench.spo.paper import PAPER

main = command(PAPER)

if __name__ == "__main__":
    typer.run(main)

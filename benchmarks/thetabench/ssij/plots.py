"""Plots of a result file: ``python -m thetabench.ssij.plots FILE``."""

from __future__ import annotations

import typer

from thetabench.figure_plots import command
from thetabench.ssij.paper import PAPER

main = command(PAPER)

if __name__ == "__main__":
    typer.run(main)

"""Plots of a result file: ``python -m thetastream.bench.ssij.plots FILE``."""

from __future__ import annotations

import typer

from thetastream.bench.figure_plots import command
from thetastream.bench.ssij.paper import PAPER

main = command(PAPER)

if __name__ == "__main__":
    typer.run(main)

"""``thetastream bench ssij``: the experiments of the SSIJ paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["ABOUT", "bench_ssij"]

ABOUT = "the figures of the SSIJ paper (some 25 minutes; --figure for some)"


def bench_ssij(
    *, figures: Sequence[str], scale: float, seconds: float | None, output: Path, plots: bool
) -> None:
    """Measure, write the result file, show the verdicts; a wrong answer ends it, exit code 1.

    ``seconds`` changes nothing: most of these figures are made in simulated time.
    """
    from thetabench.cli.figures import bench_figures, names
    from thetabench.figure import Sizes
    from thetabench.ssij.figures import cells
    from thetabench.ssij.paper import PAPER
    from thetabench.ssij.run import run

    sizes = Sizes.of(scale, seconds)
    found = cells(names(figures), sizes)
    bench_figures(
        PAPER,
        len(found),
        lambda say: run(found, sizes, progress=say),
        scale=scale,
        output=output,
        plots=plots,
        waited=lambda line: False,
    )

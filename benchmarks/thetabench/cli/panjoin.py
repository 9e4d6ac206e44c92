"""``thetastream bench panjoin``: the experiments of the PanJoin paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["ABOUT", "bench_panjoin"]

ABOUT = "the figures of the PanJoin paper (at most 20 minutes; --figure for some)"


def bench_panjoin(
    *, figures: Sequence[str], scale: float, seconds: float | None, output: Path, plots: bool
) -> None:
    """Measure, write the result file, show the scores; a wrong answer ends it with exit code 1."""
    from thetabench.cli.figures import BUSY, bench_figures, names
    from thetabench.figure import Sizes
    from thetabench.panjoin.figures import SECONDS, cells
    from thetabench.panjoin.paper import PAPER
    from thetabench.panjoin.run import run

    sizes = Sizes.of(scale, seconds, SECONDS)
    found = cells(names(figures), sizes)
    bench_figures(
        PAPER,
        len(found),
        lambda say: run(found, sizes, progress=say),
        scale=scale,
        output=output,
        plots=plots,
        waited=lambda line: line.seconds > 0 and line.cpu_share < BUSY,
    )

"""``thetastream bench ordered``: the experiments of the Ordered Indexing paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["ABOUT", "bench_ordered"]

ABOUT = "the figures of the Ordered Indexing paper (at most 15 minutes; --figure for some)"


def bench_ordered(
    *, figures: Sequence[str], scale: float, seconds: float | None, output: Path, plots: bool
) -> None:
    """Measure, write the result file, show the verdicts; a wrong answer ends it, exit code 1."""
    from thetabench.cli.figures import BUSY, bench_figures, names
    from thetabench.figure import Sizes
    from thetabench.ordered.figures import SECONDS, cells
    from thetabench.ordered.paper import PAPER
    from thetabench.ordered.run import run

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

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
    from thetastream.bench.figure import Sizes
    from thetastream.bench.ordered.figures import SECONDS, cells
    from thetastream.bench.ordered.paper import PAPER
    from thetastream.bench.ordered.run import run
    from thetastream.cli.bench_figures import BUSY, bench_figures, names

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

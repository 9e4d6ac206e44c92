"""``thetastream bench pim``: the experiments of the PIM-Tree paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["ABOUT", "bench_pim"]

ABOUT = "the figures of the PIM-Tree paper (about 20 minutes; --figure for some)"


def bench_pim(
    *, figures: Sequence[str], scale: float, seconds: float | None, output: Path, plots: bool
) -> None:
    """Measure, write the result file, show the scores; a wrong answer ends it with exit code 1."""
    from thetabench.cli.figures import BUSY, bench_figures, names
    from thetabench.figure import Sizes
    from thetabench.pim.figures import cells
    from thetabench.pim.paper import PAPER
    from thetabench.pim.run import run

    sizes = Sizes.of(scale, seconds)
    found = cells(names(figures), sizes)
    bench_figures(
        PAPER,
        len(found),
        lambda say: run(found, sizes, progress=say),
        scale=scale,
        output=output,
        plots=plots,
        waited=lambda line: line.seconds > 0 and not line.threads and line.cpu_share < BUSY,
    )

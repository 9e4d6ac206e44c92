"""The SPO-Join paper's benchmark as a whole: figures, result file, scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thetabench.plots import COLOURS, MARKERS
from thetabench.spo.figures import FIGURES, SECONDS, cells
from thetabench.spo.measure import MEASURES
from thetabench.spo.result import SpoResult
from thetabench.spo.run import run
from thetabench.spo.score import scores
from thetabench.unported import NO_COLUMNS, OldPaper, no_course

_PARTS = {0.5: "p50_us", 0.75: "p75_us", 0.95: "p95_us", 0.99: "p99_us"}


def _where(results: Sequence[Any]) -> str:
    windows = {result.window for result in results}
    return f", w = {windows.pop():,}" if len(windows) == 1 else ""


def _distribution(panel: Any, results: Sequence[Any]) -> None:
    """Which part of the rows was answered within how long."""
    for number, result in enumerate(results):
        panel.plot(
            [getattr(result, column) for column in _PARTS.values()],
            list(_PARTS),
            label=result.contestant,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
        )
    panel.set_xscale("log")
    panel.set_xlabel("µs per row")
    panel.set_ylabel("part of the rows")
    panel.set_yticks(list(_PARTS))


PAPER = OldPaper(
    "spo",
    "SPO-Join",
    FIGURES,
    MEASURES,
    NO_COLUMNS,
    no_course,
    kind=SpoResult,
    judge=scores,
    runner=run,
    maker=cells,
    seconds=SECONDS,
    where=_where,
    panels={"10a": _distribution, "10b": _distribution},
)

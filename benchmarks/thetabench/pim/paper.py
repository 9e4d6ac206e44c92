"""The PIM-Tree paper's benchmark as a whole: figures, result file, scores, how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thetabench.figure import Paper, power
from thetabench.pim.figures import FIGURES
from thetabench.pim.measure import MEASURES
from thetabench.pim.result import PimResult
from thetabench.pim.score import scores
from thetabench.plots import COLOURS, MARKERS

__all__ = ["PAPER"]


def _where(results: Sequence[PimResult]) -> str:
    windows = {result.window for result in results}
    return f", w = {power(windows.pop())}" if len(windows) == 1 else ""


def _scatter(panel: Any, results: Sequence[PimResult]) -> None:
    """Predicted over measured cost, one marker per structure, one point per window."""
    plain = [result for result in results if not result.ns_search]
    for number, name in enumerate(dict.fromkeys(result.structure for result in plain)):
        own = [result for result in plain if result.structure == name]
        panel.plot(
            [result.ns_per_tuple for result in own],
            [result.predicted_ns for result in own],
            label=name,
            color=COLOURS[number],
            marker=MARKERS[number],
        )
    ends = [min(r.ns_per_tuple for r in plain), max(r.ns_per_tuple for r in plain)]
    panel.plot(ends, ends, color="#bbbbbb", linestyle=":", label="exact")
    panel.set_xlabel("measured ns per tuple")
    panel.set_ylabel("predicted ns per tuple")


PAPER = Paper("pim", "PIM-Tree", FIGURES, MEASURES, PimResult, scores, _where, {"cost": _scatter})

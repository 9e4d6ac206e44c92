"""What the cost model says about a measurement, beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from thetabench.pim.plan import Cell
from thetabench.pim.result import PimResult
from thetastream.plan.cost import Constants, predict

__all__ = ["predicted"]


def predicted(results: Sequence[PimResult], cell: Cell) -> list[PimResult]:
    """Add the model's nanoseconds per tuple, in all and by step.

    What is measured is a whole join, so what a tuple costs besides its index is added too.
    """
    constants = Constants.load()
    found = []
    for result, who in zip(results, cell.contestants, strict=True):
        cost = predict(
            who.structure,
            cell.shape.window,
            cell.shape.match_rate,
            parameters=dict(who.parameters),
            constants=constants,
        )
        whole = cost.total + constants.window
        steps: dict[str, Any] = {f"predicted_{k}": spent for k, spent in cost.as_dict().items()}
        found.append(replace(result, predicted_ns=whole, constants=constants.source, **steps))
    return found

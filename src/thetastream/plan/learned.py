"""What measured costs teach: how far from its estimate a layout was, while it was in use."""

from __future__ import annotations

import math
from typing import Any

from thetastream.plan.estimate import Estimate
from thetastream.plan.layout import Layout

TRUSTED = 1.5  # how far apart estimate and measured cost may be, before the estimate is corrected
MOST = 16.0  # no correction is larger: a machine that stood still for a while teaches nothing


class Learned:
    """Factors by which estimates are corrected.

    A layout that was in use has its own. Of the last one, half (on a logarithmic scale) is put down
    to the machine, which all layouts share: so much the others are corrected by.
    """

    def __init__(self) -> None:
        self._own: dict[tuple[Any, ...], float] = {}
        self._shared = 1.0

    def note(self, used: Estimate, measured: float) -> None:
        """Remember what a fresh row did cost, in nanoseconds, under an estimated layout."""
        factor = min(max(measured * used.factor / max(used.nanoseconds, 1e-9), 1 / MOST), MOST)
        if 1 / TRUSTED <= factor <= TRUSTED:
            factor = 1.0
        self._own[used.layout.identity] = factor
        self._shared = math.sqrt(factor)

    def of(self, layout: Layout) -> float:
        """What the estimate of a layout is multiplied by."""
        return self._own.get(layout.identity, self._shared)

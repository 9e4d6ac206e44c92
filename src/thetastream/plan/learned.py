"""Corrections from measured costs: how far off the estimate of a layout was while in use."""

from __future__ import annotations

import math
from typing import Any

from thetastream.plan.estimate import Estimate
from thetastream.plan.layout import Layout

TRUSTED = 1.5  # the ratio of measured to estimated cost beyond which estimates are corrected
MOST = 16.0  # the largest correction: a machine that stalled for a while is no measure


class Learned:
    """Factors by which estimates are corrected.

    A layout that was in use has its own factor. Half of the latest one, on a logarithmic scale, is
    attributed to the machine, so all other layouts are corrected by it.
    """

    def __init__(self) -> None:
        self._own: dict[tuple[Any, ...], float] = {}
        self._shared = 1.0

    def note(self, used: Estimate, measured: float) -> None:
        """Record the measured cost of a fresh row, in nanoseconds, for an estimated layout."""
        factor = min(max(measured * used.factor / max(used.nanoseconds, 1e-9), 1 / MOST), MOST)
        if 1 / TRUSTED <= factor <= TRUSTED:
            factor = 1.0
        self._own[used.layout.identity] = factor
        self._shared = math.sqrt(factor)

    def of(self, layout: Layout) -> float:
        """The factor for the estimate of a layout."""
        return self._own.get(layout.identity, self._shared)

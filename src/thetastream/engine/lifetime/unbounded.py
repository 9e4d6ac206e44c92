"""Joins without a window: rows stay."""

from __future__ import annotations

import numpy as np

from thetastream.boxes.fresh import Fresh
from thetastream.engine.lifetime.base import Interval, Lifetime, Setting
from thetastream.engine.lifetime.count import CollectedBack
from thetastream.side import Side


def forever(facts: Setting) -> Lifetime:
    """The lifetime of a join without a window: no row is late, waits or leaves."""
    if facts.collector is not None and facts.query.aggregates:
        return _CollectedForever(facts)
    return Lifetime(facts)


class _CollectedForever(CollectedBack):
    """Collected left rows see the right rows that came before them."""

    def sees(self, rows: Fresh, first: int, role: Side) -> Interval | None:
        counts = rows.places.counts
        assert counts is not None
        return np.zeros_like(counts), counts

    def floor(self, side: Side) -> int:
        return self.streams[side].rows.first

"""Choosing a layout: estimate all that a tactic offers, and take the cheapest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thetastream.boxes.binding import Binding
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.errors import PredicateError
from thetastream.plan.estimate import Estimate, Traffic
from thetastream.plan.layout import Layout
from thetastream.plan.learned import Learned
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactic import Tactic
from thetastream.plan.tactics.family import Options
from thetastream.plan.tactics.registry import family
from thetastream.side import Side

SAMPLE = 2048
BATCH = 4096.0  # rows per insert, before any insert
STAY = 0.6  # weight of the layout in use if the window is full, as moving its rows has a cost


@dataclass(frozen=True)
class Choice:
    """The layout of one stored side, and the alternatives."""

    stored: Side
    best: Estimate
    others: tuple[Estimate, ...]
    shares: Mapping[Field, float]
    rows: float
    sampled: bool

    @property
    def layout(self) -> Layout:
        """The chosen layout."""
        return self.best.layout

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "stored side": self.stored.value,
            "chosen": self.best.as_dict(items=True),
            "considered": [other.as_dict() for other in self.others],
            "share of the window inside a box, by field": {
                str(field): float(f"{share:.3g}") for field, share in self.shares.items()
            },
            "expected rows in the window": round(self.rows),
            "estimated from": "observed keys" if self.sampled else "the kind of each term",
        }


def sample(rows: Keys) -> Keys:
    """At most ``SAMPLE`` rows that can match, evenly spaced."""
    able = np.arange(len(rows)) if rows.valid is None else np.flatnonzero(rows.valid)
    if able.size > SAMPLE:
        able = able[np.linspace(0, able.size - 1, SAMPLE).astype(np.int64)]
    return rows.take(able)


def choose(
    binding: Binding,
    stored: Side,
    tactic: str | Tactic,
    rows: float,
    stored_sample: Keys | None = None,
    fresh_sample: Keys | None = None,
    current: Choice | None = None,
    *,
    batch: float = BATCH,
    slide: int = 0,
    pairless: bool = False,
    learned: Learned | None = None,
    opposite: Layout | None = None,
    filled: float = 1.0,
) -> Choice:
    """Pick the cheapest layout for the stored side that the tactic allows.

    ``rows`` are in the window; ``batch`` of them arrive at a time, and ``slide`` leave at a time if
    there is a slide. ``pairless``: no pairs are needed, and one key column decides. Estimates are
    corrected by what was ``learned`` from measured costs. The layout of a ``current`` choice stays
    unless another is cheaper, and clearly cheaper if it was itself chosen from observed keys and
    much of the window is ``filled`` already. The other side has the layout ``opposite``, if that is
    settled.
    """
    tactic = Tactic.of(tactic)
    known = Selectivity.of(binding.fields(stored), stored_sample, fresh_sample)
    traffic = Traffic(rows, batch)
    options = Options(
        tactic.structures,
        tactic.parameters,
        named=tactic.index is not None,
        slide=slide,
        opposite=len(binding.fields(stored.other)),
        pairless=pairless,
        traffic=traffic,
    )
    layouts = tactic.family.layouts(known, options)
    if not layouts:
        raise PredicateError(
            f"tactic {str(tactic)!r} cannot serve {binding.predicate}: "
            f"{tactic.family.needs}; use tactic='auto'",
            binding.predicate.text,
        )
    if current is not None:
        layouts = _with_current(current, layouts, known)
    corrections = learned or Learned()
    in_use = None if current is None else current.layout
    best, *others = sorted(
        (
            _estimate(each, known, traffic, in_use, opposite).corrected(corrections.of(each))
            for each in layouts
        ),
        key=lambda estimate: _weight(estimate, current, filled),
    )
    return Choice(stored, best, tuple(others), known.shares, rows, known.sampled)


def appraise(
    binding: Binding,
    current: Choice,
    traffic: Traffic,
    stored: Keys | None,
    fresh: Keys | None,
    opposite: Layout | None = None,
) -> Estimate:
    """Estimate the layout of a choice for other traffic, from samples of stored and fresh rows."""
    known = Selectivity.of(binding.fields(current.stored), stored, fresh)
    return _estimate(current.layout, known, traffic, current.layout, opposite)


def _with_current(current: Choice, layouts: list[Layout], known: Selectivity) -> list[Layout]:
    """Put the layout in use among the others; it comes first unless it is outdated.

    Outdated: it was made before any key was seen, and can be fitted now.
    """
    in_use = current.layout
    outdated = in_use.fits_keys and known.sampled and not current.sampled
    if outdated:
        return [in_use if layout.same(in_use) else layout for layout in layouts]
    return [in_use, *(layout for layout in layouts if not layout.same(in_use))]


def _estimate(
    layout: Layout,
    known: Selectivity,
    traffic: Traffic,
    in_use: Layout | None,
    opposite: Layout | None,
) -> Estimate:
    """What a layout costs, by its tactic; the one in use may no longer fit the keys.

    Fresh rows are sorted once if both sides are kept in the order of one term.
    """
    lost = layout.lost(known) if layout is in_use else 0.0
    estimate = family(layout.tactic).estimate(layout, known, traffic, lost)
    if opposite is None or layout.sort_term in (None, opposite.sort_term):
        return estimate
    return estimate.resorted()


def _weight(estimate: Estimate, current: Choice | None, filled: float) -> float:
    """The cost by which estimates are compared; less for the layout in use."""
    if current is None or not current.sampled or estimate.layout is not current.layout:
        return estimate.nanoseconds
    stay = 1.0 - (1.0 - STAY) * min(1.0, filled)
    return estimate.push + (estimate.nanoseconds - estimate.push) * stay

"""Which tactic for which terms: estimates from observed keys, a cost per fresh row, the cheapest.

The selectivity of a field is the share of stored rows inside a fresh row's interval. It is measured
on samples of both sides: the stored sample is sorted, and the ranks of the interval's edges are
interpolated, so that shares far below one sample row can still be told apart. Before any rows are
known, shares typical of the kind of term are assumed.

Costs are nanoseconds on one core, of the order of the figures in ``benchmarks/results``; only
their ratios matter. A fresh row asks its boxes, and is then stored itself:

                   a box is searched in               a row is stored by
    sorted runs    a few runs                         merges: 12 steps in each run but the last
    subwindows     all of them (``panjoin``)          a merge into the newest, or a partition of it

The structures of the index-based window join have a model of their own, with constants that can be
calibrated (``cost.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream.binding import Binding, Field, Fresh
from thetastream.constants import Constants
from thetastream.cost import Cost, predict, priced
from thetastream.errors import PredicateError
from thetastream.index.base import defaults, structure
from thetastream.index.base import names as index_names
from thetastream.index.subwindow import SUBWINDOWS as CHAIN
from thetastream.side import Side
from thetastream.tactic import (
    SUBWINDOWS,
    Cells,
    Hashed,
    Indexed,
    Layout,
    Ordered,
    PanJoin,
    Quantizer,
    Scan,
    read_tactic,
)

__all__ = ["Choice", "Estimate", "Explanation", "choose", "sample"]

Array = NDArray[np.int64]
SAMPLE = 2048

SEARCH_NS = 45.0  # one box in one run
RUNS = 3.0
CHECK_NS = 2.0  # one candidate, short ranges
SCAN_NS = 0.35  # one candidate, long ranges (vector loop)
LONG = 128.0
BESIDE_NS = 0.2  # one field beside the first column, on one candidate
MATCH_NS = 12.0
BATCH = 4096.0  # rows of an insert, before any is seen
MERGE_NS = 1.5  # one step of a merge
MERGE_STEPS = 12.0  # of a row in one run: the ratio of the sizes of neighbours
HELD = CHAIN + 1.0  # subwindows of a chain: those that fill the window, and the oldest
SUBWINDOW_NS = 45.0  # one box in one subwindow
PARTITION_NS = 25.0  # one row into its partition of a subwindow (RaP-Table, WiB⁺-Tree)
STAY = 0.6  # a layout in use counts for less, as moving away from it costs something


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a layout is expected to cost per fresh row."""

    layout: Layout
    boxes: float
    candidates: float
    nanoseconds: float
    insert: float = 0.0  # part of it; 0 where the steps say it
    steps: Cost | None = None  # of an index-based window join, tuple by tuple
    constants: str = ""  # where those of the steps come from

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        facts = {
            **self.layout.as_dict(),
            "boxes per row": round(self.boxes, 2),
            "candidates per row": round(self.candidates, 2),
            "estimated ns per row": round(self.nanoseconds, 1),
        }
        if self.insert:
            facts["of which for its insert"] = round(self.insert, 1)
        if self.steps is not None:
            steps = {step: round(cost, 1) for step, cost in self.steps.as_dict().items()}
            facts["ns per tuple, by step"] = steps
            facts["constants of the cost model"] = self.constants
        return facts


@dataclass(frozen=True)
class Choice:
    """The layout of one stored side, and what else was considered."""

    stored: Side
    best: Estimate
    others: tuple[Estimate, ...]
    shares: Mapping[str, float]
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
            "chosen": self.best.as_dict(),
            "considered": [other.as_dict() for other in self.others],
            "share of the window inside a box, by field": dict(self.shares),
            "expected rows in the window": round(self.rows),
            "estimated from": "observed keys" if self.sampled else "the kind of each term",
        }


def sample(rows: Fresh) -> Fresh:
    """At most ``SAMPLE`` rows that can match, evenly spaced."""
    able = np.arange(len(rows)) if rows.valid is None else np.flatnonzero(rows.valid)
    if able.size > SAMPLE:
        able = able[np.linspace(0, able.size - 1, SAMPLE).astype(np.int64)]
    times = None if rows.times is None else rows.times[able]
    batch = rows.batch.slice(0, 0)
    return Fresh(rows.side, batch, [key[able] for key in rows.keys], None, times)


def choose(
    binding: Binding,
    stored: Side,
    tactic: str,
    rows: float,
    stored_sample: Fresh | None = None,
    fresh_sample: Fresh | None = None,
    current: Choice | None = None,
    *,
    batch: float = BATCH,
    workers: int = 1,
) -> Choice:
    """Pick the cheapest layout for the stored side that the tactic allows.

    ``rows`` are in the window, ``batch`` of them come at a time. The layout of a ``current``
    choice is kept unless another is cheaper: clearly so, if it was itself chosen from observed
    keys.
    """
    fields = binding.fields(stored)
    sampled = bool(
        stored_sample is not None
        and fresh_sample is not None
        and _sampled_rows(stored_sample)
        and _sampled_rows(fresh_sample)
    )
    shares = {
        field: _share(field, stored_sample, fresh_sample) if sampled else _assumed(field)
        for field in fields
    }
    arms = _arms(fields, fresh_sample) if sampled else dict.fromkeys(fields, 1.0)
    layouts = _layouts(fields, tactic, stored_sample if sampled else None, workers)
    if not layouts:
        raise PredicateError(
            f"tactic {tactic!r} cannot serve {binding.predicate}: "
            f"{_NEEDS[read_tactic(tactic)[0]]}; use tactic='auto'",
            binding.predicate.text,
        )
    estimates = [_estimate(layout, shares, arms, rows, batch) for layout in layouts]
    if current is not None:
        estimates.insert(0, _again(current, shares, arms, rows, batch, stored_sample))
    estimates.sort(key=lambda estimate: estimate.nanoseconds)
    named = {str(field): float(f"{share:.3g}") for field, share in shares.items()}
    return Choice(stored, estimates[0], tuple(estimates[1:]), named, rows, sampled)


def _again(
    current: Choice,
    shares: Mapping[Field, float],
    arms: Mapping[Field, float],
    rows: float,
    batch: float,
    stored: Fresh | None,
) -> Estimate:
    """The present layout by the new figures."""
    layout = current.layout
    if isinstance(layout, Cells) and stored is not None:
        # Keys that have drifted off the end of the suffix are no longer told apart.
        lost = layout.quantizer.held(layout.suffix.keys(stored))
        shares = {**shares, layout.suffix: max(shares[layout.suffix], lost)}
    held = _estimate(layout, shares, arms, rows, batch)
    return replace(held, nanoseconds=held.nanoseconds * STAY) if current.sampled else held


_NEEDS = {
    "ordered": "it has no term that can be indexed",
    "ibwj": "it has no term that can be indexed",
    "panjoin": "it has no term that can be indexed",
    "hash": "it has no equality term",
    "cells": "it needs an equality or a bounded band, and a second term",
}


def _sampled_rows(rows: Fresh) -> int:
    if rows.keys:
        return int(rows.keys[0].size)
    return 0 if rows.times is None else int(rows.times.size)


def _layouts(
    fields: Sequence[Field], tactic: str, stored: Fresh | None, workers: int = 1
) -> list[Layout]:
    family, index = read_tactic(tactic)
    found: list[Layout] = []
    points = [field for field in fields if field.is_point]
    if family in ("auto", "hash") and points:
        found.append(Hashed(fields, points))
    if family in ("auto", "ordered"):
        found += [Ordered(fields, field, index or "sorted-runs") for field in fields]
    if family in ("auto", "panjoin"):
        found += [PanJoin(fields, field, index or SUBWINDOWS, workers) for field in fields]
    if family == "ibwj":
        kinds = [index] if index else _per_tuple()
        found += [Indexed(fields, field, kind) for kind in kinds for field in fields]
    if family in ("auto", "cells"):
        found += _cells(fields, points, stored)
    if family == "nested-loop" or (family == "auto" and not fields):
        found.append(Scan(fields))
    return found


_PREFERRED = "pim-tree"
_CONCURRENT = "optimistic-tree"  # a baseline for threads; alone it is a B⁺-tree with extra work


def _per_tuple() -> list[str]:
    """The structures that take rows one by one: the preferred one first, as it wins ties."""
    found = [
        name
        for name in index_names()
        if getattr(structure(name), "per_tuple", False) and name in priced()
    ]
    return sorted((n for n in found if n != _CONCURRENT), key=lambda name: name != _PREFERRED)


def _cells(fields: Sequence[Field], points: list[Field], stored: Fresh | None) -> list[Layout]:
    bands: list[Field | None] = [f for f in fields if f.has_cells]
    found: list[Layout] = []
    for band in [None, *bands]:
        if band is None and not points:
            continue
        for suffix in fields:
            if suffix in points or suffix is band:
                continue
            keys = suffix.keys(stored) if stored is not None else np.empty(0, np.int64)
            for multiple in (1, 2, 4) if band is not None else (1,):
                quantizer = Quantizer.fit(keys)
                found.append(Cells(fields, points, band, multiple, suffix, quantizer))
    return found


def _estimate(
    layout: Layout,
    shares: Mapping[Field, float],
    arms: Mapping[Field, float],
    rows: float,
    batch: float,
) -> Estimate:
    boxes = float(np.prod([arms[field] for field in layout.fields])) if layout.fields else 1.0
    share = 1.0
    if isinstance(layout, Ordered):
        share = shares[layout.driver]
    elif isinstance(layout, Hashed):
        share = float(np.prod([shares[field] for field in layout.points]))
    elif isinstance(layout, Cells):
        share = float(np.prod([shares[field] for field in layout.points]))
        share *= shares[layout.suffix]
        if layout.band is not None:
            share *= min(1.0, shares[layout.band] * (1 + layout.multiple))
            boxes *= 1 + 1 / layout.multiple
    candidates = rows * share
    matches = rows * float(np.prod(list(shares.values()))) if shares else rows
    per_box = candidates / max(boxes, 1.0)
    check = SCAN_NS if per_box > LONG else CHECK_NS
    after = candidates * BESIDE_NS * len(layout.checks) + matches * MATCH_NS
    if isinstance(layout, Indexed) and layout.index in priced():
        return _indexed(layout, boxes, candidates, rows, after)
    if isinstance(layout, Scan) or layout.index == "nested-loop":
        return Estimate(layout, boxes, candidates, rows * boxes * 1.0 + matches * MATCH_NS)
    chained = "subwindows" in defaults(layout.index)
    search = HELD * SUBWINDOW_NS if chained else RUNS * SEARCH_NS
    insert = (_chain_insert if chained else _runs_insert)(max(rows, 1.0), max(batch, 1.0))
    cost = boxes * search + candidates * check + after + insert
    return Estimate(layout, boxes, candidates, cost, insert)


def _runs_insert(rows: float, batch: float) -> float:
    """Into sorted runs: a row is merged into every run that is longer than a batch."""
    longer = max(0.0, math.log(rows / batch, MERGE_STEPS))
    return MERGE_NS * (1 + MERGE_STEPS * longer)


def _chain_insert(rows: float, batch: float) -> float:
    """Into the newest subwindow, half full: by a merge of the batch, or into partitions."""
    held = rows / (HELD - 1) / 2
    return min(PARTITION_NS, MERGE_NS * (1 + held / batch))


def _indexed(
    layout: Layout, boxes: float, candidates: float, rows: float, after: float
) -> Estimate:
    """By the cost model, every box being a search; what comes ``after`` it is the same for all."""
    constants = Constants.load()
    steps = predict(layout.index, max(rows, 1.0), candidates / boxes, constants=constants)
    steps = replace(steps, search=boxes * steps.search)
    total = steps.total + after
    return Estimate(layout, boxes, candidates, total, steps=steps, constants=constants.source)


def _assumed(field: Field) -> float:
    if field.is_time:
        return 0.7
    if field.is_point:
        return 1e-4
    if field.width is not None:
        return 1e-3
    intervals = all(bound.term.is_interval for bound in field.terms)
    return 0.4 if intervals else 0.9


def _share(field: Field, stored: Fresh | None, fresh: Fresh | None) -> float:
    """Mean share of the stored sample inside the intervals of the fresh sample."""
    assert stored is not None and fresh is not None
    keys = np.sort(field.keys(stored))
    total = 0.0
    for low, high in field.pieces(fresh):
        inside = np.maximum(_rank(keys, high, "right") - _rank(keys, low, "left"), 0.0)
        total += float(np.where(low <= high, inside, 0.0).mean())
    return min(1.0, max(total / keys.size, 1e-9))


def _rank(keys: Array, at: Array, side: str) -> NDArray[np.float64]:
    """Rank among sorted keys, interpolated between neighbours."""
    right = np.searchsorted(keys, at, side=side)  # type: ignore[call-overload]
    below = keys[np.maximum(right - 1, 0)].astype(np.float64)
    above = keys[np.minimum(right, keys.size - 1)].astype(np.float64)
    gap = above - below
    part = np.where(gap > 0, (at.astype(np.float64) - below) / np.where(gap > 0, gap, 1.0), 0.0)
    return np.asarray(right + np.clip(part, 0.0, 1.0), np.float64)


def _arms(fields: Sequence[Field], fresh: Fresh | None) -> dict[Field, float]:
    assert fresh is not None
    return {
        field: max(1.0, sum(float((low <= high).mean()) for low, high in field.pieces(fresh)))
        for field in fields
    }


# --- Explanations --------------------------------------------------------------------------------


class Explanation(str):
    """Readable text that also holds the facts: ``explanation.as_dict()``."""

    _facts: dict[str, Any]

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Explanation:
        """Render facts as indented text."""
        made = cls("\n".join(_lines(facts, 0)))
        made._facts = facts
        return made

    def as_dict(self) -> dict[str, Any]:
        """The facts behind the text."""
        return self._facts


def _lines(value: Any, depth: int) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            lines += [f"{pad}{key}:", *_lines(item, depth + 1)]
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            lines.append(f"{pad}{key}:")
            for entry in item:
                first, *rest = _lines(entry, depth + 2)
                lines += ["  " * (depth + 1) + "- " + first.lstrip(), *rest]
        elif isinstance(item, list | tuple):
            lines.append(f"{pad}{key}: {', '.join(map(str, item)) or 'none'}")
        else:
            lines.append(f"{pad}{key}: {item}")
    return lines

"""Which tactic for which terms: estimates from observed keys, a cost per fresh row, the cheapest.

How many rows a box holds is estimated by ``selectivity.py``. Costs are nanoseconds on one core, of
the order of the figures in ``benchmarks/results``; only their ratios matter. A fresh row asks its
boxes, and is then stored itself:

                   a box is searched in               a row is stored by
    sorted runs    a few runs                         merges: 12 steps in each run but the last
    zoned runs     the same, blocks by their zones    the same merges, of several columns
    permutations   a few structures (``spo-join``)    sorts and merges of every column
    subwindows     all of them (``panjoin``)          a merge into the newest, or a partition of it

The structures of the index-based window join have a model of their own, with constants that can be
calibrated (``cost.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream.boxes.binding import Binding
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.errors import PredicateError
from thetastream.index.permuted.permuted import BIT_NS, SORT_NS, WORD_NS
from thetastream.index.registry import defaults, structure
from thetastream.index.registry import names as index_names
from thetastream.index.subwindows.subwindow import SUBWINDOWS as CHAIN
from thetastream.plan.cells import Cells, Quantizer
from thetastream.plan.constants import Constants
from thetastream.plan.cost import Cost, predict, priced
from thetastream.plan.selectivity import ZONE, Selectivity
from thetastream.plan.tactic import (
    SPO,
    SUBWINDOWS,
    Hashed,
    Indexed,
    Layout,
    Ordered,
    PanJoin,
    Scan,
    SpoJoin,
    read_tactic,
)
from thetastream.side import Side

__all__ = ["Choice", "Estimate", "Explanation", "choose", "sample"]

Array = NDArray[np.int64]
SAMPLE = 2048
ZONED = "zoned-runs"
PERMUTED = (SPO, "po-join")

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
EDGE_NS = 15.0  # the high edge of a box in one run, which zones need
SUPER_NS = 0.3  # one zone of 64 blocks that is passed over
BLOCK_NS = 20.0  # one block that is read
OFFSET_NS = 40.0  # one box in one column of a structure
PERMUTE_NS = 5.0  # one step of a merge in one column
PERMUTED_STEPS = 4.0  # the ratio of the sizes of neighbouring structures
PAIRED = 4  # fields of which two may be the columns of a permutation
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


def sample(rows: Keys) -> Keys:
    """At most ``SAMPLE`` rows that can match, evenly spaced."""
    able = np.arange(len(rows)) if rows.valid is None else np.flatnonzero(rows.valid)
    if able.size > SAMPLE:
        able = able[np.linspace(0, able.size - 1, SAMPLE).astype(np.int64)]
    return rows.take(able)


def choose(
    binding: Binding,
    stored: Side,
    tactic: str,
    rows: float,
    stored_sample: Keys | None = None,
    fresh_sample: Keys | None = None,
    current: Choice | None = None,
    *,
    batch: float = BATCH,
    workers: int = 1,
    slide: int = 0,
) -> Choice:
    """Pick the cheapest layout for the stored side that the tactic allows.

    ``rows`` are in the window, ``batch`` of them come at a time and ``slide`` leave at a time, if
    it has a slide. The layout of a ``current``
    choice is kept unless another is cheaper: clearly so, if it was itself chosen from observed
    keys.
    """
    fields = binding.fields(stored)
    known = Selectivity.of(fields, stored_sample, fresh_sample)
    layouts = _layouts(known, tactic, workers, slide)
    family, index = read_tactic(tactic)
    if family == "spo-join" and len(fields) == 1 < len(binding.fields(stored.other)):
        # Both terms read the same expression of this side: a point in an interval.
        layouts = [Ordered(fields, fields[0], index or "sorted-runs")]
    if not layouts:
        raise PredicateError(
            f"tactic {tactic!r} cannot serve {binding.predicate}: "
            f"{_NEEDS[family]}; use tactic='auto'",
            binding.predicate.text,
        )
    estimates = [_estimate(layout, known, rows, batch) for layout in layouts]
    if current is not None and not _unfitted(current, known):
        estimates.insert(0, _again(current, known, rows, batch))
    estimates.sort(key=lambda estimate: estimate.nanoseconds)
    named = {str(field): float(f"{share:.3g}") for field, share in known.shares.items()}
    return Choice(stored, estimates[0], tuple(estimates[1:]), named, rows, known.sampled)


def _unfitted(current: Choice, known: Selectivity) -> bool:
    """Whether the steps of the suffix were laid before any key was seen, and can be fitted now."""
    return isinstance(current.layout, Cells) and known.sampled and not current.sampled


def _again(current: Choice, known: Selectivity, rows: float, batch: float) -> Estimate:
    """The present layout by the new figures."""
    layout = current.layout
    lost = 0.0
    if isinstance(layout, Cells) and known.stored is not None:
        # Keys that have drifted off the end of the suffix are no longer told apart.
        lost = layout.quantizer.held(layout.suffix.keys(known.stored))
    held = _estimate(layout, known, rows, batch, lost)
    return replace(held, nanoseconds=held.nanoseconds * STAY) if current.sampled else held


_NEEDS = {
    "ordered": "it has no term that can be indexed",
    "ibwj": "it has no term that can be indexed",
    "panjoin": "it has no term that can be indexed",
    "spo-join": "it needs two terms that can be indexed",
    "hash": "it has no equality term",
    "cells": "it needs an equality or a bounded band, and a second term",
}


def _layouts(known: Selectivity, tactic: str, workers: int, slide: int) -> list[Layout]:
    family, index = read_tactic(tactic)
    fields, stored = known.fields, known.stored
    found: list[Layout] = []
    points = [field for field in fields if field.is_point]
    if family in ("auto", "hash") and points:
        found.append(Hashed(fields, points))
    if family in ("auto", "ordered"):
        kinds = [index] if index else ["sorted-runs", *([ZONED] if len(fields) > 1 else [])]
        found += [Ordered(fields, field, kind) for kind in kinds for field in fields]
    if family in ("auto", "spo-join"):
        # Two columns are told apart by their order, further ones are checked.
        found += [
            SpoJoin(fields, first, second, index or SPO, workers, slide)
            for first, second in permutations(_most_selective(known), 2)
        ]
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


def _most_selective(known: Selectivity) -> list[Field]:
    return sorted(known.fields, key=lambda field: known.shares[field])[:PAIRED]


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


def _cells(fields: Sequence[Field], points: list[Field], stored: Keys | None) -> list[Layout]:
    bands: list[Field | None] = [f for f in fields if f.has_cells]
    found: list[Layout] = []
    for band in [None, *bands]:
        if band is None and not points:
            continue
        for suffix in fields:
            if suffix in points or suffix is band:
                continue
            keys = suffix.keys(stored) if stored is not None else np.empty(0, np.int64)
            for multiple in (1, 2, 4, 8) if band is not None else (1,):
                quantizer = Quantizer.fit(keys)
                found.append(Cells(fields, points, band, multiple, suffix, quantizer))
    return found


def _estimate(
    layout: Layout, known: Selectivity, rows: float, batch: float, lost: float = 0.0
) -> Estimate:
    """What a layout costs; a share ``lost`` of the rows cannot be told apart by its suffix."""
    shares, arms = known.shares, known.arms
    boxes = float(np.prod([arms[field] for field in layout.fields])) if layout.fields else 1.0
    share = 1.0
    if isinstance(layout, Ordered):
        share = shares[layout.driver]
    elif isinstance(layout, Hashed):
        share = float(np.prod([shares[field] for field in layout.points]))
    elif isinstance(layout, Cells):
        share = float(np.prod([shares[field] for field in layout.points]))
        share *= max(shares[layout.suffix], lost)
        if layout.band is not None:
            share *= min(1.0, shares[layout.band] * (1 + layout.multiple))
            boxes *= 1 + 1 / layout.multiple
    candidates = rows * share
    matches = rows * known.joint
    if layout.index == ZONED and isinstance(layout, Ordered) and layout.checks:
        return _zoned(layout, known, boxes, rows, batch)
    if layout.index in PERMUTED and isinstance(layout, Ordered) and layout.checks:
        return _permuted(layout, known, boxes, rows, batch)
    per_box = candidates / max(boxes, 1.0)
    check = SCAN_NS if per_box > LONG or layout.index == ZONED else CHECK_NS
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


def _zoned(
    layout: Ordered, known: Selectivity, boxes: float, rows: float, batch: float
) -> Estimate:
    """Sorted runs with zone maps: of the rows in the driver's range only some blocks are read."""
    within = rows * known.shares[layout.driver]
    blocks = within / ZONE * min(known.met(layout.driver, f, rows) for f in layout.checks)
    search = boxes * RUNS * (SEARCH_NS + EDGE_NS) + within / ZONE**2 * SUPER_NS + blocks * BLOCK_NS
    insert = _runs_insert(max(rows, 1.0), max(batch, 1.0)) * (layout.columns + 1) / 2
    cost = search + rows * known.joint * MATCH_NS + insert
    return Estimate(layout, boxes, blocks * ZONE, cost, insert)


def _permuted(
    layout: Ordered, known: Selectivity, boxes: float, rows: float, batch: float
) -> Estimate:
    """Permutations: the narrower of two columns is scanned by zones, or one is swept.

    A sweep sets every bit once for a batch of boxes.
    """
    pair = sorted((layout.driver, layout.checks[0]), key=lambda field: known.shares[field])
    narrow = rows * known.shares[pair[0]]
    met = known.met(pair[0], pair[1], rows)
    blocks = narrow / ZONE * met
    scan = narrow / ZONE**2 * SUPER_NS + blocks * BLOCK_NS
    sweep = rows / max(batch, 1.0) * BIT_NS + blocks * WORD_NS
    levels = max(0.0, math.log(max(rows, 1.0) / max(batch, 1.0), PERMUTED_STEPS))
    insert = layout.columns * (SORT_NS + PERMUTE_NS * PERMUTED_STEPS * levels)
    search = boxes * (RUNS * layout.columns * OFFSET_NS) + min(scan, sweep)
    cost = search + rows * known.joint * MATCH_NS + insert
    return Estimate(layout, boxes, blocks * ZONE, cost, insert)


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

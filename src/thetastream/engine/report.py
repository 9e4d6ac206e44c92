"""How a join reports on itself: a snapshot of its metrics and an explanation of its plan."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from thetastream.boxes.binding import Binding
from thetastream.condition.predicate import Predicate
from thetastream.engine.costs import is_costly, parts
from thetastream.engine.query import Query
from thetastream.engine.stream import Stream
from thetastream.errors import NestedLoopWarning
from thetastream.index.base import folds_itself
from thetastream.index.registry import structure
from thetastream.metrics import Counters, Metrics, SideCounters, SideMetrics
from thetastream.plan.choice import Choice
from thetastream.plan.explanation import Explanation
from thetastream.plan.tactic import Tactic
from thetastream.side import Side


def snapshot(
    counters: Counters,
    sides: Mapping[Side, SideCounters],
    streams: Mapping[Side, Stream],
    waiting: Mapping[Side, int],
    largest: Mapping[Side, int | None],
) -> Metrics:
    """Freeze the counters and measure the state; the caller knows the ``largest`` event times."""
    per_side = {
        side.value: SideMetrics(
            **asdict(sides[side]),
            waiting_rows=waiting[side],
            window_rows=len(streams[side].rows) if side in streams else 0,
            window_bytes=streams[side].nbytes if side in streams else 0,
            max_time=largest.get(side),
        )
        for side in Side
    }
    indexes = [index for stream in streams.values() for index in stream.indexes.values()]

    def work(name: str) -> float:
        return sum(index.statistics(name) for index in indexes)

    totals = SideMetrics.__dataclass_fields__.keys() & Metrics.__dataclass_fields__.keys()
    counted = asdict(counters)
    seconds = {**counted.pop("seconds"), "merge": work("merge_seconds")}
    seconds["insert"] = max(0.0, seconds["insert"] - seconds["merge"])
    return Metrics(
        **counted,
        **{name: sum(side[name] for side in per_side.values()) for name in totals},
        index_bytes=sum(stream.index_bytes for stream in streams.values()),
        payload_bytes=sum(stream.rows.nbytes for stream in streams.values()),
        **{name: int(work(name)) for name in ("runs", "merges", "merged_rows", "switches")},
        **{f"{phase}_seconds": spent for phase, spent in seconds.items()},
        sides=per_side,
    )


def _pairs_made(query: Query, binding: Binding | None, choices: Sequence[Choice]) -> str:
    """Say whether a join with aggregates computes pairs, and why."""
    reason = ""
    if binding is not None and binding.residuals:
        reason = "residuals are evaluated on pairs"
    elif query.ranked:
        reason = "by rank, every left row has its own part of the window"
    elif query.collects and not query.window.timed:
        reason = "when rows are collected, every left row has its own part of the window"
    elif query.window.timed:
        reason = "event time is compared beside the condition"
    elif any(choice.layout.columns > 1 for choice in choices):
        reason = "several key columns are compared"
    elif not all(folds_itself(structure(choice.layout.index)) for choice in choices):
        reason = "the index has no fold of its own"
    if reason:
        return f"found chunk by chunk, folded and forgotten: {reason}"
    return "not made: the index folds the rows of each box"


def warn_of_nested_loop(
    predicate: Predicate, tactic: Tactic, binding: Binding | None, stacklevel: int, text: str = ""
) -> None:
    """Warn, at the user's call, of a condition that no index serves; not if it was asked for.

    ``text`` is the condition as the user wrote it, if the predicate is another one.
    """
    indexed = predicate.terms if binding is None else binding.terms
    if indexed or tactic.name == "nested-loop":
        return
    warnings.warn(
        f"{text or predicate}: no part of this condition can be indexed, so every row is compared "
        "with all stored rows of the other side (a nested loop). Add a comparison of one "
        "expression per side that it implies, such as a band; ts.explain says how. "
        "tactic='nested-loop' accepts it",
        NestedLoopWarning,
        stacklevel=stacklevel + 1,
    )


def explanation(
    query: Query,
    binding: Binding | None,
    choices: Sequence[Choice],
    details: Sequence[Mapping[str, Any]] | None = None,
    *,
    verbose: bool = False,
) -> Explanation:
    """Say what is joined, how, and why; ``details`` are the indexes' own descriptions."""
    predicate = query.predicate
    residuals = predicate.residuals if binding is None else binding.residuals
    facts: dict[str, Any] = {
        "predicate": str(predicate),
        "window": str(query.window),
        "how": query.how.value + (" self-join" if query.self_join else ""),
        "parts": parts(predicate, binding),
        "terms": [str(term) for term in predicate.terms],
        "residuals, evaluated on candidate pairs": [str(node) for node in residuals],
        "filters": [str(node) for side in Side for node in predicate.filters(side)],
        "tactic asked for": str(query.tactic),
    }
    if query.output.numbered:
        facts["output"] = query.output.value
    if query.aggregates:
        facts["aggregates, one row per left row"] = {
            one.name: f"{one.function.value}({'r.' + one.column if one.column else '*'})"
            for one in query.aggregates
        }
        facts["pairs"] = _pairs_made(query, binding, choices)
    if query.collects:
        limits = [f"{query.collect} rows" if query.collect else "", query.collect_time or ""]
        facts["collecting"] = " or ".join(str(part) for part in limits if part) + ", per side"
    if binding is not None:
        facts["compared as"] = {str(bound.term): str(bound.domain) for bound in binding.terms}
        facts["plan"] = [choice.as_dict() for choice in choices]
        for plan, said in zip(facts["plan"], details or (), strict=False):
            plan.update(said)
        columns = [(choice.stored, choice.layout.columns) for choice in choices]
        facts["memory"] = memory(query, binding, columns)
        facts["slow"] = _slow(binding, choices, facts["parts"]["checked on candidates"])
    else:
        facts["plan"] = "made when the columns of both sides are known: push both, or pass schemas="
    indexable = predicate.terms if binding is None else binding.terms
    if not indexable:
        facts["note"] = "no term can be indexed: this is a nested loop over the window"
    return Explanation.of(facts, verbose=verbose)


MANY = 1000.0  # candidates of a row that take longer than finding them
_LOOSE = 24  # bytes of a value without a fixed width, if nothing is known about it


def memory(query: Query, binding: Binding, columns: Sequence[tuple[Side, int]]) -> str:
    """What the window holds: bytes per row, and rows if their number is known.

    ``columns`` are the stored sides and the number of key columns in each index.
    """
    parts = []
    for side, count in columns:
        row = row_bytes(binding.schemas[side]) + 8 * (1 + count)
        rows = query.window.expected(side)
        held = f"{row:,} bytes per {side.value} row"
        if rows is not None:
            held += f" × {rows:,} rows = {row * rows / 1e6:,.1f} MB"
        parts.append(held)
    forgets = query.window.by_arrival or query.window.timed
    end = "" if forgets else "; rows never leave, so this grows as long as rows arrive"
    return f"about {', '.join(parts)}{end}" if parts else "no row is stored"


def row_bytes(schema: pa.Schema) -> int:
    """The expected size of a row; values without a fixed width are assumed to be short."""
    return sum(_width(field.type) for field in schema)


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _LOOSE


def _slow(binding: Binding, choices: Sequence[Choice], checked: Any) -> list[str]:
    """What will take most of the time, if something stands out."""
    slow = []
    for choice in choices:
        met = choice.best.candidates
        if choice.sampled and met >= MANY:
            slow.append(f"a row meets {met:,.0f} candidates among the {choice.stored.value} rows")
    if binding.residuals and binding.terms and is_costly(checked):
        slow.append("residuals are evaluated on every candidate pair")
    return slow

"""How a join reports on itself: a snapshot of its metrics and an explanation of its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thetastream.boxes.binding import Binding
from thetastream.engine.query import Query
from thetastream.engine.stream import Stream
from thetastream.index.base import folds_itself
from thetastream.index.registry import structure
from thetastream.metrics import Counters, Metrics, SideCounters, SideMetrics
from thetastream.plan.choice import Choice, Explanation
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
            rows=sides[side].rows,
            dropped=sides[side].dropped,
            null_keys=sides[side].null_keys,
            nan_keys=sides[side].nan_keys,
            null_times=sides[side].null_times,
            waiting_rows=waiting[side],
            window_rows=len(streams[side].rows) if side in streams else 0,
            window_bytes=streams[side].nbytes if side in streams else 0,
            max_time=largest.get(side),
        )
        for side in Side
    }
    indexes = [index for stream in streams.values() for index in stream.indexes.values()]

    def total(name: str) -> int:
        return int(sum(getattr(side, name) for side in per_side.values()))

    def work(name: str) -> float:
        return sum(index.statistics(name) for index in indexes)

    merge_seconds = work("merge_seconds")
    seconds = dict(counters.seconds)
    return Metrics(
        pushes=counters.pushes,
        rows=total("rows"),
        matches=counters.matches,
        output_rows=counters.output_rows,
        dropped=total("dropped"),
        null_keys=total("null_keys"),
        nan_keys=total("nan_keys"),
        null_times=total("null_times"),
        candidates=counters.candidates,
        window_rows=total("window_rows"),
        window_bytes=total("window_bytes"),
        index_bytes=sum(stream.index_bytes for stream in streams.values()),
        payload_bytes=sum(stream.rows.nbytes for stream in streams.values()),
        peak_bytes=counters.peak_bytes,
        runs=int(work("runs")),
        merges=int(work("merges")),
        merged_rows=int(work("merged_rows")),
        replans=counters.replans,
        switches=int(work("switches")),
        keys_seconds=seconds["keys"],
        sort_seconds=seconds["sort"],
        probe_seconds=seconds["probe"],
        insert_seconds=max(0.0, seconds["insert"] - merge_seconds),
        merge_seconds=merge_seconds,
        expire_seconds=seconds["expire"],
        gather_seconds=seconds["gather"],
        plan_seconds=seconds["plan"],
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


def explanation(
    query: Query,
    binding: Binding | None,
    choices: Sequence[Choice],
    details: Sequence[Mapping[str, Any]] | None = None,
) -> Explanation:
    """Say what is joined, how, and why; ``details`` are the indexes' own descriptions."""
    predicate = query.predicate
    residuals = predicate.residuals if binding is None else binding.residuals
    facts: dict[str, Any] = {
        "predicate": str(predicate),
        "window": str(query.window),
        "how": query.how.value + (" self-join" if query.self_join else ""),
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
    else:
        facts["plan"] = "made when the columns of both sides are known: push both, or pass schemas="
    indexable = predicate.terms if binding is None else binding.terms
    if not indexable:
        facts["note"] = "no term can be indexed: this is a nested loop over the window"
    return Explanation.of(facts)

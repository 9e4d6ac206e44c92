"""The explanation of a join with a relation."""

from __future__ import annotations

from typing import Any

from thetastream.condition.predicate import Predicate
from thetastream.plan.explanation import Explanation
from thetastream.relation.disk.size import show_size
from thetastream.relation.image.key import KeyColumns
from thetastream.relation.join.engine import RelationEngine
from thetastream.relation.join.matching import Matching
from thetastream.relation.join.memory import Memory
from thetastream.relation.store import Relation
from thetastream.side import How


def explained(
    engine: RelationEngine | None,
    memory: Memory,
    relation: Relation,
    on: Predicate,
    how: How,
    *,
    verbose: bool = False,
) -> Explanation:
    """Readable facts: the question, the thresholds and why, the use of memory."""
    facts: dict[str, Any] = {
        "join": f"{how.value} on {on}",
        "relation": {
            "key": str(KeyColumns.of(relation.key)),
            "rows": f"{relation.rows:,}",
            "blocks": f"{relation.blocks:,} of {show_size(relation.block_bytes)}",
            "version": relation.version,
        },
    }
    if engine is None:
        facts["stream"] = "not known yet: push rows, or pass schema="
        return Explanation.of(facts, verbose=verbose)
    matching, thresholds, cache = engine.matching, engine.pace.thresholds, engine.cache
    costs = engine.costs
    facts["look-up"] = {
        "a row asks for": _question(matching),
        "checked on candidates": "nothing" if matching.is_settled else "other conditions",
    }
    facts["thresholds"] = {
        "input_rows": f"{thresholds.input_rows:,} rows arrive before they are looked up",
        "stream_rows": f"{thresholds.stream_rows:,} rows wait before blocks are read",
        "max_scan": f"{thresholds.max_scan:,} blocks are read at once at most",
        "why": thresholds.why,
    }
    facts["device"] = {
        "seek": f"{costs.seek * 1e3:.3g} ms",
        "transfer": f"{costs.transfer * 1e3:.3g} ms per block",
        "gap read over": f"{1 + costs.seek / max(costs.transfer, 1e-12):,.0f} blocks at most",
    }
    facts["memory"] = {
        "budget": show_size(memory.budget),
        "index": show_size(memory.index),
        "work": show_size(memory.work),
        "rows that arrived": show_size(memory.arrived),
        "rows that wait": show_size(memory.waiting),
        "cached blocks": f"{show_size(memory.cached)}, {cache.count:,} of them",
        "blocks stay by": cache.policy.value,
        "most held": show_size(memory.peak),
    }
    return Explanation.of(facts, verbose=verbose)


def _question(matching: Matching) -> str:
    if matching.ranged:
        return "the intervals that hold its value"
    return "one key" if matching.is_point else "an interval of keys"

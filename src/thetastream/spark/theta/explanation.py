"""How a join on Spark runs, in words and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from thetastream.engine.report import explanation
from thetastream.errors import StateError
from thetastream.plan.explanation import Explanation
from thetastream.spark.session import workers_start
from thetastream.spark.state.record import FORMAT
from thetastream.spark.state.state import RUN_BYTES, TIER
from thetastream.spark.theta.spec import JoinSpec

_FACTS: WeakKeyDictionary[DataFrame, tuple[dict[str, Any], Mapping[str, str]]] = WeakKeyDictionary()
_JOINS: WeakKeyDictionary[DataFrame, tuple[JoinSpec, dict[str, Any]]] = WeakKeyDictionary()


def remember(frame: DataFrame, spec: JoinSpec, facts: dict[str, Any]) -> None:
    """Keep the join behind a DataFrame, for ``explain``."""
    _JOINS[frame] = (spec, facts)


def remember_facts(
    frame: DataFrame, facts: dict[str, Any], names: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Keep what explains the join with a relation or a table behind a DataFrame.

    ``names`` are internal names and what the user wrote instead.
    """
    _FACTS[frame] = (facts, names)


def explain(frame: DataFrame, *, verbose: bool = False) -> Explanation:
    """Explain how the join behind a DataFrame returned by ``theta_join`` or ``relation_join`` runs.

    Shows the predicate, the partitioning and its replication, the state layout, and the plan of one
    partition's engine; for a join with a relation, what a row asks for and how a worker begins. At
    most 25 lines; ``verbose`` adds the plans that were rejected.
    """
    if frame in _FACTS:
        told, written = _FACTS[frame]
        return Explanation.of(told, verbose=verbose, names=written)
    if frame not in _JOINS:
        raise StateError(
            "explain takes the DataFrame that theta_join or relation_join returned, before any "
            "further operation"
        )
    spec, more = _JOINS[frame]
    partition = spec.partition()
    known = dict(explanation(spec.query, spec.binding, partition.choices()).as_dict())
    streaming = frame.isStreaming
    facts: dict[str, Any] = {"predicate": spec.original, "name": spec.label or spec.name}
    for name in ("window", "how"):
        facts[name] = known.pop(name)
    facts["mode"] = more["mode"]
    facts["partitioning"] = _partitioning(spec)
    held = str(known.pop("memory"))
    if not streaming:
        facts["window"] = str(facts["window"]).removesuffix(": rows never leave")
        held = held.partition(";")[0]
    flags = any(partition.tracked.values())
    state = _state(spec, more, flags=flags) if streaming else "none: every partition is joined once"
    facts["state"] = state
    facts["memory"] = f"{held}; divided among {spec.partitions} partitions, copies beside it"
    facts["slow"] = _slow(spec, [*known.pop("slow", []), *filter(None, [more.get("slow")])])
    facts["computed by Spark"] = more["computed"]
    facts |= {name: fact for name, fact in known.items() if name != "predicate"}
    facts["Python workers"] = workers_start(frame.sparkSession)
    return Explanation.of(facts, verbose=verbose, names=more["written"])


def _partitioning(spec: JoinSpec) -> dict[str, Any]:
    replication = spec.routing.replication()
    return {
        "scheme": spec.routing.name,
        "partitions": spec.partitions,
        "places of a row, expected": {
            side.value: round(replication[side], 3) for side in spec.streams
        },
        "by": spec.routing.describe(),
        "a pair is returned": "where its " + spec.routing.led.value + " row is at home"
        if spec.routing.led is not None
        else "where it meets, which is once",
    }


def _slow(spec: JoinSpec, slow: list[str]) -> list[str]:
    """What will be slow, and why."""
    if spec.partitions > 1 and spec.routing.name == "hash":
        slow.append("rows of one key share a partition: few keys make partitions uneven")
    if spec.partitions > 1 and spec.routing.name == "matrix":
        slow.append("without an equality or a band, rows are sent to several partitions")
    return slow


def _state(spec: JoinSpec, more: Mapping[str, Any], *, flags: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "record": f"files in {spec.state_path}" if spec.in_files else "in Spark's state store",
        "runs": f"Arrow blobs of at most {RUN_BYTES >> 20} MB, "
        + ("in Spark's state store" if spec.state_path is None else f"files in {spec.state_path}"),
        "columns of a run": {
            side.value: _written(spec.schemas[side].names, more["computed"].get(side.value, {}))
            for side in spec.streams
        },
        "compaction": f"{TIER} small neighbours become one; a run expires whole",
        "flags": "one bit per row and role" if flags else "none",
    }


def _written(names: Sequence[str], computed: Mapping[str, str]) -> list[str]:
    """Columns by name, and those that Spark computes by their expressions."""
    return [computed.get(name, name) for name in names]

"""How a join on Spark runs, in words and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from thetastream.engine.report import explanation
from thetastream.errors import StateError
from thetastream.plan.explanation import Explanation
from thetastream.side import Side
from thetastream.spark.session import workers_start
from thetastream.spark.state.record import FORMAT
from thetastream.spark.state.state import RUN_BYTES, TIER
from thetastream.spark.theta.spec import JoinSpec

_FACTS: WeakKeyDictionary[DataFrame, dict[str, Any]] = WeakKeyDictionary()
_JOINS: WeakKeyDictionary[DataFrame, tuple[JoinSpec, dict[str, Any]]] = WeakKeyDictionary()


def remember(frame: DataFrame, spec: JoinSpec, facts: dict[str, Any]) -> None:
    """Keep the join behind a DataFrame, for ``explain``."""
    _JOINS[frame] = (spec, facts)


def remember_facts(frame: DataFrame, facts: dict[str, Any]) -> None:
    """Keep what explains the join with a relation behind a DataFrame."""
    _FACTS[frame] = facts


def explain(frame: DataFrame, *, verbose: bool = False) -> Explanation:
    """Explain how the join behind a DataFrame returned by ``theta_join`` or ``relation_join`` runs.

    Shows the predicate, the partitioning and its replication, the state layout, and the plan of one
    partition's engine; for a join with a relation, what a row asks for and how a worker begins. At
    most 25 lines; ``verbose`` adds the plans that were rejected.
    """
    if frame in _FACTS:
        return Explanation.of(_FACTS[frame], verbose=verbose)
    if frame not in _JOINS:
        raise StateError(
            "explain takes the DataFrame that theta_join or relation_join returned, before any "
            "further operation"
        )
    spec, more = _JOINS[frame]
    partition = spec.partition()
    facts = dict(explanation(spec.query, spec.binding, partition.choices()).as_dict())
    replication = spec.routing.replication()
    facts["predicate"] = spec.original
    facts["computed by Spark"] = more["computed"]
    facts["partitioning"] = {
        "scheme": spec.routing.name,
        "by": spec.routing.describe(),
        "partitions": spec.partitions,
        "places of a row, expected": {
            side.value: round(replication[side], 3) for side in spec.streams
        },
        "a pair is returned": "where its " + spec.routing.led.value + " row is at home"
        if spec.routing.led is not None
        else "where it meets, which is once",
    }
    facts["state"] = {
        "format": FORMAT,
        "record": f"files in {spec.state_path}" if spec.in_files else "in Spark's state store",
        "runs": f"Arrow blobs of at most {RUN_BYTES >> 20} MB, "
        + ("in Spark's state store" if spec.state_path is None else f"files in {spec.state_path}"),
        "columns of a run": {
            side.value: _written(spec.schemas[side].names, more["computed"].get(side.value, {}))
            for side in spec.streams
        },
        "compaction": f"{TIER} small neighbours become one; a run expires whole",
        "flags": "one bit per row and role" if any(partition.tracked.values()) else "none",
    }
    facts["mode"] = more["mode"]
    facts["Python workers"] = workers_start(frame.sparkSession)
    names = {
        f"{Side(side).alias}.{name}": sql
        for side, computed in more["computed"].items()
        for name, sql in computed.items()
    }
    return Explanation.of(facts, verbose=verbose, names=names)


def _written(names: Sequence[str], computed: Mapping[str, str]) -> list[str]:
    """Columns by name, and those that Spark computes by their expressions."""
    return [computed.get(name, name) for name in names]

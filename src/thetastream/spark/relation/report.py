"""What a micro-batch of ``relation_join`` did: the reports of its tasks, added up.

Every task that had rows reports once. The reports travel with the answer as Spark's *observed
metrics*, as those of ``theta_join`` do, so they are in a query's progress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from thetastream.metrics import Items
from thetastream.spark.metrics import observed_reports

OBSERVED = "relation_join"


@dataclass(frozen=True)
class RelationJoinMetrics(Items):
    """One micro-batch of one join; ``metrics.hits`` and ``metrics["hits"]`` are the same.

    ``warm`` tasks found the join of an earlier task in their process. ``hits`` and ``misses`` are
    questions of a stream row to a leaf that the cache could answer, and those that had to be read.
    ``versions`` are those of the relation that tasks saw: two, when it was updated meanwhile.
    Bytes and blocks in memory are added up over the tasks, peaks are the largest of them.
    """

    join: str
    batchId: int
    timestamp: str
    durationMs: dict[str, int]
    tasks: int
    warm: int
    numInputRows: int
    matches: int
    outputRows: int
    nullKeys: int
    hits: int
    misses: int
    seeks: int
    blocksRead: int
    blocksWasted: int
    cachedBlocks: int
    memoryBytes: int
    peakBytes: int
    budgetBytes: int
    versions: list[int]
    seconds: dict[str, float]


def relation_metrics(query: StreamingQuery) -> list[RelationJoinMetrics]:
    """The metrics of a query's recent micro-batches, oldest first; one entry per join in each.

    >>> metrics = relation_metrics(query)[-1]                                  # doctest: +SKIP
    >>> metrics.hits, metrics.blocksRead, metrics.versions                     # doctest: +SKIP
    """
    return [
        _added(*each)
        for progress in query.recentProgress
        for each in observed_reports(progress, OBSERVED, "tasks")
    ]


def _added(join: str, texts: list[str], progress: Mapping[str, Any]) -> RelationJoinMetrics:
    reports = [json.loads(text) for text in texts]

    def total(name: str) -> int:
        return int(sum(report[name] for report in reports))

    phases = ("online", "join", "io", "plan")
    seconds = {name: sum(report[f"{name}_seconds"] for report in reports) for name in phases}
    seconds["tasks"] = sum(report["seconds"] for report in reports)
    return RelationJoinMetrics(
        join=join,
        batchId=int(progress["batchId"]),
        timestamp=str(progress["timestamp"]),
        durationMs=dict(progress["durationMs"]),
        tasks=len(reports),
        warm=total("warm"),
        numInputRows=total("rows"),
        matches=total("matches"),
        outputRows=total("output_rows"),
        nullKeys=total("null_keys"),
        hits=total("hits"),
        misses=total("misses"),
        seeks=total("seeks"),
        blocksRead=total("blocks_read"),
        blocksWasted=total("blocks_wasted"),
        cachedBlocks=total("cached_blocks"),
        memoryBytes=total("memory_bytes"),
        peakBytes=max(report["peak_bytes"] for report in reports),
        budgetBytes=max(report["budget_bytes"] for report in reports),
        versions=sorted({report["version"] for report in reports}),
        seconds={name: round(value, 6) for name, value in seconds.items()},
    )

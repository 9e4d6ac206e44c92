"""What a micro-batch of a join did: the reports of its partitions, added up.

Names are Spark's own where Spark has one for the thing (``numInputRows``, ``durationMs``,
``numRowsTotal``, ``numRowsDroppedByWatermark``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryProgress

from thetastream.metrics import Items
from thetastream.side import Side

_PHASES = ("open", "keys", "sort", "probe", "insert", "merge", "expire", "gather", "save")


@dataclass(frozen=True)
class JoinMetrics(Items):
    """One micro-batch of one join; ``metrics.matches`` and ``metrics["matches"]`` are the same.

    ``hits`` found a partition alive in the worker; ``catchUps`` found it some micro-batches behind;
    ``attaches`` restored it from run files of the host, ``rebuilds`` from the state store.
    ``warmWorkers`` counts partitions whose worker was forked with everything loaded. A partition
    without rows reports only when the watermark has moved, so figures of stored rows cover the
    partitions that reported. ``skew`` is the largest partition's share of the fresh rows over the
    mean share. ``watermarkLag`` is, per side, how far the largest event time is ahead of the
    watermark, in milliseconds (or units of an integer time column).
    """

    join: str
    batchId: int
    timestamp: str
    numInputRows: int
    durationMs: dict[str, int]
    matches: int
    outputRows: int
    fanOut: float
    numRowsDroppedByWatermark: int
    nullKeys: int
    emptyIntervals: int
    numRowsTotal: int
    stateBytes: int
    writtenBytes: int
    memoryBytes: int
    runs: int
    compactions: int
    hits: int
    catchUps: int
    attaches: int
    rebuilds: int
    fetchedRuns: int
    warmWorkers: int
    seconds: dict[str, float]
    rowsPerPartition: dict[int, int]
    storedPerPartition: dict[int, int]
    skew: float
    watermark: int | None
    watermarkLag: dict[str, int]


Progress = StreamingQueryProgress | Mapping[str, Any]


def observed_reports(
    progress: Progress, kind: str, column: str
) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """For each join of a kind in a micro-batch: its name, its reports, and Spark's account."""
    if isinstance(progress, StreamingQueryProgress):
        facts: dict[str, Any] = json.loads(progress.json)
        observed: Mapping[str, Any] = progress.observedMetrics
    else:
        facts, observed = dict(progress), progress.get("observedMetrics", {})
    for name, row in observed.items():
        if name.startswith(f"{kind}-") and (texts := _texts(row, column)):
            yield name, texts, facts


def _texts(row: Any, column: str) -> list[str]:
    """The reports in an observed row; Connect returns its values and its schema separately."""
    fields = row.asDict() if isinstance(row, Row) else row
    texts = fields["values"][0] if "values" in fields else fields[column]
    return list(texts or [])


def read_reports(join: str, texts: list[str], progress: Mapping[str, Any]) -> JoinMetrics:
    """Add up the reports of a micro-batch. ``progress`` is Spark's own account of it."""
    reports = [json.loads(text) for text in texts]

    def total(name: str) -> int:
        return int(sum(report.get(name, 0) for report in reports))

    def per_partition(*names: str) -> dict[int, int]:
        totals = dict.fromkeys(range(max(report["partitions"] for report in reports)), 0)
        for report in reports:
            at = report["partition"]
            totals[at] = max(totals[at], sum(report.get(name, 0) for name in names))
        return totals

    last = list({report["partition"]: report for report in reports}.values())
    fresh = per_partition("rows")
    stored = per_partition("left_stored", "right_stored")
    origins = [report["origin"] for report in reports]
    rows, mean = total("rows"), sum(fresh.values()) / len(fresh) if fresh else 0.0
    watermarks = [report["watermark"] for report in reports if report["watermark"] > 0]
    watermark = max(watermarks) if watermarks else None
    lag: dict[str, int] = {}
    for side in Side:
        tops = [r[f"{side.value}_max_ms"] for r in reports if f"{side.value}_max_ms" in r]
        if tops and watermark is not None:
            # the partition of the largest time may have had no rows; it is above the watermark
            lag[side.value] = max(max(tops) - watermark, 1)
    return JoinMetrics(
        join=join,
        batchId=int(progress.get("batchId", -1)),
        timestamp=str(progress.get("timestamp", "")),
        numInputRows=rows,
        durationMs=dict(progress.get("durationMs", {})),
        matches=total("matches"),
        outputRows=total("output_rows"),
        fanOut=total("output_rows") / rows if rows else 0.0,
        numRowsDroppedByWatermark=total("dropped"),
        nullKeys=total("null_keys"),
        emptyIntervals=total("empty_intervals"),
        numRowsTotal=sum(stored.values()),
        stateBytes=sum(report["state_bytes"] for report in last),
        writtenBytes=total("written_bytes"),
        memoryBytes=sum(report["memory_bytes"] for report in last),
        runs=sum(report["runs"] for report in last),
        compactions=total("compactions"),
        hits=origins.count("hit"),
        catchUps=origins.count("catch-up"),
        attaches=origins.count("attach"),
        rebuilds=origins.count("rebuild"),
        fetchedRuns=total("fetched_runs"),
        warmWorkers=total("warm"),
        seconds={
            phase: round(sum(report.get(f"{phase}_seconds", 0.0) for report in reports), 6)
            for phase in _PHASES
        },
        rowsPerPartition=fresh,
        storedPerPartition=stored,
        skew=max(fresh.values()) / mean if mean else 1.0,
        watermark=watermark,
        watermarkLag=lag,
    )

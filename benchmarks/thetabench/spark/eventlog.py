"""Time in the stages and tasks of micro-batches, from Spark's event log.

The log is a line of JSON per event. Stages carry the properties of the query that started them: its
id, and the number of the micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Spent:
    """Seconds of a micro-batch."""

    map: float = 0.0
    """From the start of its first stage to that of its last: reading, packing, shuffling."""
    join: float = 0.0
    """The last stage."""
    tasks: float = 0.0
    """Of all tasks together; those that run at the same time are added up."""
    gc: float = 0.0
    """Of which the collector of the JVM."""


def read_events(folder: Path) -> dict[tuple[str, int], Spent]:
    """The time spent, by query and micro-batch."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    found: dict[tuple[str, int], Spent] = {}
    stages: dict[int, tuple[str, int]] = {}
    for event in _events(folder):
        kind = event["Event"]
        if kind == "SparkListenerStageSubmitted":
            properties = event.get("Properties") or {}
            if _QUERY in properties and _BATCH in properties:
                key = properties[_QUERY], int(properties[_BATCH])
                stages[event["Stage Info"]["Stage ID"]] = key
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
            metrics = event.get("Task Metrics") or {}
            spent = found.setdefault(stages[event["Stage ID"]], Spent())
            spent.tasks += metrics.get("Executor Run Time", 0) / 1000
            spent.gc += metrics.get("JVM GC Time", 0) / 1000
        elif kind == "SparkListenerStageCompleted":
            stage = event["Stage Info"]
            if stage["Stage ID"] in stages:
                span = stage["Submission Time"], stage["Completion Time"]
                spans.setdefault(stages[stage["Stage ID"]], []).append(span)
    for key, own in spans.items():
        start, end = max(own)
        spent = found.setdefault(key, Spent())
        spent.map = (start - min(own)[0]) / 1000
        spent.join = (end - start) / 1000
    return found


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix != ".crc":
            with path.open(encoding="utf-8") as file:
                # The last line of a session that had to be killed is not whole.
                yield from (json.loads(line) for line in file if line.endswith("}\n"))

"""A partition moves between Python processes: it attaches, and is rebuilt only after a loss."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from thetastream.spark import query_metrics, theta_join
from thetastream.spark.metrics import JoinMetrics

from ..drive import read_sink, read_stream, run_to_files
from ..state.rig import CASES, SIDES, check_rows, write_stream

PARTITIONS = 2


def run(spark: Any, folder: Path) -> tuple[list[JoinMetrics], set[int]]:
    """Join all files that are there; gives the metrics, and the processes that joined."""
    case = CASES["hash"]
    schema = "id bigint, t bigint, k bigint, x double, y double, note string"
    sides = [read_stream(spark, folder / "source" / side, schema) for side in SIDES]
    frame = theta_join(*sides, case.on, window=case.bound(), how=case.how, partitions=PARTITIONS)
    query = run_to_files(frame, folder)
    texts = [
        text
        for progress in query.recentProgress
        for row in progress.observedMetrics.values()
        for text in row["partitions"]
    ]
    return query_metrics(query), {json.loads(text)["process"] for text in texts}


def end(workers: set[int]) -> None:
    """Kill idle workers; Spark starts others."""
    for worker in workers:
        try:
            os.kill(worker, signal.SIGKILL)
            for _ in range(1000):
                os.kill(worker, 0)  # until its parent has taken note
                time.sleep(0.01)
        except ProcessLookupError:
            continue
        pytest.fail(f"worker {worker} does not end")


def test_rebuilds_only_after_a_loss(spark: Any, tmp_path: Path) -> None:
    stages = [8, 3, 4]
    whole = tmp_path / "whole"
    write_stream(whole, CASES["hash"], 5, sum(stages) - 1, 30)
    runs = Path(os.environ["THETASTREAM_RUNS"])
    workers: set[int] = set()
    seen: list[list[JoinMetrics]] = []
    taken = 0
    for stage, files in enumerate(stages):
        for side in SIDES:
            (tmp_path / "source" / side).mkdir(parents=True, exist_ok=True)
            for number in range(taken, taken + files):
                name = f"{side}/{number:04}.parquet"
                os.rename(whole / name, tmp_path / "source" / name)
        taken += files
        if stage > 0:
            end(workers)
        if stage == 2:
            shutil.rmtree(runs)
        metrics, processes = run(spark, tmp_path)
        workers |= processes
        seen.append(metrics)
    origins = [[(m.hits + m.catchUps, m.attaches, m.rebuilds) for m in stage] for stage in seen]
    assert origins[0][0] == (0, 0, 0), "partitions are new in the first micro-batch"
    assert all(sum(m) == PARTITIONS and not m[2] for m in origins[0][1:]), origins
    assert origins[1][0] == (0, PARTITIONS, 0), "other processes attach to the files of the host"
    assert all(sum(m) == PARTITIONS and not m[2] for m in origins[1]), origins
    assert origins[2][0] == (0, 0, PARTITIONS), "without processes and files, the state store helps"
    assert seen[2][0].fetchedRuns > 0
    assert all(sum(m) == PARTITIONS and not m[2] for m in origins[2][1:]), origins
    check_rows(
        CASES["hash"], tmp_path / "checkpoint", tmp_path / "source", read_sink(spark, tmp_path)
    )

"""What a checkpoint says of the join that wrote it, read before a query is started.

Spark learns the checkpoint's location at ``start()``, when the plan is made already. A user who
names it earlier, in ``theta_join(checkpoint=…)``, gets its partitions, and an error at the call if
it is the checkpoint of another join.

The record of a partition (``record``) is in Spark's state store, which Spark's own reader reads; or
in files below ``state_path``, named by the query's id and the last micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import SparkSession

from thetastream.errors import OptionError, StateError
from thetastream.spark.session import described
from thetastream.spark.state.fingerprint import differences
from thetastream.spark.state.manifests import Manifests
from thetastream.spark.state.record import READABLE

Fingerprint = Mapping[str, str]


def fingerprints_in(
    spark: SparkSession, checkpoint: str, state_path: str | None
) -> list[Fingerprint]:
    """The fingerprints of the joins in a checkpoint; none if it is new.

    ``state_path``: the join keeps its whole state in files there.
    """
    system, base = _place(checkpoint)
    last = _last_commit(system, base)
    if last is None:
        return []
    if state_path is not None:
        query = str(json.loads(_read(system, f"{base}/metadata"))["id"])
        text = Manifests(state_path, query, 0, last + 1).read_meta()
        return [] if text is None else [_fingerprint(text)]
    return [_fingerprint(text) for text in _records(spark, checkpoint)]


def nearest(found: list[Fingerprint], now: Fingerprint) -> Fingerprint:
    """The fingerprint that differs least: that of this join, if the query has several."""
    return min(found, key=lambda each: len(differences(each, now)))


def _records(spark: SparkSession, checkpoint: str) -> list[str]:
    """One record of each join in Spark's state store."""
    with described(spark, "read the checkpoint"):
        return _read_records(spark, checkpoint)


def _read_records(spark: SparkSession, checkpoint: str) -> list[str]:
    operators = spark.read.format("state-metadata").load(checkpoint).collect()
    numbers = {
        row["operatorId"]
        for row in operators
        if "transformWithState" in row["operatorName"]
        and all(f'"{name}"' in str(row["operatorProperties"]) for name in ("meta", "blobs"))
    }
    texts = []
    for number in sorted(numbers):
        rows = (
            spark.read.format("statestore")
            .option("operatorId", number)
            .option("stateVarName", "meta")
            .load(checkpoint)
            .select("value.record")
            .limit(1)
            .collect()
        )
        texts += [row["record"] for row in rows]
    return texts


def _fingerprint(text: str) -> Fingerprint:
    facts = json.loads(text)
    if facts.get("format") not in READABLE:
        raise StateError(
            f"the checkpoint holds state of format {facts.get('format')}, and this version reads "
            f"formats {', '.join(map(str, READABLE))}; restart with the version that wrote it, or "
            "with a new checkpoint location"
        )
    fingerprint: Fingerprint = facts["fingerprint"]
    return fingerprint


def _place(checkpoint: str) -> tuple[pafs.FileSystem, str]:
    try:
        if "://" in checkpoint or checkpoint.startswith("file:"):
            system, base = pafs.FileSystem.from_uri(checkpoint)
            return system, base
    except (pa.ArrowException, OSError, ValueError) as error:
        raise OptionError(
            f"checkpoint={checkpoint!r} cannot be read: {error}. Name the folder that the option "
            "checkpointLocation names, as a path or a URI such as hdfs://… or s3://…, or leave it "
            "out"
        ) from None
    return pafs.LocalFileSystem(), str(Path(checkpoint).absolute())


def _last_commit(system: pafs.FileSystem, base: str) -> int | None:
    """The last micro-batch that was committed; None if there is none."""
    files = system.get_file_info(pafs.FileSelector(f"{base}/commits", allow_not_found=True))
    numbers = [int(info.base_name) for info in files if info.base_name.isdigit()]
    return max(numbers, default=None)


def _read(system: pafs.FileSystem, path: str) -> str:
    with system.open_input_file(path) as stream:
        return bytes(stream.read()).decode()

"""The demo's query: it joins what lands, notices a wrong answer, and passes a failure on."""

from __future__ import annotations

import doctest
import os
from pathlib import Path
from typing import Any

import pytest

from thetastream.cli.demo_spark import _room
from thetastream.errors import StateError
from thetastream.spark.demo import tempo as tempo_module
from thetastream.spark.demo.query import Demo
from thetastream.spark.demo.session import check_java
from thetastream.spark.demo.streams import Streams
from thetastream.spark.demo.tempo import MicroBatch, Tempo
from thetastream.spark.session import PROVIDER, ROCKSDB
from thetastream.truth import oracle


def test_it_agrees_with_the_oracle_and_notices_when_not(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = Demo(spark, tmp_path, Streams.generated(42_000, seed=3), seconds=0.0)
    assert demo.plan.as_dict()["partitioning"]["scheme"] == "cells"
    assert all(totals.rows <= 42_000 for totals in demo.run())
    assert demo.landed == demo.streams.pairs == 2
    assert (demo.totals.rows, demo.totals.late) == (42_000, 0)
    assert sum(demo.totals.per_partition.values()) == 42_000
    found = demo.difference(sample=100)
    assert found.wanted.total() > 100
    assert not found
    assert found.rows == demo.totals.matches
    assert spark.streams.active == []
    tempo = demo.totals.tempo
    assert sum(batch.rows for batch in tempo.batches) == 42_000
    assert tempo.rows_per_second > 0
    parts = tempo.parts
    assert 0 < parts["engine"] < parts["tasks"] < parts["all"]

    buckets = demo.compare()
    assert buckets.rows == demo.totals.matches > 100
    assert sum(batch.rows for batch in buckets.tempo.batches) == 42_000
    assert buckets.tempo.parts["engine"] == 0
    assert spark.conf.get(PROVIDER) == ROCKSDB, "as it was before"

    right = oracle.join
    sample = {}

    def one_less(*arguments: Any) -> oracle.Truth:
        answer = right(*arguments)
        sample["pairs"] = sample.get("pairs", 0) + len(answer.pairs[:1])
        return oracle.Truth(answer.pairs[1:], answer.late)

    monkeypatch.setattr(oracle, "join", one_less)
    wrong = demo.difference(sample=100)
    assert wrong
    assert (wrong.missing, wrong.extra) == (0, sample["pairs"])


def test_a_writer_that_fails_ends_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Streams, "write", write)
    demo = Demo(spark, tmp_path, Streams.generated(100, seed=0), seconds=0.0)
    with pytest.raises(OSError, match="the disk is full"):
        list(demo.run())
    assert spark.streams.active == []


def test_java_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StateError, match="Java 17 or later, and JAVA_HOME is"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StateError, match="no java on PATH"):
        check_java()


@pytest.mark.parametrize(("version", "number"), [("1.8.0_402", 8), ("11.0.2", 11), ("17.0.1", 17)])
def test_java_must_be_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, number: int
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if number >= 17:
        check_java()
    else:
        with pytest.raises(StateError, match=f"is Java {number}; install one"):
            check_java()


def test_a_folder_must_be_new_or_empty(tmp_path: Path) -> None:
    with _room(tmp_path / "a" / "b") as room:
        assert os.listdir(room) == []
        (room / "kept").touch()
    with pytest.raises(StateError, match="exists already"), _room(tmp_path / "a" / "b"):
        pass
    with _room(None) as room:
        assert room.is_dir()
    assert not room.exists()


def test_the_tempo_leaves_out_the_first_micro_batch_and_those_without_rows() -> None:
    def batch(rows: int, milliseconds: int, partitions: int = 2) -> MicroBatch:
        facts = {"triggerExecution": milliseconds, "addBatch": milliseconds // 2, "walCommit": 50,
                 "commitOffsets": 30, "queryPlanning": 70}  # fmt: skip
        return MicroBatch(rows, facts, engine=0.2, partitions=partitions)

    tempo = Tempo()
    assert (tempo.rows_per_second, tempo.parts) == (0.0, {})
    tempo.add(batch(100, 9000))
    assert tempo.rows_per_second == pytest.approx(100 / 9), "there is no other"
    for one in (batch(0, 400), batch(100, 400), batch(300, 600, partitions=1)):
        tempo.add(one)
    assert tempo.rows_per_second == pytest.approx(400 / 1.0)
    expected = {"all": 0.5, "planning": 0.07, "logs": 0.08, "tasks": 0.25, "engine": 0.15}
    assert tempo.parts == pytest.approx(expected)
    assert doctest.testmod(tempo_module).failed == 0

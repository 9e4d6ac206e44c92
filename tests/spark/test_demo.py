"""The demo's query: it joins what lands, notices a wrong answer, and passes a failure on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from thetastream.cli.demo_spark import _room
from thetastream.errors import StateError
from thetastream.spark.demo import Demo, Streams, check_java
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

"""``thetastream demo``: it joins, checks itself, notices a wrong answer, and stops when told to."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from thetastream.cli import demo_embedded, demo_spark
from thetastream.truth import oracle

from ..processes import started


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_embedded, "ORACLE_PAIRS", 30_000)


def test_a_small_demo_agrees_with_the_oracle(command) -> None:
    result = command("demo", "--embedded", "--rows", "20000", "--seed", "3")
    assert "20.0k of 20.0k rows" in result.stdout  # no terminal: plain lines
    assert re.search(r"rows in +20,000 ", result.stdout)
    agreed = re.search(r"the oracle agrees on ([\d,]+) matches", result.stdout)
    assert agreed is not None
    assert int(agreed[1].replace(",", "")) > 0
    assert "late rows" not in result.stdout


def test_threads_do_not_change_the_answer(command) -> None:
    outputs = [
        command("demo", "--embedded", "--rows", "20000", "--threads", n).stdout for n in ("1", "2")
    ]
    matches = [re.search(r"matches +([\d,]+)", output) for output in outputs]
    assert matches[0] is not None
    assert matches[1] is not None
    assert matches[0][1] == matches[1][1]


def test_a_wrong_answer_is_noticed(command, monkeypatch: pytest.MonkeyPatch) -> None:
    right = oracle.join

    def one_pair_less(*arguments: object) -> oracle.Truth:
        answer = right(*arguments)
        return oracle.Truth(answer.pairs[1:], answer.late)

    monkeypatch.setattr(oracle, "join", one_pair_less)
    result = command("demo", "--embedded", "--rows", "20000", code=1)
    assert "the oracle disagrees" in result.stdout


def test_ctrl_c_stops_the_demo() -> None:
    arguments = ("demo", "--embedded", "--rows", "4000000")
    with started(*arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "trades" in process.stdout.readline()  # it has started
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "stopped by Ctrl-C" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("package", ["pyspark", "pandas", "google.protobuf"])
def test_spark_must_be_installed(command, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = command("demo", code=2)
    assert f"needs the package {package.removeprefix('google.')}" in result.stderr
    assert "pip install 'thetastream[spark]'" in result.stderr
    assert "--embedded" in result.stderr


def test_java_must_be_installed(command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = command("demo", "--rows", "100", code=2)
    assert "Spark needs Java 17 or later" in result.stderr


@pytest.mark.parametrize("agrees", [True, False])
def test_the_exit_code_is_the_oracles_word(
    command, monkeypatch: pytest.MonkeyPatch, agrees: bool
) -> None:
    calls = []

    def run_on_spark(*arguments: object) -> bool:
        calls.append(arguments)
        return agrees

    monkeypatch.setattr(demo_spark, "run_on_spark", run_on_spark)
    command("demo", "--seed", "5", code=0 if agrees else 1)
    assert calls == [(400_000, 5, None, False)]


def test_only_spark_has_buckets_to_compare_with(command) -> None:
    result = command("demo", "--embedded", "--compare", code=2)
    assert "--compare runs Spark's own join" in result.stderr


def apart_from_compiling(errors: str) -> list[str]:
    """Lines of standard error, without those of a first run."""
    return [line for line in errors.splitlines() if "compiling kernels" not in line]


@pytest.mark.slow
def test_the_whole_demo_on_spark(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    arguments = ("demo", "--rows", "60000", "--folder", str(folder), "--compare")
    with started(*arguments, stdout=subprocess.PIPE, text=True) as demo:
        output, errors = demo.communicate(timeout=300)
    assert demo.returncode == 0, output + errors
    assert apart_from_compiling(errors) == []  # Spark is quiet
    assert re.search(r"rows in +60,000 ", output)
    assert re.search(r"rebuilds +0 ", output)
    assert re.search(r"rows/s +[\d,]+ +without the start-up", output)
    assert re.search(r"micro-batch +[\d.]+ s +Spark: planning [\d.]+ s, logs", output)
    assert "the join's engine" in output
    assert re.search(r"hand-made buckets, same files: [\d,]+ rows/s .* times as fast", output)
    assert re.search(r"the oracle agrees on [\d,]+ matches of 400 sampled trades", output)
    assert list((folder / "matches").glob("*.parquet"))
    assert (folder / "spark.log").exists()


@pytest.mark.slow
def test_ctrl_c_stops_the_demo_on_spark() -> None:
    with started("demo", "--rows", "4000000", stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while "partitions by" not in (line := demo.stdout.readline()):  # until Spark runs
            assert line
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=120)
    assert demo.returncode == 130, errors
    assert apart_from_compiling(errors) == ["stopped by Ctrl-C"]

"""``thetastream demo``: it joins, checks itself, notices a wrong answer, and stops when told to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from thetastream import oracle
from thetastream.cli import demo


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ORACLE_PAIRS", 30_000)


def test_a_small_demo_agrees_with_the_oracle(command) -> None:
    result = command("demo", "--rows", "20000", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "20.0k of 20.0k rows" in result.stdout  # no terminal: plain lines
    assert re.search(r"rows in +20,000 ", result.stdout)
    agreed = re.search(r"the oracle agrees on ([\d,]+) matches", result.stdout)
    assert agreed is not None
    assert int(agreed[1].replace(",", "")) > 0
    assert "late rows" not in result.stdout


def test_threads_do_not_change_the_answer(command) -> None:
    outputs = [command("demo", "--rows", "20000", "--threads", n).stdout for n in ("1", "2")]
    matches = [re.search(r"matches +([\d,]+)", output) for output in outputs]
    assert matches[0] is not None
    assert matches[1] is not None
    assert matches[0][1] == matches[1][1]


def test_a_wrong_answer_is_noticed(command, monkeypatch: pytest.MonkeyPatch) -> None:
    right = oracle.join

    def one_pair_less(*arguments: object) -> oracle.Answer:
        answer = right(*arguments)
        return oracle.Answer(answer.pairs[1:], answer.late)

    monkeypatch.setattr(oracle, "join", one_pair_less)
    result = command("demo", "--rows", "20000")
    assert result.exit_code == 1
    assert "the oracle disagrees" in result.stdout


def test_ctrl_c_stops_the_demo() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "thetastream.cli", "demo", "--rows", "4000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert "trades" in process.stdout.readline()  # it has started
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "stopped by Ctrl-C" in errors
    assert "Traceback" not in errors

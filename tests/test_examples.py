"""Every script of ``examples/`` that needs no Spark runs, and gives what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from .example_scripts import load


@pytest.mark.parametrize("index", ["auto", "ptwi/b+tree", "sorted-runs"])
def test_linear_road(index: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = load("linear_road").main(minutes=7, index=index)  # checks every answer itself
    assert len(found) == 20
    assert found[:3] == [56, 57, 72]
    # A query of an earlier test may still print a line of its own.
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if line.startswith("minute")]
    assert len(printed) == 7
    assert printed[6].startswith("minute 6:  9,639 reports held; vehicle 1274 goes 26 mph")


def test_enrich(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    priced = load("enrich").main(tmp_path, batches=4)  # checks every answer itself
    assert len(priced) == 4
    assert all(0 < count < 20_000 for count in priced)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("58,800 ranges, ")
    assert len(printed) == 5


def test_ip_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = load("ip_ranges").main(tmp_path, rows=100)  # checks every answer itself
    assert sorted(found) == [4, 6]
    assert all(count >= 50 for count in found.values())
    assert len(capsys.readouterr().out.splitlines()) == 2

"""TPC-H through its generator."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from thetastream.datasets import TPCH_TABLES, tpch, tpch_table
from thetastream.errors import DataError


def test_a_table_has_the_rows_of_its_scale_factor() -> None:
    part = tpch_table("part", 0.001)
    assert part.num_rows == TPCH_TABLES["part"] // 1000
    assert part["p_partkey"].to_pylist() == list(range(1, 201))


def test_first_rows_are_those_of_the_whole_table() -> None:
    whole = tpch_table("lineitem", 0.01)
    some = tpch_table("lineitem", 0.01, rows=1000)
    assert some.equals(whole.slice(0, 1000).combine_chunks())
    assert set(some["l_partkey"].to_pylist()) <= set(range(1, 2001))


def test_what_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="one of customer, .*; got 'parts'"):
        tpch_table("parts")
    with pytest.raises(DataError, match="scale_factor must be above 0"):
        tpch_table("part", 0.0)

    def failed(*given: Any, **more: Any) -> Any:
        return SimpleNamespace(returncode=1, stderr="no room")

    monkeypatch.setattr(tpch.subprocess, "run", failed)
    with pytest.raises(DataError, match="made no table part: no room"):
        tpch_table("part", 0.001)
    monkeypatch.setattr(tpch.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="pip install thetastream"):
        tpch_table("part", 0.001)

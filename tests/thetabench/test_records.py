"""Result files of benchmarks that reproduce no paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from thetabench import records
from thetastream.errors import DataError


@dataclass(frozen=True)
class Thing:
    name: str
    count: int
    seconds: float
    right: bool


THINGS = [Thing("a, b", 3, 0.5, True), Thing("", 0, 1e-9, False)]


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "new" / "things.csv"
    assert records.rows(file) == []
    records.write(file, Thing, records.with_origin(THINGS, ["numpy"]))
    assert records.read(file, Thing) == THINGS
    assert records.rows(file)[0]["versions"].startswith("numpy ")


def test_the_machine_is_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "things.csv"
    records.write(file, Thing, records.with_origin(THINGS, ["numpy"]))
    assert records.machine_of(file, "duckdb 1").startswith("Machine: ")
    assert "; duckdb 1; 20" in records.machine_of(file, "duckdb 1")
    records.write(file, Thing, [])
    with pytest.raises(DataError, match=r"no results in .*things\.csv; run the benchmark first"):
        records.machine_of(file)

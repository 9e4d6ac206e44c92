"""``--aggregate``: one row per left row, in files and in explanations."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thetastream.cli.options import read_aggregates
from thetastream.errors import SchemaError

ASKED = ("--aggregate", "n=count", "--aggregate", "avg=mean(r.v)", "--aggregate", "lo = min(r.v)")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    pq.write_table(pa.table({"x": [1, 5, 9], "t": [3, 20, 30]}), tmp_path / "l.parquet")
    pq.write_table(
        pa.table({"x": [1, 2, 5, 5], "t": [1, 2, 4, 19], "v": [10, 30, None, 7]}),
        tmp_path / "r.parquet",
    )
    return str(tmp_path / "l.parquet"), str(tmp_path / "r.parquet")


def test_a_file_of_aggregates(command, files: tuple[str, str], tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    command(
        *("join", *files, "--on", "abs(l.x - r.x) <= 1", "--window", "10", "--time", "t"),
        *(*ASKED, "--output", str(output)),
    )
    table = pq.read_table(output)
    assert table.schema.types[-3:] == [pa.int64(), pa.float64(), pa.int64()]
    assert table.to_pylist() == [
        {"x": 1, "t": 3, "n": 2, "avg": 20.0, "lo": 10},
        {"x": 5, "t": 20, "n": 1, "avg": 7.0, "lo": 7},
        {"x": 9, "t": 30, "n": 0, "avg": None, "lo": None},
    ]


def test_a_preview_of_chosen_columns(command, files: tuple[str, str]) -> None:
    result = command(
        *("join", *files, "--on", "l.x <= r.x", "--count", "9", "--columns", "avg,x", *ASKED)
    )
    assert "avg" in result.output


def test_explain(command, files: tuple[str, str]) -> None:
    schemas = ("--left-schema", files[0], "--right-schema", files[1])
    result = command("explain", "l.x <= r.x", *schemas, *ASKED, "--json")
    facts = json.loads(result.output)
    assert facts["aggregates, one row per left row"]["avg"] == "mean(r.v)"
    assert facts["pairs"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count", "--aggregate takes NAME=FUNCTION"),
        ("n=mean(r.v", "--aggregate takes NAME=FUNCTION"),
        ("n=median(r.v)", "one of count, sum, min, max, mean"),
        ("n=mean(l.x)", "a column of the right side"),
        ("n=mean", "mean needs a column"),
        ("x=count", "has the name of a column of the left side"),
    ],
)
def test_what_is_refused(command, files: tuple[str, str], text: str, message: str) -> None:
    result = command(
        "join", *files, "--on", "l.x <= r.x", "--count", "9", "--aggregate", text, code=2
    )
    assert message in " ".join(result.output.split())


def test_names_are_given_once() -> None:
    assert read_aggregates(["n=count(*)", "m=count()"]) == {"n": "count", "m": "count"}
    with pytest.raises(SchemaError, match="two aggregates are called 'n'"):
        read_aggregates(["n=count", "n=sum(r.x)"])

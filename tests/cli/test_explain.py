"""``thetastream explain``: text for people, JSON for programs, messages for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thetastream as ts

ON = "abs(l.price - r.price) <= 0.05 AND l.size < r.size"


def test_text_and_json_say_the_same(command) -> None:
    explanation = ts.StreamJoin(ON, window=ts.CountWindow(1 << 20)).explain()
    text = command("explain", ON)
    assert (text.exit_code, text.stdout.startswith(f"{explanation}\n")) == (0, True)
    assert "--left-schema" in text.stdout
    long = command("explain", ON, "--verbose").stdout
    assert long.startswith(f"{explanation.verbose}\n")
    asked = command("explain", ON, "--json")
    assert json.loads(asked.stdout) == json.loads(json.dumps(explanation.as_dict(), default=str))


def test_parameters_workers_and_collecting_are_shown(command, tmp_path: Path) -> None:
    path = str(tmp_path / "l.parquet")
    pq.write_table(pa.table({"x": [1], "y": [1]}), path)
    result = command(
        *("explain", "l.x < r.x AND l.y > r.y", "--left-schema", path, "--count", "1000"),
        *("--tactic", "spo-join(elements=8)", "--workers", "2", "--collect", "100"),
        "--json",
    )
    facts = json.loads(result.stdout)
    assert facts["tactic asked for"] == "spo-join(elements=8)"
    assert facts["plan"][0]["chosen"]["parameters"] == {"elements": 8, "workers": 2}
    assert facts["collecting"] == "100 rows, per side"


def test_a_condition_that_no_index_covers(command) -> None:
    result = command("explain", "l.x * r.x > 10", "--count", "100")
    assert "nested loop" in result.stdout


def test_schemas_are_checked(command, tmp_path: Path) -> None:
    left, right = str(tmp_path / "l.parquet"), str(tmp_path / "r.parquet")
    pq.write_table(pa.table({"x": [1]}), left)
    pq.write_table(pa.table({"x": ["a"]}), right)
    command("explain", "l.x < r.x", "--left-schema", left)
    both = ("--left-schema", left, "--right-schema", right)
    result = command("explain", "l.x < r.x", *both, code=2)
    assert "string" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["l.x <"],
        ["l.x < q.x"],
        ["l.x < r.x", "--how", "cross"],
        ["l.x < r.x", "--window", "1 fortnight", "--time", "t"],
        ["l.x < r.x", "--right-schema", "gone.parquet"],
        ["l.x < r.x", "--left-schema", "gone.parquet"],
    ],
)
def test_wrong_input_is_a_message_and_code_2(command, arguments: list[str]) -> None:
    result = command("explain", *arguments, code=2)
    assert result.stdout == ""
    assert result.stderr

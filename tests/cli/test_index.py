"""``thetastream index``: everything registered is listed."""

from __future__ import annotations

import json

import thetastream as ts


def test_every_structure_and_tactic_is_listed(command) -> None:
    result = command("index", "--json")
    assert result.exit_code == 0
    listed = json.loads(result.stdout)
    assert [row["name"] for row in listed["structures"]] == ts.index.names()
    assert [row["name"] for row in listed["tactics"]] == list(ts.tactics())
    for row in listed["structures"]:
        assert row["parameters"] == ts.index.create(row["name"]).parameters


def test_the_table_names_them_too(command) -> None:
    result = command("index")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in [*ts.index.names(), *ts.tactics()])
    assert "capacity = 1048576" in result.stdout

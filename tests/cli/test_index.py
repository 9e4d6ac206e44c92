"""``thetastream index``: everything registered is listed; the cost model is calibrated."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

import thetastream as ts
from thetastream.calibration import batches, trees
from thetastream.errors import RegistryError
from thetastream.prices.constants import CALIBRATED, Constants, calibration_file

SIZES = ("capacity", "columns")


def test_every_structure_and_tactic_is_listed(command) -> None:
    result = command("index", "--json")
    listed = json.loads(result.stdout)
    assert [row["name"] for row in listed["structures"]] == ts.index.names()
    assert [row["name"] for row in listed["tactics"]] == list(ts.tactics())
    for row in listed["structures"]:
        with suppress(RegistryError):  # one that needs a library or device that is not here
            held = ts.index.create(row["name"]).parameters
            told = {word: known["default"] for word, known in row["parameters"].items()}
            assert told == {w: value for w, value in held.items() if w not in SIZES}
            assert all(known["type"] for known in row["parameters"].values())
        assert row["tactic"] in ts.tactics()
    (spo,) = (row for row in listed["structures"] if row["name"] == "spo-join")
    assert spo["parameters"]["background"] == {"type": "bool", "default": False}
    (panjoin,) = (row for row in listed["tactics"] if row["name"] == "panjoin")
    assert panjoin["structures"] == ["subwindows"]


def test_the_table_names_them_too(command) -> None:
    result = command("index")
    assert all(name in result.stdout for name in [*ts.index.names(), *ts.tactics()])
    for part in ("depth: int = -1", "background: bool = False", "spo-join(elements=8)"):
        assert part in result.stdout


def test_an_unknown_part_of_it_is_wrong_input(command) -> None:
    command("index", "calibarte", code=2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and timings that are short, so of no use."""
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))
    for name, value in {
        "QUICK": (5, 6), "FULL": (5, 6, 7), "_LONG": 64, "_SHORT": 64, "_TIMED": 64,
        "_REPEATS": 1, "_SCANNED": 5,
    }.items():  # fmt: skip
        monkeypatch.setattr(trees, name, value)
    for name, value in {"QUICK": ((5, 4),), "FULL": ((5, 4),), "ROWS": 16, "TIMES": 1}.items():
        monkeypatch.setattr(batches, name, value)
    return tmp_path


def test_calibrating_stores_what_is_loaded(command, folder: Path) -> None:
    result = command("index", "calibrate", "--quick")
    said = [line for line in result.stderr.splitlines() if "compiling kernels" not in line]
    assert said == [
        "windows of 2^5 rows",
        "windows of 2^6 rows",
        "windows of 2^5 rows, pushes of 2^4",
    ]
    assert f"written to {calibration_file()}" in result.stdout
    assert "λ_ib^s" in result.stdout
    loaded = Constants.load()
    assert loaded.source == CALIBRATED
    assert len(loaded.search) == 2
    held = json.loads(calibration_file().read_text())
    assert held["format"] == 2
    assert {"cpu", "cores", "python"} <= set(held["machine"])


def test_every_constant_is_explained(command, folder: Path) -> None:
    table = command("index", "calibrate", "--quick").stdout
    named = {**Constants().as_dict(), **Constants().batches.as_dict()}
    assert all(f" {name} " in table for name in named if name != "batches")


def test_calibrating_prints_json_and_writes_where_told(command, folder: Path) -> None:
    mine = folder / "mine.json"
    result = command("index", "calibrate", "--json", "--output", str(mine))
    printed = json.loads(result.stdout)
    assert printed["file"] == str(mine)
    assert len(printed["constants"]["search"]) == 3
    assert json.loads(mine.read_text())["constants"] == printed["constants"]
    assert Constants.load().source == "defaults"


def test_explain_shows_the_steps_and_reports_a_broken_calibration(command, folder: Path) -> None:
    (folder / "rows.csv").write_text("x\n1\n")
    on = ("explain", "l.x < r.x", "--tactic", "ibwj/pim-tree")
    schema = ("--left-schema", str(folder / "rows.csv"))
    shown = command(*on, *schema, "--verbose")
    assert "constants of the cost model: defaults" in shown.stdout
    calibration_file().write_text("{")
    broken = command(*on, *schema, code=2)
    assert broken.stderr.startswith("error: the calibration ")
    assert "run `thetastream index calibrate` again" in broken.stderr

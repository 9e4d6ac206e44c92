"""Where libJudy is not installed: what is said, and that everything else goes on."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import thetastream as ts
from thetabench import judy
from thetabench.contestant import Unavailable
from thetabench.judy.libjudy import VARIABLE
from thetabench.structures import made
from thetastream.cli import app
from thetastream.errors import RegistryError

NAME = "judy"


@pytest.fixture(autouse=True)
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nowhere/lib-of-nobody.so")
    judy.add()


def test_creating_it_says_what_to_install() -> None:
    message = (
        r"'judy' needs the C library libJudy.*lib-of-nobody.*apt-get install libjudydebian1"
        rf".*{VARIABLE}.*comparison only: 'radix-trie'"
    )
    with pytest.raises(RegistryError, match=message):
        ts.index.create(NAME)
    rows = pa.table({"x": [1]})
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), tactic=f"ordered/{NAME}")
    with pytest.raises(RegistryError, match="comparison only"):
        list(join.push(left=rows, right=rows))


def test_a_library_without_its_functions_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "libm.so.6")
    with pytest.raises(RegistryError, match="undefined symbol: JudyLIns"):
        ts.index.create(NAME)


def test_it_is_listed_with_its_parameters() -> None:
    result = CliRunner().invoke(app, ["index", "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    listed = {row["name"]: row for row in json.loads(result.stdout)["structures"]}
    assert listed[NAME]["parameters"] == {}, "besides capacity and columns, which a join sets"
    assert "where it is installed" in listed[NAME]["summary"]


def test_benchmarks_leave_it_out_with_a_reason() -> None:
    with pytest.raises(Unavailable, match="apt-get install libjudydebian1"):
        made(NAME, 16)


def test_the_others_do_not_need_it() -> None:
    index = ts.index.create("burst-trie")
    index.insert(np.array([2, 1]), np.array([0, 1]))
    assert index.map(0, 9) == 2

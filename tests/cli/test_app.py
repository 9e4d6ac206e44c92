"""The command itself: help, version, and what errors become."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner, Result

import thetastream as ts
from thetastream.cli.app import Verbs, app
from thetastream.errors import DataError, PredicateError

VERBS = ["demo", "join", "relation", "explain", "index", "bench"]


def test_help_names_every_verb_and_shows_examples(command) -> None:
    result = command("--help")
    assert all(f" {verb} " in result.stdout for verb in VERBS)
    assert "Examples:" in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(command, verb: str) -> None:
    result = command(verb, "--help")
    assert "Usage:" in result.stdout


def test_version_is_the_one_of_the_project(command) -> None:
    result = command("--version")
    assert (result.exit_code, result.stdout) == (0, f"thetastream {ts.__version__}\n")


def test_an_unknown_verb_is_wrong_input(command) -> None:
    command("jion", code=2)


def run_failing(error: BaseException) -> Result:
    broken = typer.Typer(cls=Verbs, pretty_exceptions_enable=False)

    @broken.callback()
    def options() -> None: ...

    @broken.command()
    def fail() -> None:
        raise error

    return CliRunner().invoke(broken, ["fail"])


def test_the_users_mistakes_are_one_message() -> None:
    result = run_failing(DataError("no such thing; try another"))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "error: no such thing; try another\n"


def test_a_message_points_at_the_text() -> None:
    result = run_failing(PredicateError("no such side", text="x < r.y", start=0, end=1))
    assert result.stderr == "error: no such side\n  x < r.y\n  ^\n"


def test_our_own_mistakes_are_not_hidden() -> None:
    result = run_failing(AssertionError("broken invariant"))
    assert isinstance(result.exception, AssertionError)


def test_ctrl_c_is_a_clean_exit() -> None:
    result = run_failing(KeyboardInterrupt())
    assert result.exit_code == 130
    assert result.stderr == "stopped by Ctrl-C\n"


def test_help_loads_nothing_that_a_verb_needs() -> None:
    code = (
        "import sys, thetastream\n"
        "before = set(sys.modules)\n"
        "from thetastream.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as done:\n    assert done.code == 0\n"
        "loaded = set(sys.modules) - before\n"
        "heavy = {'numba', 'pyarrow', 'sqlglot', 'duckdb', 'polars', 'matplotlib',\n"
        "         'thetabench', 'thetastream.datasets', 'thetastream.truth.oracle'}\n"
        "print(sorted(heavy & loaded), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_the_app_is_what_main_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "thetastream.cli", "explain"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "CONDITION" in done.stderr
    assert app.info.name == "thetastream"

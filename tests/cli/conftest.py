"""Running the command inside the test process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from thetastream.cli import app

Command = Callable[..., Result]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call ``command("join", "a.csv", …)``; a traceback or another exit code fails the test."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
        assert "Traceback" not in result.output
        assert result.exit_code == code, result.output
        return result

    return call

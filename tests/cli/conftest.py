"""Running the command inside the test process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from thetastream.cli import app

Command = Callable[..., Result]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call ``command("join", "a.csv", …)``; a traceback in the verb fails the test."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Result:
        result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
        assert "Traceback" not in result.output
        return result

    return call

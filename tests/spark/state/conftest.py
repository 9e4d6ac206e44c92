"""A folder of run files for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from thetastream.spark.theta.step import ALIVE


@pytest.fixture
def own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ALIVE._held.clear()
    monkeypatch.setenv("THETASTREAM_RUNS", str(tmp_path / "runs"))

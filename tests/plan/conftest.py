"""A cache without a calibration."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))
    return tmp_path

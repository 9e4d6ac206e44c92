"""Where the real data are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from thetastream.datasets.real import VARIABLE


@pytest.fixture(scope="session")
def folder() -> Path:
    """Find the real data: the variable, else the folder that stands beside the project."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(os.environ.get(VARIABLE) or beside)
    if not path.is_dir():
        pytest.skip(f"no real data here; set {VARIABLE} to run this")
    return path

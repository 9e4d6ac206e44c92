"""A small relation that is closed after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from thetastream.relation.store import Relation

from .update_cases import small


@pytest.fixture
def relation(tmp_path: Path) -> Iterator[Relation]:
    with small(tmp_path / "r.rel") as made:
        yield made

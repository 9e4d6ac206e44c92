"""Joins that workers keep are closed after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from thetastream.spark.relation import worker as relation_worker


@pytest.fixture(autouse=True)
def _nothing_held() -> Iterator[None]:
    yield
    while relation_worker._WARM:
        relation_worker._WARM.popitem()[1].close()

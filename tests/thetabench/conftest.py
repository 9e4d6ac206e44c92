"""What the tests of the laboratory share: the registry as it was, and a look for libJudy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from thetabench.judy.libjudy import load
from thetastream.errors import RegistryError
from thetastream.index import registry

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Judy among their parameters need the C library."""
    wanting = [item for item in items if "judy" in item.name and HERE in item.path.parents]
    try:
        load()
    except RegistryError as error:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=str(error)))


def _restored() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_STRUCTURES", {**registry._STRUCTURES})
        yield


@pytest.fixture(autouse=True, scope="module")
def registered_by_fixtures() -> Iterator[None]:
    """What fixtures of a module add to the registry is gone after the module."""
    yield from _restored()


@pytest.fixture(autouse=True)
def registered(registered_by_fixtures: None) -> Iterator[None]:
    """What a test adds to the registry is gone after it."""
    yield from _restored()

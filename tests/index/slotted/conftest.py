"""The structure in two arrays, registered for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from thetastream.index import registry

from ..index_plain import Plain


@pytest.fixture(autouse=True, scope="module")
def plain() -> Iterator[None]:
    """A structure in two arrays, under a name of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._STRUCTURES, "plain", Plain)
        yield

"""What all tests share: the hypothesis profiles, and a look for what may be absent."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from thetastream.errors import RegistryError
from thetastream.index.subwindows.opencl import find

# The same examples on every run and every machine; a first call may compile, so no deadline.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# New examples on every run: THETASTREAM_HYPOTHESIS=explore make test ARGS="-k oracle"
settings.register_profile(
    "explore",
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("THETASTREAM_HYPOTHESIS", "ci"))


def pytest_configure() -> None:
    """A run in the background ignores Ctrl-C, and so would every process that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a Spark session go to one process; some need what may be absent."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
    _skip_without("opencl", find, items)  # PoCL comes with the packages, but needs a linker


def _skip_without(word: str, look: Callable[[], object], items: list[pytest.Item]) -> None:
    """Tests with a word in their name, parameters included, need what is looked for."""
    wanting = [item for item in items if word in item.nodeid]
    if not wanting:
        return
    try:
        look()
    except RegistryError as error:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=str(error)))

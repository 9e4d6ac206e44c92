"""The histogram of waiting times."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.relation.pacing.latency import Latencies

seconds = st.one_of(st.just(0.0), st.floats(1e-6, 1e7), st.sampled_from([1e-7, 1.04e-7, 1.0]))
quantiles = st.floats(0.0, 1.0)


def exact(waits: list[float], q: float) -> float:
    return sorted(waits)[max(1, ceil(q * len(waits))) - 1]


@given(st.lists(seconds, min_size=1, max_size=50), quantiles)
def test_quantiles_within_two_percent(waits: list[float], q: float) -> None:
    latencies = Latencies()
    for wait in waits:
        latencies.add(wait, 1)
    assert latencies.quantile(q) == pytest.approx(exact(waits, q), rel=0.0201, abs=1.01e-7)
    assert latencies.count == len(waits)
    assert latencies.worst == max(waits)


@given(st.lists(st.tuples(seconds, st.integers(0, 5)), max_size=20), quantiles)
def test_rows_weigh(groups: list[tuple[float, int]], q: float) -> None:
    latencies = Latencies()
    for wait, rows in groups:
        latencies.add(wait, rows)
    waits = [wait for wait, rows in groups for _ in range(rows)]
    found = latencies.quantile(q)
    assert latencies.count == len(waits)
    if waits:
        assert found == pytest.approx(exact(waits, q), rel=0.0201, abs=1.01e-7)
    else:
        assert found is None
        assert latencies.worst == 0.0


def test_never_above_the_worst() -> None:
    latencies = Latencies()
    latencies.add(3.3e7, 2)
    assert latencies.quantile(1.0) is not None
    assert latencies.quantile(1.0) <= latencies.worst == 3.3e7  # type: ignore[operator]


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_wrong_quantiles(q: float) -> None:
    with pytest.raises(AssertionError, match="between 0 and 1"):
        Latencies().quantile(q)

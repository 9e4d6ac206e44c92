"""Plans: their shape, their costs, and what is refused."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import RelationError
from thetastream.relation.disk.readplan import PLANS, ReadPlan, greedy_plan, plan, single_plan

from ...keys import Array

Wanted = tuple[Array, Array | None]
NAMES = list(PLANS)
EXACT = ["optimal", "shortest-path", "recurrence"]


@st.composite
def wanted(draw: st.DrawFn) -> Wanted:
    shapes = st.tuples(st.integers(0, 9), st.sampled_from([1, 1, 1, 1, 2, 4, 12]))
    leaves = draw(st.lists(shapes, max_size=40))
    gaps = np.array([gap for gap, _ in leaves], np.int64)
    if draw(st.booleans()):
        return np.cumsum(gaps + 1) - 1, None
    spans = np.array([span for _, span in leaves], np.int64)
    return np.cumsum(gaps + spans) - spans, spans


COSTS = st.sampled_from([(0, 1), (1, 0), (3, 1), (8, 3), (20, 1)])
SCANS = st.sampled_from([1, 2, 4, 7, 11, 30, None])


def blocks_of(starts: Array, counts: Array) -> list[int]:
    return [s + i for s, c in zip(starts, counts, strict=True) for i in range(c)]


@pytest.mark.parametrize("name", NAMES)
@given(asked=wanted(), costs=COSTS, max_scan=SCANS)
def test_shape(name: str, asked: Wanted, costs: tuple[int, int], max_scan: int | None) -> None:
    blocks, spans = asked
    sizes = np.ones_like(blocks) if spans is None else spans
    chosen = PLANS[name](blocks, spans, *costs, max_scan)
    read = blocks_of(chosen.starts, chosen.counts)
    asked_for = blocks_of(blocks, sizes)
    # Nothing is read twice, everything wanted is read, and ends of sequences are wanted.
    assert sorted(set(read)) == read
    assert set(asked_for) <= set(read)
    assert set(chosen.starts) | set(chosen.starts + chosen.counts - 1) <= set(asked_for)
    assert chosen.wasted == len(read) - len(asked_for)
    assert chosen.blocks_read == len(read)
    assert chosen.cost(*costs) == len(chosen) * costs[0] + len(read) * costs[1]
    # Leaves belong to the sequence that reads them; only a leaf alone is longer than may be.
    edges = [*chosen.firsts.tolist(), blocks.size]
    assert edges[0] == 0
    for i, (first, stop) in enumerate(pairwise(edges)):
        assert first < stop
        assert chosen.starts[i] == blocks[first]
        assert chosen.starts[i] + chosen.counts[i] == blocks[stop - 1] + sizes[stop - 1]
        assert max_scan is None or chosen.counts[i] <= max_scan or stop == first + 1


@given(asked=wanted(), costs=COSTS, max_scan=SCANS)
def test_optimal_is_never_above_the_others(
    asked: Wanted, costs: tuple[int, int], max_scan: int | None
) -> None:
    best = {PLANS[name](*asked, *costs, max_scan).cost(*costs) for name in EXACT}
    assert len(best) == 1
    others = [make(*asked, *costs, max_scan) for make in (greedy_plan, single_plan)]
    assert best.pop() <= min(other.cost(*costs) for other in others)


@given(asked=wanted(), max_scan=SCANS)
def test_real_costs_differ_by_rounding_only(asked: Wanted, max_scan: int | None) -> None:
    seek, transfer = 9e-5, 8192 / 500e6
    costs = [PLANS[name](*asked, seek, transfer, max_scan).cost(seek, transfer) for name in NAMES]
    assert math.isclose(costs[0], costs[3], rel_tol=1e-12)
    assert all(costs[0] <= other * (1 + 1e-12) for other in costs)


def test_greedy_is_not_optimal() -> None:
    """Filling up the first sequence costs an unwanted block that the second need not read."""
    blocks = np.array([0, 2, 3])
    assert greedy_plan(blocks, None, 3.0, 1.0, 3).starts.tolist() == [0, 3]
    assert plan(blocks, None, 3.0, 1.0, 3).starts.tolist() == [0, 2]
    assert plan(blocks, None, 3.0, 1.0, 3).wasted == 0


@pytest.mark.parametrize("name", ["greedy", "optimal"])
def test_a_gap_that_costs_as_much_as_a_seek_is_not_read_over(name: str) -> None:
    chosen = PLANS[name](np.array([0, 3, 7]), None, 3.0, 1.0, 99)
    assert (chosen.starts.tolist(), chosen.counts.tolist()) == ([0, 7], [4, 1])


def test_a_long_leaf_is_read_alone() -> None:
    chosen = plan(np.array([0, 1, 9]), np.array([1, 8, 1]), 100.0, 1.0, 4)
    assert (chosen.starts.tolist(), chosen.counts.tolist()) == ([0, 1, 9], [1, 8, 1])


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_read_only_or_far_apart_will_do(name: str) -> None:
    blocks = np.repeat(np.array([0, 1, 2**40, 2**40 + 1]), 2)[::2]
    blocks.flags.writeable = False
    chosen = PLANS[name](blocks, None, 8.5e-3, 5e-5, 1000)
    assert chosen.blocks_read == 4
    assert len(chosen) == (4 if name == "single" else 2)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_wanted(name: str) -> None:
    nothing = np.empty(0, np.int64)
    chosen = PLANS[name](nothing, None, 1.0, 1.0, 5)
    assert isinstance(chosen, ReadPlan)
    assert (len(chosen), chosen.blocks_read, chosen.wasted) == (0, 0, 0)
    assert chosen.cost(1.0, 1.0) == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("costs", [(-1.0, 1.0), (1.0, -1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_costs_that_make_no_sense(name: str, costs: tuple[float, float]) -> None:
    with pytest.raises(RelationError, match="seek and transfer.*0 or more; got"):
        PLANS[name](np.arange(3), None, *costs, 5)


@pytest.mark.parametrize("name", NAMES)
def test_a_scan_of_nothing(name: str) -> None:
    with pytest.raises(AssertionError, match="max_scan of at least 1 block"):
        PLANS[name](np.arange(3), None, 1.0, 1.0, 0)

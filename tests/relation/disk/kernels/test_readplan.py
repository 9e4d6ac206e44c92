"""Plans against all plans, on every small list of wanted leaves."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.relation.disk.kernels.readplan import (
    greedy,
    optimal,
    recurrence,
    shortest_path,
)

from ....keys import int64

Leaves = list[tuple[int, int]]  # first block and the one behind the last
NAMES = ["optimal", "recurrence", "shortest_path"]


def cut(name: str, leaves: Leaves, seek: float, transfer: float, max_scan: int) -> list[int]:
    """The first leaves of the sequences of a kernel's plan."""
    count = len(leaves)
    blocks, ends = int64([b for b, _ in leaves]), int64([e for _, e in leaves])
    lasts, firsts = np.full(count, -7), np.full(count, -7)
    costs = np.full(count + 1, np.nan)
    given_ = (blocks, ends, float(seek), float(transfer), max_scan, costs)
    if name == "optimal":
        found = optimal(*given_, lasts, firsts)
    elif name == "recurrence":
        found = recurrence(*given_, lasts, firsts)
    else:
        heap, places, before = (np.full(count + 1, -7) for _ in range(3))
        found = shortest_path(*given_, heap, places, before, lasts, firsts)
    return firsts[:found].tolist()


def cost_of(firsts: list[int], leaves: Leaves, seek: float, transfer: float, scan: int) -> float:
    """What a plan costs; infinite if it is none."""
    if firsts[:1] != [0][: len(leaves)] or sorted(set(firsts)) != firsts:
        return np.inf
    total = 0.0
    for first, stop in pairwise([*firsts, len(leaves)]):
        length = leaves[stop - 1][1] - leaves[first][0]
        if stop > first + 1 and length > scan:
            return np.inf
        total += seek + transfer * length
    return total


def cheapest(leaves: Leaves, seek: float, transfer: float, max_scan: int) -> float:
    """Over all ways to cut the list."""
    if not leaves:
        return 0.0
    inner = range(1, len(leaves))
    return min(
        cost_of([0, *cuts], leaves, seek, transfer, max_scan)
        for many in range(len(leaves))
        for cuts in combinations(inner, many)
    )


@pytest.mark.parametrize(("seek", "transfer"), [(0, 1), (1, 1), (3, 1), (5, 2), (7, 2), (1, 0)])
@pytest.mark.parametrize("max_scan", [1, 2, 3, 5, 8])
def test_equals_brute_force_on_every_subset(seek: int, transfer: int, max_scan: int) -> None:
    for wanted in product([False, True], repeat=10):
        leaves = [(block, block + 1) for block, is_wanted in enumerate(wanted) if is_wanted]
        best = cheapest(leaves, seek, transfer, max_scan)
        for name in NAMES:
            firsts = cut(name, leaves, seek, transfer, max_scan)
            assert cost_of(firsts, leaves, seek, transfer, max_scan) == best, (name, leaves, firsts)


@st.composite
def spanned(draw: st.DrawFn) -> Leaves:
    """Leaves of one block and more, with gaps."""
    leaves, at = [], draw(st.sampled_from([0, 5, 2**40]))
    shapes = st.tuples(st.integers(0, 7), st.sampled_from([1, 1, 1, 2, 3, 9]))
    for gap, span in draw(st.lists(shapes, max_size=9)):
        leaves.append((at + gap, at + gap + span))
        at += gap + span
    return leaves


COSTS = st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1), (3, 1), (5, 2), (17, 4), (40, 1)])
SCANS = st.sampled_from([1, 2, 3, 5, 8, 13, 2**62])


@given(spanned(), COSTS, SCANS)
def test_equals_brute_force_with_spans(
    leaves: Leaves, costs: tuple[int, int], max_scan: int
) -> None:
    best = cheapest(leaves, *costs, max_scan)
    for name in NAMES:
        firsts = cut(name, leaves, *costs, max_scan)
        assert cost_of(firsts, leaves, *costs, max_scan) == best, (name, firsts)


@given(spanned(), st.integers(0, 8), SCANS, COSTS)
def test_greedy_keeps_its_bounds_and_is_never_cheaper(
    leaves: Leaves, unwanted: int, max_scan: int, costs: tuple[int, int]
) -> None:
    blocks, ends = int64([b for b, _ in leaves]), int64([e for _, e in leaves])
    firsts = np.full(len(leaves), -7)
    found = greedy(blocks, ends, unwanted, max_scan, firsts)
    firsts = firsts[:found].tolist()
    assert cost_of(firsts, leaves, *costs, max_scan) >= cheapest(leaves, *costs, max_scan)
    # A sequence ends only where it must: the gap is too wide, or it would be too long.
    for first, after in pairwise(firsts):
        gap = leaves[after][0] - leaves[after - 1][1]
        assert gap > unwanted or leaves[after][1] - leaves[first][0] > max_scan
    for leaf in set(range(1, len(leaves))) - set(firsts):
        assert leaves[leaf][0] - leaves[leaf - 1][1] <= unwanted


def test_neighbours_stay_together_when_seeks_cost_nothing() -> None:
    leaves = [(0, 1), (1, 2), (2, 3), (5, 6)]
    assert cut("optimal", leaves, 0.0, 1.0, 8) == [0, 3]
    assert cut("optimal", leaves, 0.0, 1.0, 2) in ([0, 1, 3], [0, 2, 3])

"""Permutations: built and merged, they lead from every order to every other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetastream.index.permuted.kernels.permute import BLOCK, invert, zone
from thetastream.index.permuted.permuted import Permuted

EDGES = st.sampled_from([-(2**63), 2**63 - 1])
ROWS = st.lists(st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 3), EDGES)), max_size=12)


@given(st.permutations(range(9)))
def test_inverting_leads_back(order: list[int]) -> None:
    places, ranks = np.array(order, np.int32), np.empty(9, np.int32)
    invert(places, ranks)
    assert ranks[places].tolist() == list(range(9))


def test_zones_hold_the_extremes_of_every_block() -> None:
    values = np.random.default_rng(0).permutation(3 * BLOCK + 5).astype(np.int32)
    found = np.empty((2, 4), np.int32)
    zone(values, -values, found)
    blocks = [values[i : i + BLOCK] for i in range(0, values.size, BLOCK)]
    assert found[0].tolist() == [block.min() for block in blocks]
    assert found[1].tolist() == [(-block).max() for block in blocks]


def held(one: Permuted | None) -> dict[int, tuple[int, ...]]:
    """Keys by id."""
    if one is None:
        return {}
    keys, ids = one.rows()
    return {int(row): tuple(column) for row, column in zip(ids, keys.T.tolist(), strict=True)}


def structure(rows: list[tuple[int, int]], first: int) -> Permuted | None:
    if not rows:
        return None
    return Permuted.build(np.array(rows, np.int64).T.copy(), np.arange(first, first + len(rows)))


@given(ROWS, ROWS, st.integers(0, 24))
def test_merging_keeps_the_live_rows_and_every_order(
    old: list[tuple[int, int]], new: list[tuple[int, int]], before: int
) -> None:
    older, newer = structure(old, 0), structure(new, len(old))
    if older is None:
        return
    merged = older.merged(newer, before)
    expected = {row: keys for row, keys in enumerate(old + new) if row >= before}
    assert held(merged) == expected
    if merged is not None:
        merged.check()


@given(ROWS)
def test_from_sorted_terms_as_from_rows(rows: list[tuple[int, int]]) -> None:
    if not rows:
        return
    matrix = np.array(rows, np.int64).T.copy()
    ids = np.arange(7, 7 + len(rows))
    terms = [(column[order], ids[order]) for column in matrix for order in [np.argsort(column)]]
    built = Permuted.of_terms(terms)
    built.check()
    assert held(built) == held(Permuted.build(matrix, ids))

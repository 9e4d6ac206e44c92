"""Shares that are estimated from samples, against the shares of all pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from thetastream.boxes.binding import bind
from thetastream.boxes.keys import Keys
from thetastream.condition.predicate import Predicate
from thetastream.plan.choice import SAMPLE, sample
from thetastream.plan.selectivity import Selectivity
from thetastream.side import Side
from thetastream.window import CountWindow

SCHEMA = pa.schema([("a", pa.float64()), ("b", pa.float64())])
BOUND = bind(
    Predicate.parse("l.a < r.a AND l.b > r.b"), CountWindow(1 << 17), dict.fromkeys(Side, SCHEMA)
)
ROWS = 1 << 13


def stream(side: Side, a: NDArray[np.float64], b: NDArray[np.float64]) -> Keys:
    return sample(BOUND.keys(side, pa.record_batch({"a": a, "b": b}, schema=SCHEMA)))


def uneven(seed: int) -> tuple[Selectivity, float]:
    """Few fresh rows match most of the stored ones; with the share of all pairs that match."""
    rng = np.random.default_rng(seed)
    (la, lb), (ra, rb) = (
        (a, 1 - a + 0.1 * rng.random(ROWS)) for a in (rng.random(ROWS), rng.random(ROWS))
    )
    la, lb = la + 0.98, lb - 0.98
    truth = np.mean([np.mean((la[at] < ra) & (lb[at] > rb)) for at in range(ROWS)])
    stored, fresh = stream(Side.RIGHT, ra, rb), stream(Side.LEFT, la, lb)
    return Selectivity.of(BOUND.fields(Side.RIGHT), stored, fresh), float(truth)


@pytest.mark.parametrize("seed", range(8))
def test_matches_of_few_rows_are_estimated_from_the_whole_sample(seed: int) -> None:
    known, truth = uneven(seed)
    assert truth / 2 < known.joint < 2 * truth
    assert all(inside.size == SAMPLE for inside in known._inside.values())


@pytest.mark.parametrize("seed", range(3))
def test_a_part_of_the_sample_suffices_if_rows_match_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = {side: [rng.random(ROWS) for _ in range(2)] for side in Side}
    stored, fresh = (stream(side, *sides[side]) for side in (Side.RIGHT, Side.LEFT))
    known = Selectivity.of(BOUND.fields(Side.RIGHT), stored, fresh)
    assert known.joint == pytest.approx(1 / 4, rel=0.2)
    assert all(inside.size < SAMPLE for inside in known._inside.values())

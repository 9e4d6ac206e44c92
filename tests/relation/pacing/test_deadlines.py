"""The cost model of join phases: SSIJ, Section IV-F."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.relation.pacing.deadlines import CostModel

SEEK, TRANSFER = 0.01, 0.001

leaves = st.integers(1, 5000)
phases = st.lists(st.tuples(leaves, st.floats(0.0, 100.0)), max_size=30)


def test_at_first_every_leaf_is_a_random_read() -> None:
    model = CostModel(SEEK, TRANSFER, margin=0.5)
    assert model.estimate(7) == pytest.approx(7 * (SEEK + TRANSFER) * 1.5)
    assert model.estimate(0) == 0.0


@given(phases, leaves)
def test_never_below_the_cheapest_plan(seen: list[tuple[int, float]], blocks: int) -> None:
    model = CostModel(SEEK, TRANSFER, margin=0.2)
    for read, seconds in seen:
        model.observe(read, seconds)
    assert model.estimate(blocks) >= (SEEK + blocks * TRANSFER) * 1.2 * (1 - 1e-12)


@given(phases, leaves, st.floats(1.0, 100.0))
def test_a_bad_phase_counts_at_once(
    seen: list[tuple[int, float]], blocks: int, seconds: float
) -> None:
    model = CostModel(SEEK, TRANSFER, margin=0.0)
    for read, spent in seen:
        model.observe(read, spent)
    model.observe(blocks, seconds)
    # One that was worse may be known already, and fades by a tenth of the distance at most.
    assert model.estimate(blocks) >= seconds * (1 - 1e-12)


def test_the_worst_of_a_similar_number_counts() -> None:
    model = CostModel(SEEK, TRANSFER, margin=0.0, fade=0.1)
    model.observe(1100, 3.0)
    model.observe(1100, 2.9)
    assert 2.9 < model.estimate(1100) <= 3.0
    assert model.estimate(1050) == model.estimate(1100)  # fewer leaves: not more time
    assert model.estimate(2040) == pytest.approx(model.estimate(1100) * 2040 / 1100)


def test_an_old_bad_phase_is_forgotten() -> None:
    model = CostModel(SEEK, TRANSFER, margin=0.0)
    model.observe(100, 50.0)
    for _ in range(100):
        model.observe(100, 0.5)
    assert 0.5 <= model.estimate(100) < 0.55


def test_unseen_sizes_are_bounded_by_their_neighbours() -> None:
    model = CostModel(SEEK, TRANSFER, margin=0.0)
    model.observe(16, 0.1)
    model.observe(1024, 2.0)
    assert model.estimate(64) == pytest.approx(0.4)  # from below: four times as many
    assert model.estimate(512) == pytest.approx(2.0)  # from above: not more than that
    assert model.estimate(8) == pytest.approx(8 * 0.011 if 8 * 0.011 > 0.1 else 0.1)
    assert model.estimate(4096) == pytest.approx(8.0)


def test_a_join_with_a_deadline_dares_larger_phases() -> None:
    """A device reads n leaves in 20 sequences; the model must come to know it, step by step."""
    model = CostModel(SEEK, TRANSFER)
    deadline, read = 3.0, 0
    for _ in range(40):
        read = max(n for n in range(1, 3000) if model.estimate(n) <= deadline)
        model.observe(read, 20 * SEEK + read * TRANSFER)
    true = (deadline - 20 * SEEK) / TRANSFER
    assert deadline / (SEEK + TRANSFER) < read <= true
    assert read > 0.5 * true


@given(st.integers(-3, 0), st.floats(allow_nan=True))
def test_nothing_is_learnt_from_nothing(blocks: int, seconds: float) -> None:
    model = CostModel(SEEK, TRANSFER, margin=0.0)
    model.observe(blocks, seconds)
    model.observe(5, float("nan"))
    model.observe(5, float("inf"))
    assert model.estimate(5) == pytest.approx(5 * (SEEK + TRANSFER))


def test_wrong_parameters() -> None:
    for wrong in ({"margin": -1.0}, {"fade": 0.0}, {"fade": 1.5}):
        with pytest.raises(AssertionError, match="not negative"):
            CostModel(SEEK, TRANSFER, **wrong)

"""Thresholds that choose themselves, and the popularity they are chosen from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.relation.pacing.popularity import PARTS, LeafSample
from thetastream.relation.pacing.tuning import Thresholds, Tuner

from ...scale import scaled

DISK = {"seek": 8.5e-3, "transfer": 8192 / 150e6}
SSD = {"seek": 9e-5, "transfer": 8192 / 500e6}
BLOCK = 8192


def zipf(leaves: int, skew: float, rows: int, seed: int = 1) -> np.ndarray:
    share = np.arange(1, leaves + 1) ** -float(skew)
    rng = np.random.default_rng(seed)
    return rng.choice(leaves, size=rows, p=share / share.sum()).astype(np.int64)


def tuned(budget: int, leaves: int, skew: float, device: dict[str, float]) -> Thresholds:
    tuner = Tuner(budget, 0, BLOCK, leaves, **device)
    for batch in np.split(zipf(leaves, skew, 100_000), 10):
        tuner.see(np.sort(batch))
    return tuner.thresholds(row_bytes=50.0, waiting_bytes=80.0)


def test_starts_with_table_two() -> None:
    large = Tuner(2 << 30, 0, BLOCK, 1_300_000, **DISK).thresholds(50.0, 80.0)
    assert (large.input_rows, large.stream_rows, large.max_scan) == (250_000, 1_000_000, 200)
    small = Tuner(100_000_000, 0, BLOCK, 1_300_000, **DISK).thresholds(50.0, 80.0)
    assert small.stream_rows == 400_000
    assert "Table II" in large.why


@given(
    st.integers(20_000, 10**9),
    st.floats(0.0, 1.2),
    st.integers(1, 3000),
    st.floats(8.0, 5000.0),
    st.floats(8.0, 5000.0),
    st.sampled_from([0, 300, 4000]),
    st.sampled_from([DISK, SSD, {"seek": 0.0, "transfer": 0.0}]),
)
@settings(max_examples=scaled(60))
def test_fits_the_budget(
    budget: int,
    fixed: float,
    leaves: int,
    row_bytes: float,
    waiting_bytes: float,
    seen: int,
    device: dict[str, float],
) -> None:
    tuner = Tuner(budget, int(budget * fixed), BLOCK, leaves, **device)
    tuner.see(np.sort(zipf(leaves, 0.7, seen)), rows=max(1, seen // 2))
    for _ in range(2):
        chosen = tuner.thresholds(row_bytes, waiting_bytes)
        assert chosen.input_rows >= 1
        assert chosen.stream_rows >= 1
        assert 1 <= chosen.max_scan <= max(4096, leaves)
        used = chosen.input_rows * row_bytes + chosen.stream_rows * waiting_bytes
        used += chosen.max_scan * BLOCK
        free = max(budget - int(budget * fixed), 4 * BLOCK)
        least = row_bytes + 16 * waiting_bytes + BLOCK
        assert used <= max(free, least)
        assert chosen.why.endswith(".")
        assert chosen.why.count(". ") == 0


def test_a_tiny_budget_shrinks_the_reads_too() -> None:
    chosen = tuned(1_600_000, 20_000, 0.0, DISK)
    assert chosen.max_scan < 100
    assert chosen.stream_rows * 80 > 0.4 * 1_600_000  # nothing to gain from a cache
    assert chosen.stream_rows * 80 + chosen.max_scan * BLOCK <= 1_600_000


def test_a_uniform_stream_gets_rows_and_a_skewed_one_a_cache() -> None:
    rows = [tuned(8_000_000, 20_000, skew, DISK).stream_rows for skew in (0.0, 1.0, 2.5)]
    assert rows[0] >= rows[1] > 2 * rows[2]


def test_a_relation_that_fits_needs_few_rows() -> None:
    chosen = tuned(8_000_000, 50, 0.0, DISK)
    assert chosen.stream_rows * 80 < 0.05 * 8_000_000
    assert "answer 100% of the questions" in chosen.why


def test_longer_reads_where_seeks_are_dear() -> None:
    assert (
        tuned(8_000_000, 20_000, 0.0, DISK).max_scan > tuned(8_000_000, 20_000, 0.0, SSD).max_scan
    )


def test_a_choice_stays_while_the_stream_does() -> None:
    tuner = Tuner(8_000_000, 0, BLOCK, 20_000, **DISK)
    tuner.see(zipf(20_000, 1.0, 50_000))
    tuner.thresholds(50.0, 80.0)  # input_rows follow from the time per row, known from here on
    first = tuner.thresholds(50.0, 80.0)
    for seed in range(5):
        tuner.see(zipf(20_000, 1.0, 500, seed))
        again = tuner.thresholds(50.0, 80.0)
        assert (again.stream_rows, again.max_scan) == (first.stream_rows, first.max_scan)
    for _ in range(3):  # it moves to one place that can be cached; two phases later that is known
        tuner.see(zipf(600, 0.0, 50_000))
        moved = tuner.thresholds(50.0, 80.0)
    assert moved.stream_rows < 0.5 * first.stream_rows


def test_what_it_holds_is_small() -> None:
    assert Tuner(10**9, 0, BLOCK, 10**6, **DISK).nbytes <= 65_536
    assert Tuner(1_600_000, 0, BLOCK, 10**6, **DISK).nbytes <= 1_600_000 / 128
    assert Tuner(10**12, 0, BLOCK, 2**33, **DISK).nbytes <= 131_072


@pytest.mark.parametrize("leaves", [20_000, 1_000_000])
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
def test_popularity_is_near_the_truth(leaves: int, skew: float) -> None:
    sample = LeafSample(leaves, 8192)
    for batch in np.split(zipf(leaves, skew, 80_000), 8):
        sample.add(batch)
    known = sample.summary()
    share = np.arange(1, leaves + 1) ** -float(skew)
    share /= share.sum()
    before = np.cumsum(known.leaves) - known.leaves
    for cached in (100, 1000, 10_000):
        held = np.clip((cached - before) / known.leaves, 0, 1) * known.leaves
        assert held @ known.share == pytest.approx(share[:cached].sum(), abs=0.15)
    for rows in (10_000, 100_000):
        distinct = -np.expm1(-rows * known.share) @ known.leaves
        assert distinct == pytest.approx(-np.expm1(-rows * share).sum(), rel=0.3)


@given(
    st.integers(1, 300),
    st.lists(st.lists(st.integers(0, 10**6), max_size=60), min_size=1, max_size=12),
)
def test_popularity_is_a_distribution(leaves: int, batches: list[list[int]]) -> None:
    sample = LeafSample(leaves, 64)
    asked: list[int] = []
    for batch in batches:
        asked += [leaf % leaves for leaf in batch]
        sample.add(np.array([leaf % leaves for leaf in batch], dtype=np.int64))
    assert min(len(asked), 16) <= sample.count <= 32
    if len(asked) <= 32:
        assert sample.count == len(asked)
    if sample.count == 0:
        return
    known = sample.summary()
    assert known.share @ known.leaves == pytest.approx(1.0)
    assert (np.diff(known.share) <= 0).all()
    assert known.leaves.sum() <= leaves * (1 + 1e-9)
    assert known.places.shape == (known.leaves.size, PARTS)
    assert (known.places >= 0).all()


@pytest.mark.parametrize("leaves", [1, 15, 1000])
def test_a_relation_that_has_grown_is_still_sampled(leaves: int) -> None:
    sample = LeafSample(leaves, 4096)
    sample.add(np.arange(3 * leaves).repeat(2))
    found = sample.summary()
    assert found.places.shape[1] == PARTS
    assert float(found.share @ found.leaves) == pytest.approx(1.0)


def test_the_sample_follows_the_stream() -> None:
    sample = LeafSample(1000, 64)
    sample.add(np.full(100, 7))
    sample.end_period()
    assert sample.count > 0  # what was known is not forgotten at once
    sample.add(np.full(100, 990))
    assert sample.summary().leaves.sum() == 2.0
    sample.end_period()
    known = sample.summary()
    assert known.leaves.tolist() == [1.0]
    assert known.places[0].argmax() == 990 * PARTS // 1000


@given(st.lists(st.integers(1, 200), min_size=5, max_size=40))
def test_the_sample_is_even_whatever_the_pieces(sizes: list[int]) -> None:
    """Questions come in order, in pieces of any size: both ends are known alike."""
    sample = LeafSample(1 << 20, 256)
    total = sum(sizes)
    questions = np.arange(total, dtype=np.int64) * ((1 << 20) // total)
    for piece in np.split(questions, np.cumsum(sizes)[:-1]):
        sample.add(piece)
    known = sample.summary().places[-1 if sample.count < 2 else 0]
    halves = known[: PARTS // 2].sum(), known[PARTS // 2 :].sum()
    assert sample.count >= min(total, 32)
    assert max(halves) <= 2.0 * min(halves) + 4.0


def test_a_period_goes_on_until_it_has_shown_enough() -> None:
    sample = LeafSample(1000, 64)
    for _ in range(20):
        sample.add(np.array([5]))
        sample.end_period()
    assert sample.count >= 8


def test_rows_that_ask_neighbours_wait_no_more_often_than_one_question_does() -> None:
    """Eight questions per row, hits and misses together: the cache is worth what it is for one."""
    rng = np.random.default_rng(1)
    hot = np.where(rng.random(4000) < 0.6, rng.integers(0, 40, 4000), rng.integers(0, 4000, 4000))
    chosen = []
    for done in (0.6, 0.6**8):
        tuner = Tuner(4_000_000, 100_000, 8192, 40_000, seek=8.5e-3, transfer=5.5e-5)
        for part in np.array_split(hot, 10):
            tuner.see((part[:, None] * 8 + np.arange(8)).ravel(), rows=part.size)
            tuner.answered(0.6, done)
        chosen.append(tuner.thresholds(row_bytes=150, waiting_bytes=200).stream_rows)
    together, apart = chosen
    assert together < apart, "more memory for the cache where it keeps rows from waiting"

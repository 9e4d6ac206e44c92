"""Sorted runs with zone maps: exact whatever is inserted, merged and expired."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.index.runs.sorted_runs import SortedRuns
from thetastream.index.runs.zoned_runs import ZonedRuns

from ...keys import HIGH, KEYS, LOW, Array, Pair
from ..index_boxes import boxed, brute, matrix, pairs

ROWS = st.lists(st.tuples(KEYS, KEYS, KEYS), max_size=9)
STEPS = st.lists(
    st.one_of(
        st.tuples(ROWS, st.sampled_from([1, 1, 20])),  # insert these, so many times
        st.integers(1, 40),  # expire so many
    ),
    max_size=12,
)
BOXES = st.lists(st.lists(st.tuples(KEYS, KEYS), min_size=3, max_size=3), max_size=4)


def found(index: SortedRuns, boxes: list[list[Pair]], limit: int = 1000) -> Counter[Pair]:
    """The pairs of an answer; of the intervals of a box, those of the index's columns."""
    return Counter(pairs(index, *asked(index, boxes), limit))


def asked(index: SortedRuns, boxes: list[list[Pair]]) -> tuple[Array, Array]:
    return boxed([box[: index.columns] for box in boxes], index.columns)


@pytest.mark.parametrize("columns", [1, 2, 3])
@given(steps=STEPS, boxes=BOXES, limit=st.integers(1, 90))
@example(steps=[([(0, 0, 0)], 20), 10], boxes=[[(0, 0)] * 3], limit=3)
@example(steps=[([(HIGH, LOW, HIGH)], 20), ([(LOW,) * 3], 20)], boxes=[[(LOW, HIGH)] * 3], limit=7)
def test_it_answers_like_a_list(
    columns: int,
    steps: list[tuple[list[tuple[int, ...]], int] | int],
    boxes: list[list[Pair]],
    limit: int,
) -> None:
    index = ZonedRuns(capacity=64, columns=columns, ratio=3, slot=2)
    keys, before = matrix([], columns), 0
    for step in steps:
        if isinstance(step, int):
            before = min(before + step, keys.shape[1])
            index.expire(before)
        else:
            fresh = matrix([row[:columns] for row in step[0] * step[1]], columns)
            index.insert(fresh, np.arange(keys.shape[1], keys.shape[1] + fresh.shape[1]))
            keys = np.hstack([keys, fresh])
        index.check()
        ids = np.arange(before, keys.shape[1])
        expected = brute(keys[:, before:], ids, *asked(index, boxes))
        assert sorted(pairs(index, *asked(index, boxes), limit)) == expected


def correlated(rows: int, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    first = random.integers(0, 10**6, rows)
    return np.stack([first, first + random.integers(0, 500, rows)])


@pytest.mark.parametrize("limit", [1000, 65_536])
def test_a_sliding_window_of_correlated_keys(limit: int) -> None:
    window, batch, total = 6_000, 500, 20_000
    keys = correlated(total)
    index = ZonedRuns(capacity=window, columns=2)
    boxes = [[(LOW, high), (high + 10, HIGH)] for high in range(0, 10**6, 50_011)]
    places = set()
    for at in range(0, total, batch):
        before = max(0, at + batch - window)
        index.expire(before)
        index.insert(np.ascontiguousarray(keys[:, at : at + batch]), np.arange(at, at + batch))
        index.check()
        places |= {run.start for run in index._runs}
        expected = Counter(
            (b, int(row))
            for b, ((_, high), (low, _)) in enumerate(boxes)
            for row in np.flatnonzero((keys[0] <= high) & (keys[1] >= low))
            if before <= row < at + batch
        )
        assert found(index, boxes, limit) == expected
    assert len(places) > 1, "some runs begin inside their arrays"
    assert index.statistics["merges"] > 0


def test_an_open_answer_does_not_change() -> None:
    keys, index = correlated(4_000), ZonedRuns(capacity=4_000, columns=2, ratio=4)
    everything = [[(LOW, HIGH), (LOW, HIGH)]]
    answers = []
    for at in range(0, 4_000, 100):
        index.insert(np.ascontiguousarray(keys[:, at : at + 100]), np.arange(at, at + 100))
        answers.append((at + 100, index.probe(*asked(index, everything), limit=64)))
    for rows, answer in answers:
        ids = np.concatenate([ids for _, ids in answer])
        assert sorted(ids.tolist()) == list(range(rows))


def test_with_one_column_it_is_sorted_runs() -> None:
    zoned, plain = ZonedRuns(capacity=99), SortedRuns(capacity=99)
    random = np.random.default_rng(2)
    for at in range(0, 900, 45):
        keys = random.integers(-9, 9, 45)
        for index in (zoned, plain):
            index.expire(at - 100)
            index.insert(keys, np.arange(at, at + 45))
    assert zoned.nbytes == plain.nbytes
    boxes = [[(-3, 4)], [(8, 9)], [(5, 4)]]
    assert found(zoned, boxes) == found(plain, boxes)
    low, high = np.array([-3]), np.array([4])
    assert zoned.counts(low, high).tolist() == plain.counts(low, high).tolist()
    assert zoned.ranged


def test_bytes_per_row() -> None:
    window, batch = 1 << 17, 1 << 12
    keys, index = correlated(2 * window), ZonedRuns(capacity=window, columns=2)
    for at in range(0, 2 * window, batch):
        index.expire(max(0, at + batch - window))
        index.insert(np.ascontiguousarray(keys[:, at : at + batch]), np.arange(at, at + batch))
    assert index.nbytes == sum(run.nbytes for run in index._runs)
    assert all(run.zones is not None and run.zones.nbytes > 0 for run in index._runs)
    assert 24 * window < index.nbytes < 34 * window


def test_check_can_fail() -> None:
    index = ZonedRuns(capacity=999, columns=2)
    index.insert(correlated(999), np.arange(999))
    index.check()
    (run,) = index._runs
    assert run.zones is not None
    for name in ("least", "most"):
        for at in (3, 64):  # a block, the superblock
            wrong = getattr(run.zones, name).copy()
            wrong[0, at] += 1
            index._runs = (replace(run, zones=replace(run.zones, **{name: wrong})),)
            with pytest.raises(AssertionError, match="zone"):
                index.check()
    index._runs = (replace(run, zones=None),)
    with pytest.raises(AssertionError):
        index.check()


def test_it_serves_a_join() -> None:
    """Both terms pass half of the pairs, together few."""
    import pyarrow as pa

    keys = correlated(3_000)
    sides = [pa.record_batch({"a": part[0], "b": part[1]}) for part in np.split(keys, 2, axis=1)]
    counts = []
    for tactic in ("ordered/zoned-runs", "nested-loop"):
        join = ts.StreamJoin(
            "l.a < r.a AND l.b > r.b", window=ts.CountWindow(700), tactic=tactic, output="pairs"
        )
        pairs: Counter = Counter()
        for at in range(0, 1_500, 300):
            for batch in join.push(*(side.slice(at, 300) for side in sides)):
                pairs.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        counts.append(pairs)
    assert counts[0] == counts[1]
    assert counts[0]

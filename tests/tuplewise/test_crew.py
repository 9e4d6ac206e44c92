"""The parallel window join under stress: tiny windows, many threads, merges at every turn.

The oracle is a nested loop over the tuples in arrival order. Pairs must be its pairs, and come in
its order: by the tuple that finds them (the order among the pairs of one tuple is free).
``perturb`` makes threads give way at random places, so that interleavings that are rare in earnest
are common here.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from thetastream.errors import OptionError
from thetastream.tuplewise import crew as workers
from thetastream.tuplewise.ibwj import IndexJoin

from ..keys import HIGH, LOW


class Scenario:
    """Random tuples, windows and settings, from a seed."""

    def __init__(self, seed: int, structure: str, tuples: int) -> None:
        rng = np.random.default_rng(seed)
        self.structure = structure
        self.self_join = bool(rng.random() < 0.3)
        self.windows = tuple(int(size) for size in rng.integers(1, 40, 2))
        self.sides = (rng.random(tuples) < rng.choice([0.5, 0.2, 0.9])).astype(np.int64)
        domain = int(rng.choice([3, 10, 60]))
        self.keys = rng.integers(0, domain, tuples)
        if rng.random() < 0.2:
            self.keys[rng.random(tuples) < 0.3] = rng.choice([LOW, HIGH])
        width = int(rng.integers(0, 3))
        self.lows = np.where(self.keys < LOW + width, LOW, self.keys - width)
        self.highs = np.where(self.keys > HIGH - width, HIGH, self.keys + width)
        if rng.random() < 0.2:
            self.highs = np.full(tuples, HIGH)
        if rng.random() < 0.1:
            self.lows, self.highs = self.highs, self.lows  # mostly empty boxes
        small: dict[str, Any] = {
            "slots": int(rng.choice([2, 3, 8])),
            "fanout": int(rng.choice([4, 8])),
        }
        if structure == "pim-tree":
            small |= {
                "leaf": int(rng.choice([1, 2, 8])),
                "run_fanout": int(rng.choice([2, 3, 16])),
                "merge_ratio": float(rng.choice([0.1, 0.5, 1.0])),
                "depth": int(rng.choice([-1, 0, 1, 2, 5])),
            }
        self.options: dict[str, Any] = {
            "threads": int(rng.choice([1, 2, 3, 4, 8])),
            "task_size": int(rng.choice([1, 2, 3, 8, 64])),
            "merge": str(rng.choice(["blocking", "non-blocking"])),
            "perturb": int(rng.choice([0, 1, 2, 5, 50])),
            "parameters": small,
        }
        self.cuts = np.sort(rng.integers(0, tuples, int(rng.integers(0, 3)))).tolist()

    def join(self) -> IndexJoin:
        return IndexJoin(self.structure, self.windows, self_join=self.self_join, **self.options)

    def expected(self) -> list[set[int]]:
        """The rows that each tuple meets."""
        stored: list[list[int]] = [[], []]
        found = []
        columns = (self.sides, self.keys, self.lows, self.highs)
        for side, key, low, high in zip(*(column.tolist() for column in columns), strict=True):
            own, other = (0, 0) if self.self_join else (side, 1 - side)
            first = max(0, len(stored[other]) - self.windows[other])
            rows = enumerate(stored[other][first:], first)
            found.append({row for row, value in rows if low <= value <= high})
            stored[own].append(key)
        return found

    def check(self, join: IndexJoin) -> None:
        """Run the join, cut into several runs, and compare pairs and order."""
        found: list[tuple[int, int]] = []
        for start, end in zip([0, *self.cuts], [*self.cuts, self.sides.size], strict=True):
            columns = (self.sides, self.keys, self.lows, self.highs)
            for positions, numbers in join.run(*(column[start:end] for column in columns)):
                found += zip((positions + start).tolist(), numbers.tolist(), strict=True)
            join.check()
        at = 0
        for position, rows in enumerate(self.expected()):
            here = found[at : at + len(rows)]
            assert {row for _, row in here} == rows, self.options
            assert all(place == position for place, _ in here), self.options
            at += len(rows)
        assert at == len(found)


@pytest.mark.parametrize("structure", ["pim-tree", "optimistic-tree"])
@pytest.mark.parametrize("seed", range(25))
def test_pairs_and_order(structure: str, seed: int) -> None:
    scenario = Scenario(seed, structure, 1500)
    scenario.check(scenario.join())


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["pim-tree", "optimistic-tree"])
@pytest.mark.parametrize("seed", range(100, 160))
def test_pairs_and_order_at_length(structure: str, seed: int) -> None:
    for sub in range(10):
        scenario = Scenario(10 * seed + sub, structure, 5000)
        scenario.check(scenario.join())


@pytest.mark.parametrize("structure", ["pim-tree", "optimistic-tree"])
@pytest.mark.parametrize("seed", range(8))
def test_buffers_that_are_too_small(
    structure: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads are called back again and again, and go on where they were."""
    monkeypatch.setattr(workers, "_OUT", 7)
    monkeypatch.setattr(workers, "_BUFFER", 2)
    scenario = Scenario(seed, structure, 600)
    scenario.check(scenario.join())


@pytest.mark.parametrize("merge", ["blocking", "non-blocking"])
def test_merges_are_many_and_threads_take_part(merge: str) -> None:
    """The stress is one: a merge every few tuples, and tasks done by several threads."""
    scenario = Scenario(3, "pim-tree", 8000)
    scenario.self_join, scenario.cuts = False, []
    scenario.windows = (20, 20)
    scenario.options |= {"threads": 4, "task_size": 1, "merge": merge, "perturb": 1}
    scenario.options["parameters"]["merge_ratio"] = 0.1
    join = scenario.join()
    scenario.check(join)
    assert join.crew is not None
    # A side is merged once two rows have come since its last merge; a few more may come meanwhile.
    assert join.crew.merge_count > 8000 / 2 / 20


def test_threads_join_and_leave_at_work() -> None:
    scenario = Scenario(11, "pim-tree", 60_000)
    scenario.windows, scenario.cuts = (39, 30), []
    scenario.options |= {"threads": 1, "task_size": 2, "perturb": 0}
    join = scenario.join()
    ended = threading.Event()

    def change() -> None:
        assert join.crew is not None
        for count in [4, 1, 8, 2, 3] * 1000:
            join.crew.threads = count
            if ended.wait(0.0002):
                break

    other = threading.Thread(target=change)
    other.start()
    try:
        scenario.check(join)
    finally:
        ended.set()
        other.join()


def test_what_is_recorded() -> None:
    scenario = Scenario(5, "pim-tree", 4000)
    scenario.options |= {"task_size": 8, "merge": "non-blocking"}
    join = IndexJoin(
        "pim-tree", scenario.windows, self_join=scenario.self_join, record=True, **scenario.options
    )
    scenario.cuts = []
    scenario.check(join)
    assert join.crew is not None
    tasks, merges = join.crew.tasks, join.crew.merges
    assert tasks["start"].size == tasks["end"].size == 500
    assert np.all(tasks["start"] <= tasks["end"])
    assert np.all(tasks["start"] > 0)
    assert 0 < len(merges) == min(join.crew.merge_count, 4096)
    assert all(side in (0, 1) and start <= end for side, start, end in merges)
    join.crew.forget()
    assert join.crew.tasks["start"].size == 0
    assert join.crew.merges == []


@pytest.mark.parametrize("threads", [-1, 65])
def test_how_many_threads(threads: int) -> None:
    with pytest.raises(OptionError, match="threads must be a whole number"):
        IndexJoin("pim-tree", (10, 10), threads=threads)
    join = IndexJoin("pim-tree", (10, 10), threads=1)
    assert join.crew is not None
    with pytest.raises(OptionError, match="threads must be a whole number"):
        join.crew.threads = threads


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise MemoryError("no more")

    join = IndexJoin("pim-tree", (10, 10), threads=2)
    monkeypatch.setattr(workers, "work", broken)
    one = np.zeros(4, np.int64)
    with pytest.raises(MemoryError, match="no more"):
        list(join.run(one, one, one, one))

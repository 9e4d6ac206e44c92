"""The parallel join of Arrow streams: pairs and their order, against a join fed row by row."""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream import CountWindow, StreamJoin, Tactic, TimeWindow
from thetastream.errors import DataError, OptionError, PredicateError, RegistryError, WindowError
from thetastream.side import Side
from thetastream.tuplewise.ibwj import joinable
from thetastream.tuplewise.parallel import ParallelJoin

Row = tuple[int | None, int, int]  # x, y, time
SCHEMA = pa.schema({"x": pa.int64(), "y": pa.int64(), "t": pa.int64(), "n": pa.int64()})
PREDICATES = [
    "abs(l.x - r.x) <= 1",
    "l.x < r.x",
    "l.x >= r.x",
    "l.x = r.x",
    "l.x = r.x AND l.y <= r.y",
    "l.x BETWEEN r.x AND r.y",
    "abs(l.x - r.x) <= 1 AND l.y <> r.y",
    "l.x <= r.x AND (l.y + r.y) % 2 = 0",
    "l.x > r.x AND abs(l.y - r.y) <= 1 AND l.y * r.x < 4",
]
WINDOWS = [
    CountWindow(1),
    CountWindow(3),
    CountWindow((2, 5)),
    CountWindow(20),
    CountWindow(6, slide=3),
    TimeWindow(2, time="t"),
    TimeWindow((3, 1), time="t", lateness=2),
]
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 3), st.integers(0, 9)),
    max_size=30,
)


def batch(rows: list[Row], first: int) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    numbers = list(range(first, first + len(rows)))
    arrays = [pa.array(column, pa.int64()) for column in (*columns, numbers)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def pairs(batches: Any) -> list[tuple[int, int]]:
    return [(row["n"], row["n_right"]) for found in batches for row in found.to_pylist()]


def options(draw: Any) -> dict[str, Any]:
    small = {"slots": 2, "fanout": 4}
    structure = draw(st.sampled_from(["pim-tree", "pim-tree", *joinable()]))
    if structure in ("pim-tree", "im-tree"):
        small |= {"leaf": 2, "run_fanout": 2, "merge_ratio": draw(st.sampled_from([0.2, 0.5, 1.0]))}
    return {
        "structure": structure,
        "parameters": {} if structure == "nested-loop" else small,
        "threads": 0 if structure in ("b+tree", "chained", "im-tree") else draw(st.integers(1, 4)),
        "task_size": draw(st.sampled_from([1, 2, 8])),
        "merge": draw(st.sampled_from(["blocking", "non-blocking"])),
        "perturb": draw(st.sampled_from([0, 1, 3])),
    }


@given(st.data())
def test_pairs_come_in_arrival_order(data: st.DataObject) -> None:
    on, window = data.draw(st.sampled_from(PREDICATES)), data.draw(st.sampled_from(WINDOWS))
    join = ParallelJoin(on, window=window, schemas=(SCHEMA, SCHEMA), **options(data.draw))
    plain = StreamJoin(on, window=window, schemas=(SCHEMA, SCHEMA), tactic="auto")
    count = [0, 0]
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(ROWS)
        sides = data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
        split = [[row for row, side in zip(rows, sides, strict=True) if side == s] for s in (0, 1)]
        fresh = [batch(split[s], count[s]) for s in (0, 1)]
        found = pairs(join.push(left=fresh[0], right=fresh[1], arrival=np.array(sides, np.int64)))
        join.check()
        if isinstance(window, TimeWindow):
            # Lateness is decided push by push, so the plain join must get the same pushes.
            expected = [pairs(plain.push(left=fresh[0], right=fresh[1]))]
        else:
            taken, expected = [0, 0], []
            for side in sides:
                row = fresh[side].slice(taken[side], 1)
                taken[side] += 1
                expected.append(pairs(plain.push(**{("left", "right")[side]: row})))
        at = 0
        for group in expected:
            assert Counter(found[at : at + len(group)]) == Counter(group)
            at += len(group)
        assert at == len(found)
        count = [count[s] + len(split[s]) for s in (0, 1)]
    assert pairs(join.flush()) == []


@pytest.mark.parametrize(
    "asked",
    [
        {"tactic": "pim-tree(depth=1, slots=4)"},
        {"tactic": "ibwj/pim-tree(depth=1, slots=4)"},
        {"tactic": Tactic("pim-tree", depth=1), "parameters": {"slots": 4}},
        {"tactic": "ibwj(depth=1, slots=4)"},
        {"structure": "pim-tree(depth=1, slots=4)"},
        {"structure": "pim-tree", "parameters": {"depth": 1, "slots": 4}},
        {"parameters": {"depth": 1, "slots": 4}},
    ],
    ids=str,
)
def test_a_structure_with_parameters(asked: dict[str, Any]) -> None:
    join = ParallelJoin("abs(l.x - r.x) <= 1", window=CountWindow(9), **asked)
    assert "tactic asked for: ibwj/pim-tree(depth=1, slots=4)" in join.explain()
    rows = pa.record_batch({"x": [1, 5, 3]})
    assert sum(batch.num_rows for batch in join.push(left=rows, right=rows)) == 3
    meeting: Any = join._meeting
    assert {recipe.depth for recipe in meeting.joined._pool.recipes} == {1}


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"tactic": "spo-join"}, RegistryError, "must be one of b.tree, .*; got 'spo-join'"),
        (
            {"tactic": "ordered/b+tree"},
            RegistryError,
            r"got 'ordered/b.tree'. Did you mean 'b.tree'",
        ),
        ({"structure": "pimtree"}, RegistryError, "Did you mean 'pim-tree'"),
        ({"tactic": "pim-tree(dept=1)"}, RegistryError, "'dept'; it has .*depth: int = -1"),
        ({"tactic": "pim-tree(depth=x)"}, RegistryError, "depth must be of type int; got 'x'"),
        ({"tactic": "pim-tree(depth=-5)"}, RegistryError, "depth must be at least -1; got -5"),
        ({"structure": "b+tree", "tactic": "pim-tree"}, OptionError, "structure was given twice"),
        (
            {"tactic": "pim-tree(depth=1)", "parameters": {"depth": 2}},
            RegistryError,
            "depth was given twice",
        ),
    ],
)
def test_wrong_structures(asked: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ParallelJoin("abs(l.x - r.x) <= 1", window=CountWindow(9), **asked)


@given(st.data())
def test_one_stream_with_itself(data: st.DataObject) -> None:
    on, window = data.draw(st.sampled_from(PREDICATES)), data.draw(st.sampled_from(WINDOWS))
    join = ParallelJoin(on, window=window, self_join=True, **options(data.draw))
    plain = StreamJoin(on, window=window, self_join=True)
    count = 0
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(ROWS)
        fresh = batch(rows, count)
        count += len(rows)
        found, expected = pairs(join.push(fresh)), pairs(plain.push(fresh))
        assert Counter(found) == Counter(expected)
        later = [max(pair) for pair in found]
        assert later == sorted(later), "pairs come in the order of their later row"


def test_without_arrival_left_rows_come_first() -> None:
    join = ParallelJoin("l.x = r.x", window=CountWindow(10))
    left, right = batch([(1, 0, 0), (2, 0, 0)], 0), batch([(2, 0, 0), (1, 0, 0)], 0)
    assert pairs(join.push(left=left, right=right)) == [(1, 0), (0, 1)]


def test_rows_that_wait_for_the_other_sides_columns() -> None:
    join = ParallelJoin("l.x = r.x", window=CountWindow(10))
    assert pairs(join.push(left=batch([(1, 0, 0)], 0))) == []
    assert pairs(join.push(right=batch([(1, 0, 0)], 0), arrival=[1])) == [(0, 0)]


def test_threads_join_and_leave_while_a_push_runs() -> None:
    rng = np.random.default_rng(1)
    rows, window = 40_000, 2_000
    keys = rng.integers(0, 10_000, (2, rows))
    sides = rng.permutation(np.repeat([0, 1], rows))
    fresh = [pa.record_batch({"x": key, "n": np.arange(rows)}) for key in keys]
    join = ParallelJoin("abs(l.x - r.x) <= 3", window=CountWindow(window), threads=1, task_size=2)
    ended = threading.Event()

    def change() -> None:
        for count in [3, 1, 4, 2, 1, 3] * 200:
            join.threads = count
            if ended.wait(0.0005):
                break

    other = threading.Thread(target=change)
    other.start()
    try:
        found = pairs(join.push(left=fresh[0], right=fresh[1], arrival=sides))
    finally:
        ended.set()
        other.join()
    alone = ParallelJoin("abs(l.x - r.x) <= 3", window=CountWindow(window), threads=0)
    expected = pairs(alone.push(left=fresh[0], right=fresh[1], arrival=sides))
    assert Counter(found) == Counter(expected)
    place = [np.flatnonzero(sides == side) for side in (0, 1)]
    arrived = [max(place[0][a], place[1][b]) for a, b in found]
    assert arrived == sorted(arrived)


def test_metrics_and_explanation() -> None:
    join = ParallelJoin("abs(l.x - r.x) <= 1", window=CountWindow(5))
    list(join.push(left=batch([(1, 0, 0)], 0), right=batch([(2, 0, 0), (9, 0, 0)], 0)))
    assert join.metrics().matches == 1
    assert "ibwj/pim-tree" in join.explain()


@pytest.mark.parametrize("threads", [0, 2])
def test_the_shared_indexes_are_explained_and_counted(threads: int) -> None:
    on, size = "abs(l.x - r.x) <= 1 AND l.y < r.y", 1_000
    join = ParallelJoin(on, window=CountWindow(size), threads=threads)
    assert "made when the columns" in join.explain()
    rng = np.random.default_rng(5)
    left, right = (
        pa.record_batch({"x": rng.permutation(6 * size), "y": np.arange(6 * size)}) for _ in Side
    )
    join.push(left=left, right=right)
    metrics, text = join.metrics(), join.explain()
    merges = 2 * 6 * size // round(size / 16)
    written = metrics.merged_rows / metrics.merges
    if threads:  # they run on while one merges, so there are fewer merges, of more rows
        assert 10 <= metrics.merges <= merges
        assert written > 0.7 * size
    else:
        assert metrics.merges == pytest.approx(merges, abs=4)
        assert 0.9 * size < written <= size + size / 8
    assert metrics.index_bytes > 2 * size * 16
    assert (
        "left rows: pim-tree, order of l.x - r.x >= -1 AND l.x - r.x <= 1, then l.y < r.y" in text
    )
    assert f"threads: {threads}, tasks of 8 rows, non-blocking merges" in text
    assert "40 bytes per left row × 1,000 rows" in text
    assert sum(int(part) for part in re.findall(r"(\d+) merges so far", text)) == metrics.merges


@pytest.mark.parametrize("merge", ["blocking", "non-blocking"])
def test_merges_follow_the_rows_of_each_side(merge: str) -> None:
    """Windows turn out larger than expected: T_I stays a sixteenth of T_S on both sides."""
    window, rng = TimeWindow(200_000, time="t"), np.random.default_rng(6)
    join = ParallelJoin("l.x = r.x", window=window, threads=1, merge=merge)
    before = 0
    for start in range(0, 600_000, 20_000):
        times = np.arange(start, start + 20_000)
        left, right = (
            {"x": rng.integers(0, 2**60, at.size), "t": at} for at in (times, times[::2])
        )
        before = join.metrics().merges if start == 400_000 else before
        join.push(left=pa.record_batch(left), right=pa.record_batch(right))
    assert join.metrics().merges - before == pytest.approx(2 * 16, abs=6)


def test_a_push_of_one_task_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    class Noted(threading.Thread):
        def start(self) -> None:
            started.append(self.name)
            super().start()

    monkeypatch.setattr(threading, "Thread", Noted)
    join = ParallelJoin("l.x = r.x", window=CountWindow(100), threads=3, task_size=4)
    rng, found = np.random.default_rng(7), 0
    for rows, threads in ((1, 0), (2, 0), (4, 2), (9, 3), (40, 3)) * 5:
        left, right = (pa.record_batch({"x": rng.integers(0, 9, rows)}) for _ in Side)
        del started[:]
        found += join.push(left=left, right=right).to_table().num_rows
        assert len(started) == threads, "as many as there are tasks, at most"
    assert found == join.metrics().matches > 100


@pytest.mark.parametrize(("structure", "threads"), [("round-robin", 2), ("b+tree", 0)])
def test_a_fixed_number_of_threads_is_said(structure: str, threads: int) -> None:
    join = ParallelJoin("l.x = r.x", window=CountWindow(9), structure=structure, threads=threads)
    list(join.push(left=batch([(1, 0, 0)], 0), right=batch([(1, 0, 0)], 0)))
    join.threads = threads
    with pytest.raises(OptionError, match="make a new one, or use 'pim-tree'"):
        join.threads = 3
    assert join.threads == threads


def test_threads_are_checked_before_rows_come() -> None:
    join = ParallelJoin("l.x = r.x", window=CountWindow(9), structure="b+tree", threads=0)
    with pytest.raises(RegistryError, match="b\\+tree serves one thread"):
        join.threads = 2
    assert join.threads == 0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ParallelJoin("l.x <> r.x", window=CountWindow(5), schemas=(SCHEMA, SCHEMA)),
         PredicateError, "one interval"),
        (lambda: ParallelJoin("l.x = r.x", window=CountWindow(5, order=("n", "n"))),
         WindowError, "cannot wait for ranks"),
        (lambda: ParallelJoin("l.x = r.x", window=CountWindow(5), structure="pim-tre"),
         RegistryError, "Did you mean 'pim-tree'"),
        (lambda: ParallelJoin("l.x = r.x", window=CountWindow(5), structure="b+tree", threads=2),
         RegistryError, "threads must be 0; got 2"),
    ],
)  # fmt: skip
def test_what_it_refuses(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("arrival", [[0], [0, 1, 1], [0, 2], [[0, 1]], ["l", "r"]])
def test_bad_arrival_changes_nothing(arrival: Any) -> None:
    join = ParallelJoin("l.x = r.x", window=CountWindow(5))
    rows = batch([(1, 0, 0)], 0)
    with pytest.raises(DataError, match="arrival"):
        join.push(left=rows, right=rows, arrival=arrival)
    assert pairs(join.push(left=rows, right=rows, arrival=[1, 0])) == [(0, 0)]

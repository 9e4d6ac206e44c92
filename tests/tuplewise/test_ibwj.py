"""The index-based window join over arrays, against a nested loop, for pairs and for their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thetastream.errors import DataError, OptionError, RegistryError
from thetastream.index import structure
from thetastream.index.trees.kernels import store as layout
from thetastream.tuplewise.ibwj import STEPS, IndexJoin, joinable

from ..keys import HIGH, LOW, Array, Pair
from ..scale import scaled

TREE: dict[str, Any] = {"slots": 2, "fanout": 3}
RUN: dict[str, Any] = {"leaf": 1, "run_fanout": 2}
SMALL: dict[str, list[dict[str, Any]]] = {
    "b+tree": [TREE, {"slots": 3, "fanout": 4}],
    "optimistic-tree": [{"slots": 2, "fanout": 4}],
    "round-robin": [TREE | {"partitions": 3}, TREE | {"partitions": 1}],
    "chained": [
        *(TREE | RUN | {"length": length} for length in (2, 3, 5)),
        *(TREE | {"length": length, "immutable": False} for length in (2, 3, 5)),
    ],
    "im-tree": [TREE | RUN | {"merge_ratio": ratio} for ratio in (1 / 64, 1 / 4, 1, 2)],
    "pim-tree": [
        *(TREE | RUN | {"merge_ratio": ratio} for ratio in (1 / 64, 1 / 4, 1, 2)),
        *(TREE | RUN | {"merge_ratio": 1 / 2, "depth": depth} for depth in (0, 1, 2, 9)),
        {"merge_ratio": 1 / 8, "slots": 3, "fanout": 4, "leaf": 2, "run_fanout": 3},
    ],
}
CASES = [
    pytest.param(name, small, id=f"{name}-{at}")
    for name in joinable()
    for at, small in enumerate(SMALL.get(name, [{}]))
]
cases = pytest.mark.parametrize(("name", "small"), CASES)


def nested_loop(
    tuples: Iterable[Sequence[int]], windows: tuple[int, int], *, self_join: bool = False
) -> list[Pair]:
    """What should come out: (tuple, number of the row it meets), in arrival order."""
    stored: tuple[list[int], list[int]] = ([], [])
    pairs = []
    for i, (side, key, low, high) in enumerate(tuples):
        own, other = (0, 0) if self_join else (side, 1 - side)
        rows = stored[other]
        oldest = max(0, len(rows) - windows[other])
        pairs += [(i, row) for row in range(oldest, len(rows)) if low <= rows[row] <= high]
        stored[own].append(key)
    return pairs


def columns(tuples: Sequence[Sequence[int]]) -> list[Array]:
    matrix = np.array(tuples, np.int64).reshape(-1, 4)
    return [np.ascontiguousarray(matrix[:, at]) for at in range(4)]


def joined(
    join: IndexJoin, tuples: Sequence[Sequence[int]], cuts: Iterable[int] = ()
) -> list[Pair]:
    """Run the tuples, cut at some places into several runs; pairs as they come."""
    found: list[Pair] = []
    ends = [*sorted(min(cut, len(tuples)) for cut in cuts), len(tuples)]
    start = 0
    for end in ends:
        for positions, numbers in join.run(*columns(tuples[start:end])):
            assert positions.dtype == numbers.dtype == np.int64
            assert positions.size == numbers.size > 0
            found += zip((positions + start).tolist(), numbers.tolist(), strict=True)
        join.check()
        start = end
    return found


def check(
    tuples: Sequence[Sequence[int]],
    name: str,
    windows: tuple[int, int],
    cuts: Iterable[int] = (),
    **options: Any,
) -> IndexJoin:
    """The join gives what a nested loop gives, in arrival order; those of one tuple in any."""
    join = IndexJoin(name, windows, **options)
    wanted = nested_loop(tuples, windows, self_join=options.get("self_join", False))
    same(joined(join, tuples, cuts), wanted)
    return join


def same(found: list[Pair], wanted: list[Pair]) -> None:
    """All pairs, in arrival order; those of one tuple in any order."""
    assert sorted(found) == wanted
    assert [i for i, _ in found] == [i for i, _ in wanted]


KEYS = st.one_of(st.integers(-2, 2), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
TUPLES = st.lists(st.tuples(st.integers(0, 1), KEYS, KEYS, KEYS), max_size=50)
WINDOWS = st.tuples(st.integers(1, 14), st.integers(1, 14))
CUTS = st.lists(st.integers(0, 50), max_size=3)


@cases
@settings(max_examples=scaled(25))
@given(tuples=TUPLES, windows=WINDOWS, cuts=CUTS, self_join=st.booleans())
@example(tuples=[(0, HIGH, HIGH, HIGH)] * 40, windows=(5, 1), cuts=[], self_join=True)
@example(
    tuples=[(i % 2, LOW, LOW, HIGH) for i in range(50)], windows=(3, 9), cuts=[7], self_join=False
)
@example(tuples=[(0, 0, 1, -1), (1, 0, 0, 0)] * 20, windows=(9, 9), cuts=[0, 3], self_join=False)
def test_pairs_and_order(
    name: str,
    small: dict[str, Any],
    tuples: list[tuple[int, int, int, int]],
    windows: tuple[int, int],
    cuts: list[int],
    self_join: bool,
) -> None:
    check(tuples, name, windows, cuts, self_join=self_join, parameters=small)


def stream(
    count: int, seed: int, *, span: int = 20, band: int = 1, right: float = 0.5
) -> list[list[int]]:
    random = np.random.default_rng(seed)
    sides, keys = random.random(count) < right, random.integers(0, span, count)
    return np.stack([sides, keys, keys - band, keys + band], axis=1).tolist()


@cases
@pytest.mark.parametrize(
    ("windows", "right"),
    [
        *(((40, 40), 0.5), ((3, 90), 0.5), ((90, 3), 0.5), ((1, 1), 0.5)),
        *(((30, 30), 0.03), ((30, 30), 0.97)),
    ],
)
def test_windows_and_rates_may_differ(
    name: str, small: dict[str, Any], windows: tuple[int, int], right: float
) -> None:
    tuples = stream(600, 1, right=right)
    check(tuples, name, windows, [100, 101, 350], parameters=small)


@cases
@pytest.mark.parametrize("window", [1, 2, 33])
def test_a_self_join_looks_at_earlier_rows(name: str, small: dict[str, Any], window: int) -> None:
    tuples = stream(300, 2)
    join = IndexJoin(name, (window, 7), self_join=True, parameters=small)
    found = joined(join, tuples, [120])
    same(found, nested_loop(tuples, (window, 7), self_join=True))
    assert all(i - window <= row < i for i, row in found)


@cases
def test_inequalities_reach_to_the_ends(name: str, small: dict[str, Any]) -> None:
    tuples = stream(200, 3, span=9)
    for at, row in enumerate(tuples):
        row[2:] = [[LOW, row[1]], [row[1], HIGH], [LOW, HIGH], [HIGH, LOW], [HIGH, HIGH]][at % 5]
        row[1] = [row[1], LOW, HIGH, HIGH - 1][at // 5 % 4]
    check(tuples, name, (31, 17), parameters=small)


@cases
def test_boxes_that_are_empty_meet_nothing(name: str, small: dict[str, Any]) -> None:
    join = IndexJoin(name, (9, 9), parameters=small)
    assert joined(join, [(at % 2, 0, 1, 0) for at in range(60)]) == []
    # All of them were stored nevertheless.
    assert sorted(joined(join, [(0, 5, 0, 0)])) == [(0, number) for number in range(21, 30)]


@cases
def test_equal_keys_and_keys_in_order(name: str, small: dict[str, Any]) -> None:
    for keys in ([7] * 150, list(range(150)), list(range(150, 0, -1)), [0, HIGH] * 75):
        tuples = [
            (at % 2, key, max(LOW, key - 1), min(HIGH, key + 1)) for at, key in enumerate(keys)
        ]
        check(tuples, name, (20, 26), [75], parameters=small)


@pytest.mark.parametrize("name", joinable())
def test_a_tuple_may_have_more_pairs_than_a_chunk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thetastream.tuplewise.ibwj._CHUNK", 64)
    tuples = [(0, 5, 1, 0)] * 700 + [(1, 5, 5, 5)] * 3 + [(0, 4, 5, 5)]
    check(tuples, name, (500, 500))


@pytest.mark.parametrize("name", joinable())
def test_long_runs_are_queued_in_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thetastream.tuplewise.ibwj._STEP", 37)
    tuples = stream(400, 4)
    check(tuples, name, (50, 50))


@pytest.mark.parametrize("name", joinable())
def test_default_settings(name: str) -> None:
    tuples = stream(6000, 5, span=3000)
    windows = (1 << 10, 1 << 11)
    check(tuples, name, windows, [4000])


# --- Windows that are not counts ----------------------------------------------------------------


@cases
def test_rows_may_stay_longer_than_the_window_said(name: str, small: dict[str, Any]) -> None:
    """A feed says itself what has left each window; sizes are what is expected, no limit."""
    tuples = stream(500, 6, span=60)
    join = IndexJoin(name, (4, 4), parameters=small)
    feed = join.feed(*columns(tuples))
    feed = feed._replace(floors=np.maximum(feed.floors - 300, 0))
    found = [
        pair
        for positions, numbers in join.join(feed)
        for pair in zip(positions.tolist(), numbers.tolist(), strict=True)
    ]
    same(found, nested_loop(tuples, (304, 304)))
    join.check()


@pytest.mark.parametrize("immutable", [True, False])
def test_a_chain_that_grew_on_goes_back_to_its_length(immutable: bool) -> None:
    small = TREE | {"immutable": immutable}
    tuples = stream(900, 10, span=60)
    join = IndexJoin("chained", (16, 16), parameters=small)
    feed = join.feed(*columns(tuples[:300]))
    wanted = nested_loop(tuples[:300], (900, 900))
    found = list(join.join(feed._replace(floors=np.zeros_like(feed.floors))))
    assert sum(positions.size for positions, _ in found) == len(wanted)
    joined(join, tuples[300:])
    limits = [int(join._pool.side(side)[layout.LIMIT]) for side in range(2)]
    assert limits == [16, 16], "after a time in which nothing expired"


# --- Threads that divide the window -------------------------------------------------------------


@pytest.mark.parametrize("name", ["round-robin", "nested-loop"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@settings(max_examples=scaled(25))
@given(tuples=TUPLES, windows=WINDOWS, cuts=CUTS, self_join=st.booleans())
def test_a_divided_window(
    name: str,
    threads: int,
    tuples: list[tuple[int, int, int, int]],
    windows: tuple[int, int],
    cuts: list[int],
    self_join: bool,
) -> None:
    small = TREE if name == "round-robin" else {}
    check(tuples, name, windows, cuts, self_join=self_join, threads=threads, parameters=small)


@pytest.mark.parametrize("name", ["round-robin", "nested-loop"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_divided_window_at_length(name: str, threads: int) -> None:
    tuples = stream(5000, 7, span=400)
    check(tuples, name, (700, 300), [1111], threads=threads)


# --- Facts --------------------------------------------------------------------------------------


def test_what_can_be_joined() -> None:
    assert {"b+tree", "chained", "im-tree", "pim-tree", "round-robin", "nested-loop"} <= set(
        joinable()
    )
    assert not {"css-tree", "sorted-runs"} & set(joinable())


def test_nothing_in_nothing_out() -> None:
    for name in joinable():
        join = IndexJoin(name, (4, 4))
        assert list(join.run(*columns([]))) == []
        assert joined(join, [(0, 1, 1, 1), (1, 1, 1, 1)]) == [(1, 0)]


def test_arrays_of_other_types_are_taken() -> None:
    join = IndexJoin("pim-tree", (4, 4))
    sides, keys = np.array([False, True]), np.array([3, 4], np.int16)
    ((positions, numbers),) = join.run(sides, keys, keys - 1, keys + 1)
    assert (positions.tolist(), numbers.tolist()) == ([1], [0])


def test_bytes_of_both_indexes() -> None:
    one = IndexJoin("b+tree", (1 << 12, 1 << 12)).index_bytes
    assert one > 2 * 16 * (1 << 12)
    assert IndexJoin("b+tree", (1 << 12, 1 << 13)).index_bytes > one
    assert IndexJoin("b+tree", (1 << 12, 1 << 12), self_join=True).index_bytes < 0.6 * one
    assert IndexJoin("nested-loop", (1 << 12, 1 << 12)).index_bytes < 4096


@pytest.mark.parametrize("name", joinable())
def test_costs_by_step(name: str) -> None:
    join = IndexJoin(name, (50, 50), steps=True, parameters=SMALL.get(name, [{}])[0])
    assert join.costs == dict.fromkeys(STEPS, 0.0)
    tuples = stream(2000, 8)
    same(joined(join, tuples), nested_loop(tuples, (50, 50)))
    costs = join.costs
    assert list(costs) == list(STEPS) == ["search", "delete", "insert", "merge"]
    assert min(costs["search"], costs["insert"]) > 0
    assert (costs["delete"] > 0) == getattr(structure(name), "deletes", False)
    assert (costs["merge"] > 0) == (name in ("chained", "im-tree", "pim-tree"))


def test_without_steps_no_costs_are_noted() -> None:
    join = IndexJoin("b+tree", (5, 5))
    joined(join, stream(20, 9))
    assert not any(join.costs.values())


def test_one_thread_has_no_crew() -> None:
    assert IndexJoin("pim-tree", (4, 4)).crew is None
    assert IndexJoin("round-robin", (4, 4), threads=2).crew is None


# --- Mistakes -----------------------------------------------------------------------------------


def test_unknown_structures() -> None:
    with pytest.raises(
        RegistryError, match=r"structure must be one of .*Did you mean 'pim-tree'\?"
    ):
        IndexJoin("pimtree")
    with pytest.raises(RegistryError, match="got 'css-tree'"):
        IndexJoin("css-tree")


@pytest.mark.parametrize(
    "bad",
    [{"windows": (0, 5)}, {"windows": (5, -1)}, {"threads": -1}, {"task_size": 0}],
    ids=str,
)
def test_sizes_must_be_positive(bad: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="must be a whole number of at least [01]; got"):
        IndexJoin("b+tree", **{"windows": (5, 5), **bad})


@pytest.mark.parametrize("name", ["b+tree", "chained", "im-tree"])
def test_structures_that_serve_one_thread(name: str) -> None:
    with pytest.raises(RegistryError, match="serves one thread.* use .*pim-tree"):
        IndexJoin(name, (5, 5), threads=2)


@pytest.mark.parametrize("name", joinable())
def test_parameters_of_other_structures_are_refused(name: str) -> None:
    with pytest.raises(RegistryError, match="colour"):
        IndexJoin(name, (5, 5), parameters={"colour": 3})


@pytest.mark.parametrize(
    ("name", "bad"),
    [("b+tree", {"slots": 1}), ("pim-tree", {"merge_ratio": 0}), ("chained", {"length": 1})],
)
def test_parameters_below_their_least_value(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(RegistryError, match="must be at least"):
        IndexJoin(name, (5, 5), parameters=bad)


def test_merges_are_blocking_or_not() -> None:
    with pytest.raises(OptionError, match="one of blocking, non-blocking; got 'sometimes'"):
        IndexJoin("pim-tree", (5, 5), merge="sometimes")


def test_arrays_of_one_length() -> None:
    join = IndexJoin("b+tree", (5, 5))
    good, short = np.zeros(3, np.int64), np.zeros(2, np.int64)
    for bad in ((short, good, good, good), (good, good, good, short), (good[None],) * 4):
        with pytest.raises(DataError, match="arrays of one length expected"):
            list(join.run(*bad))
    assert list(join.run(good, good, good, good)) == [], "nothing was taken in before"

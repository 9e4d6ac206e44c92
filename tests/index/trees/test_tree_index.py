"""What all tree structures share: steps in any order, open answers, columns beside the trees."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thetastream.errors import DataError, RegistryError
from thetastream.index import create, question, structure
from thetastream.index.trees import tree_index
from thetastream.index.trees.tree_index import TreeIndex

from ...keys import HIGH, LOW, MORE_KEYS, Pair, Rows, edges, int64, pair_counts, probed
from ...scale import scaled
from ..index_boxes import boxed, brute, matrix

TREE: dict[str, Any] = {"slots": 2, "fanout": 3}
RUN: dict[str, Any] = {"leaf": 1, "run_fanout": 2}
SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "b+tree": ("b+tree", TREE),
    "b+tree, wider": ("b+tree", {"slots": 3, "fanout": 4}),
    "css-tree": ("css-tree", {"leaf": 1, "fanout": 2}),
    "IB-chain": ("chained", TREE | RUN),
    "IB-chain of 4": ("chained", TREE | RUN | {"length": 4}),
    "B-chain": ("chained", TREE | {"immutable": False}),
    "B-chain of 4": ("chained", TREE | {"immutable": False, "length": 4}),
    "im-tree": ("im-tree", TREE | RUN | {"merge_ratio": 0.5}),
    "im-tree, merged late": ("im-tree", TREE | RUN | {"merge_ratio": 3}),
    "optimistic-tree": ("optimistic-tree", {"slots": 2, "fanout": 4}),
    "pim-tree": ("pim-tree", TREE | RUN | {"merge_ratio": 0.5}),
    "pim-tree, merged at once": ("pim-tree", TREE | RUN | {"merge_ratio": 1 / 64}),
    "pim-tree at 0": ("pim-tree", TREE | RUN | {"merge_ratio": 1, "depth": 0}),
    "pim-tree at 2": ("pim-tree", TREE | RUN | {"merge_ratio": 1, "depth": 2}),
    "pim-tree at 30": ("pim-tree", TREE | RUN | {"merge_ratio": 1, "depth": 30}),
    "round-robin": ("round-robin", TREE | {"partitions": 3}),
}
every = pytest.mark.parametrize("name", SMALL)


def made(name: str, columns: int = 1, capacity: int = 4) -> TreeIndex:
    kind, parameters = SMALL[name]
    index = create(kind, capacity=capacity, columns=columns, **parameters)
    assert isinstance(index, TreeIndex)
    return index


def asked(index: TreeIndex, boxes: list[Pair], limit: int = 64) -> Any:
    return index.probe(*edges(boxes), limit=limit)


# --- Steps in any order -------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.lists(MORE_KEYS, max_size=9),  # insert these
        st.integers(1, 12),  # expire so many, perhaps more than there are
    ),
    max_size=20,
)


@every
@settings(max_examples=scaled(30))
@given(steps=STEPS, limit=st.sampled_from([1, 5, 64]), turn=st.integers(0, 9))
@example(steps=[[0] * 9, [0] * 9, [0], 6, [0] * 9, 12], limit=64, turn=0)
@example(steps=[[HIGH] * 9, [LOW], [LOW, HIGH], 5, [0], 12, 12, [HIGH] * 9], limit=1, turn=4)
@example(steps=[list(range(9)), list(range(9, 0, -1)), 9, 9, 1, [1, 2]], limit=5, turn=3)
def test_every_step_keeps_the_invariants(
    name: str, steps: list[list[int] | int], limit: int, turn: int
) -> None:
    index, rows = made(name), Rows()
    for step in steps:
        if isinstance(step, list):
            rows.step(index, step, turn)  # ids come in any order within an insert
        else:
            rows.expire(index, rows.before + step)
        rows.check(index, limit)


@every
@settings(max_examples=scaled(20))
@given(
    inserts=st.lists(
        st.tuples(st.lists(st.tuples(*[MORE_KEYS] * 3), max_size=6), st.integers(0, 40)), max_size=8
    ),
    box=st.lists(st.tuples(MORE_KEYS, MORE_KEYS), min_size=3, max_size=3),
    kept=st.integers(0, 20),
)
def test_several_columns(
    name: str,
    inserts: list[tuple[list[tuple[int, ...]], int]],
    box: list[tuple[int, int]],
    kept: int,
) -> None:
    """Columns beside the trees lie in a ring by id; ids have gaps."""
    index, rows, number = made(name, columns=3), {}, 7
    for batch, gap in inserts:
        number += gap
        index.insert(matrix(batch, 3), np.arange(number, number + len(batch)))
        rows.update(enumerate(batch, number))
        number += len(batch)
        index.expire(number - kept)
        rows = {row: keys for row, keys in rows.items() if row >= number - kept}
        index.check()
        for held, (low, high) in ((rows, (LOW, HIGH)), ({}, (HIGH, LOW))):
            lows, highs = np.full((3, 1), low), np.full((3, 1), high)
            assert set(pair_counts(index.probe(lows, highs))) == {(0, row) for row in held}
    lows, highs = boxed([box], 3)
    expected = brute(matrix([*rows.values()], 3), int64(rows), lows, highs)
    assert pair_counts(index.probe(lows, highs, limit=3)) == Counter(expected)
    keys, ids = index.dump()
    assert dict(zip(ids.tolist(), map(tuple, keys.T.tolist()), strict=True)) == rows


@every
def test_a_window_slides(name: str) -> None:
    index, random = made(name, capacity=60), np.random.default_rng(8)
    keys = random.integers(0, 30, 700)
    at = 0
    while at < 700:
        step = int(random.integers(1, 40))
        index.insert(keys[at : at + step], np.arange(at, min(at + step, 700)))
        at = min(at + step, 700)
        index.expire(at - 60)
        index.check()
        boxes = [(low, low + 2) for low in range(-1, 31, 4)]
        live = list(enumerate(keys[:at].tolist()))[max(0, at - 60) :]
        assert probed(index, boxes, 16) == Rows(dict(live)).matches(boxes)


@every
def test_more_rows_than_the_capacity_said(name: str) -> None:
    index, keys = made(name), np.random.default_rng(9).integers(-50, 50, 600)
    for at in range(0, 600, 37):
        index.insert(keys[at : at + 37], np.arange(at, min(at + 37, 600)))
        index.check()
    assert len(index) == 600
    assert probed(index, [(-5, 5)], 50) == Counter(
        (0, row) for row in np.flatnonzero(np.abs(keys) <= 5).tolist()
    )


@every
def test_expiry_never_goes_back(name: str) -> None:
    index = made(name)
    index.insert(np.arange(10), np.arange(10))
    index.expire(7)
    index.expire(3)
    assert len(index) == 3
    index.insert(np.array([5]), np.array([10]))
    assert set(probed(index, [(0, 9)])) == {(0, row) for row in (7, 8, 9, 10)}
    index.expire(100)
    index.check()
    assert (len(index), probed(index, [(LOW, HIGH)])) == (0, Counter())
    index.insert(np.array([1, 2]), np.array([200, 150]))
    index.check()
    assert index.dump()[1].tolist() == [150, 200]


# --- Open answers -------------------------------------------------------------------------------

KEPT, COPIED = 1 << 18, 0


@pytest.fixture(params=[KEPT, COPIED], ids=["kept", "copied"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Open answers are computed and kept, or given a copy of the trees."""
    monkeypatch.setattr(question, "KEPT", request.param)
    return int(request.param)


def change(index: TreeIndex, number: int, columns: int = 1) -> None:
    """Everything that moves rows: inserts, merges, growth, expiry."""
    for step in range(4):
        ids = np.arange(number + 30 * step, number + 30 * (step + 1))
        keys = np.tile(np.arange(30) % 7, (columns, 1))
        index.insert(keys, ids)
        index.expire(number + 30 * step - 40)
        index.check()
    index.expire(number + 120)
    index.check()


@every
@pytest.mark.parametrize("begun", [0, 1, 4, 99])
def test_an_answer_is_a_snapshot(name: str, way: int, begun: int) -> None:
    index = made(name)
    index.insert(np.arange(50) % 7, np.arange(50))
    index.expire(5)
    boxes = [(0, 6), (3, 3), (5, 4), (6, HIGH)]
    whole = probed(index, boxes, 7)
    answer = asked(index, boxes, 7)
    seen = list(islice(answer, begun))
    change(index, 50)
    assert pair_counts(iter(seen)) + pair_counts(answer) == whole
    assert pair_counts(answer.again()) == whole
    assert next(answer, None) is None
    change(index, 500)
    assert pair_counts(answer.again()) == whole
    sizes = [positions.size for positions, _ in answer.again()]
    assert max(sizes) <= 7


@every
def test_answers_of_different_times_are_open_together(name: str, way: int) -> None:
    index, answers = made(name), []
    for at in range(0, 60, 6):
        index.insert(np.arange(6) % 4, np.arange(at, at + 6))
        index.expire(at - 13)
        rows = [(row % 6) % 4 for row in range(max(0, at - 13), at + 6)]
        wanted = Counter(
            (b, row)
            for b, key in enumerate((0, 3))
            for row, held in enumerate(rows, max(0, at - 13))
            if held == key
        )
        answer = asked(index, [(0, 0), (3, 3)], 2)
        half = pair_counts(islice(answer, at % 5))
        answers.append((answer, half, answer.again(), wanted))
    for answer, half, other, wanted in reversed(answers):
        assert half + pair_counts(answer) == wanted
        assert pair_counts(other) == wanted
        assert pair_counts(answer.again()) == wanted


@every
def test_columns_beside_are_part_of_the_snapshot(name: str, way: int) -> None:
    index = made(name, columns=2)
    index.insert(np.stack([np.arange(40) % 5, np.arange(40)]), np.arange(40))
    answer = index.probe(np.array([[0], [10]]), np.array([[3], [30]]), limit=3)
    seen = list(islice(answer, 2))
    wanted = Counter((0, row) for row in range(10, 31) if row % 5 <= 3)
    change(index, 40, columns=2)
    assert pair_counts(iter(seen)) + pair_counts(answer) == wanted
    assert pair_counts(answer.again()) == wanted


@every
def test_readers_side_by_side(name: str, way: int) -> None:
    index = made(name)
    index.insert(np.zeros(9, np.int64), np.arange(9))
    answer = asked(index, [(0, 0)], 2)
    one, two = answer.again(), answer.again()
    got = [pair_counts(islice(one, 2)), pair_counts(islice(two, 1))]
    index.insert(np.zeros(9, np.int64), np.arange(9, 18))
    index.expire(9)
    assert got[0] + pair_counts(one) == got[1] + pair_counts(two) == pair_counts(answer)
    assert set(pair_counts(answer.again())) == {(0, row) for row in range(9)}


def test_answers_share_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "KEPT", 0)
    copies: list[int] = []
    copy = tree_index._View.copy
    monkeypatch.setattr(tree_index._View, "copy", lambda view: copies.append(1) or copy(view))
    index = made("pim-tree")
    index.insert(np.arange(20), np.arange(20))
    answers = [asked(index, [(0, high)]) for high in range(5)]
    index.insert(np.arange(20), np.arange(20, 40))
    assert len(copies) == 1
    assert [len(pair_counts(answer)) for answer in answers] == [1, 2, 3, 4, 5]
    index.expire(30)
    assert len(copies) == 1, "what has its copy needs no other"


@every
def test_answers_that_are_gone_cost_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = made(name)
    index.insert(np.arange(20), np.arange(20))
    assert len(probed(index, [(0, 9)])) == 10
    answer = asked(index, [(0, 9)], 3)
    next(answer)
    reader = answer.again()
    next(reader)
    del answer, reader

    def fail(*_: Any) -> bool:
        raise AssertionError("nobody will read it")

    monkeypatch.setattr(question.Question, "keep", fail)
    index.insert(np.arange(20), np.arange(20, 40))
    index.expire(25)
    index.check()


@every
def test_arrays_given_away_and_taken_are_not_shared(name: str) -> None:
    index = made(name, capacity=5000)
    keys, ids = np.zeros(5000, np.int64), np.arange(5000)
    index.insert(keys, ids)
    keys[:], ids[:] = 77, 99
    chunks = list(asked(index, [(0, 0)], 1024))
    assert sorted(np.concatenate([ids for _, ids in chunks]).tolist()) == list(range(5000))
    for _, given_away in chunks:
        given_away[:] = -1
    assert index.dump()[1].tolist() == list(range(5000))


@every
@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_chunks_keep_the_limit(name: str, limit: int) -> None:
    index = made(name)
    index.insert(np.zeros(115, np.int64), np.arange(115))
    boxes = [(0, 0)] * 20
    sizes = [positions.size for positions, _ in asked(index, boxes, limit)]
    assert sum(sizes) == 20 * 115
    assert min(sizes) > 0
    assert max(sizes) <= limit


# --- Facts --------------------------------------------------------------------------------------


@every
def test_other_widths_shapes_and_orders_of_arrays(name: str) -> None:
    index = made(name)
    index.insert(np.arange(6, dtype=np.int32)[::2], np.arange(3, dtype=np.int16))
    assert set(probed(index, [(1, 4)])) == {(0, 1), (0, 2)}
    index.insert(np.empty(0, np.int64), np.empty(0, np.int64))
    two = made(name, columns=2)
    for bad in (np.arange(3), np.zeros((3, 2), np.int64), np.zeros((1, 2, 2), np.int64)):
        with pytest.raises(DataError, match=r"2 key column\(s\); got an array of shape"):
            two.insert(bad, np.arange(3))
        with pytest.raises(DataError, match=r"2 key column\(s\); got an array of shape"):
            two.probe(bad, bad)
    two.insert(np.asfortranarray(np.arange(6).reshape(2, 3)), np.arange(3))
    two.check()
    assert two.dump()[0].tolist() == [[0, 1, 2], [3, 4, 5]]


@every
def test_parameters_are_told(name: str) -> None:
    kind, parameters = SMALL[name]
    index = made(name, columns=2)
    assert index.parameters == {
        **create(kind, capacity=4, columns=2).parameters,
        **parameters,
    }
    assert set(index.statistics) >= {"merges", "merged_rows"}
    assert index.nbytes > index._pool.nbytes or not index._beside.nbytes


BAD = [
    *(("b+tree", {"slots": 1}), ("b+tree", {"fanout": 2}), ("css-tree", {"leaf": 0})),
    *(("css-tree", {"fanout": 1}), ("chained", {"length": 1}), ("chained", {"slots": 0})),
    *(("chained", {"leaf": 0}), ("chained", {"run_fanout": 1}), ("chained", {"fanout": 2})),
    *(("im-tree", {"merge_ratio": 0}), ("im-tree", {"merge_ratio": -1.0})),
    *(("pim-tree", {"depth": -2}), ("pim-tree", {"slots": 1}), ("pim-tree", {"run_fanout": 1})),
    *(("round-robin", {"partitions": 0}), ("round-robin", {"fanout": 1})),
]


@pytest.mark.parametrize(("kind", "bad"), BAD, ids=str)
def test_bad_parameters(kind: str, bad: dict[str, Any]) -> None:
    (word,) = bad
    with pytest.raises(RegistryError, match=rf"^{kind.replace('+', '.')}: {word} must be at least"):
        create(kind, **bad)
    for wrong in ({"capacity": 0}, {"columns": 0}):
        with pytest.raises(RegistryError, match="at least 1"):
            create(kind, **wrong)
    with pytest.raises(RegistryError, match="has no parameter 'colour'"):
        create(kind, colour=3)


def test_what_a_structure_is_made_for() -> None:
    kinds = {name: structure(name) for name, _ in SMALL.values()}
    assert {name for name, kind in kinds.items() if not kind.per_tuple} == {"css-tree"}
    assert {name for name, kind in kinds.items() if kind.deletes} == {
        *("b+tree", "optimistic-tree", "round-robin"),
    }
    with pytest.raises(NotImplementedError):
        TreeIndex.recipe(4)


@every
def test_check_can_fail(name: str) -> None:
    index = made(name, capacity=64)
    index.insert(np.arange(20), np.arange(20))
    st = index._pool.store
    for ids in (st.forest.ids, st.runs.ids):
        ids[ids == 7] = 8
    with pytest.raises(AssertionError, match="an id may occur once"):
        index.check()


# --- Tuning --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["im-tree", "pim-tree"])
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.lists(
        st.tuples(
            st.integers(0, 30), st.sampled_from([1.0, 0.5, 1 / 16, 2.0**-20]), st.integers(-1, 5)
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_tuning_changes_no_answer(
    name: str, seed: int, steps: list[tuple[int, float, int]]
) -> None:
    rng, window, first = np.random.default_rng(seed), 40, 0
    index = create(name, capacity=window, slots=2, fanout=3, leaf=1, run_fanout=2)
    keys = np.empty(0, np.int64)
    for rows, ratio, depth in steps:
        chosen = {"merge_ratio": ratio, **({"depth": depth} if name == "pim-tree" else {})}
        index.tune(max(1, rows), **chosen)
        fresh = rng.integers(-9, 10, rows)
        index.insert(fresh, np.arange(first, first + rows))
        keys, first = np.append(keys, fresh), first + rows
        index.expire(first - window)
        index.check()
        assert index.parameters | chosen == index.parameters
        low, high = sorted(rng.integers(-9, 10, 2))
        found = [ids for _, ids in index.probe(np.array([low]), np.array([high]))]
        alive = np.arange(first) >= first - window
        truth = np.flatnonzero((low <= keys) & (keys <= high) & alive)
        assert sorted(np.concatenate([*found, np.empty(0, np.int64)])) == truth.tolist()


def test_a_merge_ratio_says_when_to_merge_from_now_on() -> None:
    index = create("im-tree", capacity=1000, merge_ratio=0.5)
    index.insert(np.arange(400), np.arange(400))
    assert index.statistics["merges"] == 0
    index.tune(1000, merge_ratio=0.01)
    index.insert(np.arange(10), np.arange(400, 410))
    assert index.statistics["merges"] > 0


def test_what_is_fixed_cannot_be_tuned() -> None:
    with pytest.raises(RegistryError, match="slots is fixed once it is made; merge_ratio, depth"):
        create("pim-tree").tune(1000, slots=8)
    with pytest.raises(RegistryError, match="nothing can be changed"):
        create("b+tree").tune(1000, merge_ratio=1)
    with pytest.raises(RegistryError, match="merge_ratio"):
        create("pim-tree").tune(1000, merge_ratio=0.0)

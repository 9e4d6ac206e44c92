"""One structure per term: the battery over inner structures, open answers, sides, sorted leaves."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.errors import DataError, RegistryError
from thetastream.index import create
from thetastream.index.permuted import per_term, present, term_reader, terms
from thetastream.index.permuted.per_term import PerTerm
from thetastream.testing import INDEX_CHECKS, IndexCheck

from ...keys import HIGH, LOW, Pair, int64, pair_counts
from ...scale import scaled
from ..index_boxes import boxed, brute, matrix

Box = tuple[tuple[int, int], ...]
TREE: dict[str, Any] = {"slots": 2, "fanout": 3}
RUN: dict[str, Any] = {"leaf": 1, "run_fanout": 2}
INNER: dict[str, tuple[str, dict[str, Any]]] = {
    "b+tree": ("b+tree", TREE),
    "css-tree": ("css-tree", {"leaf": 1, "fanout": 2}),
    "IB-chain": ("chained", TREE | RUN | {"length": 3}),
    "B-chain": ("chained", TREE | {"immutable": False}),
    "im-tree": ("im-tree", TREE | RUN | {"merge_ratio": 0.5}),
    "round-robin": ("round-robin", TREE | {"partitions": 3}),
    "pim-tree": ("pim-tree", TREE | RUN | {"merge_ratio": 0.5}),
    "sorted-runs": ("sorted-runs", {"ratio": 2}),
}
WAYS = ("bits", "prefixes", "hash")
every = pytest.mark.parametrize("kind", INNER)
each_way = pytest.mark.parametrize("how", WAYS)


def made(kind: str, how: str, columns: int = 2, capacity: int = 4) -> PerTerm:
    inner, options = INNER[kind]
    return PerTerm(capacity, columns, inner, how, options)


def asked(index: PerTerm, boxes: list[Box], limit: int = 64) -> Any:
    return index.probe(*boxed(boxes, index.columns), limit=limit)


def expected(rows: dict[int, tuple[int, ...]], boxes: list[Box]) -> Counter[Pair]:
    columns = len(boxes[0]) if boxes else 2
    return Counter(brute(matrix([*rows.values()], columns), int64(rows), *boxed(boxes, columns)))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rare paths happen: slices of few boxes, prefixes for few boxes, answers copied early."""
    monkeypatch.setattr(term_reader, "_SLICE_WORDS", 8)
    monkeypatch.setattr(term_reader, "_SLICE_IDS", 8)
    monkeypatch.setattr(terms, "_SAMPLE", 8)
    monkeypatch.setattr(terms, "_PREFIXES", 3)
    monkeypatch.setattr(per_term, "_MANY", 2)
    monkeypatch.setattr(per_term, "KEPT", 3)


# --- Any steps ----------------------------------------------------------------------------------


@each_way
@every
@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
def test_battery(kind: str, how: str, check: IndexCheck) -> None:
    check.run(lambda columns: made(kind, how, columns), 0.1)


KEYS = st.one_of(st.integers(-2, 2), st.sampled_from([LOW, HIGH]))
ROWS = st.lists(st.tuples(KEYS, KEYS), max_size=9)
BOXES = st.lists(st.tuples(*[st.tuples(KEYS, KEYS)] * 2), max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), ROWS, st.sampled_from([0, 0, 1, 70, 500])),
        st.tuples(st.just("probe"), BOXES, st.integers(1, 9)),
        st.tuples(st.just("expire"), st.integers(0, 12), st.just(0)),
    ),
    max_size=12,
)


@each_way
@every
@settings(max_examples=scaled(40))
@given(steps=STEPS, read=st.integers(0, 3))
def test_open_answers_stay_as_they_are(kind: str, how: str, steps: list[Any], read: int) -> None:
    """Every answer is opened, read in part, and finished after all steps; ids have gaps."""
    index, rows, issued = made(kind, how), {}, 0
    waiting: list[tuple[Any, list[Any], Counter]] = []
    for what, value, more in steps:
        if what == "insert":
            ids = [issued + more + at for at in range(len(value))]
            issued = ids[-1] + 1 if ids else issued
            rows.update(zip(ids, value, strict=True))
            index.insert(matrix(value), np.array(ids, np.int64))
        elif what == "expire":
            before = max(0, issued - value)
            index.expire(before)
            rows = {id_: keys for id_, keys in rows.items() if id_ >= before}
        else:
            answer = asked(index, value, limit=more)
            waiting.append((answer, list(islice(answer, read)), expected(rows, value)))
        index.check()
        assert len(index) == len(rows)
    for answer, chunks, wanted in waiting:
        again = pair_counts(answer.again())
        assert pair_counts(iter([*chunks, *answer])) == wanted == again


@each_way
@every
def test_stress(kind: str, how: str) -> None:
    """A window slides over many rows; check after every step."""
    random, index, rows = np.random.default_rng(5), made(kind, how, columns=3, capacity=40), {}
    words = []
    for step in range(60):
        count, start = int(random.integers(0, 9)), 20 * step
        keys = random.integers(0, 6, (3, count))
        ids = np.sort(random.choice(np.arange(start, start + 20), count, replace=False))
        index.insert(keys, ids)
        rows.update(zip(ids.tolist(), map(tuple, keys.T.tolist()), strict=True))
        if step % 3 == 2:
            before = start - 150
            index.expire(before)
            rows = {id_: row for id_, row in rows.items() if id_ >= before}
        index.check()
        lows, highs = np.sort(random.integers(-1, 7, (2, 4, 3)), axis=0).tolist()
        boxes = [tuple(zip(a, b, strict=True)) for a, b in zip(lows, highs, strict=True)]
        assert pair_counts(asked(index, boxes)) == expected(rows, boxes)
        words.append(index._present.words.size)
    assert max(words) <= 2 * 270 // 64 + 2, "for 210 ids that live, 60 that expire, and as many"


# --- What is done -------------------------------------------------------------------------------


def numbered(how: str, rows: int = 100, inner: str = "b+tree") -> PerTerm:
    """Row ``i`` has the keys ``i`` and ``-i``."""
    index = PerTerm(rows, 2, inner, how)
    index.insert(np.stack([np.arange(rows), -np.arange(rows)]), np.arange(rows))
    return index


@pytest.mark.parametrize("inner", ["b+tree", "css-tree", "chained", "sorted-runs"])
def test_only_the_smaller_side_is_set(inner: str) -> None:
    index = numbered("bits", inner=inner)
    assert pair_counts(asked(index, [((LOW, 95), (LOW, HIGH))])) == {(0, i): 1 for i in range(96)}
    assert index.statistics["bits_set"] <= 10, "the four above, not the 96 inside"
    list(asked(index, [((LOW, HIGH), (LOW, HIGH))]))
    assert index.statistics["bits_set"] <= 10, "everything costs nothing"
    assert index.statistics["hashed"] == 0


def test_a_box_that_is_empty_after_a_term_is_not_read_further() -> None:
    index = numbered("bits")
    assert not list(asked(index, [((30, 20), (LOW, 0)), ((200, 300), (-40, 0))]))
    assert index.statistics["bits_set"] == 0
    assert index.statistics["words_scanned"] == 0


def test_hash_tables_take_the_shorter_list() -> None:
    index = numbered("hash")
    found = pair_counts(asked(index, [((10, 50), (-12, 0)), ((50, 60), (-99, -58))]))
    assert found == Counter([(0, 10), (0, 11), (0, 12), (1, 58), (1, 59), (1, 60)])
    assert index.statistics["hashed"] == 13 + 11
    assert index.statistics["bits_set"] == 0


def test_prefixes_spare_most_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "_PREFIXES", 64)
    plain, better = numbered("bits"), numbered("prefixes")
    boxes: list[Box] = [((LOW, at), (LOW, -at // 2)) for at in range(0, 100, 7)]
    assert pair_counts(asked(plain, boxes)) == pair_counts(asked(better, boxes))
    assert better._prefixed is not None
    assert 0 < better.statistics["bits_set"] < plain.statistics["bits_set"]
    assert better.nbytes > plain.nbytes, "while the prefixes are kept"
    better.insert(np.zeros((2, 1), np.int64), np.array([100]))
    assert better._prefixed is None, "a change makes them wrong"


def test_few_boxes_need_no_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_term, "_MANY", 3)
    index = numbered("prefixes")
    assert len(pair_counts(asked(index, [((3, 5), (LOW, HIGH))] * 2))) == 6
    assert index._prefixed is None


@each_way
@every
def test_rows_of_a_term_in_key_order(kind: str, how: str) -> None:
    index = made(kind, how)
    keys = np.array([[5, 3, 5, 1, 9, 3, 7], [1, 7, 0, 7, 2, 2, 2]])
    index.insert(keys, np.arange(10, 17))
    index.expire(12)
    for column, (ordered, ids) in enumerate(index.sorted_terms()):
        assert np.all(ordered[:-1] <= ordered[1:])
        assert keys[column, ids - 10].tolist() == ordered.tolist()
        assert sorted(ids.tolist()) == [12, 13, 14, 15, 16]


def test_statistics_add_up() -> None:
    index = PerTerm(8, 2, "css-tree")
    index.insert(np.array([[1, 2], [3, 4]]), np.arange(2))
    assert index.statistics["merges"] == 2
    assert index.statistics["merged_rows"] == 4
    assert list(index.statistics)[-3:] == ["bits_set", "words_scanned", "hashed"]


def test_leaves_are_longer_unless_given() -> None:
    assert PerTerm().parameters["options"] is None
    assert PerTerm(options={"slots": 8}).parameters["options"] == {"slots": 8}
    assert PerTerm(columns=2)._inner[1].parameters["slots"] == 64
    assert PerTerm(columns=2, options={"slots": 8})._inner[1].parameters["slots"] == 8


# --- Present ------------------------------------------------------------------------------------


def test_the_base_follows_the_oldest_row() -> None:
    index = PerTerm(100, 1, "chained", options={"length": 2})
    for start in range(0, 1000, 50):
        index.insert(np.arange(start, start + 50), np.arange(start, start + 50))
        index.expire(start - 50)
        index.check()
    assert index._present.clean, "expired rows of the chain still have a place"
    assert index._present.words.size < 10


def test_rows_that_lie_far_below_are_left_out() -> None:
    """An expired row stays in the chain's active tree while ids go on: no bits for all between."""
    index = PerTerm(100, 1, "chained")
    index.insert(np.array([5]), np.array([0]))
    index.expire(1)
    index.insert(np.array([5, 6]), np.array([10**6, 10**6 + 1]))
    index.check()
    assert not index._present.clean
    assert index._present.words.size < 10
    assert pair_counts(index.probe(np.array([5]), np.array([5]))) == Counter([(0, 10**6)])


def test_ids_too_far_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "_WIDEST", 1000)
    index = PerTerm(8, 1)
    index.insert(np.array([1]), np.array([5]))
    with pytest.raises(DataError, match="a bit per id, for 1000 ids .*; got 2001"):
        index.insert(np.array([1]), np.array([2000]))
    index.check()
    assert len(index) == 1, "nothing was changed"
    index.expire(6)
    index.insert(np.array([1]), np.array([2000]))
    index.check()


# --- Settings -----------------------------------------------------------------------------------


def test_settings() -> None:
    index = create("per-term", capacity=9, columns=2, inner="css-tree", intersect="hash")
    assert index.parameters == {
        "capacity": 9, "columns": 2, "inner": "css-tree", "intersect": "hash", "options": None,
    }  # fmt: skip
    with pytest.raises(RegistryError, match=r"no index 'b\+trees'.* Did you mean 'b\+tree'\?"):
        create("per-term", inner="b+trees")
    with pytest.raises(
        RegistryError, match=r"bits, prefixes, hash; got 'bit'. Did you mean 'bits'"
    ):
        create("per-term", intersect="bit")
    with pytest.raises(RegistryError, match="no parameter 'leaf'"):
        create("per-term", options={"leaf": 3})


def test_check_can_fail() -> None:
    index = numbered("bits")
    index._inner[1].expire(3)
    with pytest.raises(AssertionError, match="all terms must hold the rows that live"):
        index.check()
    index = numbered("bits")
    index._present.rows -= 1
    with pytest.raises(AssertionError):
        index.check()

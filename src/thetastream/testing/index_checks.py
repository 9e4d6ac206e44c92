"""The battery for window indexes: what every registered structure must do.

A check takes a *factory*, a function of the number of key columns that makes an empty index, and a
*scale* for the number of examples. The model is a plain list of rows.

    for check in INDEX_CHECKS:
        check.run(tiny("sorted-runs"), scale=1.0)
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream import index as structures
from thetastream._jit.arrays import LEAST, MOST
from thetastream.errors import RegistryError
from thetastream.index import Index

IndexFactory = Callable[[int], Index]
_SMALL = st.integers(-4, 4)
_EXTREME = st.sampled_from([LEAST, LEAST + 1, -(2**62), -1, 0, 1, 2**62, MOST - 1, MOST])
Step = tuple[str, Any]
Matches = Counter[tuple[int, int]]
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class IndexCheck:
    """One named check."""

    name: str
    run: Callable[[IndexFactory, float], None]


INDEX_CHECKS: list[IndexCheck] = []


def _check(run: Callable[[IndexFactory, float], None]) -> Callable[[IndexFactory, float], None]:
    INDEX_CHECKS.append(IndexCheck(run.__name__, run))
    return run


def forall(scale: float, examples: int, *strategies: Any) -> Callable[[Callable[..., None]], None]:
    """Return a decorator that runs a function on examples of the strategies at once."""

    def run(function: Callable[..., None]) -> None:
        decorate: Any = given(*strategies)
        settings(max_examples=max(1, int(examples * scale)))(decorate(function))()

    return run


def tiny(name: str) -> IndexFactory:
    """A factory whose capacity and other whole-number parameters are shrunk as far as allowed.

    Rare paths, such as merges and splits, then happen in almost every example.
    """
    known = inspect.signature(structures.structure(name)).parameters
    small: dict[str, int] = {}
    for word, parameter in known.items():
        whole = isinstance(parameter.default, int) and not isinstance(parameter.default, bool)
        if word in ("self", "capacity", "columns") or not whole or parameter.default <= 2:
            continue
        for least in (2, 3, 4, 192):  # the last is of nodes in bytes
            try:
                structures.create(name, capacity=4, **{**small, word: least})
            except RegistryError:
                continue
            small[word] = least
            break
    return lambda columns: structures.create(name, capacity=4, columns=columns, **small)


# --- The model ----------------------------------------------------------------------------------


@dataclass
class _Model:
    """Rows in a list."""

    rows: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    issued: int = 0  # ids assigned so far

    def insert(self, keys: list[tuple[int, ...]], gap: int) -> list[int]:
        ids = [self.issued + gap + at for at in range(len(keys))]
        self.issued = ids[-1] + 1 if ids else self.issued
        self.rows += zip(keys, ids, strict=True)
        return ids

    def expire(self, before: int) -> None:
        self.issued = max(self.issued, before)  # an expired id does not come back
        self.rows = [row for row in self.rows if row[1] >= before]

    def probe(self, boxes: list[Box]) -> Matches:
        return Counter(
            (at, id_)
            for at, box in enumerate(boxes)
            for keys, id_ in self.rows
            if all(low <= key <= high for key, (low, high) in zip(keys, box, strict=True))
        )


def _matrix(rows: list[tuple[int, ...]], columns: int) -> Any:
    matrix = np.array(rows, dtype=np.int64).reshape(len(rows), columns).T
    return matrix[0] if columns == 1 else np.ascontiguousarray(matrix)


def _ask(index: Index, boxes: list[Box], limit: int | None = None) -> Iterator[tuple[Any, Any]]:
    lows = _matrix([tuple(low for low, _ in box) for box in boxes], index.columns)
    highs = _matrix([tuple(high for _, high in box) for box in boxes], index.columns)
    return index.probe(lows, highs) if limit is None else index.probe(lows, highs, limit=limit)


def _collect(chunks: list[tuple[Any, Any]]) -> Matches:
    """All pairs. Chunks are read at the very end, so a chunk that is overwritten shows."""
    matches: Matches = Counter()
    for positions, ids in chunks:
        assert len(positions) == len(ids)
        matches.update(zip(positions.tolist(), ids.tolist(), strict=True))
    return matches


def _insert(index: Index, model: _Model, rows: list[tuple[int, ...]], gap: int, turn: int) -> None:
    """Insert rows in any order within the insert: rotated by ``turn``."""
    ids = model.insert(rows, gap)
    at = turn % len(rows) if rows else 0
    keys, numbers = rows[at:] + rows[:at], ids[at:] + ids[:at]
    index.insert(_matrix(keys, index.columns), np.array(numbers, dtype=np.int64))


# --- Strategies ---------------------------------------------------------------------------------


def _rows(columns: int, keys: st.SearchStrategy[int], most: int) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(*[keys] * columns), max_size=most)


def _boxes(columns: int, keys: st.SearchStrategy[int], most: int = 4) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(*[st.tuples(keys, keys)] * columns), max_size=most)


def _steps(
    columns: int, keys: st.SearchStrategy[int], most: int = 8
) -> st.SearchStrategy[list[Step]]:
    """Inserts, probes and expiries in any order; an expiry names how many recent rows it leaves."""
    insert = st.tuples(
        st.just("insert"),
        st.tuples(_rows(columns, keys, most), st.sampled_from([0, 0, 0, 3]), st.integers(0, most)),
    )
    probe = st.tuples(st.just("probe"), _boxes(columns, keys))
    expire = st.tuples(st.just("expire"), st.integers(-1, 12))
    return st.lists(st.one_of(insert, insert, probe, expire), max_size=14)


def _everything(columns: int) -> list[Box]:
    return [((LEAST, MOST),) * columns]


def _apply(index: Index, model: _Model, step: Step) -> None:
    what, value = step
    if what == "insert":
        _insert(index, model, *value)
    elif what == "expire":
        before = max(0, model.issued - value)
        index.expire(before)
        model.expire(before)
    else:
        assert _collect(list(_ask(index, value))) == model.probe(value)


def _agree(index: Index, model: _Model) -> None:
    index.check()
    assert len(index) == len(model.rows), (len(index), model.rows)
    everything = _everything(index.columns)
    assert _collect(list(_ask(index, everything))) == model.probe(everything)


def _walk(
    make: IndexFactory, scale: float, examples: int, columns: int, keys: st.SearchStrategy[int]
) -> None:
    @forall(scale, examples, _steps(columns, keys))
    def walk(steps: list[Step]) -> None:
        index, model = make(columns), _Model()
        for step in steps:
            _apply(index, model, step)
            _agree(index, model)


# --- The checks ---------------------------------------------------------------------------------


@_check
def exact_one_column(make: IndexFactory, scale: float) -> None:
    """Any mixture of inserts, probes and expiries returns what a list of rows returns."""
    _walk(make, scale, 120, 1, _SMALL)


@_check
def exact_two_columns(make: IndexFactory, scale: float) -> None:
    """The same with boxes of two intervals."""
    _walk(make, scale, 60, 2, _SMALL)


@_check
def exact_three_columns(make: IndexFactory, scale: float) -> None:
    """The same with boxes of three intervals."""
    _walk(make, scale, 40, 3, st.integers(-1, 1))


@_check
def extreme_keys(make: IndexFactory, scale: float) -> None:
    """The ends of the 64-bit integers are keys and bounds like any other."""
    _walk(make, scale, 80, 1, _EXTREME)
    _walk(make, scale, 40, 2, _EXTREME)


@_check
def duplicates(make: IndexFactory, scale: float) -> None:
    """Many rows with one key, each found once."""
    _walk(make, scale, 40, 1, st.just(7))


@_check
def chunk_limits(make: IndexFactory, scale: float) -> None:
    """No chunk is empty or longer than the limit, and together they are the answer."""

    @forall(
        scale, 60, _rows(1, _SMALL, 20), _rows(1, _SMALL, 5), _boxes(1, _SMALL), st.integers(1, 7)
    )
    def chunked(first: Any, second: Any, boxes: Any, limit: int) -> None:
        index, model = make(1), _Model()
        _insert(index, model, first, 0, 0)
        _insert(index, model, second, 0, 0)
        chunks = list(_ask(index, boxes, limit))
        assert all(0 < len(positions) <= limit for positions, _ in chunks)
        assert _collect(chunks) == model.probe(boxes)


@_check
def snapshot(make: IndexFactory, scale: float) -> None:
    """An answer does not change with what is inserted or expired while it is read."""

    @forall(
        scale,
        60,
        st.sampled_from([1, 2]).flatmap(
            lambda k: st.tuples(_steps(k, _SMALL), _steps(k, _SMALL), _boxes(k, _SMALL), st.just(k))
        ),
        st.integers(0, 3),
    )
    def frozen(story: tuple[list[Step], list[Step], Any, int], read: int) -> None:
        before, after, boxes, columns = story
        index, model = make(columns), _Model()
        for step in before:
            _apply(index, model, step)
        expected = model.probe(boxes)
        answer = _ask(index, boxes, limit=1)
        chunks = list(islice(answer, read))
        for step in after:
            _apply(index, model, step)
        assert _collect([*chunks, *answer]) == expected


@_check
def expiry_edges(make: IndexFactory, scale: float) -> None:
    """Expiring up to, at and beyond the first and the last id; backwards does nothing."""

    @forall(
        scale,
        40,
        _rows(1, _SMALL, 9),
        _rows(1, _SMALL, 3),
        st.lists(st.integers(-1, 14), max_size=5),
    )
    def expired(first: Any, second: Any, edges: list[int]) -> None:
        index, model = make(1), _Model()
        _insert(index, model, first, 0, 0)
        _insert(index, model, second, 0, 0)
        for before in edges:
            index.expire(before)
            model.expire(before)
            _agree(index, model)
        _insert(index, model, first, 20, 0)
        _agree(index, model)


@_check
def empty(make: IndexFactory, scale: float) -> None:
    """No inserts, no probes, no rows, and empty intervals."""
    for columns in (1, 2, 3):
        index, model = make(columns), _Model()
        assert len(index) == 0
        _agree(index, model)
        _insert(index, model, [], 0, 0)
        index.expire(0)
        index.expire(5)
        _agree(index, model)
        model.expire(5)
        _insert(index, model, [(1,) * columns], 0, 0)
        assert not list(_ask(index, []))
        assert not list(_ask(index, [((1, 0),) * columns, ((MOST, LEAST),) * columns]))
        _agree(index, model)


@_check
def size(make: IndexFactory, scale: float) -> None:
    """``nbytes`` covers the stored rows and shrinks when rows expire."""
    index, model = make(1), _Model()
    for _ in range(40):
        _insert(index, model, [(key,) for key in range(25)], 0, 3)
        before = model.issued - 100
        index.expire(before)
        model.expire(before)
        assert index.nbytes >= 16 * len(model.rows)
    _agree(index, model)
    whole, rows = make(1), _Model()
    for _ in range(40):
        _insert(whole, rows, [(key,) for key in range(25)], 0, 3)
    assert index.nbytes <= whole.nbytes / 2, "1000 rows went through, 100 are stored"
    index.expire(model.issued)
    assert len(index) == 0


@_check
def dump(make: IndexFactory, scale: float) -> None:
    """``dump`` returns all live rows in ascending order of id."""

    @forall(scale, 30, _steps(2, _SMALL))
    def dumped(steps: list[Step]) -> None:
        index, model = make(2), _Model()
        for step in steps:
            _apply(index, model, step)
        keys, ids = index.dump()
        assert keys.shape == (2, len(model.rows))
        stored = list(zip(map(tuple, keys.T.tolist()), ids.tolist(), strict=True))
        assert stored == sorted(model.rows, key=lambda row: row[1])


@_check
def threads(make: IndexFactory, scale: float) -> None:
    """Several threads may probe at once."""
    index, model = make(1), _Model()
    random = np.random.default_rng(0)
    for _ in range(6):
        _insert(index, model, [(int(key),) for key in random.integers(0, 50, 30)], 0, 0)
    asked: list[list[Box]] = [
        [((low, low + width),) for low in range(0, 50, 7)] for width in range(8)
    ]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda boxes: _collect(list(_ask(index, boxes, limit=5))), asked))
    for boxes, matches in zip(asked, answers, strict=True):
        assert matches == model.probe(boxes)


@_check
def parameters(make: IndexFactory, scale: float) -> None:
    """An index says how it was created."""
    index = make(2)
    assert index.parameters["columns"] == 2
    assert index.parameters["capacity"] == index.capacity
    assert index.name in structures.names()
    assert index.summary

"""Boxes over several key columns, and a structure that is fed and compared with every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thetastream.index import Index, create

from ..keys import HIGH, LOW, Array, Pair, pairs_of


def po_join(columns: int = 2, **parameters: Any) -> Index:
    return create("po-join", capacity=64, columns=columns, **parameters)


def matrix(rows: Any, columns: int = 2) -> Array:
    """Rows as one array per column."""
    return np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, columns).T)


def pairs(index: Index, lows: Array, highs: Array, limit: int = 65_536) -> list[Pair]:
    """All pairs of an answer, in its order."""
    return pairs_of(index.probe(lows, highs, limit=limit), limit)


def brute(keys: Array, ids: Array, lows: Array, highs: Array, before: int = LOW) -> list[Pair]:
    """All pairs of live rows, by every box against every row, in their order."""
    inside = np.tile(ids >= before, (lows.shape[1], 1))
    for key, low, high in zip(keys, lows, highs, strict=True):
        inside &= (low[:, None] <= key) & (key <= high[:, None])
    boxes, rows = np.nonzero(inside)
    return list(zip(boxes.tolist(), ids[rows].tolist(), strict=True))


def boxed(boxes: Any, columns: int = 2) -> tuple[Array, Array]:
    """Lows and highs of boxes given as one (low, high) per column."""
    edges = np.array(boxes, np.int64).reshape(-1, columns, 2)
    return np.ascontiguousarray(edges[:, :, 0].T), np.ascontiguousarray(edges[:, :, 1].T)


def random_boxes(random: Any, count: int, domain: int, columns: int = 2) -> tuple[Array, Array]:
    """Boxes of all shapes: open on either side, on both, bands, points, empty ones."""
    lows = random.integers(0, domain, (columns, count))
    highs = lows + random.integers(-1, max(2, domain // 2), (columns, count))
    shape = random.integers(0, 4, (columns, count))
    lows[shape == 1] = LOW
    highs[shape == 2] = HIGH
    return lows, highs


def fed(index: Index, batches: Any) -> Array:
    """Insert batches of rows, ids from 0 on, keys in Fortran order; all keys."""
    keys = matrix([], index.columns)
    for batch in batches:
        fresh = matrix(batch, index.columns)
        ids = np.arange(keys.shape[1], keys.shape[1] + len(batch))
        index.insert(np.asfortranarray(fresh), ids)
        index.check()
        keys = np.hstack([keys, fresh])
    return keys


def held(index: Index) -> list[int]:
    """Rows of each structure, expired ones included."""
    return [len(one) for one in index._structures]  # type: ignore[attr-defined]


def inserted(index: Index, *sizes: int) -> Index:
    first = 0
    for size in sizes:
        index.insert(
            np.stack([np.arange(size), np.arange(size)[::-1]]), np.arange(first, first + size)
        )
        first += size
        index.check()
    return index


def walk(index: Index, steps: list[Any], boxes: Any, limit: int) -> None:
    """Insert rows and expire some (a number), comparing with a list of rows after every step."""
    rows: list[tuple[int, ...]] = []
    before = 0
    lows, highs = boxed(boxes)
    for step in steps:
        if isinstance(step, list):
            index.insert(matrix(step), np.arange(len(rows), len(rows) + len(step)))
            rows += step
        else:
            before = min(before + step, len(rows))
            index.expire(before)
        index.check()
        ids, keys = np.arange(before, len(rows)), matrix(rows)[:, before:]
        assert len(index) == ids.size
        assert sorted(pairs(index, lows, highs, limit)) == brute(keys, ids, lows, highs)
        dumped = index.dump()
        assert np.array_equal(dumped[0], keys)
        assert np.array_equal(dumped[1], ids)


def slide(index: Index, sizes: Sequence[int], random: Any, domain: int, boxes: int) -> None:
    """A window of 400 rows: batches of these sizes, random boxes after each of them."""
    columns = index.columns
    keys, before = np.empty((columns, 0), np.int64), 0
    for size in sizes:
        first = keys.shape[1]
        fresh = random.integers(0, domain, (columns, size))
        keys = np.concatenate([keys, fresh], axis=1)
        index.insert(fresh, np.arange(first, first + size))
        before = max(0, first + size - 400)
        index.expire(before)
        index.check()
        ids = np.arange(before, keys.shape[1])
        lows, highs = random_boxes(random, boxes, domain, columns)
        expected = brute(keys[:, before:], ids, lows, highs)
        assert sorted(pairs(index, lows, highs)) == expected


def with_threads(alone: Index, several: Index, batch: int, batches: int) -> None:
    """Algorithm 4: the same pairs in the same order, however many threads probe the list."""
    random = np.random.default_rng(2)
    for at in range(batches):
        keys = random.integers(0, 30, (2, batch))
        for index in (alone, several):
            index.insert(keys, np.arange(at * batch, (at + 1) * batch))
    lows, highs = random_boxes(random, 30, 30)
    for limit in (3, 65_536):
        assert pairs(several, lows, highs, limit) == pairs(alone, lows, highs, limit)

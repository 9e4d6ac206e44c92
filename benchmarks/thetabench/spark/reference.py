"""The right answers: found offline by sorting, as a count and a checksum per micro-batch.

A pair joins when its keys match and its event times are at most a window apart; it belongs to the
micro-batch of its later row. Left rows are taken in stretches of about a window; candidates among
the right rows that can meet a stretch are those of :mod:`thetabench.reference`, and the exact
conditions are tested on them.

The checksum is the sum of ``shiftright(xxhash64(left, right), 24)``, which Spark computes too. The
hash follows the public XXH64 algorithm for 8 bytes, chained over the columns from seed 42, as Spark
documents its function. Forty bits are left, so that no micro-batch below 2^24 rows overflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from thetabench.digest import Digest
from thetabench.query import Query, Values
from thetabench.reference import candidates
from thetabench.spark.feed import Feed
from thetastream.side import Side

CHECKSUM = "sum(shiftright(xxhash64(t, {right}), 24))"
"""The checksum of an answer in Spark SQL, over ``t`` and another column."""

Ids = NDArray[np.int64]
_STRETCH = 1 << 16
_ONE, _TWO, _THREE, _FOUR, _FIVE = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def reference(feed: Feed, batches: int) -> list[Digest]:
    """The digest of the right answer of each of the first micro-batches."""
    edges = np.array(feed.shape.edges[: batches + 1])
    rows = int(edges[-1])
    tables = {
        side: {name: table.column(name).to_numpy()[:rows] for name in feed.query.columns}
        for side, table in feed.tables.items()
    }
    counts, sums = np.zeros(batches, np.int64), np.zeros(batches, np.int64)
    size = max(feed.shape.window, _STRETCH)
    for start in range(0, rows, size):
        for left, right in _pairs(feed.query, tables, start, min(start + size, rows)):
            near = np.abs(left - right) <= feed.shape.window
            left, right = left[near], right[near]
            batch = np.searchsorted(edges, np.maximum(left, right), side="right") - 1
            counts += np.bincount(batch, minlength=batches)
            np.add.at(sums, batch, codes(left + 1, right + 1))
    return [Digest(int(count), int(total)) for count, total in zip(counts, sums, strict=True)]


def equals(feed: Feed, batches: int) -> list[Digest]:
    """The same for equality of the cells in which the keys lie."""
    width = cell_width(int(feed.query.bands[0].width))
    tables = {
        side: table.set_column(0, "x", pc.divide(table.column("x"), width))
        for side, table in feed.tables.items()
    }
    query = Query.parse("abs(l.x - r.x) <= 0", feed.shape.window)
    return reference(replace(feed, tables=tables, query=query), batches)


def cell_width(band: int) -> int:
    """How wide cells are, for as many matches as a band has: the keys that it reaches."""
    return 2 * band + 1


def echoes(feed: Feed, batches: int, copies: int) -> list[Digest]:
    """The digests of an answer that holds every row ``copies`` times: ``t`` and a key."""
    edges = feed.shape.edges[: batches + 1]
    found = np.zeros(edges[-1], np.int64)
    for table in feed.tables.values():
        times, keys = (table.column(name).to_numpy() for name in ("t", feed.query.columns[0]))
        found += codes(times, keys)[: edges[-1]]
    sums = np.add.reduceat(found, edges[:-1])
    return [
        Digest(copies * feed.rows(batch), copies * int(total)) for batch, total in enumerate(sums)
    ]


def received(feed: Feed, batches: int) -> list[Digest]:
    """The rows of each micro-batch, and the sum of their times: 1, 2, 3, … on both sides."""
    return [
        Digest(2 * (end - start), end * (end + 1) - start * (start + 1))
        for start, end in pairwise(feed.shape.edges[: batches + 1])
    ]


def xxhash64(*columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Spark's ``xxhash64`` of columns of int64.

    >>> xxhash64(np.array([1]), np.array([2])).astype(np.int64)
    array([-8198029865082835910])
    """
    code = np.full(len(columns[0]), 42, np.uint64)
    for column in columns:
        code += _FIVE + np.uint64(8)
        code ^= _rotated(column.astype(np.uint64) * _TWO, 31) * _ONE
        code = _rotated(code, 27) * _ONE + _FOUR
        for shift, prime in ((33, _TWO), (29, _THREE)):
            code ^= code >> np.uint64(shift)
            code *= prime
        code ^= code >> np.uint64(32)
    return code


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def codes(left: Ids, right: Ids) -> Ids:
    """What a row of an answer adds to its checksum."""
    return np.asarray(xxhash64(left, right).astype(np.int64) >> 24)


def _pairs(
    query: Query, tables: dict[Side, dict[str, Values]], start: int, end: int
) -> Iterator[tuple[Ids, Ids]]:
    """Yield row numbers of pairs whose keys match; left rows from ``start`` to ``end - 1``."""
    left, fresh = _by_key(query, tables[Side.LEFT], start, end)
    right, stored = _by_key(
        query, tables[Side.RIGHT], max(start - query.window, 0), end + query.window
    )
    for rows, found in candidates(query, query.terms, fresh, stored):
        keep = np.ones(len(rows), np.bool_)
        for term in query.terms:
            keep &= term.holds(fresh[term.column][rows], stored[term.column][found])
        yield left[rows[keep]], right[found[keep]]


def _by_key(
    query: Query, table: dict[str, Values], start: int, end: int
) -> tuple[Ids, dict[str, Values]]:
    """Numbers and columns of some rows, by the key of the first term.

    Rows in this order are looked up one beside the other, which takes less than half the time.
    """
    rows = np.argsort(table[query.terms[0].column][start:end]) + start
    return rows, {name: values[rows] for name, values in table.items()}

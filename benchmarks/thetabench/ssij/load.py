"""Tables, streams and the right answers. No index and no kernel is involved.

`Truth` has the digest of every stream row's matches, added up: so the answer to the first n rows is
known for every n.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thetabench.arrays import Array
from thetabench.contestant import Unavailable
from thetabench.digest import Digest, pair_digest, row_hash, weights
from thetabench.ssij.contestant import Shape, Source, Stream, Table
from thetabench.ssij.peers import checksum
from thetastream.datasets.keys import uniform, zipf
from thetastream.datasets.real import load_taxi_yellow_2019, load_taxi_zones
from thetastream.datasets.semi_stream import keyed_batches, local_zipf, repeated, spread
from thetastream.datasets.tpch import TPCH_TABLES, tpch_table
from thetastream.errors import DataError

INTERVALS = 20
"""Parts of the domain; a stream with temporal locality goes through the first …"""
VISITED = 6
"""… six, with as many rows in each as in the paper, scaled."""
_BATCH = 1 << 16


@dataclass(frozen=True)
class Rows:
    """A table or a stream: ``key``, the place of a row, other columns; and the keys alone."""

    keys: Array
    table: pa.Table

    @classmethod
    def made(cls, keys: Array, name: str) -> Rows:
        """Synthetic rows, whose place is called ``name``."""
        return cls(keys, pa.Table.from_batches(keyed_batches(keys, name=name, batch_rows=_BATCH)))

    @property
    def nbytes(self) -> int:
        """Bytes held; a filler that all batches share counts once."""
        return int(self.keys.nbytes * 3 + self.table.slice(0, _BATCH).nbytes)

    def slice(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows ``start … stop - 1``, without a copy."""
        batches: list[pa.RecordBatch] = self.table.slice(start, stop - start).to_batches()
        return batches


class Truth:
    """Right answers to rows of a stream. O(rows): a key's matches are added up once."""

    def __init__(self, table: Array, stream: Array) -> None:
        self._order = np.argsort(table, kind="stable")
        keys = table[self._order]
        self._first = np.searchsorted(keys, stream)
        stop = np.searchsorted(keys, stream, side="right")
        none = np.zeros(1, np.uint64)
        hashes = np.concatenate([none, np.cumsum(row_hash(self._order), dtype=np.uint64)])
        sums = weights(np.arange(stream.size)) * (hashes[stop] - hashes[self._first])
        self._counts = np.concatenate([[0], np.cumsum(stop - self._first)])
        self._sums = np.concatenate([none, np.cumsum(sums, dtype=np.uint64)])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self._order, self._first, self._counts, self._sums)
        return sum(array.nbytes for array in arrays)

    def digest(self, rows: int) -> Digest:
        """The answer to the first ``rows`` rows."""
        return Digest(int(self._counts[rows]), int(self._sums[rows]))

    def summed(self, start: int, stop: int) -> Digest:
        """The answer to rows ``start … stop - 1`` as a database returns it, with its checksum."""
        counts = np.diff(self._counts[start : stop + 1])
        ids = np.repeat(np.arange(start, stop), counts)
        before = self._counts[start:stop] - self._counts[start]
        places = np.arange(ids.size) + np.repeat(self._first[start:stop] - before, counts)
        return Digest(ids.size, checksum(ids, self._order[places]))


def answer_digest(batch: pa.RecordBatch) -> Digest:
    """The digest of an answer with the columns ``id`` and ``rid``.

    >>> swapped = pa.record_batch({"id": [0, 1], "rid": [2, 0]})
    >>> answer_digest(swapped) == answer_digest(pa.record_batch({"id": [0, 1], "rid": [0, 2]}))
    False
    """
    return pair_digest(batch.column("id").to_numpy(), batch.column("rid").to_numpy())


# --- Data ----------------------------------------------------------------------------------------


@contextmanager
def _available() -> Iterator[None]:
    """Where data cannot be had, say why."""
    try:
        yield
    except DataError as error:
        raise Unavailable(str(error)) from None


@_available()
def made_table(table: Table, seed: int) -> Rows:
    """The rows of a table, with their place as ``rid``."""
    match table.source:
        case Source.UNIFORM:
            keys = uniform(table.rows, seed=seed, domain=table.keys).astype(np.int64)
        case Source.REPEATED:
            keys = repeated(table.keys, max(1, table.rows // table.keys), seed=seed)
        case Source.PART:
            part = tpch_table("part", table.rows / TPCH_TABLES["part"])
            return _keyed(part, "p_partkey", "rid")
        case Source.ZONES:
            return _keyed(load_taxi_zones(), "location_id", "rid")
    return Rows.made(keys, "rid")


@_available()
def made_feed(stream: Stream, table: Table, seed: int) -> Rows:
    """The rows of a stream over a table, with their place as ``id``."""
    match stream.shape:
        case Shape.ZIPF | Shape.PERMUTED:
            keys = zipf(
                stream.rows, seed=seed + 1, domain=table.keys, distinct=table.keys,
                skew=stream.skew, permuted=stream.shape is Shape.PERMUTED,
            ).astype(np.int64)  # fmt: skip
        case Shape.LOCAL:
            domain = max(VISITED, table.keys * VISITED // INTERVALS)
            keys = local_zipf(
                stream.rows, domain=domain, intervals=VISITED, skew=stream.skew, seed=seed + 1
            )
        case Shape.SPREAD:
            keys = spread(stream.rows, domain=table.keys)
        case Shape.LINEITEM:
            factor = table.rows / TPCH_TABLES["part"]
            return _keyed(tpch_table("lineitem", factor, rows=stream.rows), "l_partkey", "id")
        case Shape.TRIPS:
            return _keyed(_trips(stream.rows), "pickup_location_id", "id")
    return Rows.made(keys, "id")


def _trips(rows: int) -> pa.Table:
    """Trips in file order, again and again until there are enough."""
    trips = load_taxi_yellow_2019()
    if "id" in trips.column_names:
        trips = trips.drop_columns(["id"])
    times = -(-rows // trips.num_rows)
    return pa.concat_tables([trips] * times).slice(0, rows)


def _keyed(table: pa.Table, key: str, name: str) -> Rows:
    """The rows of a real table, with ``key`` and ``name``, the place of a row."""
    keys = pc.fill_null(table.column(key), -1).to_numpy().astype(np.int64)
    rest = {
        field.name: _plain(table.column(field.name)) for field in table.schema if field.name != key
    }
    whole = pa.table({"key": keys, name: np.arange(keys.size), **rest}).combine_chunks()
    return Rows(keys, pa.Table.from_batches(whole.to_batches(max_chunksize=_BATCH)))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without views, which not every peer reads."""
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column

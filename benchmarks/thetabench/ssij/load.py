"""Tables, streams and the right answers. No index and no kernel is involved.

`Truth` has the digest of every stream row's matches, added up: so the answer to the first n rows is
known for every n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thetabench.arrays import Array
from thetabench.contestant import Unavailable
from thetabench.digest import Digest, pair_digest, row_hash, weights
from thetabench.ssij.contestant import Shape, Source, Stream, Table
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


class Rows:
    """A table as it comes to the relation: batches with ``key`` and ``rid``, and the keys alone."""

    def __init__(self, keys: Array, batches: list[pa.RecordBatch] | None = None) -> None:
        self.keys = keys
        self._batches = batches

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows; made anew each time where they are synthetic."""
        if self._batches is None:
            return keyed_batches(self.keys, name="rid", batch_rows=_BATCH)
        return iter(self._batches)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        if self._batches is None:
            return next(keyed_batches(self.keys[:1], name="rid")).schema
        return self._batches[0].schema


class Feed:
    """A stream: rows with ``key`` and ``id``, an id being a row's place."""

    def __init__(self, keys: Array, batches: list[pa.RecordBatch]) -> None:
        self.keys = keys
        self._edges = np.cumsum([0, *(batch.num_rows for batch in batches)])
        self._batches = batches

    @property
    def nbytes(self) -> int:
        """Bytes held; a filler that all batches share counts once."""
        return int(self.keys.nbytes * 3 + self._batches[0].nbytes)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the stream."""
        return self._batches[0].schema

    def slice(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows ``start … stop - 1``."""
        parts = []
        while start < stop:
            which = int(np.searchsorted(self._edges, start, side="right")) - 1
            end = min(stop, int(self._edges[which + 1]))
            parts.append(self._batches[which].slice(start - int(self._edges[which]), end - start))
            start = end
        return parts


class Truth:
    """Right answers to the first rows of a stream. O(rows): a key's matches are added up once."""

    def __init__(self, table: Array, stream: Array) -> None:
        order = np.argsort(table, kind="stable")
        keys = table[order]
        first = np.searchsorted(keys, stream)
        stop = np.searchsorted(keys, stream, side="right")
        none = np.zeros(1, np.uint64)
        hashes = np.concatenate([none, np.cumsum(row_hash(order), dtype=np.uint64)])
        sums = weights(np.arange(stream.size)) * (hashes[stop] - hashes[first])
        self._counts = np.concatenate([[0], np.cumsum(stop - first)])
        self._sums = np.concatenate([none, np.cumsum(sums, dtype=np.uint64)])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._counts.nbytes + self._sums.nbytes

    def digest(self, rows: int) -> Digest:
        """The answer to the first ``rows`` rows."""
        return Digest(int(self._counts[rows]), int(self._sums[rows]))


def answer_digest(batch: pa.RecordBatch) -> Digest:
    """The digest of an answer with the columns ``id`` and ``rid``.

    >>> swapped = pa.record_batch({"id": [0, 1], "rid": [2, 0]})
    >>> answer_digest(swapped) == answer_digest(pa.record_batch({"id": [0, 1], "rid": [0, 2]}))
    False
    """
    return pair_digest(batch.column("id").to_numpy(), batch.column("rid").to_numpy())


# --- Data ----------------------------------------------------------------------------------------


def made_table(table: Table, seed: int) -> Rows:
    """The rows of a table."""
    match table.source:
        case Source.UNIFORM:
            return Rows(uniform(table.rows, seed=seed, domain=table.keys).astype(np.int64))
        case Source.REPEATED:
            return Rows(repeated(table.keys, max(1, table.rows // table.keys), seed=seed))
        case Source.PART:
            factor = table.rows / TPCH_TABLES["part"]
            keys, whole = _keyed(_loaded(lambda: tpch_table("part", factor)), "p_partkey", "rid")
        case Source.ZONES:
            keys, whole = _keyed(_loaded(lambda: load_taxi_zones()), "location_id", "rid")
    return Rows(keys, whole.to_batches())


def made_feed(stream: Stream, table: Table, seed: int) -> Feed:
    """The rows of a stream over a table."""
    whole: pa.Table | None = None
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
            lines = _loaded(lambda: tpch_table("lineitem", factor, rows=stream.rows))
            keys, whole = _keyed(lines, "l_partkey", "id")
        case Shape.TRIPS:
            keys, whole = _keyed(_trips(stream.rows), "pickup_location_id", "id")
    if whole is not None:
        return Feed(keys, whole.to_batches(max_chunksize=_BATCH))
    return Feed(keys, list(keyed_batches(keys, batch_rows=_BATCH)))


def _loaded(load: Callable[[], pa.Table]) -> pa.Table:
    """Real data, or why there are none."""
    try:
        return load()
    except DataError as error:
        raise Unavailable(str(error)) from None


def _trips(rows: int) -> pa.Table:
    """Trips in file order, again and again until there are enough."""
    trips = _loaded(lambda: load_taxi_yellow_2019())
    if "id" in trips.column_names:
        trips = trips.drop_columns(["id"])
    times = -(-rows // trips.num_rows)
    return pa.concat_tables([trips] * times).slice(0, rows)


def _keyed(table: pa.Table, key: str, name: str) -> tuple[Array, pa.Table]:
    """The keys of a real table; and it, with ``key`` and ``name``, the place of a row."""
    keys = pc.fill_null(table.column(key), -1).to_numpy().astype(np.int64)
    rest = _plain(table.drop_columns([key]))
    return keys, pa.table({"key": keys, name: np.arange(keys.size), **rest}).combine_chunks()


def _plain(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Columns without views, which not every peer reads."""
    return {
        field.name: column.cast(pa.string()) if pa.types.is_string_view(field.type) else column
        for field, column in zip(table.schema, table.columns, strict=True)
    }

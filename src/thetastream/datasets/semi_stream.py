"""Tables and streams as in the SSIJ paper's experiments (Section VI, Table II).

A row is a key, a number and filler. The keys of streams come from
:func:`~thetastream.datasets.zipf` ("NoPerm", or "Random" with ``permuted=True``), from
:func:`local_zipf` (temporal locality), or from :func:`spread` (the worst case of Section V). The
same arguments return the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.datasets.keys import Seed, zipf
from thetastream.errors import DataError

ROW_BYTES = 128
"""Bytes of a row of the table and of the stream, key and number included."""

_NUMBERS = 16  # bytes of key and number
_GOLDEN = 0.6180339887498949
_BATCH = 1 << 16

Keys = NDArray[np.int64]


def keyed_rows(
    keys: Keys, *, first: int = 0, name: str = "id", row_bytes: int = ROW_BYTES
) -> pa.RecordBatch:
    """Rows of ``row_bytes`` each: ``key``, a number from ``first`` on, filler when there is room.

    >>> keyed_rows(np.array([7, 5]), first=3, name="rid", row_bytes=16).to_pydict()
    {'key': [7, 5], 'rid': [3, 4]}
    """
    if row_bytes < _NUMBERS:
        raise DataError(f"a row of key and number has at least 16 bytes; got {row_bytes}.")
    columns: dict[str, Any] = {
        "key": pa.array(keys),
        name: pa.array(np.arange(first, first + keys.size)),
    }
    if width := row_bytes - _NUMBERS:
        filler = np.random.default_rng(width).integers(0, 256, keys.size * width, np.uint8)
        kind = pa.binary(width)
        buffers = [None, pa.py_buffer(filler)]
        columns["filler"] = pa.Array.from_buffers(kind, keys.size, buffers)
    return pa.RecordBatch.from_pydict(columns)


def keyed_batches(
    keys: Keys, *, name: str = "id", row_bytes: int = ROW_BYTES, batch_rows: int = _BATCH
) -> Iterator[pa.RecordBatch]:
    """The rows of `keyed_rows`, batch by batch: all batches share one filler."""
    if batch_rows < 1:
        raise DataError(f"batch_rows must be at least 1; got {batch_rows}.")
    model = keyed_rows(keys[:batch_rows], name=name, row_bytes=row_bytes)
    for start in range(0, keys.size, batch_rows):
        some = keys[start : start + batch_rows]
        numbers = pa.array(np.arange(start, start + some.size))
        filler = [model.column(2).slice(0, some.size)] if model.num_columns > 2 else []
        yield pa.RecordBatch.from_arrays([pa.array(some), numbers, *filler], schema=model.schema)


def repeated(keys: int, times: int, *, seed: Seed = 0) -> Keys:
    """Keys ``0 … keys - 1``, each exactly ``times`` times, in random order (1:K joins).

    >>> np.bincount(repeated(3, 4)).tolist()
    [4, 4, 4]
    """
    if keys < 1 or times < 1:
        raise DataError(f"keys and times must be at least 1; got {keys} and {times}.")
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(keys), times))


def local_zipf(
    rows: int, *, domain: int, intervals: int = 20, skew: float = 1.0, seed: Seed = 0
) -> Keys:
    """Zipf keys that move: part i of the rows falls into part i of the domain.

    So at any time only ``1 / intervals`` of a table is probed: 5 % with the paper's 20.

    >>> keys = local_zipf(1000, domain=100, intervals=5)
    >>> [(int(part.min()) // 20, int(part.max()) // 20) for part in np.split(keys, 5)]
    [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    """
    if not 1 <= intervals <= domain:
        raise DataError(f"intervals must be between 1 and the domain, {domain}; got {intervals}.")
    rng = np.random.default_rng(seed)
    row_edges = np.linspace(0, rows, intervals + 1).astype(np.int64)
    key_edges = np.linspace(0, domain, intervals + 1).astype(np.int64)
    parts = []
    for part in range(intervals):
        width = int(key_edges[part + 1] - key_edges[part])
        count = int(row_edges[part + 1] - row_edges[part])
        keys = zipf(count, seed=rng, domain=width, distinct=width, skew=skew)
        parts.append(keys.astype(np.int64) + key_edges[part])
    return np.concatenate(parts)


def spread(rows: int, *, domain: int) -> Keys:
    """Keys that are as far from each other as they can be, however many of them are taken.

    Row i has the key ``⌊domain × frac(i × golden ratio)⌋``: any stretch of rows is spread evenly,
    and no key repeats before the whole domain has been visited. That is the worst case of SSIJ,
    Section V: no block is read twice, and the blocks read are not neighbours.

    >>> spread(6, domain=100).tolist()
    [0, 61, 23, 85, 47, 9]
    """
    if domain < 1:
        raise DataError(f"domain must be at least 1; got {domain}.")
    place = np.arange(rows) * _GOLDEN % 1.0
    return np.minimum((place * domain).astype(np.int64), domain - 1)

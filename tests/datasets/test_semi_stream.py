"""Tables and streams of the SSIJ paper."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.datasets import keyed_batches, keyed_rows, local_zipf, repeated, spread
from thetastream.errors import DataError


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30), st.integers(1, 9))
def test_batches_are_the_rows_in_pieces(keys: list[int], batch_rows: int) -> None:
    values = np.array(keys, np.int64)
    found = pa.Table.from_batches(keyed_batches(values, name="rid", batch_rows=batch_rows))
    whole = keyed_rows(values, name="rid")
    assert found.select(["key", "rid"]).to_pydict() == whole.select(["key", "rid"]).to_pydict()
    assert found.schema == whole.schema
    first = found["filler"].to_pylist()[: min(batch_rows, len(keys))]
    assert first == whole["filler"].to_pylist()[: len(first)]


@pytest.mark.parametrize("row_bytes", [16, 24, 128])
def test_rows_have_the_bytes_asked_for(row_bytes: int) -> None:
    rows = keyed_rows(np.arange(10), row_bytes=row_bytes)
    assert sum(field.type.bit_width for field in rows.schema) == 8 * row_bytes
    rows.validate(full=True)


def test_every_key_occurs_equally_often_in_any_order() -> None:
    keys = repeated(50, 7, seed=3)
    assert np.bincount(keys).tolist() == [7] * 50
    assert not np.array_equal(keys, np.sort(keys))
    assert np.array_equal(keys, repeated(50, 7, seed=3))
    assert not np.array_equal(keys, repeated(50, 7, seed=4))


@given(st.integers(1, 300), st.integers(1, 12), st.integers(0, 3))
def test_locality_moves_through_the_domain(rows: int, intervals: int, seed: int) -> None:
    domain = 40
    keys = local_zipf(rows, domain=domain, intervals=intervals, seed=seed)
    assert keys.size == rows
    row_edges = np.linspace(0, rows, intervals + 1).astype(int)
    key_edges = np.linspace(0, domain, intervals + 1).astype(int)
    for part in range(intervals):
        own = keys[row_edges[part] : row_edges[part + 1]]
        assert np.all((own >= key_edges[part]) & (own < key_edges[part + 1]))


def test_the_first_keys_of_an_interval_are_frequent() -> None:
    first, *_ = np.split(local_zipf(20_000, domain=1000, intervals=4), 4)
    counts = np.bincount(first, minlength=250)
    assert counts[0] > 2 * counts[5] > 0


@given(st.integers(1, 1000), st.integers(1, 200), st.integers(0, 500))
def test_any_stretch_of_spread_keys_is_spread(domain: int, rows: int, start: int) -> None:
    keys = np.sort(spread(start + rows, domain=domain)[start:])
    assert keys.min() >= 0
    assert keys.max() < domain
    gaps = np.diff(np.append(keys, keys[0] + domain))
    assert gaps.max() <= 2.7 * domain / rows + 1


def test_spread_keys_come_again_only_when_all_were_visited() -> None:
    keys = spread(500, domain=1000)
    assert np.unique(keys).size > 480


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keyed_rows(np.arange(3), row_bytes=8), "at least 16 bytes; got 8"),
        (lambda: list(keyed_batches(np.arange(3), batch_rows=0)), "batch_rows must be at least 1"),
        (lambda: repeated(0, 4), "at least 1; got 0 and 4"),
        (lambda: local_zipf(9, domain=4, intervals=5), "between 1 and the domain, 4; got 5"),
        (lambda: spread(9, domain=0), "domain must be at least 1; got 0"),
    ],
)
def test_bad_arguments_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(DataError, match=message):
        make()

"""Keys that do not fit into 64 bits: strings and binary in order, wide decimals, addresses."""

from __future__ import annotations

import ipaddress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import DataError, SchemaError

from ...scale import scaled
from ..relation_cases import padded, rows_of, truth

LONG = "https://www.example.com/a/very/long/prefix/that/all/of/them/share/"
TEXTS = ["", "a", "a\0", "a\0\0", "ab", "b", "ä", "zebra", "𝄞", LONG, LONG + "1", LONG + "10"]
CONDITIONS = [
    "l.x = r.k",
    "l.x < r.k",
    "l.x >= r.k",
    "l.x <> r.k",
    "r.k BETWEEN l.x AND l.y",
    "r.k >= l.x AND r.k < concat(l.x, 'b')",
    "l.x = r.k AND l.n % 2 = 0",
]


def wide(kind: pa.DataType, count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    if pa.types.is_decimal(kind):
        whole = [int(n) * 10**34 for n in rng.integers(-40, 40, count - 2)]
        return [Decimal(f"{n}E-{kind.scale}") for n in [*whole, 7, 10**38 - 1]]
    if kind == pa.binary(16):
        return [bytes(rng.integers(0, 3, 16, np.uint8)) for _ in range(count)]
    texts = [str(text) for text in rng.choice(TEXTS + [f"{LONG}{n}" for n in range(50)], count)]
    return [text.encode() for text in texts] if pa.types.is_binary(kind) else texts


KINDS = [
    *(pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.binary(16)),
    *(pa.dictionary(pa.int32(), pa.string()), pa.decimal128(38, 2), pa.decimal128(38, 0)),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("on", CONDITIONS)
def test_as_the_oracle(tmp_path: Path, kind: pa.DataType, on: str) -> None:
    if "concat" in on and not pa.types.is_string(kind):
        on = "r.k >= l.x AND r.k < l.y"
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind

    def column(count: int, seed: int) -> pa.Array:
        values = [None if n % 11 == 3 else v for n, v in enumerate(wide(plain, count, seed))]
        array = pa.array(values, plain)
        return array.dictionary_encode() if pa.types.is_dictionary(kind) else array

    table = padded({"k": [1] * 150}).set_column(0, "k", column(150, 1))
    stream = pa.table({"x": column(50, 2), "y": column(50, 3), "n": range(50)})
    how = ["inner", "left", "semi", "anti"][(len(on) + len(str(kind))) % 4]
    with ts.Relation.build(tmp_path / "r.rel", table.slice(0, 100), "k", 4096) as relation:
        relation.check()
        relation.insert(table.slice(100))
        relation.check()
        assert relation.rows + relation.null_keys == 150
        with ts.RelationJoin(relation, on, "500 kB", how=how) as join:
            found = rows_of([*join.push(stream), *join.flush()])
    assert found == truth(stream, table, on, how)


@settings(max_examples=scaled(40))
@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(TEXTS)), max_size=60))
def test_rows_lie_in_the_order_of_their_words(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    """Exactly, up to 32 bytes after what all have in common."""
    texts = [text.encode()[:32].decode(errors="ignore").replace("\0", "") for text in texts]
    table = pa.table({"k": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)))})
    if not texts:
        return
    path = tmp_path_factory.mktemp("texts") / "r.rel"
    with ts.Relation.build(path, table, "k", 4096) as relation:
        relation.check()
        found = relation.to_table().to_pylist()
    expected = sorted(table.to_pylist(), key=lambda row: (row["k"].encode(), row["n"]))
    assert found == expected


def test_a_range_of_strings_reads_its_own_blocks(tmp_path: Path) -> None:
    names = [f"customer-{n:010}" for n in range(30_000)]
    table = pa.table({"k": names, "n": range(len(names))})
    with (
        ts.Relation.build(tmp_path / "r.rel", table, "k", 4096) as relation,
        ts.RelationJoin(relation, "r.k >= l.a AND r.k < l.b", "4 MB", plan="single") as join,
    ):
        stream = pa.table({"a": names[100:20_000:2000], "b": names[150:20_050:2000]})
        found = sum(batch.num_rows for batch in (*join.push(stream), *join.flush()))
        assert found == 50 * stream.num_rows
        assert join.metrics().candidates < 2 * found
        assert join.metrics().blocks_read <= 3 * stream.num_rows
        assert relation.blocks > 200


@pytest.mark.parametrize("version", [4, 6])
def test_ranges_of_addresses(tmp_path: Path, version: int) -> None:
    """Networks as intervals of fixed binary, with generated data."""
    rng, width = np.random.default_rng(version), 4 if version == 4 else 16
    kind = pa.binary(width)

    def packed(number: int) -> bytes:
        return number.to_bytes(width, "big")

    bits = 8 * width
    starts = [int.from_bytes(rng.bytes(width), "big") >> 8 << 8 for _ in range(500)]
    networks = sorted((start, start + 2 ** int(rng.integers(0, 8)) - 1) for start in starts)
    table = pa.table(
        {
            "first": pa.array([packed(low) for low, _ in networks], kind),
            "last": pa.array([packed(high) for _, high in networks], kind),
            "m": range(len(networks)),
        }
    )
    asked = [low + int(rng.integers(0, 200)) for low, _ in networks[::5]]
    asked += [int.from_bytes(rng.bytes(width), "big") for _ in range(50)]
    asked = [number % 2**bits for number in asked]
    stream = pa.table({"ip": pa.array([packed(n) for n in asked], kind), "n": range(len(asked))})
    assert ipaddress.ip_address(packed(asked[0])).version == version
    with (
        ts.Relation.build(tmp_path / "r.rel", table, ("first", "last"), 4096) as relation,
        ts.RelationJoin(relation, "l.ip BETWEEN r.first AND r.last", "4 MB") as join,
    ):
        relation.check()
        found = [row for b in (*join.push(stream), *join.flush()) for row in b.to_pylist()]
    expected = [
        (n, m) for n, ip in enumerate(asked) for m, (a, b) in enumerate(networks) if a <= ip <= b
    ]
    assert expected
    assert sorted((row["n"], row["m"]) for row in found) == expected


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    four = pa.table({"first": pa.array([b"abcd"], pa.binary(4)), "last": pa.array([b"x" * 16])})
    with pytest.raises(DataError, match="1 rows have ends of different lengths"):
        ts.Relation.build(tmp_path / "r.rel", four, ("first", "last"))
    mixed = pa.table({"first": ["a"], "last": pa.array([1])})
    with pytest.raises(SchemaError, match="interval from 'first' to 'last'"):
        ts.Relation.build(tmp_path / "r.rel", mixed, ("first", "last"))


def test_a_string_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"a\xff\xfe")],
    )
    with pytest.raises(DataError, match="'k'.*not UTF-8"):
        ts.Relation.build(tmp_path / "r.rel", pa.table({"k": bad}), "k")
    assert not (tmp_path / "r.rel").exists()

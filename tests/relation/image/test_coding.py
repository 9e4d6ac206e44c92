"""Codes of wide keys: never in another order than the keys, wherever a key lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.relation.image.coding import Coding, KeyPart, from_keys

from ..relation_cases import rows_of, truth

FAR = [0, 1, 5, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
words = st.one_of(st.sampled_from(FAR), st.integers(0, 9), st.integers(0, 2**64 - 1))
SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64()})


def coding_of(rows: list[tuple[int, int]]) -> Coding:
    """A coding learned from rows of two words."""
    parts = tuple(KeyPart.of(SCHEMA, name, False) for name in SCHEMA.names)
    keys = np.array(rows, np.uint64).reshape(-1, 2).view(np.int64) ^ np.int64(-(2**63))
    sample = pa.RecordBatch.from_arrays(list(map(pa.array, keys.T)), schema=SCHEMA)
    return Coding.learned(parts, [sample])


@given(
    sample=st.lists(st.tuples(words, words), max_size=12),
    asked=st.lists(st.tuples(words, words), min_size=2, max_size=12),
)
def test_codes_are_in_the_order_of_the_keys(
    sample: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    coding = coding_of(sample)
    ordered = sorted([*asked, *sample])
    codes = coding.codes(np.array(ordered, np.uint64)).tolist()
    assert codes == sorted(codes)
    restored = Coding.restored(coding.parts, coding.arrays)
    assert restored.codes(np.array(ordered, np.uint64)).tolist() == codes


@pytest.mark.parametrize("first", [0, 7, 2**63 - 4])
def test_keys_far_above_all_that_were_learned(first: int) -> None:
    """A difference of 2^63 or more is no negative number of a bucket."""
    coding = coding_of([(first + at, at) for at in range(3)])
    asked = np.array([(word, 0) for word in FAR], np.uint64)
    codes = coding.codes(asked).tolist()
    assert codes == sorted(codes)
    above = [code for code, word in zip(codes, FAR, strict=True) if word > first + 2]
    held = coding.codes(np.array([(first + 2, 2)], np.uint64))[0]
    assert all(code > held for code in above)


def test_order_of_signed_keys() -> None:
    keys = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
    assert from_keys(keys).tolist() == [0, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]


@pytest.mark.parametrize(
    "value",
    [
        lambda number: number,
        lambda number: f"region {number}",
        lambda number: bytes([255 - number]),
    ],
    ids=["numbers", "strings", "binary"],
)
def test_values_in_front_that_the_relation_does_not_have(tmp_path: Path, value: Any) -> None:
    """One region is stored, whose code is far from those of most others."""
    table = pa.table({"g": [value(3)] * 4, "k": range(4), "id": range(4)})
    stream = pa.table({"g": [value(at) for at in range(200)], "x": [2] * 200})
    on = "l.g = r.g AND l.x = r.k"
    with (
        ts.Relation.build(tmp_path / "r.rel", table, ("g", ("k",))) as relation,
        ts.RelationJoin(relation, on, "1 MB", how="left") as join,
    ):
        assert rows_of([*join.push(stream), *join.flush()]) == truth(stream, table, on, "left")

"""The sparse index: which leaves a question needs, and its file."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import RelationError
from thetastream.relation.files.fences import Facts, Fences, read_index, write_index
from thetastream.relation.files.folder import digest

EXTREME = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]
keys = st.one_of(st.integers(0, 8), st.sampled_from(EXTREME))


@st.composite
def leaves(draw: st.DrawFn) -> list[list[int]]:
    """Sorted keys, cut into leaves of one row and more."""
    rows = sorted(draw(st.lists(keys, max_size=24)))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(rows) - 1)), max_size=8)))
    bounds = [0, *(c for c in cuts if c < len(rows)), len(rows)]
    return [rows[a:b] for a, b in pairwise(bounds) if b > a]


def fences_of(parts: list[list[int]], **more: Any) -> Fences:
    continued = [int(i > 0 and parts[i - 1][-1] == part[0]) for i, part in enumerate(parts)]
    firsts = np.array([part[0] for part in parts], np.int64)
    return Fences(firsts, np.array(continued, np.uint8), **more)


@given(leaves(), st.lists(st.tuples(keys, keys), max_size=10))
def test_ranges_hold_all_leaves_with_such_keys(
    parts: list[list[int]], questions: list[tuple[int, int]]
) -> None:
    lows = np.array([low for low, _ in questions], np.int64)
    highs = np.array([high for _, high in questions], np.int64)
    first, stop = fences_of(parts).ranges(lows, highs)
    for i, (low, high) in enumerate(questions):
        needed = {at for at, part in enumerate(parts) if any(low <= k <= high for k in part)}
        given = set(range(first[i], stop[i]))
        assert needed <= given
        # What is read in vain is at most the leaf in which the low bound would lie.
        assert len(given - needed) <= 1
        if low > high:
            assert not given


def test_a_first_key_needs_the_leaf_before_only_if_that_ends_with_it() -> None:
    fences = fences_of([[3, 5, 5], [5, 5, 8], [8, 9, 9], [12, 14]])
    asked = np.array([3, 5, 8, 9, 10, 12, 2, 99], np.int64)
    first, stop = fences.ranges(asked, asked)
    assert list(zip(first.tolist(), stop.tolist(), strict=True)) == [
        *((0, 1), (0, 2), (1, 3), (2, 3), (2, 3), (3, 4), (0, 0), (3, 4)),
    ]


def test_eight_bytes_and_a_bit_per_leaf() -> None:
    leaves = 10**10 // 8192
    fences = Fences(np.arange(leaves), np.zeros(leaves, np.uint8), blocks=np.arange(leaves))
    assert fences.nbytes == 8 * leaves + -(-leaves // 8)
    assert fences.nbytes < 13e6
    assert not fences.moved


def test_moved_and_large_leaves() -> None:
    parts = [[1], [2], [3]]
    spans = np.array([1, 3, 1])
    assert fences_of(parts, spans=spans).blocks.tolist() == [0, 1, 4]
    assert fences_of(parts, spans=spans).end == 5
    assert not fences_of(parts, spans=spans, blocks=np.array([0, 1, 4])).moved
    moved = fences_of(parts, spans=spans, blocks=np.array([7, 1, 4]))
    assert moved.moved
    assert moved.end == 8
    assert moved.blocks_of(np.array([2, 0])).tolist() == [4, 7]
    assert fences_of(parts).blocks_of(np.array([2, 0])).tolist() == [2, 0]
    assert fences_of(parts, spans=np.ones(3, np.int64)).spans is None


SCHEMA = pa.schema([pa.field("k", pa.int64(), metadata={"a": "b"}), ("s", pa.list_(pa.string()))])
FACTS = Facts(("k", "s"), 8192, 0.8, 100, 3, 1, 17)


@given(leaves(), st.booleans(), st.booleans())
def test_the_index_file_gives_back_what_was_written(
    parts: list[list[int]], moved: bool, interval: bool
) -> None:
    count = len(parts)
    high = np.array([part[-1] for part in parts], np.int64) if interval else None
    blocks = np.arange(count)[::-1].copy() if moved else None
    fences = fences_of(parts, greatest=high, blocks=blocks)
    data = write_index(SCHEMA, FACTS, fences)
    schema, facts, found = read_index(data, len(data), digest(data), "index")
    assert schema.equals(SCHEMA, check_metadata=True)
    assert facts == FACTS
    assert found.firsts.tolist() == fences.firsts.tolist()
    assert found.continued.tolist() == fences.continued.tolist()
    assert found.blocks.tolist() == fences.blocks.tolist()
    assert (found.greatest is None) == (not interval)
    assert found.nbytes == fences.nbytes


@given(st.data())
def test_any_flipped_bit_is_found(data: st.DataObject) -> None:
    index = write_index(SCHEMA, FACTS, fences_of([[1, 2], [2, 3]]))
    at = data.draw(st.integers(0, 8 * len(index) - 1))
    flipped = bytearray(index)
    flipped[at // 8] ^= 1 << at % 8
    with pytest.raises(RelationError, match="index' is damaged"):
        read_index(bytes(flipped), len(index), digest(index), "index")


def test_a_short_index_is_found() -> None:
    index = write_index(SCHEMA, FACTS, fences_of([[1, 2], [2, 3]]))
    with pytest.raises(RelationError, match=f"cut short: expected {len(index)} bytes, found 9"):
        read_index(index[:9], len(index), digest(index), "index")


def test_fences_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        fences_of([[1], [2]]).firsts[0] = 5

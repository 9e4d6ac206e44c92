"""Hashes, against the same arithmetic on Python's whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.data.kernels.hashing import hash_bytes, mix, mix_into, unmix

from ...keys import HIGH, LOW

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

KEYS = st.lists(st.one_of(st.integers(-5, 5), st.integers(LOW, HIGH)))


def mixed(x: int) -> int:
    x %= 2**64
    for _ in range(2):
        x ^= x >> 32
        x = x * 0xD6E8FEB86659FD93 % 2**64
    return x ^ x >> 32


def signed(x: int) -> int:
    return x - 2**64 if x >= 2**63 else x


def hashed(keys: list[int]) -> NDArray[np.int64]:
    hashes = np.empty(len(keys), np.int64)
    mix(np.array(keys, np.int64), hashes)
    return hashes


@given(KEYS)
def test_mix(keys: list[int]) -> None:
    assert hashed(keys).tolist() == [signed(mixed(key)) for key in keys]


@given(KEYS)
def test_unmix_takes_mix_back(keys: list[int]) -> None:
    back = np.empty(len(keys), np.int64)
    unmix(hashed(keys), back)
    assert back.tolist() == keys


def test_neighbours_are_spread() -> None:
    # Cells take their prefix from the top bits: neighbours must not share them.
    top = hashed(list(range(1024))) >> 41
    assert np.unique(top).size > 1000


@given(KEYS)
def test_mix_into(keys: list[int]) -> None:
    hashes = hashed(keys)
    mix_into(np.array(keys[::-1], np.int64), hashes)
    pairs = zip(keys, keys[::-1], strict=True)
    assert hashes.tolist() == [signed(mixed(mixed(a) * 31 + b)) for a, b in pairs]


def test_the_order_of_columns_matters() -> None:
    one, other = hashed([1]), hashed([2])
    mix_into(np.array([2]), one)
    mix_into(np.array([1]), other)
    assert one[0] != other[0]


def bytes_hash(text: bytes) -> int:
    state = 14695981039346656037
    for byte in text:
        state = (state ^ byte) * 1099511628211 % 2**64
    return signed(mixed(state ^ len(text)))


@given(st.lists(st.binary(max_size=20)))
def test_hash_bytes(texts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    hashes = np.empty(len(texts), np.int64)
    data = np.frombuffer(b"".join(texts) or b"\0", np.uint8).copy()
    hash_bytes(data, offsets, hashes)
    assert hashes.tolist() == [bytes_hash(text) for text in texts]
    assert len(set(hashes.tolist())) == len(set(texts))

"""Keys of strings and exact prefixes, against Python's bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.kernels.prefixes import find_beginnings, prefix_keys
from thetastream.data.memory import bytes_of

WORDS = st.lists(st.one_of(st.binary(max_size=12), st.text("ab\0", max_size=11).map(str.encode)))


def keys(words: list[bytes]) -> list[int]:
    found = np.empty(len(words), np.int64)
    prefix_keys(*bytes_of(pa.array(words, pa.binary())), found)
    return found.tolist()


@given(WORDS)
def test_keys_are_the_first_eight_bytes(words: list[bytes]) -> None:
    expected = [int.from_bytes(word[:8].ljust(8, b"\0")) - 2**63 for word in words]
    assert keys(words) == expected
    assert sorted(words, key=lambda word: word[:8].ljust(8, b"\0")) == sorted(
        words, key=lambda word: (keys([word])[0],)
    )


@given(WORDS, WORDS)
def test_beginnings(words: list[bytes], starts: list[bytes]) -> None:
    count = min(len(words), len(starts))
    whole, short = (pa.array(side[:count], pa.binary()) for side in (words, starts))
    found = np.empty(count, np.bool_)
    find_beginnings(*bytes_of(whole), *bytes_of(short), found)
    assert found.tolist() == [a.startswith(b) for a, b in zip(words, starts, strict=False)]


def test_slices_and_empty_arrays() -> None:
    words = pa.array([b"long before", b"ab", None, b"", b"behind"])
    data, offsets = bytes_of(words.slice(1, 3))
    assert (data.tobytes(), offsets.tolist()) == (b"ab", [0, 2, 2, 2])
    for none in (words.slice(2, 0), pa.array([], pa.string()), pa.nulls(0, pa.binary(3))):
        assert bytes_of(none)[1].tolist() == [0]

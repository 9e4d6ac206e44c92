"""The suffix of cells: keys rounded to few steps."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.plan.tactics.cells import SUFFIX_BITS, Quantizer

from ...keys import HIGH, LOW

ANY = st.one_of(st.integers(-50, 50), st.integers(LOW, HIGH), st.sampled_from([LOW, HIGH]))


@given(st.lists(ANY), st.lists(ANY, min_size=1))
@example([LOW, HIGH], [LOW, -1, 0, HIGH])
@example([], [LOW, 0, HIGH])
@example([HIGH], [LOW, HIGH - 1, HIGH])
def test_the_quantizer_never_falls_and_fits(seen: list[int], asked: list[int]) -> None:
    quantizer = Quantizer.fit(np.array(seen, np.int64))
    steps = quantizer.apply(np.array(sorted(asked), np.int64)).tolist()
    assert steps == sorted(steps)
    assert all(0 <= step < 1 << SUFFIX_BITS for step in steps)


@given(st.lists(st.integers(-(2**36), 2**36), min_size=1))
def test_the_quantizer_tells_seen_keys_apart(seen: list[int]) -> None:
    keys = np.unique(np.array(seen, np.int64))
    quantizer = Quantizer.fit(keys)
    assert np.unique(quantizer.apply(keys)).size == keys.size
    assert quantizer.clamped(keys) == 0.0
    assert quantizer.clamped(np.array([LOW, HIGH])) == 1.0
    assert quantizer.clamped(np.empty(0, np.int64)) == 0.0

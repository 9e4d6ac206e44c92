from __future__ import annotations

import pyarrow as pa
import pytest

from thetastream.testing import assert_same_pairs


def test_order_does_not_matter() -> None:
    assert_same_pairs([(0, 1), (2, None), (None, 3)], [(None, 3), (0, 1), (2, None)])
    assert_same_pairs([], [])


def test_how_often_a_pair_occurs_does() -> None:
    with pytest.raises(AssertionError, match="1 missing, 0 extra"):
        assert_same_pairs([(0, 1)], [(0, 1), (0, 1)])


def test_the_diff_shows_values() -> None:
    left, right = pa.table({"x": [1.5, 2.5]}), pa.table({"y": ["a"]})
    with pytest.raises(AssertionError) as caught:
        assert_same_pairs([(0, 0)], [(1, None)], left=left, right=right, note="the note")
    lines = str(caught.value).splitlines()
    assert lines == [
        "expected 1 pairs, got 1: 1 missing, 1 extra",
        "  missing  (1, None)   left: x=2.5",
        "  extra    (0, 0)   left: x=1.5   right: y='a'",
        "the note",
    ]


def test_the_diff_stays_small() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_same_pairs([(n, n) for n in range(1000)], [])
    assert len(str(caught.value).splitlines()) == 12
    assert "… and 990 more" in str(caught.value)

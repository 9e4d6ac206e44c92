"""Meeting held boxes and leaves, against all pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetabench.rivals.kernels.mesh import meet

LEAVES = 12
boxes = st.tuples(st.integers(0, LEAVES), st.integers(0, 5), st.integers(0, 3))
batches = st.lists(st.lists(boxes, max_size=6), min_size=1, max_size=4)


@given(
    batches,
    st.integers(0, LEAVES),
    st.integers(0, LEAVES),
    st.booleans(),
    st.lists(st.integers(0, 3), min_size=LEAVES, max_size=LEAVES),
    st.integers(1, 9),
)
def test_all_meetings_are_found_once(
    held: list[list[tuple[int, int, int]]],
    begin: int,
    length: int,
    ranged: bool,
    greatest: list[int],
    room: int,
) -> None:
    end, width = min(begin + length, LEAVES), 6
    tables = [np.zeros((len(held), width), np.int32) for _ in range(4)]
    first, stop, reach, box = tables
    least = np.zeros(len(held) * width, np.int64)
    expected = []
    for at, batch in enumerate(held):
        for place, (low, size, bound) in enumerate(sorted(batch)):
            high = min(low + size, LEAVES)
            number = at * width + place
            first[at, place], stop[at, place], box[at, place] = low, high, number
            least[number] = bound
            expected += [
                leaf << 32 | number
                for leaf in range(max(low, begin), min(high, end))
                if not ranged or greatest[leaf] >= bound
            ]
        np.maximum.accumulate(stop[at], out=reach[at])
    counts = np.array([len(batch) for batch in held])
    cursor, found = np.array([0, -1, -1]), []
    while cursor[0] < len(held):
        questions = np.empty(room, np.int64)
        count = meet(
            *tables, counts, begin, end, int(ranged), least, np.array(greatest), cursor, questions
        )
        found += questions[:count].tolist()
    assert sorted(found) == sorted(expected)

"""The buffer pool against an ordered dictionary."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetabench.rivals.kernels.buffer_pool import admit, oldest_use, walk


@given(st.lists(st.integers(0, 7), max_size=60), st.integers(1, 5), st.integers(0, 3))
def test_the_one_not_used_for_longest_goes(trace: list[int], capacity: int, asked: int) -> None:
    slots = np.full(8, -1, np.int32)
    leaves, used = np.full(capacity, -1), np.full(capacity, -1)
    newer, older = (np.full(capacity + 1, capacity, np.int32) for _ in range(2))
    questions = np.array([leaf << 32 | 1 for leaf in trace], np.int64)
    places = np.full(len(trace), -1)
    model: OrderedDict[int, int] = OrderedDict()  # leaf: its last use
    reads, wanted, at, count = [], [], 0, 0
    for number, leaf in enumerate(trace):
        if leaf not in model:
            wanted.append(number)
            if len(model) == capacity:
                model.popitem(last=False)
        model[leaf] = 100 + number
        model.move_to_end(leaf)
    while (at := walk(questions, at, 100, slots, newer, older, used, places)) < len(trace):
        reads.append(at)
        free = count if count < capacity else -1
        slot = admit(trace[at], free, slots, leaves, newer, older)
        count += free >= 0
        assert leaves[slot] == trace[at]
    assert reads == wanted
    assert {leaf: used[slots[leaf]] for leaf in range(8) if slots[leaf] >= 0} == dict(model)
    first = list(model.values())[:asked]
    assert oldest_use(asked, newer, used) == max(first, default=-1)
    assert all(0 <= place < capacity for place in places)

"""Keys of a small domain and of both ends of int64, boxes over them, and what a plain loop finds.

A box is an inclusive interval of keys, a row a pair ``(key, id)``, an answer a list of pairs
``(box, id)``. ``Rows`` is the model that stands beside an index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.index import Index

Pair = tuple[int, int]
LOW, HIGH = LEAST, MOST
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
MORE_KEYS = st.one_of(st.integers(-4, 4), st.sampled_from([LOW, LOW + 1, 0, HIGH - 1, HIGH]))
STEPS = st.lists(
    st.one_of(
        st.lists(MORE_KEYS, max_size=9),  # insert these
        st.integers(1, 8),  # expire so many
    ),
    max_size=25,
)
BOXES = [(LOW, HIGH), (0, 0), (-2, 3), (HIGH, HIGH), (LOW, LOW), (LOW, 0), (0, HIGH), (3, -3)]


def int64(values: Iterable[int]) -> Array:
    return np.array(list(values), np.int64)


def edges(boxes: Iterable[Pair]) -> tuple[Array, Array]:
    """Lows and highs of boxes."""
    lows, highs = np.array(list(boxes), np.int64).reshape(-1, 2).T.copy()
    return lows, highs


def inside(
    rows: Iterable[Pair], boxes: Sequence[Pair], before: int = LOW, after: int = HIGH
) -> list[Pair]:
    """Every box against every row, in their order; ids from ``before`` up to ``after``."""
    held = [(key, row) for key, row in rows if before <= row < after]
    return [
        (at, row) for at, (low, high) in enumerate(boxes) for key, row in held if low <= key <= high
    ]


def pairs_of(chunks: Iterable[tuple[Any, Any]], limit: int = HIGH) -> list[Pair]:
    """All pairs of an answer, in its order; no chunk is empty or longer than ``limit``."""
    pairs: list[Pair] = []
    for positions, ids in chunks:
        assert 0 < positions.size == ids.size <= limit
        pairs += zip(positions.tolist(), ids.tolist(), strict=True)
    return pairs


def pair_counts(chunks: Iterable[tuple[Any, Any]], limit: int = HIGH) -> Counter[Pair]:
    """All pairs of an answer, in no order."""
    return Counter(pairs_of(chunks, limit))


def probed(index: Index, boxes: Sequence[Pair], limit: int = 64) -> Counter[Pair]:
    return pair_counts(index.probe(*edges(boxes), limit=limit), limit)


def drained(
    call: Callable[[Array, Array, Array], int],
    boxes: int,
    room: int,
    cursor: Sequence[int],
    at: int = 0,
) -> list[Pair]:
    """Call a kernel with ``room`` places, again and again, until all boxes are done.

    ``cursor[at]`` counts the boxes that are done.
    """
    place, pairs = int64(cursor), []
    for _ in range(100_000):
        if place[at] >= boxes:
            return pairs
        positions, ids = np.full(room, -7), np.full(room, -7)
        filled = call(place, positions, ids)
        assert 0 <= filled <= room
        assert filled == room or place[at] == boxes, "only full arrays end a call early"
        pairs += zip(positions[:filled].tolist(), ids[:filled].tolist(), strict=True)
    raise AssertionError("the cursor does not reach the end")


@dataclass
class Rows:
    """The live rows beside an index, from id to key."""

    live: dict[int, int] = field(default_factory=dict)
    issued: int = 0
    before: int = 0

    def step(self, index: Index, step: list[int] | int, turn: int = 0) -> None:
        """Insert the keys of a list, ids rotated by ``turn``, or expire as many rows."""
        if isinstance(step, list):
            ids = np.roll(np.arange(self.issued, self.issued + len(step)), turn)
            index.insert(int64(step), ids)
            self.live.update(zip(ids.tolist(), step, strict=True))
            self.issued += len(step)
        else:
            self.expire(index, min(self.before + step, self.issued))

    def expire(self, index: Index, before: int) -> None:
        """Expire rows; an id that has expired does not come back."""
        self.before, self.issued = before, max(self.issued, before)
        index.expire(before)
        self.live = {row: key for row, key in self.live.items() if row >= before}

    def matches(self, boxes: Sequence[Pair] = BOXES) -> Counter[Pair]:
        return Counter(inside(((key, row) for row, key in self.live.items()), boxes))

    def check(self, index: Index, limit: int = 64) -> None:
        """The index keeps its invariants, answers every box, and dumps just these rows."""
        index.check()
        assert len(index) == len(self.live)
        assert probed(index, BOXES, limit) == self.matches()
        keys, ids = index.dump()
        assert ids.tolist() == sorted(self.live)
        assert dict(zip(ids.tolist(), keys[0].tolist(), strict=True)) == self.live

"""A buffer pool that forgets the page that was not used for longest: LRU in arrays.

Slots form a ring by the time of their last use. ``newer`` and ``older`` hold a slot's neighbours;
the entry behind the last slot is the hinge of the ring: its ``older`` is the slot used last, its
``newer`` the one to be forgotten first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetabench.arrays import Array
from thetastream._jit.compiling import inlined, kernel

Links = NDArray[np.int32]


@inlined
def _unlink(slot: Any, newer: Links, older: Links) -> None:
    newer[older[slot]] = newer[slot]
    older[newer[slot]] = older[slot]


@inlined
def _link(slot: Any, newer: Links, older: Links) -> None:
    hinge = newer.size - 1
    newer[slot] = hinge
    older[slot] = older[hinge]
    newer[older[hinge]] = slot
    older[hinge] = slot


@kernel("i8(i8[::1], i8, i8, i4[::1], i4[::1], i4[::1], i8[::1], i8[::1])")
def walk(
    questions: Array,
    start: int,
    now: int,
    slots: Links,
    newer: Links,
    older: Links,
    used: Array,
    places: Array,
) -> int:
    """Use the slots of questions from ``start`` on, up to the first whose leaf is in no slot.

    ``places`` gets the slot of each, ``used`` the moment of the last use: ``now`` and the number of
    the question. Gives the number of the question that was not answered, or how many there are.
    """
    for at in range(start, questions.size):
        slot = slots[questions[at] >> 32]
        if slot < 0:
            return at
        _unlink(slot, newer, older)
        _link(slot, newer, older)
        used[slot] = now + at
        places[at] = slot
    return questions.size


@kernel("i8(i8, i4[::1], i8[::1])")
def oldest_use(count: int, newer: Links, used: Array) -> int:
    """The latest use among the ``count`` slots that were not used for longest."""
    latest = -1
    slot = newer[newer.size - 1]
    for _ in range(count):
        if slot == newer.size - 1:
            break
        latest = max(latest, int(used[slot]))
        slot = newer[slot]
    return latest


@kernel("i8(i8, i8, i4[::1], i8[::1], i4[::1], i4[::1])")
def admit(leaf: int, free: int, slots: Links, leaves: Array, newer: Links, older: Links) -> int:
    """Give a leaf a slot: the free one, or if that is -1 the one not used for longest."""
    slot = np.int64(free)
    if free < 0:
        slot = np.int64(newer[newer.size - 1])
        slots[leaves[slot]] = -1
        _unlink(slot, newer, older)
    _link(slot, newer, older)
    leaves[slot] = leaf
    slots[leaf] = slot
    return int(slot)

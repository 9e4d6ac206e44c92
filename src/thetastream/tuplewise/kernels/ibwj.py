"""The index-based window join, tuple by tuple, in one thread (PIM-Tree, Sections 2 and 3).

A *feed* holds tuples of both streams in arrival order. Per tuple: its side, its own key and number,
its box on the other side, and the numbers of that side it may match: ``[floors, until)``, the
paper's t_e and t_l. Arrival order alone decides them, so they are known when a tuple is queued. The
numbers of a side are consecutive; a ring holds keys by number.

    search the other index   (1)   →   delete what has expired   (2)   →   insert into the own   (3)
"""

from __future__ import annotations

from typing import NamedTuple

from thetastream._jit.arrays import Array, u64
from thetastream._jit.atomics import now
from thetastream._jit.compiling import M, N, V, inlined, kernel, named
from thetastream.index.runs.kernels.search import any_inside
from thetastream.index.trees.kernels import store
from thetastream.index.trees.kernels.store import STORE, Store

_BLOCK = 64
SEARCHING, DELETING, INSERTING, MERGING = 0, 1, 2, 3


class Feed(NamedTuple):
    """Tuples in arrival order."""

    sides: Array
    keys: Array  # own key, to be stored
    lows: Array  # the box on the other side
    highs: Array
    own: Array  # own number
    until: Array  # numbers of the other side from here on arrived later
    floors: Array  # side × tuple: numbers below have left the window of that side
    others: Array  # the side that each side probes: (1, 0), or (0, 0) for a self-join


FEED = named(Feed, V, V, V, V, V, V, M, V)


@inlined
def scan_ring(
    ring: Array, side: int, low: int, high: int, first: int, last: int, own: int, filled: int,
    positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(own, number)`` of all numbers in ``[first, last)`` whose key lies in the box.

    Vector code skips blocks without a hit. Returns the new fill, or FULL.
    """
    if low > high:
        return filled
    size = ring.shape[1]
    at = first
    while at < last:
        slot = at & (size - 1)
        stop = min(last - at, size - slot)  # to the end, or to where the ring wraps
        i = 0
        while i < stop:
            block = min(_BLOCK, stop - i)
            if block == _BLOCK and not any_inside(ring[side], u64(slot + i), low, high):
                i += _BLOCK
                continue
            if filled + block > positions.size:
                return store.FULL
            for j in range(i, i + block):
                key = ring[side, slot + j]
                positions[filled] = own
                rows[filled] = at + j
                filled += key >= low and key <= high
            i += block
        at += stop
    return filled


@inlined
def charged(costs: Array, step: int, begun: int) -> int:
    """Add the nanoseconds since ``begun`` to those of a step, if wanted; returns the time."""
    if costs.size == 0:
        return begun
    costs[step] += now() - begun
    return now()


@kernel((STORE, FEED, M, V, V, V, V, N, N, V))
def join_alone(
    st: Store, feed: Feed, ring: Array, cursor: Array, path: Array, positions: Array, rows: Array,
    share: int, shares: int, costs: Array,
) -> int:  # fmt: skip
    """Join tuples from ``cursor[0]`` on; append pairs from ``cursor[1]`` on.

    Returns DONE, FULL when the pairs of a tuple may not fit, or what the store lacks; ``cursor[0]``
    is then the tuple to resume at, ``cursor[2]`` its side. With several threads, each does its
    ``share`` for all tuples: of the trees of a round-robin index, or of the window of a nested
    loop. ``costs``, if not empty, receives nanoseconds per step.
    """
    spot = cursor[3:6]
    clock = now() if costs.size > 0 else 0
    while cursor[0] < feed.sides.size:
        i = cursor[0]
        side = feed.sides[i]
        other = feed.others[side]
        at = side * store.SIDE_SIZE
        cursor[2] = side
        key, number = feed.keys[i], feed.own[i]
        first, last = feed.floors[other, i], feed.until[i]
        mode = st.sides[at + store.MODE]
        mine = shares == 1 or number % shares == share
        if mode != store.SCAN and mine and not store.ready(st, side, number, 1):
            return store.NO_NODES
        if mode != store.SCAN and st.sides[at + store.YOUNG] >= st.sides[at + store.LIMIT]:
            st.sides[at + store.BEFORE] = feed.floors[side, i]
            if mode == store.CHAIN:
                status = store.roll(st, side)
            else:
                run = st.sides[at + store.RUNS_FIRST]
                status = store.merge_rows(st, side, run, run)
                if status == store.DONE and store.reset_young(st, side) != store.DONE:
                    status = store.NO_HEADS
            if status != store.DONE:
                return status
            clock = charged(costs, MERGING, clock)
        filled = cursor[1]
        if mode == store.SCAN:
            part = (last - first + shares - 1) // shares
            begin = first + share * part
            filled = scan_ring(
                ring, other, feed.lows[i], feed.highs[i], begin, min(last, begin + part), i,
                filled, positions, rows,
            )  # fmt: skip
        elif feed.lows[i] <= feed.highs[i]:
            spot[0], spot[1], spot[2] = 0, -1, 0
            filled = store.collect(
                st, other, feed.lows[i], feed.highs[i], first, last, spot, i, filled,
                positions, rows, False,
            )  # fmt: skip
        if filled < 0:
            return store.FULL
        cursor[1] = filled
        clock = charged(costs, SEARCHING, clock)
        if mode != store.SCAN and st.sides[at + store.DELETED] >= 0:
            while st.sides[at + store.DELETED] < feed.floors[side, i]:
                old = st.sides[at + store.DELETED]
                if shares == 1 or old % shares == share:
                    store.remove(st, side, ring[side, old & (ring.shape[1] - 1)], old, path)
                st.sides[at + store.DELETED] = old + 1
            clock = charged(costs, DELETING, clock)
        if mode != store.SCAN and mine:
            store.put(st, side, key, number, path, False)
            st.sides[at + store.YOUNG] += 1
            st.sides[at + store.ACTIVE] = number
        clock = charged(costs, INSERTING, clock)
        cursor[0] = i + 1
    return store.DONE

"""Batch loops over a CSB⁺-tree: insert, delete, look up, read ranges. Entry points of the class.

Batches are processed in groups, like those of the B-tree (``btree/rows.py``).
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.kernels.fold import FOLD, fold_rows
from thetastream.index.ordered.kernels.csb.change import delete_row, insert_near, insert_row
from thetastream.index.ordered.kernels.csb.nodes import (
    AREA,
    HEIGHT,
    LEAF_STRIDE,
    ask_leaves,
    begin_run,
    find_before,
    go_down,
    has_groups,
    next_run,
    plant,
)
from thetastream.index.ordered.kernels.lines import COUNT, ID_AT, advance, count_upto, emit

Values = NDArray[Any]
_TREE = "i8[::1], i8[::1], i8[::1]"


@kernel(f"i8({_TREE})")
def clear(inners: Array, leaves: Array, facts: Array) -> int:
    """Make the tree empty. O(1)."""
    plant(inners, leaves, facts)
    return 0


@kernel(f"i8({_TREE}, i8[::1], i8[::1], i8, i8[::1], i8[::1])")
def insert_rows(
    inners: Array, leaves: Array, facts: Array, keys: Array, ids: Array, start: int, path: Array,
    nodes: Array,
) -> int:  # fmt: skip
    """Insert rows in key order from ``start`` on; returns where groups ran short, or the end.

    ``nodes`` has a place for each row of a batch group. Rows descend together to the parents of
    leaves, below which most splits stay. After a split that moves inner nodes, the rest of the
    group starts at the root.
    """
    done = start
    while done < keys.size:
        size, levels = min(nodes.size, keys.size - done), facts[HEIGHT] - 1
        go_down(inners, leaves, facts, keys, done, size, levels, 0, nodes)
        near = levels >= 0
        if near:
            ask_leaves(inners, leaves, facts, keys, done, size, nodes)
        for j in range(size):
            key, row = keys[done + j], ids[done + j]
            if near and insert_near(inners, leaves, facts, nodes[j], key, row):
                continue
            if not has_groups(facts):
                return done + j
            if insert_row(inners, leaves, facts, key, row, path):
                near = False
        done += size
    return done


@kernel(f"i8({_TREE}, i8[::1], i8[::1], i8[::1], i8[::1])")
def delete_rows(
    inners: Array, leaves: Array, facts: Array, keys: Array, ids: Array, path: Array, run: Array
) -> int:
    """Delete rows one by one, each from the root; returns how many were there."""
    found = 0
    for i in range(keys.size):
        found += delete_row(inners, leaves, facts, keys[i], ids[i], path, run)
    return found


@kernel(f"i8({_TREE}, i8[::1], i8[::1], i8[::1])")
def find_rows(
    inners: Array, leaves: Array, facts: Array, keys: Array, found: Array, nodes: Array
) -> int:
    """The newest id of each key, or -1."""
    for done in range(0, keys.size, nodes.size):
        size = min(nodes.size, keys.size - done)
        go_down(inners, leaves, facts, keys, done, size, facts[HEIGHT], facts[AREA], nodes)
        for j in range(size):  # where the id lies, -1: not there, -2: perhaps in the leaf before
            leaf, key = nodes[j], keys[done + j]
            place = count_upto(leaves, leaf, facts[AREA], key, leaves[leaf])
            nodes[j] = -1 if place > 0 else -2
            if place > 0 and leaves[leaf + place] == key:
                nodes[j] = leaf + facts[AREA] + place - 1
                prefetch(leaves, nodes[j])
        for j in range(size):
            found[done + j] = -1
            if nodes[j] >= 0:
                found[done + j] = leaves[nodes[j]]
            elif nodes[j] == -2:
                found[done + j] = find_before(inners, leaves, facts, keys[done + j])
    return 0


@kernel(
    f"i8({_TREE}, i8[::1], i8[::1], i8, i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], "
    "i8[::1])"
)
def read_rows(
    inners: Array, leaves: Array, facts: Array, lows: Array, highs: Array, before: int,
    cursor: Array, path: Array, run: Array, nodes: Array, positions: Array, keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Write (box, key, id) of the rows with an id of at least ``before`` in each box.

    In the order of the leaves; returns how many. If the arrays are full, ``cursor`` (box, key,
    skip) says where to resume.
    """
    filled, ready = 0, 0
    while cursor[0] < lows.size and filled < positions.size:
        box = cursor[0]
        if box >= ready:  # prefetch for the next boxes
            size, levels = min(nodes.size, lows.size - box), facts[HEIGHT]
            go_down(inners, leaves, facts, lows, box, size, levels, 2 * facts[LEAF_STRIDE], nodes)
            ready = box + size
        high, skip = highs[box], max(cursor[2], 0)
        going = lows[box] <= high
        if going:
            low = cursor[1] if cursor[2] >= 0 else lows[box]
            begin_run(inners, leaves, facts, low, high, path, run)
        while going:
            passed = min(skip, run[COUNT])
            skip -= passed
            advance(run, passed)
            while run[COUNT] > 0:
                filled = emit(leaves, run, box, before, cursor, filled, positions, keys, ids)
                if filled == positions.size:
                    return filled
            going = next_run(inners, leaves, facts, high, path, run)
        cursor[0] += 1
        cursor[1] = 0
        cursor[2] = -1
    return filled


@kernel(*(f"i8({_TREE}, i8[::1], i8[::1], i8, i8[::1], i8[::1], i8[::1], {tail})" for tail in FOLD))
def fold_boxes(
    inners: Array, leaves: Array, facts: Array, lows: Array, highs: Array, before: int,
    path: Array, run: Array, nodes: Array, values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> int:  # fmt: skip
    """The mapper: add the rows of each box to its accumulators, leaf by leaf."""
    for box in range(lows.size):
        if box % nodes.size == 0:  # prefetch for the next boxes
            size, levels = min(nodes.size, lows.size - box), facts[HEIGHT]
            go_down(inners, leaves, facts, lows, box, size, levels, 2 * facts[LEAF_STRIDE], nodes)
        high = highs[box]
        going = lows[box] <= high
        if going:
            begin_run(inners, leaves, facts, lows[box], high, path, run)
        while going:
            fold_rows(
                leaves, run[ID_AT], run[ID_AT] + run[COUNT], before, box, values, first, valid,
                counts, totals, carries, least, greatest,
            )  # fmt: skip
            going = next_run(inners, leaves, facts, high, path, run)
    return 0

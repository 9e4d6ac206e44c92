"""Batch loops over a CSB⁺-tree: insert, delete, look up, read ranges. Entry points of the class.

Batches are processed in groups, like those of the B-tree (``btree/rows.py``).
"""

from __future__ import annotations

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import N, V, kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.kernels.fold import FOLD_TYPES, Values, fold_rows
from thetastream.index.ordered.kernels import lines
from thetastream.index.ordered.kernels.csb import nodes as csb
from thetastream.index.ordered.kernels.csb.change import delete_row, insert_near, insert_row
from thetastream.index.ordered.kernels.csb.nodes import Groups
from thetastream.index.ordered.kernels.lines import COUNT, ID_AT


@kernel((V, V, V))
def clear(inners: Array, leaves: Array, facts: Array) -> int:
    """Make the tree empty. O(1)."""
    t = Groups(inners, leaves, facts)
    csb.plant(t)
    return 0


@kernel((V, V, V, V, V, N, V, V))
def insert_rows(
    inners: Array, leaves: Array, facts: Array, keys: Array, ids: Array, start: int, path: Array,
    nodes: Array,
) -> int:  # fmt: skip
    """Insert rows in key order from ``start`` on; returns where groups ran short, or the end.

    ``nodes`` has a place for each row of a batch group. Rows descend together to the parents of
    leaves, below which most splits stay. After a split that moves inner nodes, the rest of the
    group starts at the root.
    """
    t = Groups(inners, leaves, facts)
    done = start
    while done < keys.size:
        size, levels = min(nodes.size, keys.size - done), t.facts[csb.HEIGHT] - 1
        csb.go_down(t, keys, done, size, levels, 0, nodes)
        near = levels >= 0
        if near:
            csb.ask_leaves(t, keys, done, size, nodes)
        for j in range(size):
            key, row = keys[done + j], ids[done + j]
            if near and insert_near(t, nodes[j], key, row):
                continue
            if not csb.has_groups(t):
                return done + j
            if insert_row(t, key, row, path):
                near = False
        done += size
    return done


@kernel((V, V, V, V, V, V, V))
def delete_rows(
    inners: Array, leaves: Array, facts: Array, keys: Array, ids: Array, path: Array, run: Array
) -> int:
    """Delete rows one by one, each from the root; returns how many were there."""
    t = Groups(inners, leaves, facts)
    found = 0
    for i in range(keys.size):
        found += delete_row(t, keys[i], ids[i], path, run)
    return found


@kernel((V, V, V, V, V, V))
def find_rows(
    inners: Array, leaves: Array, facts: Array, keys: Array, found: Array, nodes: Array
) -> int:
    """The newest id of each key, or -1."""
    t = Groups(inners, leaves, facts)
    for done in range(0, keys.size, nodes.size):
        size = min(nodes.size, keys.size - done)
        csb.go_down(t, keys, done, size, t.facts[csb.HEIGHT], t.facts[csb.AREA], nodes)
        for j in range(size):  # where the id lies, -1: not there, -2: perhaps in the leaf before
            leaf, key = nodes[j], keys[done + j]
            place = lines.count_upto(t.leaves, leaf, t.facts[csb.AREA], key, t.leaves[leaf])
            nodes[j] = -1 if place > 0 else -2
            if place > 0 and t.leaves[leaf + place] == key:
                nodes[j] = leaf + t.facts[csb.AREA] + place - 1
                prefetch(t.leaves, nodes[j])
        for j in range(size):
            found[done + j] = -1
            if nodes[j] >= 0:
                found[done + j] = t.leaves[nodes[j]]
            elif nodes[j] == -2:
                found[done + j] = csb.find_before(t, keys[done + j])
    return 0


@kernel((V, V, V, V, V, N, V, V, V, V, V, V, V))
def read_rows(
    inners: Array, leaves: Array, facts: Array, lows: Array, highs: Array, before: int,
    cursor: Array, path: Array, run: Array, nodes: Array, positions: Array, keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Write (box, key, id) of the rows with an id of at least ``before`` in each box.

    In the order of the leaves; returns how many. If the arrays are full, ``cursor`` (box, key,
    skip) says where to resume.
    """
    t = Groups(inners, leaves, facts)
    filled, ready = 0, 0
    while cursor[0] < lows.size and filled < positions.size:
        box = cursor[0]
        if box >= ready:  # prefetch for the next boxes
            size, levels = min(nodes.size, lows.size - box), t.facts[csb.HEIGHT]
            csb.go_down(t, lows, box, size, levels, 2 * t.facts[csb.LEAF_STRIDE], nodes)
            ready = box + size
        high, skip = highs[box], max(cursor[2], 0)
        going = lows[box] <= high
        if going:
            low = cursor[1] if cursor[2] >= 0 else lows[box]
            csb.begin_run(t, low, high, path, run)
        while going:
            skip = lines.pass_over(run, skip)
            while run[COUNT] > 0:
                filled = lines.emit(
                    t.leaves, run, box, before, cursor, filled, positions, keys, ids
                )
                if filled == positions.size:
                    return filled
            going = csb.next_run(t, high, path, run)
        lines.next_box(cursor)
    return filled


@kernel(*((V, V, V, V, V, N, V, V, V, *fold) for fold in FOLD_TYPES))
def fold_boxes(
    inners: Array, leaves: Array, facts: Array, lows: Array, highs: Array, before: int,
    path: Array, run: Array, nodes: Array,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> int:  # fmt: skip
    """The mapper: add the rows of each box to its accumulators, leaf by leaf."""
    t = Groups(inners, leaves, facts)
    for box in range(lows.size):
        if box % nodes.size == 0:  # prefetch for the next boxes
            size, levels = min(nodes.size, lows.size - box), t.facts[csb.HEIGHT]
            csb.go_down(t, lows, box, size, levels, 2 * t.facts[csb.LEAF_STRIDE], nodes)
        high = highs[box]
        going = lows[box] <= high
        if going:
            csb.begin_run(t, lows[box], high, path, run)
        while going:
            fold_rows(
                t.leaves, run[ID_AT], run[ID_AT] + run[COUNT], before, box, values, first, valid,
                counts, totals, carries, least, greatest,
            )  # fmt: skip
            going = csb.next_run(t, high, path, run)
    return 0

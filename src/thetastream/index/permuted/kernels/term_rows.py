"""Reading a term from its trees and runs: the rows inside an interval, as bits or as lists.

One key column of a window is in a ``Store`` (``trees/kernels/store.py``): the B⁺-trees and runs of
``b+tree``, ``css-tree``, ``chained``, ``im-tree`` and ``round-robin``. The loops here walk along
leaves and runs and write ids in the form of ``term_sets.py``, without pairs.

Those of a probe take the arrays one by one (``parts_of``): a call with a store, named tuples of
named tuples, takes 8 µs longer, the time of reading some thousand rows.

Whether an interval holds more than half of the rows is estimated beforehand: in a run from its two
ends, in a tree from the paths to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array, Words, i64, u64
from thetastream._jit.compiling import M, N, V, inlined, kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.permuted.kernels.term_sets import FILLED, SETS, meet, put_bit, put_live
from thetastream.index.trees.kernels import css, forest, store
from thetastream.index.trees.kernels.css import Runs
from thetastream.index.trees.kernels.forest import Forest
from thetastream.index.trees.kernels.store import STORE, Store

PARTS = (M, M, V, V, M, M, V, V, V, V, V, V, V, V)


def parts_of(st: Store) -> tuple[Any, ...]:
    """The arrays of a store that reading needs: the first arguments of the kernels here."""
    f, r = st.forest, st.runs
    trees = (f.keys, f.ids, f.sizes, f.nexts, f.seps, f.children, f.widths, f.trees)
    return (*trees, r.keys, r.ids, r.directory, r.facts, r.shape, st.sides)


@inlined
def store_of(
    keys: Array, ids: Array, sizes: Array, nexts: Array, seps: Array, children: Array,
    widths: Array, trees: Array, run_keys: Array, run_ids: Array, directory: Array, facts: Array,
    shape: Array, sides: Array,
) -> Store:  # fmt: skip
    """The store again, for reading; placeholders replace the arrays of writers."""
    f = Forest(
        keys, ids, sizes, nexts, seps, children, widths, widths, trees, trees, sizes, sizes, shape
    )
    return Store(f, Runs(run_keys, run_ids, directory, facts, shape), sides, sides, sides)


# --- Reading trees and runs ----------------------------------------------------------------------


@inlined
def run_start(st: Store, run: int, low: int) -> int:
    """Where in the pool the rows of at least ``low`` start."""
    if low == LEAST:
        return css.fact(st.runs, run, css.START)
    return css.find_row(st.runs, run, low, 0, 0)


@inlined
def run_stop(st: Store, run: int, high: int) -> int:
    """Where in the pool the rows of at most ``high`` end."""
    if high == MOST:
        return css.end_of(st.runs, run)
    return css.find_row(st.runs, run, high + 1, 0, 0)


@inlined
def share_below(f: Forest, tree: int, key: int) -> float:
    """The estimated share of a tree's rows below the key: assumes equally full children."""
    node, share, width = forest.fact(f, tree, forest.ROOT), 0.0, 1.0
    for _ in range(forest.fact(f, tree, forest.HEIGHT)):
        child = forest.count_below(f.seps, node, key)
        width /= f.widths[node]
        share += child * width
        node = f.children[node, child]
    return share + width * min(1.0, forest.count_below(f.keys, node, key) / max(1, f.sizes[node]))


@inlined
def mostly_inside(st: Store, side: int, low: int, high: int) -> bool:
    """Whether an interval holds more than about half of the rows of a side.

    Counts the rows of runs, including expired ones. The number of a tree's rows is unknown; trees
    beside runs are assumed to be small, so they decide only if there is no run.
    """
    inside, total = 0, 0
    for part in range(store.run_count(st, side)):
        run = store.run_at(st, side, part)
        inside += run_stop(st, run, high) - run_start(st, run, low)
        total += css.fact(st.runs, run, css.COUNT)
    if total > 0:
        return bool(2 * inside > total)
    trees = store.tree_count(st, side)
    share = 0.0
    for part in range(trees):
        tree = store.tree_at(st, side, part)
        share += 1.0 if high == MOST else share_below(st.forest, tree, high + 1)
        share -= 0.0 if low == LEAST else share_below(st.forest, tree, low)
    return bool(2.0 * share > trees)


@inlined
def ask_for(f: Forest, leaf: int) -> None:
    """Prefetch the ids of a leaf, and its keys from the middle on."""
    line = leaf * f.ids.shape[1]
    for step in range(0, f.ids.shape[1], forest.LINE):
        prefetch(f.ids, line + step)
    prefetch(f.keys, line + f.ids.shape[1] // 2)
    prefetch(f.keys, line + f.ids.shape[1] // 2 + forest.LINE)


@inlined
def set_rows(
    ids: Array, start: int, stop: int, base: np.uint64, clean: bool, bits: Words, row: np.uint64
) -> None:
    """Set the bits of a piece of a flat array of ids; ``clean``: none is below the base."""
    if clean:
        for p in range(u64(start), u64(stop)):
            put_live(bits, row, base, ids[p])
    else:
        top = u64(bits.shape[1] - 1)
        for p in range(u64(start), u64(stop)):
            put_bit(bits, row, top, base, ids[p])


@inlined
def fill(
    st: Store, side: int, low: int, high: int, base: np.uint64, clean: bool, bits: Words,
    row: np.uint64,
) -> int:  # fmt: skip
    """Set the bits of all rows with a key in ``[low, high]``; returns how many.

    Searches for the end of the interval, so it reads only the ids of a run, and the ids and the
    last key of a leaf.
    """
    filled, f = 0, st.forest
    flat = f.ids.reshape(f.ids.size)
    for part in range(store.run_count(st, side)):
        run = store.run_at(st, side, part)
        start, stop = run_start(st, run, low), run_stop(st, run, high)
        set_rows(st.runs.ids, start, stop, base, clean, bits, row)
        filled += stop - start
    for part in range(store.tree_count(st, side)):
        leaf = forest.find_leaf(f, store.tree_at(st, side, part), low)
        begin = forest.count_below(f.keys, leaf, low)
        while leaf >= 0:
            end, following, line = f.sizes[leaf], f.nexts[leaf], leaf * f.ids.shape[1]
            if following >= 0:
                ask_for(f, following)
            ends_here = end > 0 and f.keys[leaf, end - 1] > high
            if ends_here:
                end = forest.count_upto(f.keys, leaf, high, end)
            set_rows(flat, line + begin, line + max(begin, end), base, clean, bits, row)
            filled += max(begin, end) - begin
            if ends_here:
                break
            leaf = following
            begin = 0
    return filled


@kernel((*PARTS, V, V, N, N, N, V, SETS, SETS, V))
def meet_term(
    keys: Array, leaf_ids: Array, sizes: Array, nexts: Array, seps: Array, children: Array,
    widths: Array, trees: Array, run_keys: Array, run_ids: Array, directory: Array, facts: Array,
    shape: Array, sides: Array,
    lows: Array, highs: Array, first: int, base: int, clean: int,
    opened: Array, bits: Words, spare: Words, tally: Array,
) -> int:  # fmt: skip
    """AND one term into the sets of the open boxes from ``first`` on; returns how many stay open.

    A term that holds everything costs nothing. ``spare`` is an empty set, and left empty.
    ``clean``: no id is below the base, not even of expired rows.
    """
    st = store_of(
        keys, leaf_ids, sizes, nexts, seps, children, widths, trees, run_keys, run_ids, directory,
        facts, shape, sides,
    )  # fmt: skip
    origin, none, left, side = u64(base), u64(0), 0, 0
    for i in range(opened.size):
        if opened[i] == 0:
            continue
        low, high = lows[first + i], highs[first + i]
        if low != LEAST or high != MOST:
            inverted = mostly_inside(st, side, low, high)
            for piece in range(2):
                start, stop = low, high
                wanted = piece == 0
                if inverted:
                    start = LEAST if piece == 0 else high + (high != MOST)
                    stop = low - (low != LEAST) if piece == 0 else MOST
                    wanted = low != LEAST if piece == 0 else high != MOST
                if wanted:
                    tally[FILLED] += fill(st, side, start, stop, origin, clean != 0, spare, none)
            opened[i] = meet(bits, u64(i), spare, none, inverted)
        left += opened[i]
    return left


@kernel((STORE,))
def least_id(st: Store) -> int:
    """The least id that a side holds, including expired rows. O(n)."""
    least, side = MOST, 0
    for part in range(store.run_count(st, side)):
        run = store.run_at(st, side, part)
        start, stop = css.fact(st.runs, run, css.START), css.end_of(st.runs, run)
        for p in range(u64(start), u64(stop)):
            least = min(least, st.runs.ids[p])
    for part in range(store.tree_count(st, side)):
        leaf = forest.first_leaf(st.forest, store.tree_at(st, side, part))
        while leaf >= 0:
            for slot in range(st.forest.sizes[leaf]):
                least = min(least, st.forest.ids[leaf, slot])
            leaf = st.forest.nexts[leaf]
    return int(least)


# --- Lists ---------------------------------------------------------------------------------------


@inlined
def copy_live(source: Array, start: int, stop: int, before: int, ids: Array, k: int) -> int:
    """Append the ids of at least ``before`` in a piece of a flat array; returns the new fill."""
    kept = u64(k)
    if before == LEAST:
        for p in range(u64(start), u64(stop)):
            ids[kept + p - u64(start)] = source[p]
        return k + stop - start
    for p in range(u64(start), u64(stop)):
        ids[kept] = source[p]
        kept += u64(source[p] >= before)
    return i64(kept)


@kernel((*PARTS, V, V, N, N, V, V, V))
def collect_term(
    keys: Array, leaf_ids: Array, sizes: Array, nexts: Array, seps: Array, children: Array,
    widths: Array, trees: Array, run_keys: Array, run_ids: Array, directory: Array, facts: Array,
    shape: Array, sides: Array,
    lows: Array, highs: Array, first: int, before: int, opened: Array,
    ends: Array, ids: Array,
) -> int:  # fmt: skip
    """The live rows of one term in the open boxes from ``first`` on; returns how many.

    Those of box i end at ``ends[i]``. ``ids`` must have room for them and one more. If all rows are
    live, ``before`` may be the least integer: then they are copied without a check.
    """
    st = store_of(
        keys, leaf_ids, sizes, nexts, seps, children, widths, trees, run_keys, run_ids, directory,
        facts, shape, sides,
    )  # fmt: skip
    k, side, f = 0, 0, st.forest
    flat = f.ids.reshape(f.ids.size)
    for i in range(opened.size):
        low, high = lows[first + i], highs[first + i]
        if opened[i] != 0:
            for part in range(store.run_count(st, side)):
                run = store.run_at(st, side, part)
                start, stop = run_start(st, run, low), run_stop(st, run, high)
                k = copy_live(st.runs.ids, start, stop, before, ids, k)
            for part in range(store.tree_count(st, side)):
                leaf = forest.find_leaf(f, store.tree_at(st, side, part), low)
                begin = forest.count_below(f.keys, leaf, low)
                while leaf >= 0:
                    end, following = f.sizes[leaf], f.nexts[leaf]
                    if following >= 0:
                        ask_for(f, following)
                    ends_here = end > 0 and f.keys[leaf, end - 1] > high
                    if ends_here:
                        end = forest.count_upto(f.keys, leaf, high, end)
                    line = leaf * f.ids.shape[1]
                    k = copy_live(flat, line + begin, line + max(begin, end), before, ids, k)
                    if ends_here:
                        break
                    leaf = following
                    begin = 0
        ends[i] = k
    return k

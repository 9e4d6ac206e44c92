"""Loops of the WiB⁺-Tree: wide unsorted leaves in an LLAT under a small B⁺-tree of their bounds.

PanJoin, Section III-C; ``wib_tree`` has a picture. The bounds are in a B⁺-tree of ``forest``, whose
rows are ``(upper bound, leaf)``: a leaf holds the keys above the bound before it, up to its own.
The last bound is the largest integer. A leaf is named by its first entry in the LLAT.

A full leaf is cut in two about its median, which is *selected* (quickselect, O(width)); the paper
sorts the leaf, in O(width log width). All rows of one key stay in one leaf: bounds have no
duplicates, and a leaf of equal keys outgrows its entry and continues in the next. A cut next to a
heavy key goes one below it, or at it, so that a heavy key is soon alone in its leaf and light keys
next to it never cause more than two uneven cuts.

As in a RaP-Table, rows and boxes are processed in blocks, and each search starts where the one
before ended: in the same node of bounds, or the next ones, before going down from the root again.
"""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array, u64
from thetastream._jit.compiling import N, V, inlined, kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.runs.kernels.ranges import BLOCK
from thetastream.index.subwindows.kernels import llat
from thetastream.index.subwindows.kernels.llat import LLAT, Llat
from thetastream.index.subwindows.kernels.rap import FEW
from thetastream.index.trees.kernels import forest
from thetastream.index.trees.kernels.forest import FOREST, Forest

NO_ENTRIES, NO_NODES = -1, -2
_NEAR = 4  # nodes of bounds to walk along before going down from the root


@kernel((FOREST, LLAT, V))
def open_tree(f: Forest, t: Llat, path: Array) -> int:
    """Begin with one leaf for all keys."""
    forest.plant(f, 0)
    forest.insert_row(f, 0, MOST, llat.take_entry(t), path)
    return 0


@inlined
def seek(f: Forest, node: int, key: int) -> int:
    """The node of bounds that has the bound of a key, searched from ``node`` on (-1: the root)."""
    for _ in range(_NEAR):
        if node < 0:
            break
        last = f.sizes[u64(node)] - 1
        if f.keys[u64(node), u64(last)] >= key:
            return node
        node = f.nexts[u64(node)]
    node = forest.find_leaf(f, 0, key)
    # Equal separators lead to the node before; then the bound is the first of the next.
    if f.keys[u64(node), u64(f.sizes[u64(node)] - 1)] < key:
        node = f.nexts[u64(node)]
    return node


@inlined
def swap(keys: Array, ids: Array, a: int, b: int) -> None:
    """Exchange two rows."""
    i, j = u64(a), u64(b)
    key, row = keys[i], ids[i]
    keys[i], ids[i] = keys[j], ids[j]
    keys[j], ids[j] = key, row


@inlined
def select(keys: Array, ids: Array, start: int, stop: int, middle: int) -> int:
    """Quickselect: the key that would be at ``middle`` were ``[start, stop)`` sorted."""
    low, high = start, stop - 1
    while low < high:
        a, b, c = keys[low], keys[(low + high) >> 1], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[u64(i)] < pivot:
                i += 1
            while keys[u64(j)] > pivot:
                j -= 1
            if i <= j:
                swap(keys, ids, i, j)
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break
    return keys[middle]


@inlined
def choose_cut(keys: Array, start: int, stop: int, median: int) -> tuple[int, int]:
    """The bound of the left part, about the median, and how many rows that has; 0 for none."""
    below = equal = 0
    for i in range(start, stop):
        below += keys[i] < median
        equal += keys[i] == median
    size = stop - start
    upto = below + equal
    if upto < size and (below == 0 or abs(size - 2 * upto) <= abs(size - 2 * below)):
        return median, upto
    if below > 0:
        return median - 1, below
    return median, 0


@inlined
def divide(keys: Array, ids: Array, start: int, stop: int, bound: int) -> None:
    """Rows up to the bound in front of all others."""
    i, j = start, stop - 1
    while i <= j:
        while i <= j and keys[u64(i)] <= bound:
            i += 1
        while i <= j and keys[u64(j)] > bound:
            j -= 1
        if i < j:
            swap(keys, ids, i, j)
            i += 1
            j -= 1


@inlined
def split(f: Forest, t: Llat, leaf: int, key: int, is_sorted: int, path: Array) -> None:
    """Cut a full leaf that is to take ``key`` in two; add a leaf beside it if it has only one key.

    The left part stays, so only what is right of the cut moves.
    """
    width = t.facts[llat.WIDTH]
    start = leaf * width
    node = seek(f, -1, key)
    place = forest.count_below(f.keys, node, key)
    if t.nexts[leaf] >= 0 or key_alone(t, start, width):
        heavy = t.keys[start]
        other = llat.take_entry(t)
        if key < heavy:
            forest.insert_row(f, 0, heavy - 1, other, path)
        else:
            f.ids[node, place] = other
            forest.insert_row(f, 0, heavy, leaf, path)
        return
    half = (width + 1) >> 1
    median = t.keys[start + half - 1]
    if not is_sorted:
        median = select(t.keys, t.ids, start, start + width, start + half - 1)
    bound, count = choose_cut(t.keys, start, start + width, median)
    if not is_sorted:
        divide(t.keys, t.ids, start, start + width, bound)
    other = llat.take_entry(t)
    for i in range(count, width):
        t.keys[other * width + i - count] = t.keys[start + i]
        t.ids[other * width + i - count] = t.ids[start + i]
    t.sizes[other] = width - count
    t.sizes[leaf] = count
    f.ids[node, place] = other
    forest.insert_row(f, 0, bound, leaf, path)


@inlined
def key_alone(t: Llat, start: int, size: int) -> bool:
    """Whether all rows of an entry have the same key."""
    for i in range(start + 1, start + size):  # noqa: SIM110 (a generator does not compile)
        if t.keys[u64(i)] != t.keys[u64(start)]:
            return False
    return True


@inlined
def needs_split(t: Llat, leaf: int, key: int) -> bool:
    """Whether a leaf must be cut before it takes a key: full, and not of this key alone."""
    width = t.facts[llat.WIDTH]
    if t.sizes[u64(leaf)] < width:
        return False
    start = leaf * width
    return t.keys[start] != key or not (t.nexts[leaf] >= 0 or key_alone(t, start, width))


@inlined
def put_sorted(t: Llat, leaf: int, key: int, row: int) -> None:
    """Put a row into its place in a sorted leaf that has room."""
    place = leaf * t.facts[llat.WIDTH] + t.sizes[leaf]
    start = leaf * t.facts[llat.WIDTH]
    while place > start and t.keys[u64(place - 1)] > key:
        t.keys[u64(place)] = t.keys[u64(place - 1)]
        t.ids[u64(place)] = t.ids[u64(place - 1)]
        place -= 1
    t.keys[place] = key
    t.ids[place] = row
    t.sizes[leaf] += 1


@kernel((FOREST, LLAT, V, V, N, N, V, V))
def insert_rows(
    f: Forest, t: Llat, keys: Array, ids: Array, start: int, is_sorted: int, path: Array,
    scratch: Array,
) -> int:  # fmt: skip
    """Insert rows from ``start`` on; returns their number, or how many are in when room ran out.

    ``path[-1]`` is then NO_ENTRIES or NO_NODES, otherwise 0.
    """
    path[path.size - 1] = 0
    node, last = -1, MOST
    while start < keys.size:
        count = min(BLOCK, keys.size - start)
        for i in range(count):
            key = keys[u64(start + i)]
            node = seek(f, node if key >= last else -1, key)
            last = key
            leaf = f.ids[u64(node), u64(forest.count_below(f.keys, node, key))]
            scratch[u64(i)] = leaf
            prefetch(t.sizes, u64(leaf))
        for i in range(count):
            llat.ask_for(t, scratch[u64(i)])
        for i in range(count):
            key, row = keys[u64(start + i)], ids[u64(start + i)]
            leaf = scratch[u64(i)]
            while needs_split(t, leaf, key):
                if not llat.room_for(t, 2):
                    path[path.size - 1] = NO_ENTRIES
                    return start + i
                if not forest.has_nodes(f, 0, 1):
                    path[path.size - 1] = NO_NODES
                    return start + i
                split(f, t, leaf, key, is_sorted, path)
                # Rows of this block that were for the same leaf stand next to each other.
                node, old, j = -1, leaf, i
                while j < count and scratch[u64(j)] == old:
                    other = keys[u64(start + j)]
                    node = seek(f, -1, other)
                    scratch[u64(j)] = f.ids[node, forest.count_below(f.keys, node, other)]
                    j += 1
                node, leaf = -1, scratch[u64(i)]
            if t.sizes[u64(leaf)] == t.facts[llat.WIDTH] and not llat.room_for(t, 1):
                path[path.size - 1] = NO_ENTRIES
                return start + i
            if is_sorted and t.sizes[u64(leaf)] < t.facts[llat.WIDTH]:
                put_sorted(t, leaf, key, row)
            else:
                llat.append(t, leaf, key, row)
            t.facts[llat.ROWS] += 1
        start += count
    return start


@kernel((FOREST, LLAT, V, V, N, N, V, N, V, V, V))
def probe_rows(
    f: Forest, t: Llat, lows: Array, highs: Array, before: int, after: int, cursor: Array,
    filled: int, positions: Array, rows: Array, scratch: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the rows inside each box with an id in ``[before, after)``.

    Full arrays end the call with ``cursor`` (box, entry or -1, place, node, slot) where to
    continue.
    """
    node, last = -1, MOST
    while cursor[0] < lows.size:
        start = cursor[0]
        count = min(FEW, lows.size - start)
        for i in range(count):
            low = lows[u64(start + i)]
            node = seek(f, node if low >= last else -1, low)
            last = low
            slot = forest.count_below(f.keys, node, low)
            scratch[u64(2 * i)] = node
            scratch[u64(2 * i + 1)] = slot
            leaf = f.ids[u64(node), u64(slot)]
            llat.ask_for_all(t, leaf)
        for i in range(count):
            box = start + i
            low, high = lows[u64(box)], highs[u64(box)]
            there, slot = scratch[u64(2 * i)], scratch[u64(2 * i + 1)]
            if cursor[1] >= 0:
                there, slot = cursor[3], cursor[4]
            elif low <= high:
                cursor[1] = f.ids[u64(there), u64(slot)]
            while cursor[1] >= 0:
                filled = llat.read_part(
                    t, low, high, before, after, cursor, box, filled, positions, rows
                )
                if cursor[1] >= 0:
                    cursor[0] = box
                    cursor[3] = there
                    cursor[4] = slot
                    return filled
                if f.keys[u64(there), u64(slot)] >= high:
                    break
                slot += 1
                if slot == f.sizes[u64(there)]:
                    there, slot = f.nexts[u64(there)], 0
                cursor[1] = f.ids[u64(there), u64(slot)]
            cursor[1] = -1
            cursor[2] = 0
        cursor[0] = start + count
    return filled

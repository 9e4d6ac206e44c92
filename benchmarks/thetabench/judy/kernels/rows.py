"""Loops over libJudy's JudyL arrays, which map a word to a word; and lists of ids for equal keys.

    key with its sign bit turned ──JudyL──►  id + 1          the only row of the key
                                             -(list + 1)     several: a list of their ids
                                             0               a word that was just made

    lists   heads of four words:   place in the pool │ gap │ ids │ room      (free: the next free)
    pool    ids of lists, ascending; the oldest leave from the front, which leaves a gap

The functions of the library are called by their addresses, in a table ``calls``; ``root`` is the
address of the word that the library keeps its root in. JudyL has no iterator with a state: every
step to the next key starts at the root (Ordered Indexing, Section 3.2), and so do the loops here.

Kernels stop when the lists or their pool are too small.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from thetabench.arrays import Array
from thetabench.judy.kernels.calling import call_address
from thetastream._jit.compiling import inlined, kernel
from thetastream._jit.intrinsics import load_word, store_word
from thetastream.index.kernels.fold import FOLD, fold_rows

Values = NDArray[Any]
LEAST = -(2**63)

# What a kernel says when it stops.
DONE, NO_ROOM, NO_LISTS, NO_MEMORY = 0, 1, 2, 3
# ``facts``: rows held, lists ever made, the first free one, words of the pool in use, those of them
# that lists have, words that were wanted.
HELD, LISTS, FREE, TOP, LIVE, WANTED, FACTS = 0, 1, 2, 3, 4, 5, 6
# ``calls``: addresses, as ``libjudy.load`` returns them.
INSERT, GET, DELETE, FIRST, NEXT, FREE_ALL, BYTES = 0, 1, 2, 3, 4, 5, 6
# A list.
PLACE, GAP, SIZE, ROOM, HEAD = 0, 1, 2, 3, 4

_LISTS = "i8[::1], i8[::1], i8[::1]"  # heads, pool, facts


# --- Lists ---------------------------------------------------------------------------------------


@inlined
def new_list(heads: Array, pool: Array, facts: Array, one: int, two: int) -> int:
    """A list of two ids, or less than 0: why there is none."""
    fresh = facts[FREE]
    if fresh < 0 and (facts[LISTS] + 1) * HEAD > heads.size:
        return -NO_LISTS
    if facts[TOP] + 2 > pool.size:
        facts[WANTED] = 2
        return -NO_ROOM
    if fresh >= 0:
        facts[FREE] = heads[HEAD * fresh + PLACE]
    else:
        fresh = facts[LISTS]
        facts[LISTS] += 1
    at = HEAD * fresh
    heads[at + PLACE] = facts[TOP]
    heads[at + GAP] = 0
    heads[at + SIZE] = 2
    heads[at + ROOM] = 2
    pool[facts[TOP]] = one
    pool[facts[TOP] + 1] = two
    facts[TOP] += 2
    facts[LIVE] += 2
    return fresh


@inlined
def append(heads: Array, pool: Array, facts: Array, which: int, row: int) -> int:
    """Put an id at the end of a list; DONE, or NO_ROOM. O(1) over many."""
    at = HEAD * which
    place, gap, size, room = heads[at], heads[at + GAP], heads[at + SIZE], heads[at + ROOM]
    if gap + size == room:
        target = place
        if 4 * gap < room:  # too little to move everything for it
            larger = room + (room >> 1) + 1
            target = facts[TOP]
            if target + larger > pool.size:
                facts[WANTED] = larger
                return NO_ROOM
            facts[TOP] += larger
            facts[LIVE] += larger - room
            heads[at + PLACE] = target
            heads[at + ROOM] = larger
        for i in range(size):
            pool[target + i] = pool[place + gap + i]
        heads[at + GAP] = 0
        place, gap = target, 0
    pool[place + gap + size] = row
    heads[at + SIZE] += 1
    return DONE


@inlined
def take_from_list(heads: Array, pool: Array, which: int, row: int) -> bool:
    """Take an id out of a list; whether it was there. The shorter end moves."""
    at = HEAD * which
    size = heads[at + SIZE]
    start = heads[at + PLACE] + heads[at + GAP]
    low, high = start, start + size
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] < row:
            low = middle + 1
        else:
            high = middle
    if low == start + size or pool[low] != row:
        return False
    if 2 * (low - start) < size:
        for i in range(low, start, -1):
            pool[i] = pool[i - 1]
        heads[at + GAP] += 1
    else:
        for i in range(low, start + size - 1):
            pool[i] = pool[i + 1]
    heads[at + SIZE] -= 1
    return True


@inlined
def give_back(heads: Array, facts: Array, which: int) -> None:
    """Let go of most of the room that a list has around its ids. O(1)."""
    at = HEAD * which
    size, room, gap = heads[at + SIZE], heads[at + ROOM], heads[at + GAP]
    smaller = min(room - gap, size + (size >> 1))
    heads[at + PLACE] += gap
    heads[at + GAP] = 0
    heads[at + ROOM] = smaller
    facts[LIVE] -= room - smaller


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1])")
def move_lists(heads: Array, pool: Array, target: Array, facts: Array) -> None:
    """Move all lists to another pool, without gaps and what is free; O(ids)."""
    top = 0
    for which in range(facts[LISTS]):
        at = HEAD * which
        size = heads[at + SIZE]
        if size == 0:
            continue
        start = heads[at + PLACE] + heads[at + GAP]
        for i in range(size):
            target[top + i] = pool[start + i]
        heads[at + PLACE] = top
        heads[at + GAP] = 0
        heads[at + ROOM] = size
        top += size
    facts[TOP] = top
    facts[LIVE] = top


# --- Changing ------------------------------------------------------------------------------------


@kernel(f"i8(i8[::1], i8, {_LISTS}, i8[::1], i8[::1], i8[::1])")
def put_rows(
    calls: Array, root: int, heads: Array, pool: Array, facts: Array, keys: Array, ids: Array,
    cursor: Array,
) -> int:  # fmt: skip
    """Insert rows from ``cursor[0]`` on, each behind its equals. A call of JudyLIns per row."""
    for i in range(cursor[0], keys.size):
        cursor[0] = i
        word = call_address(calls[INSERT], root, keys[i] ^ LEAST, 0)
        if word == -1 or word == 0:
            return NO_MEMORY
        held = load_word(word)
        if held == 0:
            store_word(word, ids[i] + 1)
        elif held > 0:
            fresh = new_list(heads, pool, facts, held - 1, ids[i])
            if fresh < 0:
                return -fresh
            store_word(word, -fresh - 1)
        else:
            status = append(heads, pool, facts, -held - 1, ids[i])
            if status != DONE:
                return status
        facts[HELD] += 1
    cursor[0] = keys.size
    return DONE


@kernel(f"i8(i8[::1], i8, {_LISTS}, i8[::1], i8[::1])")
def take_out_rows(
    calls: Array, root: int, heads: Array, pool: Array, facts: Array, keys: Array, ids: Array
) -> int:
    """Delete rows by key and id, each searched from the root; how many were there."""
    found = 0
    for i in range(keys.size):
        word = call_address(calls[GET], load_word(root), keys[i] ^ LEAST, 0)
        held = load_word(word) if word != 0 else 0
        if held == ids[i] + 1:
            call_address(calls[DELETE], root, keys[i] ^ LEAST, 0)
            found += 1
        elif held < 0 and take_from_list(heads, pool, -held - 1, ids[i]):
            found += 1
            at = HEAD * (-held - 1)
            if heads[at + SIZE] == 1:  # no list for one
                store_word(word, pool[heads[at + PLACE] + heads[at + GAP]] + 1)
                facts[LIVE] -= heads[at + ROOM]
                heads[at + SIZE] = 0
                heads[at + PLACE] = facts[FREE]
                facts[FREE] = -held - 1
            elif 4 * heads[at + SIZE] <= heads[at + ROOM]:
                give_back(heads, facts, -held - 1)
    facts[HELD] -= found
    return found


@kernel("i8(i8[::1], i8)")
def free_all(calls: Array, root: int) -> int:
    """Free everything the library holds; how many bytes."""
    return call_address(calls[FREE_ALL], root, 0, 0)


@kernel("i8(i8[::1], i8)")
def count_bytes(calls: Array, root: int) -> int:
    """How many bytes the library holds. O(1)."""
    return call_address(calls[BYTES], load_word(root), 0, 0)


# --- Asking --------------------------------------------------------------------------------------


@kernel(f"void(i8[::1], i8, {_LISTS}, i8[::1], i8[::1])")
def find_rows(
    calls: Array, root: int, heads: Array, pool: Array, facts: Array, keys: Array, found: Array
) -> None:
    """The newest id of each key, or -1. A call of JudyLGet per key."""
    for i in range(keys.size):
        word = call_address(calls[GET], load_word(root), keys[i] ^ LEAST, 0)
        held = load_word(word) if word != 0 else 0
        if held < 0:
            at = HEAD * (-held - 1)
            found[i] = pool[heads[at] + heads[at + GAP] + heads[at + SIZE] - 1]
        else:
            found[i] = held - 1


@inlined
def ids_of(held: int, heads: Array, pool: Array, one: Array) -> tuple[Array, int, int]:
    """The array that has the ids of a word's rows, and from where to where."""
    if held < 0:
        at = HEAD * (-held - 1)
        start = heads[at + PLACE] + heads[at + GAP]
        return pool, start, start + heads[at + SIZE]
    one[1] = held - 1
    return one, 1, 2


@kernel(
    f"i8(i8[::1], i8, {_LISTS}, i8[::1], i8[::1], i8, i8[::1], i8[::1], i8, i8[::1], i8[::1],"
    " i8[::1])"
)
def read_rows(
    calls: Array, root: int, heads: Array, pool: Array, facts: Array, lows: Array, highs: Array,
    before: int, cursor: Array, one: Array, at: int, positions: Array, keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Write (box, key, id) of the rows of each box, in this order; how many. See ``_read``.

    A call of JudyLFirst per box and of JudyLNext per key. ``one`` are two words, for the key where
    the library stands and a single id, and ``at`` is its address.
    """
    filled, box, skip = 0, cursor[0], cursor[2]
    while box < lows.size:
        low, high = lows[box], highs[box]
        if skip >= 0:
            low = max(low, cursor[1])
        else:
            skip = 0
        store_word(at, low ^ LEAST)
        word = 0
        if low <= high:
            word = call_address(calls[FIRST], load_word(root), at, 0)
        while word != 0:
            key = load_word(at) ^ LEAST
            if key > high:
                break
            rows, start, stop = ids_of(load_word(word), heads, pool, one)
            for i in range(start + skip, stop):
                if rows[i] < before:
                    continue
                if filled == positions.size:
                    cursor[0] = box
                    cursor[1] = key
                    cursor[2] = i - start
                    return filled
                positions[filled] = box
                ids[filled] = rows[i]
                if keys.size > 0:
                    keys[filled] = key
                filled += 1
            skip = 0
            word = call_address(calls[NEXT], load_word(root), at, 0)
        box += 1
        skip = -1
    cursor[0] = box
    cursor[2] = -1
    return filled


@kernel(
    *(f"void(i8[::1], i8, {_LISTS}, i8[::1], i8[::1], i8, i8[::1], i8, {tail})" for tail in FOLD)
)
def fold_boxes(
    calls: Array, root: int, heads: Array, pool: Array, facts: Array, lows: Array, highs: Array,
    before: int, one: Array, at: int, values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """First and next over the keys of each box, adding the rows of each: the paper's baseline."""
    for box in range(lows.size):
        low, high = lows[box], highs[box]
        store_word(at, low ^ LEAST)
        word = 0
        if low <= high:
            word = call_address(calls[FIRST], load_word(root), at, 0)
        while word != 0 and load_word(at) ^ LEAST <= high:
            rows, start, stop = ids_of(load_word(word), heads, pool, one)
            fold_rows(
                rows, start, stop, before, box, values, first, valid,
                counts, totals, carries, least, greatest,
            )  # fmt: skip
            word = call_address(calls[NEXT], load_word(root), at, 0)

"""Deleting rows from a radix trie, one by one, each searched from the root.

Nodes shrink at lower thresholds than they grow, so that a row that comes and goes does not change
forms each time:

    list      one row left: the row itself; a quarter full: half of its block is released
    leaf      the end of the block is released when a quarter of it is unused
    BITS      → RUN below BITS_BACK entries;  RUN → ONE with one key left
    BITMAP    → LINEAR, FULL → BITMAP with somewhat fewer children than made it grow
    branch    one child: the child takes its place; few entries in all: a leaf (when a child goes)

A smaller block is cut from the old one, or taken after that was released, so shrinking needs no
room. Only a branch that becomes a leaf may; room for the largest leaf is ensured beforehand.
"""

from __future__ import annotations

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import inlined, kernel, vector
from thetastream._jit.intrinsics import count_bits, shift
from thetastream.index.ordered.kernels.trie.arena import (
    BRANCH_BACK,
    FULL_FROM,
    KEYS,
    LINEAR_MOST,
    ROWS,
    RUN_MOST,
    TRIE,
    Trie,
    i64,
    release,
    roomy,
    take,
    u64,
    units_of,
)  # fmt: skip
from thetastream.index.ordered.kernels.trie.build import (
    BITS_BACK,
    FULL_BACK,
    LINEAR_BACK,
    branch_room,
    branch_units,
    copy_entries,
    drop_block,
    make_leaf,
    run_room,
    set_of,
    write_bytes,
)  # fmt: skip
from thetastream.index.ordered.kernels.trie.find import value_in
from thetastream.index.ordered.kernels.trie.nodes import (
    BITMAP,
    BITS,
    EMPTY,
    FULL,
    LINEAR,
    ONE,
    RUN,
    Bits,
    byte_of,
    child_slot,
    count_of,
    form_of,
    head_of,
    level_of,
    list_count,
    list_log,
    list_of,
    list_start,
    log_of,
    prefix_of,
    room_of,
    run_values,
    run_words,
)

_ONE = u64(1)
_COUNT = u64(1 << 8)  # one entry, in a head
V, U = vector(1), vector(1, 64, "uint")


# --- Lists ---------------------------------------------------------------------------------------


@inlined
def _shorten(t: Trie, at: int, row: int) -> bool:
    """Remove a row from the list at word ``at``; returns whether it was there."""
    value = t.words[at]
    start, count, log = list_start(value), list_count(value), list_log(value)
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        if t.words[middle] < row:
            low = middle + 1
        else:
            high = middle
    if low == start + count or t.words[low] != row:
        return False
    shift(t.words, low, low + 1, start + count - low - 1)
    count -= 1
    if count == 1:
        t.words[at] = t.words[start]
        release(t, start, 1 << (log - 1))
        return True
    if log > 2 and count <= 1 << (log - 2):
        log -= 1
        release(t, start + (1 << log), 1 << (log - 1))
    t.words[at] = list_of(start >> 1, count, log)
    return True


# --- Leaves --------------------------------------------------------------------------------------


@inlined
def _shrink_leaf(t: Trie, slot: int) -> None:
    """Release the end of a leaf's block when a quarter of it is unused."""
    head, at = t.bits[slot], t.words[slot + 1]
    form, level, count, room = form_of(head), level_of(head), count_of(head), room_of(head)
    log, wanted = log_of(level), count + (count >> 3)
    if form == BITS:
        units, less = units_of(4 + room), units_of(4 + wanted)
        new_room = min(256, 2 * less - 4)
    else:
        units, less = units_of(run_words(room, log)), units_of(run_words(wanted, log))
        new_room = run_room(less, log)
        if 4 * less <= 3 * units:
            shift(t.words, run_values(at, new_room, log), run_values(at, room, log), count)
    if 4 * less <= 3 * units:
        release(t, at + 2 * less, units - less)
        t.bits[slot] = head_of(form, i64((head >> u64(3)) & _ONE), level, count, new_room)


@inlined
def _remove_entry(t: Trie, slot: int, at: int, key: int, hold: Bits, held: Array) -> None:
    """Remove the entry whose value is at word ``at`` from a leaf."""
    head, body = t.bits[slot], t.words[slot + 1]
    form, level = form_of(head), level_of(head)
    t.facts[KEYS] -= 1
    if form == ONE or count_of(head) == 1:
        drop_block(t, head, body)
        t.words[slot] = 0
        t.words[slot + 1] = 0
        return
    count, log = count_of(head), log_of(level)
    if form == BITS:
        byte = byte_of(key, 1)
        t.bits[body + (byte >> 6)] &= ~(_ONE << u64(byte & 63))
        shift(t.words, at, at + 1, body + 4 + count - at - 1)
    else:
        first = run_values(body, room_of(head), log)
        place = at - first
        base, rest = (body << (3 - log)) + place, count - place - 1
        if log == 1:
            shift(t.pairs, base, base + 1, rest)
        elif log == 0:
            shift(t.octets, base, base + 1, rest)
        elif log == 2:
            shift(t.quads, base, base + 1, rest)
        else:
            shift(t.bits, base, base + 1, rest)
        shift(t.words, at, at + 1, rest)
    head -= _COUNT
    t.bits[slot] = head
    count -= 1
    if (form == BITS and count < BITS_BACK) or (form == RUN and count == 1 and level < 8):
        copy_entries(t, head, body, prefix_of(key, level), hold, held)
        drop_block(t, head, body)
        make_leaf(t, slot, level, hold, held, 0, count)
    else:
        _shrink_leaf(t, slot)


# --- Branches ------------------------------------------------------------------------------------


@inlined
def _first_slot(form: int, node: int) -> int:
    return node + (6 if form == BITMAP else 2)


@inlined
def _remove_child(t: Trie, slot: int, byte: int, held: Array, of: Bits) -> None:
    """Remove an EMPTY child from a branch, which may change its form or its room."""
    head, node = t.bits[slot], t.words[slot + 1]
    form, room, count = form_of(head), room_of(head), count_of(head) - 1
    child = child_slot(t, head, node, byte)
    set_of(t, head, node, of)
    of[byte >> 6] &= ~(_ONE << u64(byte & 63))
    start = _first_slot(form, node)
    if form != FULL:
        shift(t.words, child, child + 2, start + 2 * count - child)
        write_bytes(t, form, node, of)
    t.bits[slot] = head_of(form, 0, level_of(head), count, room)
    new_form = form
    if form == FULL and count < t.facts[FULL_FROM] - FULL_BACK:
        new_form = BITMAP
    if form >= BITMAP and count <= t.facts[LINEAR_MOST] - LINEAR_BACK:
        new_form = LINEAR
    if new_form == form and (form == FULL or 4 * count + 16 > 3 * room):
        return
    # Copy the slots in order to ``held``, then to a smaller block.
    filled = 0
    for i in range(room):
        if form == FULL and not t.words[start + 2 * i]:
            continue
        if filled < 2 * count:
            held[filled] = t.words[start + 2 * i]
            held[filled + 1] = t.words[start + 2 * i + 1]
            filled += 2
    prefix = t.bits[node]
    release(t, node, branch_units(form, room))
    room = branch_room(new_form, count)
    node = take(t, branch_units(new_form, room))
    t.bits[node] = prefix
    write_bytes(t, new_form, node, of)
    start = _first_slot(new_form, node)
    for i in range(2 * room):
        t.words[start + i] = held[i] if i < filled else 0
    t.bits[slot] = head_of(new_form, 0, level_of(head), count, room)
    t.words[slot + 1] = node


@inlined
def _gather(t: Trie, slot: int, most: int, hold: Bits, held: Array) -> int:
    """Write the entries of a branch of leaves to arrays, and release all its blocks.

    Returns how many; 0, without a change, if there are more than ``most`` or branches below.
    """
    head, node = t.bits[slot], t.words[slot + 1]
    form, own = form_of(head), level_of(head)
    places = 256 if form == FULL else count_of(head)
    start, total = _first_slot(form, node), 0
    for i in range(places):
        child = t.bits[start + 2 * i]
        if form_of(child) >= LINEAR:
            return 0
        if form_of(child) != EMPTY:
            total += 1 if form_of(child) == ONE else count_of(child)
        if total > most:
            return 0
    filled, byte = 0, 0
    for i in range(places):
        head_of_child, body = t.bits[start + 2 * i], t.words[start + 2 * i + 1]
        if form_of(head_of_child) == EMPTY:
            continue
        byte = i
        if form == LINEAR:
            byte = i64((t.bits[node + 1] >> u64(8 * i)) & u64(255))
        elif form == BITMAP:
            byte = _nth(t, node + 2, i)
        prefix = t.bits[node] | (u64(byte) << u64(8 * (own - 1)))
        filled += copy_entries(t, head_of_child, body, prefix, hold[filled:], held[filled:])
        drop_block(t, head_of_child, body)
    drop_block(t, head, node)
    return filled


@inlined
def _nth(t: Trie, at: int, place: int) -> int:
    """The byte of the ``place``-th set bit."""
    word = 0
    while place >= count_bits(t.bits[at + word]):
        place -= count_bits(t.bits[at + word])
        word += 1
    bits, byte = t.bits[at + word], 64 * word
    while place or not bits & _ONE:
        place -= i64(bits & _ONE)
        bits >>= _ONE
        byte += 1
    return byte


@inlined
def _close_up(t: Trie, slot: int, level: int, hold: Bits, held: Array) -> None:
    """After a child was removed: replace a branch with one child or few entries."""
    head, node = t.bits[slot], t.words[slot + 1]
    form, count = form_of(head), count_of(head)
    most = t.facts[BRANCH_BACK]
    if count == 1:
        most = max(256, t.facts[RUN_MOST])
        start = _first_slot(form, node)
        if form == FULL:
            while not t.words[start]:
                start += 2
        child = t.bits[start]
        if form_of(child) >= LINEAR:
            t.bits[slot] = child
            t.words[slot + 1] = t.words[start + 1]
            drop_block(t, head, node)
            return
    filled = _gather(t, slot, most, hold, held)
    if filled:
        make_leaf(t, slot, level, hold, held, 0, filled)


@kernel((TRIE, U, V, V, V, U, V, U))
def drop_rows(
    t: Trie, keys: Bits, ids: Array, cursor: Array, path: Array, hold: Bits, held: Array, of: Bits
) -> bool:
    """Delete rows from ``cursor[0]`` on, and count those that were there in ``cursor[1]``.

    False: the arena lacks room (NEED); call again with a larger one.
    """
    while cursor[0] < keys.size:
        largest = min(t.facts[KEYS], max(256, t.facts[RUN_MOST]))
        if not roomy(t, 8 + largest + (largest >> 2)):
            return False
        key, row, slot, depth, at = keys[cursor[0]], ids[cursor[0]], 0, 0, -1
        cursor[0] += 1
        while slot >= 0:
            head = t.bits[slot]
            if form_of(head) < LINEAR:
                at = -1 if form_of(head) == EMPTY else value_in(t, slot, head, key)
                break
            node, own = t.words[slot + 1], level_of(head)
            if own < 8 and (key ^ t.bits[node]) >> u64(8 * own):
                break
            path[depth] = slot
            depth += 1
            slot = child_slot(t, head, node, byte_of(key, own))
        if at < 0 or (t.words[at] >= 0 and t.words[at] != row):
            continue
        if t.words[at] < 0:
            gone = _shorten(t, at, row)
            cursor[1] += gone
            t.facts[ROWS] -= gone
            continue
        cursor[1] += 1
        t.facts[ROWS] -= 1
        _remove_entry(t, slot, at, key, hold, held)
        if depth and form_of(t.bits[slot]) == EMPTY:
            parent, level = path[depth - 1], 8
            if depth > 1:
                level = level_of(t.bits[path[depth - 2]]) - 1
            _remove_child(t, parent, byte_of(key, level_of(t.bits[parent])), held, of)
            _close_up(t, parent, level, hold, held)
    return True

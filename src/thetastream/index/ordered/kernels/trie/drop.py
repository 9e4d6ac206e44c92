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

from thetastream._jit.arrays import Array, Words, i64, u64
from thetastream._jit.compiling import U, V, inlined, kernel
from thetastream._jit.intrinsics import shift
from thetastream.index.ordered.kernels.trie import arena, build, nodes
from thetastream.index.ordered.kernels.trie.arena import TRIE, Trie
from thetastream.index.ordered.kernels.trie.find import value_in

_COUNT = u64(1 << 8)  # one entry, in a head


# --- Lists ---------------------------------------------------------------------------------------


@inlined
def _shorten(t: Trie, at: int, row: int) -> bool:
    """Remove a row from the list at word ``at``; returns whether it was there."""
    value = t.words[at]
    start, count, log = nodes.list_start(value), nodes.list_count(value), nodes.list_log(value)
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
        arena.release(t, start, 1 << (log - 1))
        return True
    if log > 2 and count <= 1 << (log - 2):
        log -= 1
        arena.release(t, start + (1 << log), 1 << (log - 1))
    t.words[at] = nodes.list_of(start >> 1, count, log)
    return True


# --- Leaves --------------------------------------------------------------------------------------


@inlined
def _shrink_leaf(t: Trie, slot: int) -> None:
    """Release the end of a leaf's block when a quarter of it is unused."""
    head, at = t.bits[slot], t.words[slot + 1]
    form, level = nodes.form_of(head), nodes.level_of(head)
    count, room, log = nodes.count_of(head), nodes.room_of(head), nodes.log_of(level)
    units = build.leaf_units(form, level, room)
    less = build.leaf_units(form, level, count + (count >> 3))
    if 4 * less > 3 * units:
        return
    if form == nodes.BITS:
        new_room = min(256, 2 * less - 4)
    else:
        new_room = build.run_room(less, log)
        to, old = nodes.run_values(at, new_room, log), nodes.run_values(at, room, log)
        shift(t.words, to, old, count)
    arena.release(t, at + 2 * less, units - less)
    t.bits[slot] = nodes.head_of(form, nodes.lists_of(head), level, count, new_room)


@inlined
def _remove_entry(t: Trie, slot: int, at: int, key: int, hold: Words, held: Array) -> None:
    """Remove the entry whose value is at word ``at`` from a leaf."""
    head, body = t.bits[slot], t.words[slot + 1]
    form, level = nodes.form_of(head), nodes.level_of(head)
    t.facts[arena.KEYS] -= 1
    if form == nodes.ONE or nodes.count_of(head) == 1:
        build.drop_block(t, head, body)
        nodes.write_slot(t, slot, u64(0), 0)
        return
    count, log = nodes.count_of(head), nodes.log_of(level)
    if form == nodes.BITS:
        nodes.drop_byte(t.bits, body, nodes.byte_of(key, 1))
        shift(t.words, at, at + 1, body + 4 + count - at - 1)
    else:
        after = at - nodes.run_values(body, nodes.room_of(head), log) + 1
        build.move_suffixes(t, body, body, log, after, count, -1)
        shift(t.words, at, at + 1, count - after)
    head -= _COUNT
    t.bits[slot] = head
    count -= 1
    single = form == nodes.RUN and count == 1 and level < 8
    if single or (form == nodes.BITS and count < build.BITS_BACK):
        build.copy_entries(t, head, body, nodes.prefix_of(key, level), hold, held)
        build.drop_block(t, head, body)
        build.make_leaf(t, slot, level, hold, held, 0, count)
    else:
        _shrink_leaf(t, slot)


# --- Branches ------------------------------------------------------------------------------------


@inlined
def _remove_child(t: Trie, slot: int, byte: int, held: Array, of: Words) -> None:
    """Remove an EMPTY child from a branch, which may change its form or its room."""
    head, node = t.bits[slot], t.words[slot + 1]
    form, room, count = nodes.form_of(head), nodes.room_of(head), nodes.count_of(head) - 1
    child = nodes.child_slot(t, head, node, byte)
    build.set_of(t, head, node, of)
    nodes.drop_byte(of, 0, byte)
    start = nodes.first_child(form, node)
    if form != nodes.FULL:
        shift(t.words, child, child + 2, start + 2 * count - child)
        build.write_bytes(t, form, node, of)
    t.bits[slot] = nodes.head_of(form, 0, nodes.level_of(head), count, room)
    new_form = form
    if form == nodes.FULL and count < t.facts[arena.FULL_FROM] - build.FULL_BACK:
        new_form = nodes.BITMAP
    if form >= nodes.BITMAP and count <= t.facts[arena.LINEAR_MOST] - build.LINEAR_BACK:
        new_form = nodes.LINEAR
    if new_form == form and (form == nodes.FULL or 4 * count + 16 > 3 * room):
        return
    # Copy the slots in order to ``held``, then to a smaller block.
    filled = 0
    for i in range(room):
        if form == nodes.FULL and not t.words[start + 2 * i]:
            continue
        if filled < 2 * count:
            held[filled] = t.words[start + 2 * i]
            held[filled + 1] = t.words[start + 2 * i + 1]
            filled += 2
    prefix = t.bits[node]
    arena.release(t, node, build.branch_units(form, room))
    room = build.branch_room(new_form, count)
    node = arena.take(t, build.branch_units(new_form, room))
    t.bits[node] = prefix
    build.write_bytes(t, new_form, node, of)
    start = nodes.first_child(new_form, node)
    for i in range(2 * room):
        t.words[start + i] = held[i] if i < filled else 0
    nodes.write_slot(t, slot, nodes.head_of(new_form, 0, nodes.level_of(head), count, room), node)


@inlined
def _gather(t: Trie, slot: int, most: int, hold: Words, held: Array) -> int:
    """Write the entries of a branch of leaves to arrays, and release all its blocks.

    Returns how many; 0, without a change, if there are more than ``most`` or branches below.
    """
    head, node = t.bits[slot], t.words[slot + 1]
    form, own = nodes.form_of(head), nodes.level_of(head)
    places = 256 if form == nodes.FULL else nodes.count_of(head)
    start, total = nodes.first_child(form, node), 0
    for i in range(places):
        child = t.bits[start + 2 * i]
        if nodes.form_of(child) >= nodes.LINEAR:
            return 0
        if nodes.form_of(child) != nodes.EMPTY:
            total += 1 if nodes.form_of(child) == nodes.ONE else nodes.count_of(child)
        if total > most:
            return 0
    filled, byte = 0, 0
    for i in range(places):
        head_of_child, body = t.bits[start + 2 * i], t.words[start + 2 * i + 1]
        if nodes.form_of(head_of_child) == nodes.EMPTY:
            continue
        byte = i
        if form == nodes.LINEAR:
            byte = nodes.linear_byte(t.bits[node + 1], i)
        elif form == nodes.BITMAP:
            byte = i64(nodes.nth_byte(t.bits, node + 2, i))
        prefix = t.bits[node] | (u64(byte) << u64(8 * (own - 1)))
        filled += build.copy_entries(t, head_of_child, body, prefix, hold[filled:], held[filled:])
        build.drop_block(t, head_of_child, body)
    build.drop_block(t, head, node)
    return filled


@inlined
def _close_up(t: Trie, slot: int, level: int, hold: Words, held: Array) -> None:
    """After a child was removed: replace a branch with one child or few entries."""
    head, node = t.bits[slot], t.words[slot + 1]
    form, count = nodes.form_of(head), nodes.count_of(head)
    most = t.facts[arena.BRANCH_BACK]
    if count == 1:
        most = max(256, t.facts[arena.RUN_MOST])
        start = nodes.first_child(form, node)
        if form == nodes.FULL:
            while not t.words[start]:
                start += 2
        child = t.bits[start]
        if nodes.form_of(child) >= nodes.LINEAR:
            nodes.write_slot(t, slot, child, t.words[start + 1])
            build.drop_block(t, head, node)
            return
    filled = _gather(t, slot, most, hold, held)
    if filled:
        build.make_leaf(t, slot, level, hold, held, 0, filled)


@kernel((TRIE, U, V, V, V, U, V, U))
def drop_rows(
    t: Trie, keys: Words, ids: Array, cursor: Array, path: Array, hold: Words, held: Array,
    of: Words,
) -> bool:  # fmt: skip
    """Delete rows from ``cursor[0]`` on, and count those that were there in ``cursor[1]``.

    False: the arena lacks room (NEED); call again with a larger one.
    """
    while cursor[0] < keys.size:
        largest = min(t.facts[arena.KEYS], max(256, t.facts[arena.RUN_MOST]))
        if not arena.roomy(t, 8 + largest + (largest >> 2)):
            return False
        key, row, slot, depth, at = keys[cursor[0]], ids[cursor[0]], 0, 0, -1
        cursor[0] += 1
        while slot >= 0:
            head = t.bits[slot]
            if nodes.form_of(head) < nodes.LINEAR:
                at = -1 if nodes.form_of(head) == nodes.EMPTY else value_in(t, slot, head, key)
                break
            node, own = t.words[slot + 1], nodes.level_of(head)
            if own < 8 and (key ^ t.bits[node]) >> u64(8 * own):
                break
            path[depth] = slot
            depth += 1
            slot = nodes.child_slot(t, head, node, nodes.byte_of(key, own))
        if at < 0 or (t.words[at] >= 0 and t.words[at] != row):
            continue
        if t.words[at] < 0:
            gone = _shorten(t, at, row)
            cursor[1] += gone
            t.facts[arena.ROWS] -= gone
            continue
        cursor[1] += 1
        t.facts[arena.ROWS] -= 1
        _remove_entry(t, slot, at, key, hold, held)
        if depth and nodes.form_of(t.bits[slot]) == nodes.EMPTY:
            parent, level = path[depth - 1], 8
            if depth > 1:
                level = nodes.level_of(t.bits[path[depth - 2]]) - 1
            _remove_child(t, parent, nodes.byte_of(key, nodes.level_of(t.bits[parent])), held, of)
            _close_up(t, parent, level, hold, held)
    return True

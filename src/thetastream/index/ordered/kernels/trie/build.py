"""Building and rebuilding the blocks of a radix trie: lists of rows, leaves, branches.

Each function leaves the slot valid. The caller ensures room for blocks (``roomy``), except for
``extend_list``, which can be retried after it has failed.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Words, u64
from thetastream._jit.compiling import N, U, V, inlined, kernel
from thetastream._jit.intrinsics import count_bits, lowest_bit, shift
from thetastream.index.ordered.kernels.trie import arena, nodes
from thetastream.index.ordered.kernels.trie.arena import TRIE, Trie

BITS_FROM, BITS_BACK = 25, 16  # entries from which a level 1 leaf is a bitmap, below which not
LINEAR_BACK, FULL_BACK = 2, 24  # children below the threshold at which a branch shrinks
_ONE = u64(1)


# --- Lists of rows -------------------------------------------------------------------------------


@kernel((TRIE, N, V, N, N))
def extend_list(t: Trie, value: int, ids: Array, start: int, stop: int) -> int:
    """Add the rows ``ids[start:stop]`` to a value; returns the new one.

    The value NONE starts a list. The result NONE means no room, and no change; NEED is -1 if the
    key would have too many rows.
    """
    have, log = 1, 0
    if value == nodes.NONE:
        have = 0
    elif value < 0:
        have, log = nodes.list_count(value), nodes.list_log(value)
    total = have + stop - start
    if total > nodes.MOST_ROWS:
        t.facts[arena.NEED] = -1
        return nodes.NONE
    old, at = nodes.list_start(value), nodes.list_start(value)
    if value >= 0 or value == nodes.NONE or total > 1 << log:
        room = 1
        while total > 1 << room:
            room += 1
        at = arena.take(t, 1 << (room - 1))
        if at < 0:
            return nodes.NONE
        if value >= 0:
            t.words[at] = value
        elif have:
            for i in range(have):
                t.words[at + i] = t.words[old + i]
            arena.release(t, old, 1 << (log - 1))
        log = room
    for i in range(start, stop):
        t.words[at + have + i - start] = ids[i]
    t.facts[arena.ROWS] += stop - start
    return nodes.list_of(at >> 1, total, log)


# --- Leaves --------------------------------------------------------------------------------------


@inlined
def run_room(units: int, log: int) -> int:
    """The capacity of a run of ``units``, in entries."""
    room = 16 * units // (8 + (1 << log))
    while nodes.run_words(room, log) > 2 * units:
        room -= 1
    return min(room, 0xFFFF)


@inlined
def leaf_form(level: int, count: int) -> int:
    """The form of a new leaf."""
    if count == 1 and level < 8:
        return nodes.ONE
    return nodes.BITS if level == 1 and count >= BITS_FROM else nodes.RUN


@inlined
def leaf_units(form: int, level: int, count: int) -> int:
    """The size of the block of a new leaf; 0 without a block."""
    if form == nodes.ONE:
        return 0
    words = 4 + count if form == nodes.BITS else nodes.run_words(count, nodes.log_of(level))
    return arena.units_of(words)


@inlined
def write_suffix(t: Trie, at: int, log: int, place: int, key: int) -> None:
    """Write the suffix of a key to a place of a run."""
    base = (at << (3 - log)) + place
    if log == 1:
        t.pairs[base] = np.uint16(key & u64(0xFFFF))
    elif log == 0:
        t.octets[base] = np.uint8(key & u64(0xFF))
    elif log == 2:
        t.quads[base] = np.uint32(key & u64(0xFFFFFFFF))
    else:
        t.bits[base] = key


@inlined
def move_suffixes(t: Trie, old: int, to: int, log: int, low: int, high: int, more: int) -> None:
    """Move the suffixes ``[low, high)`` of a run by ``more`` places, into block ``to``."""
    target, source, count = (to << (3 - log)) + low + more, (old << (3 - log)) + low, high - low
    if log == 1:
        shift(t.pairs, target, source, count)
    elif log == 0:
        shift(t.octets, target, source, count)
    elif log == 2:
        shift(t.quads, target, source, count)
    else:
        shift(t.bits, target, source, count)


@kernel((TRIE, N, N, U, V, N, N))
def make_leaf(
    t: Trie, slot: int, level: int, keys: Words, values: Array, start: int, stop: int
) -> None:
    """Build a leaf of ascending keys and their values in a slot, which is overwritten."""
    count = stop - start
    form = leaf_form(level, count)
    if form == nodes.ONE:
        nodes.write_slot(t, slot, nodes.one_head(level, keys[start]), values[start])
        return
    units = leaf_units(form, level, count)
    at, lists = arena.take(t, units), 0
    for i in range(start, stop):
        lists |= values[i] < 0
    if form == nodes.BITS:
        for i in range(4):
            t.words[at + i] = 0
        for i in range(start, stop):
            nodes.put_byte(t.bits, at, nodes.byte_of(keys[i], 1))
            t.words[at + 4 + i - start] = values[i]
        room = min(256, 2 * units - 4)
    else:
        log = nodes.log_of(level)
        room = run_room(units, log)
        to = nodes.run_values(at, room, log) - start
        for i in range(start, stop):
            write_suffix(t, at, log, i - start, keys[i])
            t.words[to + i] = values[i]
    nodes.write_slot(t, slot, nodes.head_of(form, lists, level, count, room), at)


@inlined
def copy_entries(t: Trie, head: int, body: int, prefix: int, keys: Words, values: Array) -> int:
    """Write the keys, which start with ``prefix``, and values of a leaf; returns how many."""
    form = nodes.form_of(head)
    if form == nodes.ONE:
        keys[0] = prefix | (head >> u64(8))
        values[0] = body
        return 1
    count, log = nodes.count_of(head), nodes.log_of(nodes.level_of(head))
    if form == nodes.BITS:
        i = 0
        for word in range(4):
            bits = t.bits[body + word]
            while bits:
                keys[i] = prefix | u64(64 * word) | lowest_bit(bits)
                values[i] = t.words[body + 4 + i]
                bits &= bits - _ONE
                i += 1
        return count
    at = nodes.run_values(body, nodes.room_of(head), log)
    for i in range(count):
        keys[i] = prefix | nodes.suffix_at(t, body, log, i)
        values[i] = t.words[at + i]
    return count


@inlined
def drop_block(t: Trie, head: int, body: int) -> None:
    """Release the block of a slot that is about to be overwritten."""
    form, room = nodes.form_of(head), nodes.room_of(head)
    if form >= nodes.LINEAR:
        arena.release(t, body, branch_units(form, room))
    elif form > nodes.ONE:
        arena.release(t, body, leaf_units(form, nodes.level_of(head), room))


# --- Branches ------------------------------------------------------------------------------------


@inlined
def branch_units(form: int, room: int) -> int:
    """The size of a branch with room for ``room`` children."""
    return arena.units_of(2 * room + (6 if form == nodes.BITMAP else 2))


@inlined
def set_of(t: Trie, head: int, node: int, out: Words) -> int:
    """Write the bytes of the children of a branch as 256 bits; returns their number."""
    form = nodes.form_of(head)
    for word in range(4):
        out[word] = u64(0)
        if form == nodes.BITMAP:
            out[word] = t.bits[node + 2 + word]
    if form == nodes.LINEAR:
        for i in range(nodes.count_of(head)):
            nodes.put_byte(out, 0, nodes.linear_byte(t.bits[node + 1], i))
    if form == nodes.FULL:
        for byte in range(256):
            if nodes.form_of(t.bits[node + 2 + 2 * byte]) != nodes.EMPTY:
                nodes.put_byte(out, 0, byte)
    return nodes.count_of(head)


@inlined
def write_bytes(t: Trie, form: int, node: int, of: Words) -> None:
    """Write the words of a branch that list its children."""
    if form == nodes.LINEAR:
        bytes_, i = u64(0), 0
        for word in range(4):
            bits = of[word]
            while bits:
                bytes_ |= (u64(64 * word) | lowest_bit(bits)) << u64(8 * i)
                bits &= bits - _ONE
                i += 1
        t.bits[node + 1] = bytes_
    elif form == nodes.BITMAP:
        ranks, below_ = u64(0), 0
        for word in range(4):
            ranks |= u64(below_) << u64(8 * word)
            below_ += count_bits(of[word])
            t.bits[node + 2 + word] = of[word]
        t.bits[node + 1] = ranks
    else:
        t.bits[node + 1] = u64(0)


@inlined
def _new_form(t: Trie, count: int) -> int:
    if count <= t.facts[arena.LINEAR_MOST]:
        return nodes.LINEAR
    return nodes.FULL if count >= t.facts[arena.FULL_FROM] else nodes.BITMAP


@inlined
def branch_room(form: int, count: int) -> int:
    """The capacity of a new branch: somewhat more than its children."""
    if form == nodes.FULL:
        return 256
    if form == nodes.LINEAR:
        return min(8, count + (count > 2))
    return min(256, arena.units_of(2 * (count + (count >> 3)) + 6) - 3)


@kernel((TRIE, N, N, N, U, U))
def make_branch(t: Trie, slot: int, level: int, count: int, prefix: Words, of: Words) -> None:
    """Build a branch with ``count`` EMPTY children in a slot, which is overwritten.

    ``of`` holds their bytes, ``prefix[0]`` any key of its place.
    """
    form = _new_form(t, count)
    room = branch_room(form, count)
    node = arena.take(t, branch_units(form, room))
    start = nodes.first_child(form, node)
    for i in range(start, start + 2 * room):
        t.words[i] = 0
    t.bits[node] = nodes.prefix_of(prefix[0], level)
    write_bytes(t, form, node, of)
    nodes.write_slot(t, slot, nodes.head_of(form, 0, level, count, room), node)


@inlined
def branch_of_one(t: Trie, slot: int, level: int, key: int, prefix: Words, of: Words) -> None:
    """``make_branch`` with one child, that of a key; ``prefix`` and ``of`` are scratch."""
    prefix[0] = key
    nodes.clear_set(of)
    nodes.put_byte(of, 0, nodes.byte_of(key, level))
    make_branch(t, slot, level, 1, prefix, of)


@kernel((TRIE, N, U, U))
def add_bytes(t: Trie, slot: int, more: Words, of: Words) -> None:
    """Add EMPTY children to a branch for the bytes in ``more`` that it lacks; ``of`` is scratch.

    Slots move from the last to the first, so they may stay in their block.
    """
    head, node = t.bits[slot], t.words[slot + 1]
    form, room = nodes.form_of(head), nodes.room_of(head)
    have = set_of(t, head, node, of)
    count = 0
    for word in range(4):
        more[word] |= of[word]
        count += count_bits(more[word])
    if count == have:
        return
    new_form, new_room, at = form, room, node
    if count > (t.facts[arena.LINEAR_MOST] if form == nodes.LINEAR else room) or count > room:
        new_form = max(form, _new_form(t, count))
        new_room = branch_room(new_form, count)
        at = arena.take(t, branch_units(new_form, new_room))
    elif form == nodes.BITMAP and count >= t.facts[arena.FULL_FROM]:
        new_form, new_room = nodes.FULL, 256
        at = arena.take(t, branch_units(nodes.FULL, 256))
    t.bits[at] = t.bits[node]
    old = nodes.first_child(form, node) + 2 * have
    to = nodes.first_child(new_form, at) + 2 * count
    if form != nodes.FULL:
        for byte in range(255, -1, -1):
            word, bit = byte >> 6, _ONE << u64(byte & 63)
            if new_form == nodes.FULL:
                to = at + 2 + 2 * byte + 2
                t.words[to - 2] = 0
                t.words[to - 1] = 0
            if more[word] & bit:
                to -= 2
                if of[word] & bit:
                    old -= 2
                    t.words[to] = t.words[old]
                    t.words[to + 1] = t.words[old + 1]
                else:
                    t.words[to] = 0
                    t.words[to + 1] = 0
    write_bytes(t, new_form, at, more)
    if at != node:
        arena.release(t, node, branch_units(form, room))
    head = nodes.head_of(new_form, 0, nodes.level_of(head), count, new_room)
    nodes.write_slot(t, slot, head, at)


@kernel((TRIE, N, N, N, U, V, U))
def split_leaf(
    t: Trie, slot: int, level: int, count: int, keys: Words, values: Array, of: Words
) -> None:
    """Build a branch of a level from ``count`` entries, with leaves as children."""
    nodes.clear_set(of)
    for i in range(count):
        nodes.put_byte(of, 0, nodes.byte_of(keys[i], level))
    children = 0
    for word in range(4):
        children += count_bits(of[word])
    make_branch(t, slot, level, children, keys, of)
    node, form = t.words[slot + 1], nodes.form_of(t.bits[slot])
    i, place = 0, nodes.first_child(form, node)
    while i < count:
        byte, start = nodes.byte_of(keys[i], level), i
        while i < count and nodes.byte_of(keys[i], level) == byte:
            i += 1
        if form == nodes.FULL:
            place = node + 2 + 2 * byte
        make_leaf(t, place, level - 1, keys, values, start, i)
        place += 2

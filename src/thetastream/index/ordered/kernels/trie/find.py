"""Looking keys up in a radix trie, many at a time.

A look-up waits for memory at each step: the slots on its path, the suffixes of a leaf, the value.
So a group of keys descends together: each does one step and prefetches for its next one, which
arrives while the others do theirs.

In a leaf, the place of a key is guessed from its suffix, as if keys were spread evenly over the
leaf's range; from there the search goes outwards in doubling steps. A good guess touches one or two
cache lines of a leaf that has sixteen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thetastream._jit.arrays import Array, Words, i64, u64
from thetastream._jit.compiling import U, V, inlined, kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.ordered.kernels.trie import nodes
from thetastream.index.ordered.kernels.trie.arena import TRIE, Trie

_NEAR = 16  # the first step from a guess


@inlined
def guess(level: int, count: int, key: int) -> int:
    """The place of a key in a run, if keys were spread evenly."""
    if level == 1:
        return (i64(key & u64(0xFF)) * count) >> 8
    return (i64((key >> u64(8 * level - 16)) & u64(0xFFFF)) * count) >> 16


@inlined
def _near(array: Any, base: int, low: int, count: int, suffix: Any) -> int:
    """The first of ``array[base : base + count]`` not below the suffix; ``low`` is a guess."""
    step, high = _NEAR, low
    if low < count and array[base + low] < suffix:
        low += 1
        high = min(count, low + step)
        while high < count and array[base + high - 1] < suffix:
            low = high
            step <<= 1
            high = min(count, low + step)
    else:
        low = max(0, high - step)
        while low > 0 and array[base + low] >= suffix:
            high = low
            step <<= 1
            low = max(0, high - step)
    return nodes.bound_in(array, base, low, high, suffix)


@inlined
def _window(base: int, low: int, count: int) -> int:
    """The first of 64 entries of 2 bytes around a guess: two whole cache lines, if inside."""
    first = ((base + low + 16) & -32) - 32 - base
    return max(0, min(first, count - 64))


@inlined
def _close(array: Any, base: int, low: int, count: int, suffix: Any) -> int:
    """``_near`` for runs of 64 or more: compares the window at once, without a branch."""
    low = _window(base, low, count)
    less = 0
    for i in range(u64(64)):
        less += array[u64(base + low) + i] < suffix
    if (less or not low) and (less < 64 or low + 64 == count):
        return low + less
    return _near(array, base, low + less, count, suffix)


@inlined
def near(t: Trie, at: int, log: int, level: int, count: int, key: int) -> int:
    """The first place of a run whose suffix is not below that of the key: from a guess outwards."""
    base, low = at << (3 - log), guess(level, count, key)
    if log == 1:
        if count >= 64:
            return _close(t.pairs, base, low, count, np.uint16(key & u64(0xFFFF)))
        return _near(t.pairs, base, low, count, np.uint16(key & u64(0xFFFF)))
    if log == 0:
        return _near(t.octets, base, low, count, np.uint8(key & u64(0xFF)))
    if log == 2:
        return _near(t.quads, base, low, count, np.uint32(key & u64(0xFFFFFFFF)))
    return _near(t.bits, base, low, count, key)


@inlined
def value_in(t: Trie, slot: int, head: int, key: int) -> int:
    """Where the value of a key is in a leaf, or -1."""
    form, level, body = nodes.form_of(head), nodes.level_of(head), t.words[slot + 1]
    if form == nodes.ONE:
        return slot + 1 if nodes.below(key, level) == head >> u64(8) else -1
    if form == nodes.BITS:
        byte = nodes.byte_of(key, 1)
        if not nodes.has_byte(t.bits, body, byte):
            return -1
        return body + 4 + nodes.rank(t.bits, body, byte)
    count, log = nodes.count_of(head), nodes.log_of(level)
    place = near(t, body, log, level, count, key)
    if place == count or nodes.below(nodes.suffix_at(t, body, log, place) ^ key, level):
        return -1
    return nodes.run_values(body, nodes.room_of(head), log) + place


@inlined
def _go_down(t: Trie, keys: Words, begin: int, places: Array, count: int) -> None:
    """Find the slots of the leaves of keys, level by level; -1: not there."""
    levels = places.size >> 1  # the second half of ``places``: levels of the slots
    for i in range(count):
        places[i] = 0
        places[levels + i] = 8
    going = True
    while going:
        going = False
        for i in range(count):
            slot = places[i]
            if slot < 0:
                continue
            head = t.bits[slot]
            if nodes.form_of(head) < nodes.LINEAR:
                continue
            key, node, own = keys[begin + i], t.words[slot + 1], nodes.level_of(head)
            if own < places[levels + i] and (key ^ t.bits[node]) >> u64(8 * own):
                places[i] = -1
                continue
            slot = nodes.child_slot(t, head, node, nodes.byte_of(key, own))
            places[i] = slot
            places[levels + i] = own - 1
            if slot >= 0:
                prefetch(t.words, slot)
                going = True


@kernel((TRIE, U, V, V))
def find_keys(t: Trie, keys: Words, places: Array, ids: Array) -> None:
    """The newest row of each key, or -1; in groups of half the length of ``places``."""
    for begin in range(0, keys.size, places.size >> 1):
        count = min(places.size >> 1, keys.size - begin)
        _go_down(t, keys, begin, places, count)
        for i in range(count):
            slot = places[i]
            if slot >= 0:
                head = t.bits[slot]
                form, spot = nodes.form_of(head), t.words[slot + 1] << 3
                if form == nodes.RUN:
                    level, size = nodes.level_of(head), nodes.count_of(head)
                    low, log = guess(level, size, keys[begin + i]), nodes.log_of(level)
                    if log == 1 and size >= 64:
                        low = _window(spot >> 1, low, size)
                        prefetch(t.pairs, (spot >> 1) + low + 63)
                    spot += low << log
                if form > nodes.ONE:
                    prefetch(t.octets, spot)
                elif form == nodes.EMPTY:
                    places[i] = -1
        for i in range(count):
            slot = places[i]
            if slot >= 0:
                places[i] = value_in(t, slot, t.bits[slot], keys[begin + i])
                prefetch(t.words, max(0, places[i]))
        lists = False
        for i in range(count):
            value = t.words[places[i]] if places[i] >= 0 else -1
            ids[begin + i] = value
            if value < -1:
                places[i] = nodes.list_start(value) + nodes.list_count(value) - 1
                prefetch(t.words, places[i])
                lists = True
        if lists:
            for i in range(count):
                if ids[begin + i] < -1:
                    ids[begin + i] = t.words[places[i]]

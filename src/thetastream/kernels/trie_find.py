"""Looking keys up in a radix trie."""

from __future__ import annotations

from thetastream.kernels._jit import inlined, kernel, vector
from thetastream.kernels.trie_arena import GROUP, TRIE, Trie, u64
from thetastream.kernels.trie_nodes import (
    BITS,
    EMPTY,
    LINEAR,
    ONE,
    Array,
    Bits,
    below,
    bound,
    byte_of,
    child_slot,
    count_of,
    form_of,
    level_of,
    list_count,
    list_start,
    log_of,
    rank,
    room_of,
    run_values,
    suffix_at,
)  # fmt: skip

__all__ = ["find_keys", "value_in"]

_ONE = u64(1)
V, U = vector(1), vector(1, 64, "uint")


@inlined
def value_in(t: Trie, slot: int, head: int, key: int) -> int:
    """Where the value of a key is, in a leaf; -1 if it is not there."""
    form, level, body = form_of(head), level_of(head), t.words[slot + 1]
    if form == ONE:
        return slot + 1 if below(key, level) == head >> u64(8) else -1
    if form == BITS:
        byte = byte_of(key, 1)
        if not (t.bits[body + (byte >> 6)] >> u64(byte & 63)) & _ONE:
            return -1
        return body + 4 + rank(t.bits, body, byte)
    count, log = count_of(head), log_of(level)
    place = bound(t, body, log, 0, count, key)
    if place == count or below(suffix_at(t, body, log, place) ^ key, level):
        return -1
    return run_values(body, room_of(head), log) + place


@kernel((TRIE, U, V), group=GROUP)
def find_keys(t: Trie, keys: Bits, ids: Array) -> None:
    """The newest row of each key, -1 for none."""
    for i in range(keys.size):
        key, slot = keys[i], 0
        ids[i] = -1
        while slot >= 0:
            head = t.bits[slot]
            if form_of(head) < LINEAR:
                at = -1 if form_of(head) == EMPTY else value_in(t, slot, head, key)
                if at >= 0:
                    value = t.words[at]
                    if value < 0:
                        value = t.words[list_start(value) + list_count(value) - 1]
                    ids[i] = value
                break
            node, own = t.words[slot + 1], level_of(head)
            if own < 8 and (key ^ t.bits[node]) >> u64(8 * own):
                break
            slot = child_slot(t, head, node, byte_of(key, own))

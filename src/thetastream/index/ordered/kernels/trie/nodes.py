"""The forms of nodes of a radix trie, and how they are searched.

Keys are unsigned here: bytes 7 … 0. A place of *level* ``l`` holds keys that agree in all bytes but
the last ``l``. A *slot* of two words, a head and a body, describes its content:

    head   bits 0–2 form │ 3 has lists │ 4–7 level │ 8–23 count │ 24–39 room    (ONE: 8–63 suffix)
    body   where its block is (ONE: the value itself)

    EMPTY   nothing
    ONE     a single key, in the slot itself
    RUN     suffixes of 1, 2, 4 or 8 bytes, ascending, then as many values
    BITS    a level 1 leaf: 256 bits, then a value per bit that is set
    LINEAR  a branch: prefix, up to 8 bytes, ascending, in a word, then as many slots
    BITMAP  prefix, ranks, 256 bits, then a slot per bit that is set
    FULL    prefix, a spare word, 256 slots

A branch of level ``l`` distinguishes keys by byte ``l - 1``; its children have level ``l - 1``. Its
level may be below that of its place: all its keys share the bytes between, which are in its prefix
(path compression). Leaves have the level of their place.

A value is the id of the key's row or, if negative, refers to the list of its rows:

    bit 63 │ 58–62 log2 of its room │ 32–57 count │ 0–31 unit
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thetastream._jit.arrays import Words, i64, u64
from thetastream._jit.compiling import inlined
from thetastream._jit.intrinsics import count_bits, lowest_bit
from thetastream.index.ordered.kernels.trie.arena import Trie

EMPTY, ONE, RUN, BITS, LINEAR, BITMAP, FULL = 0, 1, 2, 3, 4, 5, 6
NONE = -(2**63)  # no value
NO_CHILD = -1
MOST_ROWS = 2**26 - 1  # of one key
_ONE = u64(1)
_ZERO = u64(0)
_ALL = u64(0xFFFFFFFFFFFFFFFF)
_SEVENS = u64(0x7F7F7F7F7F7F7F7F)
_ONES = u64(0x0101010101010101)


# --- Keys and heads ------------------------------------------------------------------------------


@inlined
def byte_of(key: int, level: int) -> int:
    """The byte by which a branch of a level distinguishes keys."""
    return i64((key >> u64(8 * (level - 1))) & u64(255))


@inlined
def below(key: int, level: int) -> int:
    """The last ``level`` bytes of a key."""
    return key & (_ALL >> u64(64 - 8 * level))


@inlined
def prefix_of(key: int, level: int) -> int:
    """A key without its last ``level`` bytes."""
    return key & ~(_ALL >> u64(64 - 8 * level))


@inlined
def top_level(difference: int) -> int:
    """The level of the branch that separates keys with this difference (XOR, not 0)."""
    level = 1
    while level < 8 and difference >> u64(8 * level):
        level += 1
    return level


@inlined
def head_of(form: int, lists: int, level: int, count: int, room: int) -> Any:
    """The head of a leaf with a block, or of a branch."""
    return u64(form | (lists << 3) | (level << 4) | (count << 8) | (room << 24))


@inlined
def one_head(level: int, key: int) -> int:
    """The head of a single key; the level is at most 7."""
    return u64(ONE | (level << 4)) | (below(key, level) << u64(8))


@inlined
def form_of(head: Any) -> Any:
    """The form in a head."""
    return i64(head & u64(7))


@inlined
def level_of(head: Any) -> Any:
    """The level in a head."""
    return i64((head >> u64(4)) & u64(15))


@inlined
def count_of(head: Any) -> Any:
    """The number of entries or children in a head."""
    return i64((head >> u64(8)) & u64(0xFFFF))


@inlined
def room_of(head: Any) -> Any:
    """The number of entries or children there is room for in a head."""
    return i64((head >> u64(24)) & u64(0xFFFF))


@inlined
def lists_of(head: Any) -> Any:
    """Whether some values of a leaf are lists, 0 or 1."""
    return i64((head >> u64(3)) & _ONE)


@inlined
def write_slot(t: Trie, slot: int, head: Any, body: int) -> None:
    """Describe a place by its head and body."""
    t.bits[slot] = head
    t.words[slot + 1] = body


# --- Sets of bytes -------------------------------------------------------------------------------


@inlined
def clear_set(bits: Words) -> None:
    """Make a set of bytes, 256 bits, empty."""
    for word in range(4):
        bits[word] = _ZERO


@inlined
def put_byte(bits: Words, at: int, byte: int) -> None:
    """Put a byte into the set whose bits are from word ``at`` on."""
    bits[at + (byte >> 6)] |= _ONE << u64(byte & 63)


@inlined
def drop_byte(bits: Words, at: int, byte: int) -> None:
    """Take a byte out of a set."""
    bits[at + (byte >> 6)] &= ~(_ONE << u64(byte & 63))


@inlined
def has_byte(bits: Words, at: int, byte: int) -> Any:
    """Whether a byte is in a set, 0 or 1."""
    return i64((bits[at + (byte >> 6)] >> u64(byte & 63)) & _ONE)


@inlined
def rank(bits: Words, at: int, byte: int) -> int:
    """How many bytes of a set are below a byte."""
    word = byte >> 6
    count = count_bits(bits[at + word] & ((_ONE << u64(byte & 63)) - _ONE))
    for i in range(word):
        count += count_bits(bits[at + i])
    return count


@inlined
def nth_byte(bits: Words, at: int, place: int) -> int:
    """The byte of a set that has ``place`` bytes below it."""
    word, left = at, bits[at]
    while True:
        while left and place:
            left &= left - _ONE
            place -= 1
        if left:
            return u64(64 * (word - at)) | lowest_bit(left)
        word += 1
        left = bits[word]


# --- Values --------------------------------------------------------------------------------------


@inlined
def list_of(unit: int, count: int, log: int) -> int:
    """A value that is a list."""
    return NONE | (log << 58) | (count << 32) | unit


@inlined
def list_count(value: int) -> int:
    """How many rows a list has."""
    return (value >> 32) & MOST_ROWS


@inlined
def list_log(value: int) -> int:
    """log2 of the rows a list has room for."""
    return (value >> 58) & 31


@inlined
def list_start(value: int) -> int:
    """The first word of a list."""
    return 2 * (value & 0xFFFFFFFF)


# --- Leaves --------------------------------------------------------------------------------------


@inlined
def log_of(level: int) -> int:
    """log2 of the bytes of a suffix in a run."""
    return i64(level > 1) + i64(level > 2) + i64(level > 4)


@inlined
def run_values(at: int, room: int, log: int) -> int:
    """The first value of a run whose block begins at word ``at``."""
    return at + (((room << log) + 7) >> 3)


@inlined
def run_words(room: int, log: int) -> int:
    """How many words a run takes."""
    return room + (((room << log) + 7) >> 3)


@inlined
def bound_in(array: Any, base: int, low: int, high: int, suffix: Any) -> int:
    """The first of ``array[base + low : base + high]`` that is not below the suffix."""
    count = high - low
    while count > 1:
        half = count >> 1
        low += half * i64(array[base + low + half - 1] < suffix)
        count -= half
    if count == 1 and array[base + low] < suffix:
        low += 1
    return low


@inlined
def bound(t: Trie, at: int, log: int, low: int, high: int, key: int) -> int:
    """The first place in ``[low, high)`` of a run whose suffix is not below that of the key."""
    base = at << (3 - log)
    if log == 1:
        return bound_in(t.pairs, base, low, high, np.uint16(key & u64(0xFFFF)))
    if log == 0:
        return bound_in(t.octets, base, low, high, np.uint8(key & u64(0xFF)))
    if log == 2:
        return bound_in(t.quads, base, low, high, np.uint32(key & u64(0xFFFFFFFF)))
    return bound_in(t.bits, base, low, high, key)


@inlined
def suffix_at(t: Trie, at: int, log: int, place: int) -> int:
    """The suffix at a place of a run."""
    base = at << (3 - log)
    if log == 1:
        return u64(t.pairs[base + place])
    if log == 0:
        return u64(t.octets[base + place])
    if log == 2:
        return u64(t.quads[base + place])
    return t.bits[base + place]


# --- Branches ------------------------------------------------------------------------------------


@inlined
def first_child(form: int, node: int) -> int:
    """The slot of the first child of a branch."""
    return node + (6 if form == BITMAP else 2)


@inlined
def linear_byte(bytes_: int, place: int) -> int:
    """The byte at a place of a linear branch."""
    return i64((bytes_ >> u64(8 * place)) & u64(255))


@inlined
def linear_place(bytes_: int, count: int, byte: int) -> int:
    """Where a byte is among the bytes of a linear branch, or NO_CHILD."""
    x = bytes_ ^ (u64(byte) * _ONES)
    zeros = ~(((x & _SEVENS) + _SEVENS) | x | _SEVENS)
    if zeros == _ZERO:
        return NO_CHILD
    place = i64(lowest_bit(zeros)) >> 3
    return place if place < count else NO_CHILD


@inlined
def child_slot(t: Trie, head: int, node: int, byte: int) -> int:
    """The slot of a child of a branch, or NO_CHILD; of a full branch it may be EMPTY."""
    form = form_of(head)
    if form == FULL:
        return node + 2 + 2 * byte
    if form == BITMAP:
        word = byte >> 6
        bits = t.bits[node + 2 + word]
        bit = _ONE << u64(byte & 63)
        if not bits & bit:
            return NO_CHILD
        before = i64((t.bits[node + 1] >> u64(8 * word)) & u64(255))
        return node + 6 + 2 * (before + count_bits(bits & (bit - _ONE)))
    place = linear_place(t.bits[node + 1], count_of(head), byte)
    return place if place < 0 else node + 2 + 2 * place

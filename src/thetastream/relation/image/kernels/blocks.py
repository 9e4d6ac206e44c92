"""Loops over the images of leaves: where leaves end, copying and gathering columns, checksums.

An *image* is ``span × block_bytes`` bytes, little endian, every buffer at a multiple of 8::

    header (32 bytes)   checksum u64 │ rows u32 │ used bytes u32 │ span u32 │ 0 u32 │ block u64
    directory           u32 per buffer: its offset in the image, 0 when it is absent
    buffers             keys, then validity bits and data of every column

The same memory is passed as arrays of several types, because loops read words from bytes. The rows
of a column are adjacent in a leaf, so that most of packing is copying.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Bytes, Words
from thetastream._jit.compiling import inlined, kernel
from thetastream._jit.intrinsics import load_word, prefetch, store_word

Halves = NDArray[np.uint32]

HEADER = 32
AHEAD = 12
# Places in the header, as 32-bit numbers; the block as a 64-bit one.
ROWS, USED, SPAN, BLOCK, DIRECTORY = 2, 3, 4, 3, 8
# Kinds of directory entries: values of a width, strings, bits, a buffer of known size.
FIXED, BYTES, BITS, OTHER = 0, 1, 2, 3

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_LEFT, _RIGHT = np.uint64(29), np.uint64(35)


@inlined
def whole(size: Any) -> Any:
    """A size rounded up to a multiple of 8."""
    return (size + 7) & -8


# --- Where leaves end ----------------------------------------------------------------------------


@kernel("i8(i8, i8, i8, i8[::1], i8[::1], i8[:, ::1], u1[:, ::1], i8, u1[::1], i8[::1])")
def cut_leaves(
    first: int,
    stop: int,
    head: int,
    widths: Array,
    counts: Array,
    offsets: Array,
    nulls: Bytes,
    limit: int,
    seen: Bytes,
    starts: Array,
) -> int:
    """Fill leaves with rows ``[first, stop)``, each with as many as fit, or one.

    Ends after the last row, or when ``starts`` is full. Returns the number of leaves; ``starts``
    receives the first row of each, and the row after the last one. ``counts[j]`` columns have
    ``widths[j]`` bytes per row; ``offsets`` has a line per column of strings, ``nulls`` one per
    column with NULLs, which needs bits only in leaves with a NULL.
    """
    leaves = 0
    starts[0] = first
    while starts[leaves] < stop and leaves + 1 < starts.size:
        begin = starts[leaves]
        bitmaps = 0
        for k in range(seen.size):
            seen[k] = 0
        end = stop
        for row in range(begin, stop):
            rows = row + 1 - begin
            size = head
            for j in range(widths.size):
                size += counts[j] * whole(widths[j] * rows)
            for v in range(offsets.shape[0]):
                size += whole(4 * rows + 4) + whole(offsets[v, row + 1] - offsets[v, begin])
            for k in range(nulls.shape[0]):
                if nulls[k, row] > seen[k]:
                    seen[k] = 1
                    bitmaps += 1
            size += bitmaps * whole((rows + 7) >> 3)
            if size > limit:
                end = max(row, begin + 1)
                break
        leaves += 1
        starts[leaves] = end
    return leaves


@inlined
def _any_set(flags: Bytes, line: int, first: int, end: int) -> bool:
    """Whether a flag of a line is set, among some rows."""
    for row in range(first, end):  # noqa: SIM110
        if flags[line, row]:
            return True
    return False


_ENTRIES = "i8[::1], i8[::1], i8, i8[:, ::1], u1[:, ::1], i8[::1]"


@kernel(f"void(i8[::1], {_ENTRIES}, i8[:, ::1], i8[::1])")
def place_buffers(
    starts: Array,
    kinds: Array,
    details: Array,
    head: int,
    offsets: Array,
    nulls: Bytes,
    others: Array,
    places: Array,
    used: Array,
) -> None:
    """Offsets of all buffers in all leaves, 0 for absent ones; and the bytes used of each leaf.

    The ``details`` of an entry are its width, the line of its offsets, or that of its NULLs
    (negative if it has none).
    """
    for leaf in range(used.size):
        first, end = starts[leaf], starts[leaf + 1]
        rows, at = end - first, head
        for entry in range(kinds.size):
            kind, detail = kinds[entry], details[entry]
            size = np.int64(0)
            if kind == FIXED:
                size = detail * rows
            elif kind == BYTES:
                size = whole(4 * rows + 4) + offsets[detail, end] - offsets[detail, first]
            elif kind == OTHER:
                size = others[leaf]
            elif detail >= 0 and _any_set(nulls, detail, first, end):
                size = (rows + 7) >> 3
            places[leaf, entry] = at if size else 0
            at += whole(size)
        used[leaf] = at


# --- Copying columns -----------------------------------------------------------------------------


@kernel("void(u1[::1], i8[::1], i8[::1], u1[::1])")
def copy_bytes(source: Bytes, starts: Array, targets: Array, images: Bytes) -> None:
    """Copy bytes ``starts[i] … starts[i + 1]`` to byte ``targets[i]`` of the images."""
    for i in range(targets.size):
        first, target = np.uint64(starts[i]), np.uint64(targets[i])
        for j in range(np.uint64(starts[i + 1]) - first):
            images[target + j] = source[first + j]


@kernel("void(i8[::1], i8[::1], i8[::1], i4[::1])")
def copy_offsets(offsets: Array, starts: Array, targets: Array, images: Any) -> None:
    """Copy a leaf's string offsets to byte ``targets[i]``, relative to its first string."""
    for i in range(targets.size):
        first, target = np.uint64(starts[i]), np.uint64(targets[i] >> 2)
        base = offsets[first]
        for j in range(np.uint64(starts[i + 1] + 1) - first):
            images[target + j] = np.int32(offsets[first + j] - base)


@kernel("void(u1[::1], i8[::1], i8[::1], u1[::1])")
def copy_bits(nulls: Bytes, starts: Array, targets: Array, images: Bytes) -> None:
    """Write validity bits at byte ``targets[i]``, unless that is negative."""
    for i in range(targets.size):
        first, target = starts[i], targets[i]
        if target >= 0:
            for j in range(starts[i + 1] - first):
                if not nulls[first + j]:
                    images[target + (j >> 3)] |= np.uint8(1 << (j & 7))


@kernel("void(u1[::1], i8[::1], i8[::1], i8[::1], i8, u1[::1])")
def blank(
    nulls: Bytes, starts: Array, bits: Array, targets: Array, width: int, images: Bytes
) -> None:
    """Write zeros under NULLs, in leaves that have ``bits``; values have ``width`` bytes."""
    for i in range(targets.size):
        first, target = starts[i], targets[i]
        if bits[i] >= 0:
            for row in range(starts[i + 1] - first):
                if nulls[first + row]:
                    for j in range(width):
                        images[target + width * row + j] = 0


# --- Gathering -----------------------------------------------------------------------------------

_PLACES = "u4[::1], i8[::1], i8[::1], i8"


@inlined
def buffer_at(halves: Halves, base: int, entry: int) -> Any:
    """Offset of a buffer in the image at byte ``base``; 0: absent."""
    return np.int64(halves[np.uint64((base >> 2) + DIRECTORY + entry)])


@kernel(*(f"void(u{width}[::1], {_PLACES}, i8, u{width}[::1])" for width in (1, 2, 4, 8)))
def gather_numbers(
    values: NDArray[Any],
    halves: Halves,
    bases: Array,
    slots: Array,
    entry: int,
    power: int,
    taken: NDArray[Any],
) -> None:
    """Gather values of ``2 ** power`` bytes: row ``slots[i]`` of the image at byte ``bases[i]``."""
    for i in range(np.uint64(slots.size)):
        base = bases[i]
        at = ((base + buffer_at(halves, base, entry)) >> power) + slots[i]
        taken[i] = values[np.uint64(at)]


@kernel(*(f"void(u{w}[::1], {_PLACES}, i8, i8, u{w}[::1])" for w in (1, 8)))
def gather_wide(
    values: NDArray[Any],
    halves: Halves,
    bases: Array,
    slots: Array,
    entry: int,
    power: int,
    width: int,
    taken: NDArray[Any],
) -> None:
    """Gather values of ``width`` numbers of ``2 ** power`` bytes each."""
    for i in range(np.uint64(slots.size)):
        base = bases[i]
        at = ((base + buffer_at(halves, base, entry)) >> power) + width * slots[i]
        first, target = np.uint64(at), i * np.uint64(width)
        for j in range(np.uint64(width)):
            taken[target + j] = values[first + j]


@kernel(f"i8(u1[::1], {_PLACES}, u1[::1])")
def gather_bits(
    images: Bytes, halves: Halves, bases: Array, slots: Array, entry: int, bitmap: Bytes
) -> int:
    """Gather validity bits into ``bitmap``, at first zeros; return the number of NULLs."""
    absent = 0
    for i in range(slots.size):
        offset, slot = buffer_at(halves, bases[i], entry), slots[i]
        if offset and not (images[bases[i] + offset + (slot >> 3)] >> (slot & 7)) & 1:
            absent += 1
        else:
            bitmap[i >> 3] |= np.uint8(1 << (i & 7))
    return absent


@kernel(*(f"i8(i4[::1], {_PLACES}, i8[::1], i{width}[::1])" for width in (4, 8)))
def find_strings(
    numbers: NDArray[np.int32],
    halves: Halves,
    bases: Array,
    slots: Array,
    entry: int,
    sources: Array,
    offsets: NDArray[Any],
) -> int:
    """Locate strings to gather: their sources and offsets; return their total bytes."""
    total = 0
    offsets[0] = 0
    for i in range(np.uint64(slots.size)):
        base = bases[i]
        begin = base + buffer_at(halves, base, entry)
        at = np.uint64((begin >> 2) + slots[i])
        first = np.int64(numbers[at])
        sources[i] = begin + whole(4 * np.int64(halves[np.uint64(base >> 2) + ROWS]) + 4) + first
        total += numbers[at + np.uint64(1)] - first
        offsets[i + np.uint64(1)] = total
    return total


@kernel(*(f"void(u1[::1], i8, i8[::1], i{width}[::1], i8)" for width in (4, 8)))
def copy_strings(
    images: Bytes, address: int, sources: Array, offsets: NDArray[Any], taken: int
) -> None:
    """Copy strings from bytes ``sources`` of the images, which begin at ``address``, to ``taken``.

    Copies whole words: the next string overwrites the excess, so the target needs 8 extra bytes.
    """
    last, ahead = images.size - 8, sources.size - AHEAD
    for i in range(sources.size):
        if i < ahead:
            prefetch(images, sources[i + AHEAD])
        source, target = sources[i], taken + np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - np.int64(offsets[i])
        for j in range(0, size, 8):
            if source + j <= last:
                store_word(target + j, load_word(address + source + j))
            else:
                store_word(target + j, _word_at_end(images, source + j))


@inlined
def _word_at_end(images: Bytes, first: int) -> Any:
    """The last bytes of the images as a word, padded with zeros."""
    word = np.uint64(0)
    for j in range(first, images.size):
        word |= np.uint64(images[j]) << np.uint64(8 * (j - first))
    return np.int64(word)


# --- Checksums -----------------------------------------------------------------------------------


@inlined
def _turned(state: Any, word: Any) -> Any:
    """Mix a word into a state: bijective in both; the rotation moves high bits to the low end."""
    state = (state ^ word) * _FIRST
    return (state << _LEFT) | (state >> _RIGHT)


@inlined
def _checksum(words: Words, first: int, end: int) -> Any:
    """Checksum of words ``first + 1 … end``; with the first, their number is a multiple of four.

    Four states, so that their multiplications overlap; changes of the words of one state cancel
    only by chance.
    """
    a, b, c, d = _FIRST, _SECOND, ~_FIRST, ~_SECOND
    b = _turned(b, words[first + 1])
    c = _turned(c, words[first + 2])
    d = _turned(d, words[first + 3])
    for i in range(np.uint64(first + 4), np.uint64(end), np.uint64(4)):
        a = _turned(a, words[i])
        b = _turned(b, words[i + np.uint64(1)])
        c = _turned(c, words[i + np.uint64(2)])
        d = _turned(d, words[i + np.uint64(3)])
    total = np.uint64(end - first)
    for state in (a, b, c, d):
        total = _turned(total, state)
        total = (total ^ (total >> np.uint64(32))) * _SECOND
    return total ^ (total >> np.uint64(32))


@kernel("void(u8[::1], i8[::1], i8[::1])")
def seal(words: Words, bases: Array, sizes: Array) -> None:
    """Write the checksums of images of ``sizes[i]`` bytes that begin at byte ``bases[i]``."""
    for i in range(bases.size):
        first = bases[i] >> 3
        words[first] = _checksum(words, first, first + (sizes[i] >> 3))


@kernel("i8(u8[::1], u4[::1], i8[::1], i8[::1], i8)")
def find_wrong(words: Words, halves: Halves, bases: Array, blocks: Array, block_bytes: int) -> int:
    """The first image with a wrong block number or checksum, or -1."""
    for i in range(bases.size):
        first = bases[i] >> 3
        if first < 0 or first + 4 > words.size:
            return i
        span = np.int64(halves[(bases[i] >> 2) + SPAN])
        end = first + ((span * block_bytes) >> 3)
        if span < 1 or end > words.size or np.int64(words[first + BLOCK]) != blocks[i]:
            return i
        if words[first] != _checksum(words, first, end):
            return i
    return -1

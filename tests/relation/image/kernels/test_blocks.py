"""Images of leaves: where leaves end, what is copied and gathered, and the checksum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.relation.image.kernels.blocks import (
    BITS,
    BLOCK,
    BYTES,
    DIRECTORY,
    FIXED,
    OTHER,
    ROWS,
    SPAN,
    blank,
    copy_bits,
    copy_bytes,
    copy_offsets,
    copy_strings,
    cut_leaves,
    find_strings,
    find_wrong,
    gather_bits,
    gather_numbers,
    gather_wide,
    place_buffers,
    seal,
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

MASK = 2**64 - 1


def numbers(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def whole(size: int) -> int:
    return -(-size // 8) * 8


# --- Where leaves end ----------------------------------------------------------------------------


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Widths of fixed columns, lengths of strings, and NULLs, of some rows."""
    rows = draw(st.integers(0, 12))
    lengths = st.lists(st.integers(0, 20), min_size=rows, max_size=rows)
    flags = st.lists(st.integers(0, 1), min_size=rows, max_size=rows)
    widths = draw(st.lists(st.sampled_from([0, 1, 3, 8, 16]), max_size=4))
    return widths, draw(st.lists(lengths, max_size=2)), draw(st.lists(flags, max_size=2))


def leaf_bytes(
    head: int,
    widths: list[int],
    lengths: list[list[int]],
    nulls: list[list[int]],
    first: int,
    end: int,
) -> int:
    rows = end - first
    size = head + sum(whole(width * rows) for width in widths)
    size += sum(whole(4 * rows + 4) + whole(sum(line[first:end])) for line in lengths)
    return size + sum(whole(-(-rows // 8)) for line in nulls if any(line[first:end]))


@given(columns(), st.integers(0, 250), st.sampled_from([40, 48]))
def test_leaves_are_filled_one_after_the_other(
    made: tuple[list[int], list[list[int]], list[list[int]]], limit: int, head: int
) -> None:
    widths, lengths, nulls = made
    rows = len((lengths + nulls)[0]) if lengths or nulls else 9
    distinct, counts = np.unique(numbers(*widths), return_counts=True)
    offsets = np.array([np.cumsum([5, *line]) for line in lengths], np.int64)
    offsets = offsets.reshape(len(lengths), rows + 1)
    flags = np.array(nulls, np.uint8).reshape(len(nulls), rows)
    seen = np.full(len(nulls), 7, np.uint8)
    sizes = (np.int64(head), distinct, counts, offsets, flags, np.int64(limit), seen)
    starts = np.empty(rows + 1, np.int64)
    leaves = cut_leaves(np.int64(0), np.int64(rows), *sizes, starts)
    expected = [0]
    while expected[-1] < rows:
        first = end = expected[-1]
        while end < rows and leaf_bytes(head, widths, lengths, nulls, first, end + 1) <= limit:
            end += 1
        expected.append(max(end, first + 1))
        one = np.empty(2, np.int64)
        assert cut_leaves(np.int64(first), np.int64(rows), *sizes, one) == 1
        assert one.tolist() == expected[-2:]
    assert starts[: leaves + 1].tolist() == expected
    check_places(starts[: leaves + 1], widths, lengths, nulls, offsets, flags, head)


def check_places(
    starts: np.ndarray[Any, Any],
    widths: list[int],
    lengths: list[list[int]],
    nulls: list[list[int]],
    offsets: np.ndarray[Any, Any],
    flags: np.ndarray[Any, Any],
    head: int,
) -> None:
    """Buffers lie one behind the other, and end where the sizes say."""
    leaves = len(starts) - 1
    kinds = [FIXED] * len(widths) + [BYTES] * len(lengths) + [BITS] * (len(nulls) + 1) + [OTHER]
    details = [*widths, *range(len(lengths)), *range(len(nulls)), -1, 0]
    others = np.arange(leaves) * 3
    places, used = np.full((leaves, len(kinds)), -1), np.full(leaves, -1)
    place_buffers(
        starts, numbers(*kinds), numbers(*details), np.int64(head), offsets, flags, others,
        places, used,
    )  # fmt: skip
    for leaf, (first, end) in enumerate(
        zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ):
        size = leaf_bytes(head, widths, lengths, nulls, first, end)
        assert used[leaf] == size + whole(3 * leaf)
        present = [place for place in places[leaf].tolist() if place]
        assert present == sorted(set(present))
        assert not any(place % 8 for place in present)
        assert places[leaf, -1] == (size if leaf else 0)
        assert places[leaf, -2] == 0
        for line, place in zip(nulls, places[leaf, -2 - len(nulls) : -2].tolist(), strict=True):
            assert (place > 0) == any(line[first:end])


# --- Putting in ----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=5), st.data())
def test_bytes_bits_and_offsets_of_every_leaf(sizes: list[int], data: st.DataObject) -> None:
    rows = sum(sizes)
    starts = np.cumsum([0, *sizes]).astype(np.int64)
    targets = np.arange(len(sizes), dtype=np.int64) * 64 + 8
    flags = data.draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows))
    nulls = np.array(flags, np.uint8)
    images = np.zeros(64 * len(sizes) + 8, np.uint8)
    copy_bytes(np.arange(1, 3 * rows + 1).astype(np.uint8), starts * 3, targets, images)
    bits = np.where(np.arange(len(sizes)) % 2, -1, targets + 40)
    copy_bits(nulls, starts, bits, images)
    blank(nulls, starts, bits, targets, np.int64(3), images)
    for leaf, (first, end) in enumerate(
        zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ):
        image = images[targets[leaf] : targets[leaf] + 56]
        blanked = [0 if leaf % 2 == 0 and flag else 1 for flag in flags[first:end]]
        values = [
            kept * (3 * row + j + 1) for row, kept in enumerate(blanked, first) for j in range(3)
        ]
        assert image[:40].tolist() == values + [0] * (40 - len(values))
        expected = 0
        for row, flag in enumerate(flags[first:end]):
            expected |= (not flag and leaf % 2 == 0) << row
        assert int.from_bytes(image[40:].tobytes(), "little") == expected
    assert not images[:8].any()
    ends = np.cumsum([5, *data.draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows))])
    images[:] = 0
    copy_offsets(ends.astype(np.int64), starts, targets, images.view(np.int32))
    for leaf, (first, end) in enumerate(
        zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ):
        written = images[targets[leaf] : targets[leaf] + 56].view(np.int32)
        assert written[: end - first + 1].tolist() == (ends[first : end + 1] - ends[first]).tolist()
        assert not written[end - first + 1 :].any()


# --- Gathering -----------------------------------------------------------------------------------

PICKS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=9)


def two_images(entries: list[bytes]) -> np.ndarray[Any, Any]:
    """Two images of 128 bytes with three rows, an entry each; the second one's is at the end."""
    images = np.zeros(256, np.uint8)
    for which, data in enumerate(entries):
        at = 48 if which == 0 else 128 - whole(len(data))
        base = 128 * which
        images.view(np.uint32)[(base >> 2) + ROWS] = 3
        images.view(np.uint32)[(base >> 2) + DIRECTORY + 1] = at if data else 0
        images[base + at : base + at + len(data)] = np.frombuffer(data, np.uint8)
    return images


def picked(picks: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return numbers(*(128 * image for image, _ in picks)), numbers(*(slot for _, slot in picks))


@given(PICKS, st.sampled_from([1, 2, 4, 8, 3, 16]))
def test_values_of_any_width(picks: list[tuple[int, int]], width: int) -> None:
    values = [[bytes([16 * image + row + 1]) * width for row in range(3)] for image in range(2)]
    images = two_images([b"".join(rows) for rows in values])
    bases, slots = picked(picks)
    narrow = width in (1, 2, 4, 8)
    power = width.bit_length() - 1 if narrow else 3 if width % 8 == 0 else 0
    kind = np.dtype(f"u{1 << power}")
    taken = np.zeros(len(picks) * width // kind.itemsize, kind)
    places = (images.view(kind), images.view(np.uint32), bases, slots, np.int64(1), np.int64(power))
    if narrow:
        gather_numbers(*places, taken)
    else:
        gather_wide(*places, np.int64(width >> power), taken)
    assert taken.tobytes() == b"".join(values[image][slot] for image, slot in picks)


@given(PICKS, st.integers(0, 7), st.booleans())
def test_bits_that_are_there_and_bits_that_are_not(
    picks: list[tuple[int, int]], bits: int, absent: bool
) -> None:
    images = two_images([bytes([bits]), b"" if absent else bytes([bits ^ 7])])
    valid = [[bool(bits >> row & 1) for row in range(3)]]
    valid.append([absent or not flag for flag in valid[0]])
    bitmap = np.zeros((len(picks) + 7) // 8, np.uint8)
    bases, slots = picked(picks)
    missing = gather_bits(images, images.view(np.uint32), bases, slots, np.int64(1), bitmap)
    expected = [valid[image][slot] for image, slot in picks]
    assert missing == expected.count(False)
    found = np.unpackbits(bitmap, bitorder="little", count=len(picks))
    assert found.tolist() == [int(flag) for flag in expected]


TEXTS = st.lists(st.binary(max_size=18), min_size=3, max_size=3)


@pytest.mark.parametrize("width", [4, 8])
@given(TEXTS, TEXTS, PICKS)
def test_strings_to_the_last_byte_of_the_buffer(
    width: int, one: list[bytes], two: list[bytes], picks: list[tuple[int, int]]
) -> None:
    texts = [one, two]
    entries = []
    for rows in texts:
        ends = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        entries.append(ends.tobytes() + b"".join(rows))
    images = two_images(entries)
    cut = -(-len(entries[1]) // 8) * 8 - len(entries[1])
    images = images[: 256 - cut].copy()  # ends with the last string
    halves = np.concatenate([images, np.zeros(cut, np.uint8)])
    bases, slots = picked(picks)
    sources, offsets = np.empty(len(picks), np.int64), np.empty(len(picks) + 1, f"i{width}")
    total = find_strings(
        halves.view(np.int32), halves.view(np.uint32), bases, slots, np.int64(1), sources, offsets
    )
    expected = [texts[image][slot] for image, slot in picks]
    assert offsets.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    taken = np.full(total + 16, 0xEE, np.uint8)
    copy_strings(
        images, np.int64(images.ctypes.data), sources, offsets, np.int64(taken.ctypes.data)
    )
    assert taken[:total].tobytes() == b"".join(expected)
    assert (taken[total + 8 :] == 0xEE).all()


# --- Checksums -----------------------------------------------------------------------------------


def checksum(words: list[int]) -> int:
    """The checksum of an image, its first word left out, in plain numbers."""
    first, second = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F

    def turned(state: int, word: int) -> int:
        state = (state ^ word) * first & MASK
        return (state << 29 | state >> 35) & MASK

    states = [first, second, first ^ MASK, second ^ MASK]
    for i, word in enumerate(words[1:], 1):
        states[i % 4] = turned(states[i % 4], word)
    total = len(words)
    for state in states:
        total = turned(total, state)
        total = (total ^ total >> 32) * second & MASK
    return total ^ total >> 32


@given(st.integers(1, 3), st.integers(0, 2), st.randoms(use_true_random=False))
def test_checksums_are_those_of_the_model(span: int, before: int, random: Any) -> None:
    words = np.array([random.getrandbits(64) for _ in range(8 * (span + before))], np.uint64)
    copy, base = words.copy(), 64 * before
    seal(words, numbers(base), numbers(64 * span))
    copy[8 * before] = checksum(copy[8 * before :].tolist())
    assert words.tolist() == copy.tolist()


def test_what_is_wrong_with_an_image() -> None:
    words = np.zeros(32, np.uint64)
    halves = words.view(np.uint32)
    bases, blocks = numbers(0, 64, 192), numbers(5, 6, 8)
    for base, block, span in zip(bases.tolist(), blocks.tolist(), [1, 2, 1], strict=True):
        halves[base // 4 + SPAN] = span
        words[base // 8 + BLOCK] = block
    seal(words, bases, numbers(64, 128, 64))

    def wrong() -> int:
        return find_wrong(words, halves, bases, blocks, np.int64(64))

    assert wrong() == -1
    for at, value, image in [(0, 1, 0), (31, 1, 2), (20, 7, 1), (8, 0, 1)]:
        before = words[at]
        words[at] = before ^ np.uint64(value) if value else np.uint64(0)
        assert wrong() == image
        words[at] = before
    for span, image in [(0, 1), (1, 1), (4, 1), (2**32 - 1, 1)]:
        halves[64 // 4 + SPAN] = span
        assert wrong() == image
    halves[64 // 4 + SPAN] = 2
    blocks[2] = 9
    assert wrong() == 2
    blocks[2], bases[2] = 8, 240
    assert wrong() == 2
    bases[2] = 4096
    assert wrong() == 2

"""Rows to partitions: mark where each row goes, then list rows by partition.

A row's targets are bits: word ``t // 64`` of the row has bit ``t % 64`` set when the row goes to
partition ``t``. Marking a target twice changes nothing, so every place is listed once. Rows that go
to one partition each need no bits: they are counted and listed by that partition.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Mask, Words
from thetastream._jit.compiling import kernel


@kernel("void(i8[::1], b1[::1], u8[:, ::1])")
def mark(targets: Array, wanted: Mask, words: Words) -> None:
    """Send each wanted row to its target."""
    for i in range(targets.size):
        if wanted[i]:
            words[targets[i] >> 6, i] |= np.uint64(1) << np.uint64(targets[i] & 63)


@kernel("void(i8[::1], i8[::1], b1[::1], i8, u8[:, ::1])")
def mark_cells(first: Array, last: Array, wanted: Mask, count: int, words: Words) -> None:
    """Send each wanted row to the partitions ``c mod count`` of the cells ``first .. last``."""
    for i in range(first.size):
        if not wanted[i]:
            continue
        # As unsigned numbers the difference is right even where it leaves int64.
        reach = np.uint64(last[i]) - np.uint64(first[i])
        span = count if reach >= np.uint64(count) else np.int64(reach) + 1
        target = first[i] % count
        for _ in range(span):
            words[target >> 6, i] |= np.uint64(1) << np.uint64(target & 63)
            target = target + 1 if target + 1 < count else 0


@kernel("void(u8[:, ::1], i8[::1])")
def count_targets(words: Words, counts: Array) -> None:
    """How many rows go to each partition."""
    for word in range(words.shape[0]):
        for i in range(words.shape[1]):
            bits = words[word, i]
            target = word << 6
            while bits:
                if bits & np.uint64(1):
                    counts[target] += 1
                bits >>= np.uint64(1)
                target += 1


@kernel("void(u8[:, ::1], i8[::1], i8[::1], i8[::1], b1[::1])")
def list_targets(words: Words, home: Array, places: Array, rows: Array, copies: Mask) -> None:
    """Rows by partition; ``places`` holds the next free place of each and is moved on.

    A row is a copy except at its home; with a home of -1, except at its first target.
    """
    for i in range(words.shape[1]):
        at_home = home[i]
        for word in range(words.shape[0]):
            bits = words[word, i]
            target = word << 6
            while bits:
                if bits & np.uint64(1):
                    if at_home < 0:
                        at_home = target
                    rows[places[target]] = i
                    copies[places[target]] = target != at_home
                    places[target] += 1
                bits >>= np.uint64(1)
                target += 1


@kernel("void(i8[::1], i8[::1], i8[::1])")
def list_homes(homes: Array, places: Array, rows: Array) -> None:
    """Rows by home; ``places`` holds the next free place of each partition and is moved on."""
    for i in range(homes.size):
        rows[places[homes[i]]] = i
        places[homes[i]] += 1

"""The memory of a radix trie: blocks of an arena of 64-bit words, by size, with coalescing.

All nodes, leaves and lists of a trie are blocks of one array. A block starts at an even word and
consists of *units* of two words: any number up to 32, then one of eight sizes per doubling, so at
most an eighth of a block is wasted.

    unit     0      1 2 3      4 5      6 7 8 9 …  TOP        END
             root   a node     free     a leaf     not yet used
             slot              │  └─ last word: size
                               └─ word 0: next and previous of its bin, word 1: size

Free blocks of similar size are linked in a *bin*; a bitmap says which bins are not empty, so taking
and releasing a block is O(1) (two-level segregated fit). A released block is joined with the free
blocks on both sides: ``marks`` has a bit for the first and the last unit of every free block. So
leaves that all grow at the same time leave no waste: their old blocks join and serve the next size.

Invariants: no two free blocks touch, none touches TOP; the bins hold exactly the free blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Words, i64, u64
from thetastream._jit.compiling import N, U, V, inlined, kernel, named, vector
from thetastream._jit.intrinsics import lowest_bit

BINS = 256
# Entries of ``facts``. The arena is counted in units.
TOP, END, FREE = 0, 1, 2  # first unit never used; units in total; units in bins
KEYS, ROWS = 3, 4  # distinct keys and rows held
NEED = 5  # units that were missing when a loop stopped
RUN_MOST = 6  # entries above which a packed leaf becomes a branch
LINEAR_MOST, FULL_FROM = 7, 8  # most children of a linear branch, fewest of an uncompressed one
BRANCH_BACK = 9  # entries below which a branch becomes a leaf again
FACTS = 10


class Trie(NamedTuple):
    """A trie: the arena seen in four widths, marks and bins of free blocks, and facts."""

    words: Array  # the arena
    bits: Words  # the same memory, unsigned
    quads: NDArray[np.uint32]
    pairs: NDArray[np.uint16]
    octets: NDArray[np.uint8]
    marks: Words  # a bit per unit
    bins: Array  # the first free unit of each bin, 0 for none
    kinds: Words  # a bit per bin
    facts: Array


TRIE: Any = named(Trie, V, U, *(vector(1, bits, "uint") for bits in (32, 16, 8)), U, V, U, V)

_ONE = u64(1)
_LOW = 0xFFFFFFFF


@inlined
def units_of(words: int) -> int:
    """The size of a block that holds ``words``."""
    units = (words + 1) >> 1
    if units > 32:
        step = 4
        while units > step << 4:
            step <<= 1
        units = (units + step - 1) & -step
    return units


@inlined
def bin_of(units: int) -> int:
    """The bin of free blocks of this size; all blocks of a higher bin are larger."""
    if units <= 32:
        return units - 1
    power = 5
    while units >> (power + 1):
        power += 1
    return 32 + (power - 5) * 8 + ((units >> (power - 3)) & 7)


@inlined
def _flip(t: Trie, unit: int) -> None:
    """Change the mark of a unit."""
    t.marks[unit >> 6] ^= _ONE << u64(unit & 63)


@inlined
def _marked(t: Trie, unit: int) -> bool:
    return ((t.marks[unit >> 6] >> u64(unit & 63)) & _ONE) != u64(0)


@inlined
def _link(t: Trie, unit: int, units: int) -> None:
    """Put a free block into its bin."""
    which = bin_of(units)
    following = t.bins[which]
    t.words[2 * unit] = following << 32
    t.words[2 * unit + 1] = units
    t.words[2 * (unit + units) - 1] = units
    if following:
        t.words[2 * following] = (t.words[2 * following] & ~_LOW) | unit
    t.bins[which] = unit
    t.kinds[which >> 6] |= _ONE << u64(which & 63)
    _flip(t, unit)
    if units > 1:
        _flip(t, unit + units - 1)
    t.facts[FREE] += units


@inlined
def _unlink(t: Trie, unit: int, units: int) -> None:
    """Take a free block out of its bin."""
    which = bin_of(units)
    links = t.words[2 * unit]
    following, behind = (links >> 32) & _LOW, links & _LOW
    if following:
        t.words[2 * following] = (t.words[2 * following] & ~_LOW) | behind
    if behind:
        t.words[2 * behind] = (t.words[2 * behind] & _LOW) | (following << 32)
    else:
        t.bins[which] = following
        if not following:
            t.kinds[which >> 6] &= ~(_ONE << u64(which & 63))
    _flip(t, unit)
    if units > 1:
        _flip(t, unit + units - 1)
    t.facts[FREE] -= units


@inlined
def _filled_bin(t: Trie, which: int) -> int:
    """The first bin from this one on that holds a block, or -1."""
    at = which >> 6
    word = t.kinds[at] >> u64(which & 63) << u64(which & 63)
    while not word:
        at += 1
        if at == BINS >> 6:
            return -1
        word = t.kinds[at]
    return at * 64 + i64(lowest_bit(word))


@inlined
def roomy(t: Trie, units: int) -> bool:
    """Whether ``units`` are left at the top; if not, sets NEED."""
    if t.facts[TOP] + units <= t.facts[END]:
        return True
    t.facts[NEED] = units
    return False


@kernel((TRIE, N))
def take(t: Trie, units: int) -> int:
    """Take a block, of a size from ``units_of``: its first word, or -1 if there is none."""
    which = _filled_bin(t, bin_of(units))
    if which < 0:
        unit = t.facts[TOP]
        if unit + units > t.facts[END]:
            t.facts[NEED] = units
            return -1
        t.facts[TOP] += units
        return 2 * unit
    unit = t.bins[which]
    size = t.words[2 * unit + 1]
    _unlink(t, unit, size)
    if size > units:
        _link(t, unit + units, size - units)
    return 2 * unit


@kernel((TRIE, N, N))
def release(t: Trie, at: int, units: int) -> None:
    """Free a block and join it with free neighbours."""
    unit = at >> 1
    if _marked(t, unit - 1):
        size = t.words[2 * unit - 1]
        unit -= size
        units += size
        _unlink(t, unit, size)
    after = unit + units
    if after == t.facts[TOP]:
        t.facts[TOP] = unit
        return
    if _marked(t, after):
        size = t.words[2 * after + 1]
        _unlink(t, after, size)
        units += size
        if unit + units == t.facts[TOP]:
            t.facts[TOP] = unit
            return
    _link(t, unit, units)

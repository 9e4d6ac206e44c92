"""Checks the invariants of a radix trie on its arrays, without its compiled code. For tests.

Every word of the arena belongs to exactly one of: the root slot, the block of a node, leaf or list,
a free block, the unused end. Every node has a form that the thresholds allow, its children are
where it says, and every key below a branch starts with its prefix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.index.ordered.kernels.trie import arena, nodes
from thetastream.index.ordered.kernels.trie.arena import Trie
from thetastream.index.ordered.kernels.trie.build import BITS_BACK, FULL_BACK, LINEAR_BACK


def check_trie(trie: Trie) -> None:
    """Assert every invariant. O(arena), slow."""
    _Check(trie).run()


def _units(words: int) -> int:
    """The size of a block of ``words``: exact up to 32 units, then eight sizes per doubling."""
    units = (words + 1) // 2
    step = 1 if units <= 32 else 1 << ((units - 1).bit_length() - 4)
    return -(-units // step) * step


class _Check:
    """One walk over all slots, and one over the bins."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        self.facts = trie.facts
        self.taken = np.zeros(int(trie.facts[arena.END]), np.int8)
        self.keys = self.rows = 0
        self.last = -1

    def run(self) -> None:
        facts = self.facts
        assert self.trie.words.size == 2 * facts[arena.END]
        self._take(0, 1)
        self._slot(0, 8, 0)
        self._bins()
        assert self.keys == facts[arena.KEYS] and self.rows == facts[arena.ROWS]
        top = int(facts[arena.TOP])
        assert np.all(self.taken[:top] == 1), "every unit below the top is used, or free, once"
        assert not self.taken[top:].any(), "nothing is above the top"

    def _take(self, unit: int, units: int) -> None:
        assert unit + units <= self.facts[arena.TOP]
        self.taken[unit : unit + units] += 1

    # --- Nodes ----------------------------------------------------------------------------------

    def _slot(self, slot: int, level: int, prefix: int) -> None:
        """A slot whose keys agree with ``prefix`` in all but the last ``level`` bytes."""
        head, body = int(self.trie.bits[slot]), int(self.trie.words[slot + 1])
        form = head & 7
        if form == nodes.EMPTY:
            assert slot == 0 and head == 0 and body == 0, "only an empty trie has an empty slot"
        elif form >= nodes.LINEAR:
            self._branch(head, body, level, prefix)
        else:
            assert (head >> 4) & 15 == level, "a leaf has the level of its place"
            if form == nodes.ONE:
                assert level < 8
                self._entries(level, prefix, [head >> 8], np.array([body]), True)
            else:
                self._leaf(form, head, body, level, prefix)

    def _leaf(self, form: int, head: int, body: int, level: int, prefix: int) -> None:
        count, room = (head >> 8) & 0xFFFF, (head >> 24) & 0xFFFF
        assert count <= room
        if form == nodes.BITS:
            assert level == 1 and count >= BITS_BACK
            self._take(body // 2, _units(4 + room))
            suffixes = _set_bits(self.trie.bits[body : body + 4])
            first = body + 4
        else:
            assert count <= max(256, self.facts[arena.RUN_MOST])
            assert count > 1 or level == 8, "a single key is kept in its slot"
            width = min(w for w in (1, 2, 4, 8) if w >= level)
            used = -(-room * width // 8)
            self._take(body // 2, _units(used + room))
            raw = self.trie.words[body : body + used].view(f"u{width}")[:count]
            mask = (1 << (8 * level)) - 1
            suffixes, first = [int(suffix) & mask for suffix in raw], body + used
        assert len(suffixes) == count
        values = self.trie.words[first : first + count]
        self._entries(level, prefix, suffixes, values, bool(head & 8))

    def _entries(
        self, level: int, prefix: int, suffixes: list[int], values: NDArray[np.int64], lists: bool
    ) -> None:
        for suffix, value in zip(suffixes, values.tolist(), strict=True):
            key = prefix | suffix
            assert suffix < 1 << (8 * level) and key > self.last, "keys ascend"
            self.last = key
            self.keys += 1
            self.rows += 1
            if value < 0:
                assert lists, "a leaf says whether it has lists"
                self._list(value)

    def _list(self, value: int) -> None:
        unit, count, log = value & 0xFFFFFFFF, (value >> 32) & nodes.MOST_ROWS, (value >> 58) & 31
        assert 2 <= count <= 1 << log and (log <= 2 or 4 * count > 1 << log)
        self._take(unit, 1 << (log - 1))
        rows = self.trie.words[2 * unit : 2 * unit + count]
        assert rows[0] >= 0 and np.all(rows[:-1] < rows[1:]), "ids of a key ascend"
        self.rows += count - 1

    def _branch(self, head: int, node: int, level: int, prefix: int) -> None:
        form, own, count, room = head & 7, (head >> 4) & 15, (head >> 8) & 0xFFFF, head >> 24
        assert 2 <= own <= level and 2 <= count <= room
        wanted = int(self.trie.bits[node])
        assert wanted % (1 << (8 * own)) == 0 and wanted >> (8 * level) == prefix >> (8 * level)
        self._take(node // 2, _units(2 * room + (6 if form == nodes.BITMAP else 2)))
        linear, full = int(self.facts[arena.LINEAR_MOST]), int(self.facts[arena.FULL_FROM])
        if form == nodes.LINEAR:
            assert count <= linear
        elif form == nodes.BITMAP:
            assert linear - LINEAR_BACK < count < full
        else:
            assert full - FULL_BACK <= count and room == 256
        children = self._children(form, node, count)
        assert len(children) == count and children == sorted(children)
        for byte, slot in children:
            self._slot(slot, own - 1, wanted | byte << (8 * (own - 1)))

    def _children(self, form: int, node: int, count: int) -> list[tuple[int, int]]:
        """Bytes and slots of a branch."""
        bits = self.trie.bits
        if form == nodes.FULL:
            every = ((byte, node + 2 + 2 * byte) for byte in range(256))
            return [(byte, slot) for byte, slot in every if bits[slot]]
        if form == nodes.LINEAR:
            few = int(bits[node + 1]).to_bytes(8, "little")[:count]
            return [(byte, node + 2 + 2 * i) for i, byte in enumerate(few)]
        ranks = int(bits[node + 1]).to_bytes(8, "little")
        for word in range(5):
            before = len(_set_bits(bits[node + 2 : node + 2 + word]))
            assert ranks[word] == before if word < 4 else before == count
        listed = _set_bits(bits[node + 2 : node + 6])
        return [(byte, node + 6 + 2 * i) for i, byte in enumerate(listed)]

    # --- Free blocks ----------------------------------------------------------------------------

    def _bins(self) -> None:
        trie, ends, free = self.trie, set(), 0
        for which, first in enumerate(trie.bins.tolist()):
            assert bool(first) == bool((int(trie.kinds[which >> 6]) >> (which & 63)) & 1)
            unit, behind = first, 0
            while unit:
                links, units = int(trie.words[2 * unit]), int(trie.words[2 * unit + 1])
                assert links & 0xFFFFFFFF == behind
                assert trie.words[2 * (unit + units) - 1] == units
                assert int(arena.bin_of(units)) == which
                self._take(unit, units)
                ends |= {unit, unit + units - 1}
                free += units
                unit, behind = (links >> 32) & 0xFFFFFFFF, unit
        marked = np.flatnonzero(np.unpackbits(trie.marks.view(np.uint8), bitorder="little"))
        assert set(marked.tolist()) == ends and free == self.facts[arena.FREE]
        assert self.facts[arena.TOP] - 1 not in ends, "a free block does not touch the top"


def _set_bits(words: NDArray[np.uint64]) -> list[int]:
    """The positions of the bits that are set."""
    octets = np.ascontiguousarray(words).view(np.uint8)
    positions: list[int] = np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
    return positions

"""A bit per id: which rows of an index are live.

    ids     128 … 191   192 … 255   256 … 319
    words   0x00…0f10   0xff…ffff   0x00…03ff   0     one more word, never read (see term_sets.py)
    base    128

Structures that drop expired rows lazily still return their ids. While no such id is below ``base``
(``clean``), loops set bits without a range check. So the base follows the oldest id held, as long
as that costs at most as many words as the live rows take.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.errors import DataError
from thetastream.index.permuted.kernels.term_sets import add_ids

_WIDEST = 2**32  # ids between the first and the last row


class Present:
    """The bits of live rows. ``oldest`` returns the least id held, even if expired, in O(n)."""

    def __init__(self, oldest: Callable[[], int]) -> None:
        self.base = 0
        self.clean = True
        self.rows = 0
        self._oldest = oldest
        self._room: NDArray[np.uint64] = np.zeros((1, 1), np.uint64)
        self._used = 0  # words
        self._later = 0  # expiry below this id does not move the base

    @property
    def words(self) -> NDArray[np.uint64]:
        """The bits as one row of words, and the word after them."""
        return self._room[:, : self._used + 1]

    def fits(self, ids: Array) -> None:
        """Raise if these ids are too far from those that live."""
        span = int(ids.max()) + 1 - (self.base if self.rows else int(ids.min()))
        if span > _WIDEST:
            raise DataError(
                f"per-term keeps a bit per id, for {_WIDEST} ids between the oldest row and the "
                f"newest; got {span}. Expire old rows first, or use another index"
            )

    def add(self, ids: Array) -> None:
        """Set the bits of inserted rows. O(rows), amortised."""
        if not self.rows:
            self.base = int(ids.min()) & -64
            self.clean = self._oldest() >= self.base
            self._room, self._used = np.zeros((1, 1), np.uint64), 0
        need = (int(ids.max()) - self.base) // 64 + 1
        if need >= self._room.shape[1]:
            room = np.zeros((1, need + need // 2 + 8), np.uint64)
            room[:, : self._used] = self._room[:, : self._used]
            self._room = room
        self._used = max(self._used, need)
        self.rows += ids.size
        add_ids(ids, self.base, self.words)

    def expire(self, before: int) -> None:
        """Clear the bits below an id; drop their words if there are many. O(n / 64), amortised."""
        dead = min(max(0, before - self.base), 64 * self._used)
        whole, rest = divmod(dead, 64)
        self._room[0, :whole] = 0
        if rest:
            self._room[0, whole] &= np.uint64(2**64 - (1 << rest))
        self.rows = int(np.bitwise_count(self.words).sum())
        if 2 * whole > self._used and before >= self._later:
            self._move(before)

    def _move(self, before: int) -> None:
        """Move the base up to the oldest id held, at most as far below ``before`` as rows live."""
        oldest = self._oldest()
        live = self.base + 64 * self._used - before
        base = min(before, max(oldest, before - live)) & -64
        gone = min(max(0, base - self.base) // 64, self._used)
        self._room = self._room[:, gone : self._used + 1].copy()
        self._used -= gone
        self.base += 64 * gone
        self.clean = oldest >= self.base
        self._later = before + 8 * self._used

    def ids(self) -> Array:
        """The ids of live rows, ascending. O(n)."""
        bits = np.unpackbits(self.words.view(np.uint8), bitorder="little")
        return np.flatnonzero(bits) + self.base

    def check(self) -> None:
        """Assert the invariants."""
        words = self.words
        assert words.shape == (1, self._used + 1) and words[0, -1] == 0 and self.base % 64 == 0
        assert self.rows == np.bitwise_count(words).sum()
        assert not np.any(self._room[0, self._used :])
        assert not self.clean or self._oldest() >= self.base

"""The keys of rows, from which boxes, samples and indexes are made."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field

import numpy as np

from thetastream._jit.arrays import Array, Mask
from thetastream.data.order import argsorted
from thetastream.side import Side


@dataclass(slots=True, eq=False)
class Keys:
    """The keys of ``count`` rows on one side of a pair: an array per term, and event times.

    ``valid`` marks the rows that can match at all, ``timed`` those with an event time; None means
    all rows. ``null_keys``, ``nan_keys`` and ``empty_intervals`` count rows. Immutable, but for
    remembered sort orders.
    """

    side: Side
    keys: list[Array]
    times: Array | None
    count: int
    valid: Mask | None = None
    timed: Mask | None = None
    null_keys: int = 0
    nan_keys: int = 0
    empty_intervals: int = 0
    _sorted: dict[int, tuple[Array, Keys]] = dataclass_field(default_factory=dict)

    def able(self) -> tuple[Array, Keys]:
        """The rows that can match: positions and keys."""
        if self.valid is None:
            return np.arange(self.count), self
        at = np.flatnonzero(self.valid)
        return at, self.take(at)

    def by_key(self, term: int) -> tuple[Array, Keys]:
        """``able`` in the order of a term's key; sorted once for probe and insert."""
        if term not in self._sorted:
            at, able = (None, self) if self.valid is None else self.able()
            order, ascending = argsorted(able.keys[term])
            made = {id(able.keys[term]): ascending}  # terms may share an array
            for key in able.keys:
                if id(key) not in made:
                    made[id(key)] = key[order]
            keys = [made[id(key)] for key in able.keys]
            times = None if able.times is None else able.times[order]
            moved = Keys(self.side, keys, times, order.size)
            self._sorted[term] = (order if at is None else at[order], moved)
        return self._sorted[term]

    def take(self, at: Array) -> Keys:
        """Keys and times of some rows that can match."""
        times = None if self.times is None else self.times[at]
        return Keys(self.side, [key[at] for key in self.keys], times, at.size)

    def known_times(self) -> Array:
        """The event times of the rows that have one."""
        assert self.times is not None
        return self.times if self.timed is None else self.times[self.timed]

    def __len__(self) -> int:
        return self.count

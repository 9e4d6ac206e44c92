"""Asking several partial indexes as if they were one: pairs, mappers, scans, point look-ups.

Ordered Indexing, Section 3.3.2: a query over the window becomes one per subwindow, and the results
are merged. Pairs and accumulators need no merging; a scan merges sorted buffers.

Rows of a subwindow that have expired are passed over by its partial index, or, where that would
delete them one by one, left out here, by their ids.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.errors import RegistryError, StateError
from thetastream.index.base import CHUNK, Answer, Index
from thetastream.index.folding import Fold
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.slotted.circular import Slot

Pairs = Iterator[tuple[Array, Array]]


class Slotted(Index):
    """An index whose rows lie in the partial indexes of subwindows."""

    _before = 0

    @abstractmethod
    def _slots(self) -> list[Slot]:
        """The subwindows, in order of time."""

    @abstractmethod
    def touch(self, slots: int) -> None:
        """Count subwindows that are looked into; for ``statistics``."""

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """What the partial indexes take, one after the other, as the answer is read."""
        lows, highs = self._matrix(lows), self._matrix(highs)
        slots = self._slots()
        self.touch(len(slots))
        asked = [(slot.index.probe(lows, highs, limit=limit), self._hidden(slot)) for slot in slots]
        return Answer(partial(_pairs, asked))

    def fold_boxes(self, lows: Array, highs: Array, fold: Fold) -> None:
        """The mappers of the partial indexes, into the same accumulators."""
        slots = self._slots()
        self.touch(len(slots))
        for slot in slots:
            if slot.hides(self._before):
                for positions, ids in slot.index.probe(lows, highs):
                    fold.add(positions, ids, self._before)
            else:
                slot.index.fold_boxes(lows, highs, fold)

    def scan(self, low: Any, high: Any, *, buffer: int = CHUNK) -> Iterator[tuple[Array, Array]]:
        """Rows of a key range in key order: the scans of the partial indexes, merged."""
        slots = self._slots()
        self.touch(len(slots))
        if self.columns > 1:
            return super().scan(low, high, buffer=buffer)
        scans = [
            _left_out(slot.index.scan(low, high, buffer=buffer), self._hidden(slot))
            for slot in slots
        ]
        return scans[0] if len(scans) == 1 else _cut(_merged(scans), buffer)

    def find(self, keys: Array) -> Array:
        """The newest row of each key: its id, or -1. Newest subwindows first, until all are found.

        A late row is newer than what lies in later subwindows, so ids decide where to go on.
        """
        if self.columns > 1:
            raise RegistryError(
                f"find looks up one key; index {self.name!r} was created for {self.columns} "
                "key columns: use probe"
            )
        keys = np.ascontiguousarray(keys, np.int64)
        found = np.full(keys.size, -1, np.int64)
        for slot in sorted(self._slots(), key=lambda slot: -slot.last):
            open_ = np.flatnonzero(found < slot.last)
            if not open_.size:
                break
            self.touch(1)
            here = _newest(slot.index, keys[open_])
            found[open_] = np.maximum(found[open_], np.where(here < self._before, -1, here))
        return found

    # --- Facts ----------------------------------------------------------------------------------

    def _hidden(self, slot: Slot) -> int | None:
        """The id below which rows of a subwindow are to be left out here."""
        return self._before if slot.hides(self._before) else None

    def __len__(self) -> int:
        """O(rows) of the subwindows in which some have expired."""
        return sum(
            slot.rows if slot.first >= self._before else self._live(slot)[1].size
            for slot in self._slots()
        )

    def _live(self, slot: Slot) -> tuple[Array, Array]:
        keys, ids = slot.index.dump()
        first = int(np.searchsorted(ids, self._before))
        return keys[:, first:], ids[first:]

    @property
    def nbytes(self) -> int:
        return sum(slot.index.nbytes for slot in self._slots())

    def dump(self) -> tuple[Array, Array]:
        found = [self._live(slot) for slot in self._slots()]
        keys = np.concatenate([np.empty((self.columns, 0), np.int64), *(k for k, _ in found)], 1)
        ids = np.concatenate([np.empty(0, np.int64), *(i for _, i in found)])
        order = np.argsort(ids)
        return np.ascontiguousarray(keys[:, order]), ids[order]


class Between(Slotted):
    """The subwindows of an index that hold rows of some time, to be asked but not changed."""

    name: ClassVar[str] = "between"

    def __init__(self, whole: Slotted, slots: Sequence[Slot]) -> None:
        super().__init__(whole.capacity, whole.columns)
        self._whole = whole
        self._asked = list(slots)
        self._before = whole._before

    def _slots(self) -> list[Slot]:
        return self._asked

    def touch(self, slots: int) -> None:
        self._whole.touch(slots)

    def insert(self, keys: Array, ids: Array) -> None:
        raise StateError("subwindows between two times can be asked only; insert into the index")

    def expire(self, before: int) -> None:
        raise StateError("subwindows between two times can be asked only; expire in the index")

    def check(self) -> None:
        for slot in self._asked:
            slot.index.check()


def _pairs(asked: list[tuple[Answer, int | None]]) -> Pairs:
    """The chunks of several answers; ids below a bound are left out."""
    for answer, before in asked:
        if before is None:
            yield from answer.again()
        else:
            for positions, ids in answer.again():
                live = ids >= before
                if live.all():
                    yield positions, ids
                elif live.any():
                    yield positions[live], ids[live]


def _newest(index: Index, keys: Array) -> Array:
    """The largest id of each key, -1 without one."""
    if isinstance(index, OrderedIndex | Slotted):
        return index.find(keys)
    found = np.full(keys.size, -1, np.int64)
    for positions, ids in index.probe(keys, keys):
        np.maximum.at(found, positions, ids)
    return found


# --- Merging scans ------------------------------------------------------------------------------


def _left_out(scan: Pairs, before: int | None) -> Pairs:
    """A scan without rows below an id."""
    for keys, ids in scan:
        if before is not None and ids.size:
            live = ids >= before
            keys, ids = keys[live], ids[live]
        if ids.size:
            yield keys, ids


def _merged(scans: list[Pairs]) -> Pairs:
    """Several scans as one, in order of (key, id).

    What is given at a time are the keys below the least key that some scan may still go on with.
    """
    held: dict[int, tuple[Array, Array]] = {}
    going = dict(enumerate(scans))
    while going or held:
        for number in [n for n in going if n not in held]:
            if (chunk := next(going[number], None)) is None:
                del going[number]
            else:
                held[number] = chunk
        edge = min((int(held[n][0][-1]) for n in going), default=None)
        ready = []
        for number, (keys, ids) in list(held.items()):
            stop = keys.size if edge is None else int(np.searchsorted(keys, edge))
            if stop:
                ready.append((keys[:stop], ids[:stop]))
            if stop == keys.size:
                del held[number]
            else:
                held[number] = keys[stop:], ids[stop:]
        if ready:
            keys, ids = (np.concatenate(part) for part in zip(*ready, strict=True))
            order = np.lexsort([ids, keys])
            yield keys[order], ids[order]
        elif edge is not None:  # all rows of the edge's key must be there before they are given
            for number in [n for n in going if n in held and held[n][0][-1] == edge]:
                _extend(held, going, number)


def _extend(held: dict[int, tuple[Array, Array]], going: dict[int, Pairs], number: int) -> None:
    """Add the next chunk of a scan to what is held of it."""
    if (chunk := next(going[number], None)) is None:
        del going[number]
    else:
        held[number] = (
            np.concatenate([held[number][0], chunk[0]]),
            np.concatenate([held[number][1], chunk[1]]),
        )


def _cut(chunks: Pairs, size: int) -> Pairs:
    """Chunks of at most so many rows."""
    for keys, ids in chunks:
        for start in range(0, ids.size, size):
            yield keys[start : start + size], ids[start : start + size]

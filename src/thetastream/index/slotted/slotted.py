"""Probing several partial indexes as one: pairs, mappers, scans, point look-ups.

Ordered Indexing, Section 3.3.2: a query over the window becomes one per subwindow, and the results
are merged. Pairs and accumulators need no merging; a scan merges sorted buffers.

Expired rows are skipped by the partial index or, where that would delete them one by one, filtered
here by their ids.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.errors import StateError
from thetastream.index.base import CHUNK, Answer, Index, Pair, live_rows
from thetastream.index.folding import Fold
from thetastream.index.ordered.ordered_index import OrderedIndex
from thetastream.index.slotted.circular import Slot

Pairs = Iterator[Pair]


class Slotted(Index):
    """An index whose rows lie in the partial indexes of subwindows."""

    _before = 0

    @abstractmethod
    def _slots(self) -> list[Slot]:
        """The subwindows, in order of time."""

    @abstractmethod
    def touch(self, slots: int) -> None:
        """Count visited subwindows, for ``statistics``."""

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """The cost of the partial indexes, one after the other, as the answer is read."""
        lows, highs = self._matrix(lows), self._matrix(highs)
        slots = self._slots()
        self.touch(len(slots))
        parts = [(slot.index.probe(lows, highs, limit=limit), self._hidden(slot)) for slot in slots]
        return Answer(partial(_pairs, parts))

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

    def scan(self, low: Any, high: Any, *, buffer: int = CHUNK) -> Iterator[Pair]:
        """Rows of a key range in key order: the scans of the partial indexes, merged."""
        slots = self._slots()
        self.touch(len(slots))
        if self.columns > 1:
            return super().scan(low, high, buffer=buffer)
        scans = [
            _unexpired(slot.index.scan(low, high, buffer=buffer), self._hidden(slot))
            for slot in slots
        ]
        return scans[0] if len(scans) == 1 else _cut(_merged(scans), buffer)

    def find(self, keys: Array) -> Array:
        """The id of the newest row of each key, or -1. Reads the newest subwindows first.

        A late row may be newer than rows of later subwindows, so ids decide when to stop.
        """
        self._check_single_key()
        keys = np.ascontiguousarray(keys, np.int64)
        newest = np.full(keys.size, -1, np.int64)
        for slot in sorted(self._slots(), key=lambda slot: -slot.last):
            open_ = np.flatnonzero(newest < slot.last)
            if not open_.size:
                break
            self.touch(1)
            here = _newest(slot.index, keys[open_])
            newest[open_] = np.maximum(newest[open_], np.where(here < self._before, -1, here))
        return newest

    # --- Facts ----------------------------------------------------------------------------------

    def _hidden(self, slot: Slot) -> int | None:
        """The id below which rows of a subwindow must be filtered here, if any."""
        return self._before if slot.hides(self._before) else None

    def __len__(self) -> int:
        """O(rows) of the partly expired subwindows."""
        return sum(
            slot.rows if slot.first >= self._before else self._live(slot) for slot in self._slots()
        )

    def _live(self, slot: Slot) -> int:
        return int(np.count_nonzero(slot.index.dump()[1] >= self._before))

    @property
    def nbytes(self) -> int:
        return sum(slot.index.nbytes for slot in self._slots())

    def dump(self) -> Pair:
        parts = [slot.index.dump() for slot in self._slots()]
        return live_rows(parts, self.columns, self._before)


class Between(Slotted):
    """The subwindows of an index that hold rows of a period; read-only."""

    name: ClassVar[str] = "between"

    def __init__(self, whole: Slotted, slots: Sequence[Slot]) -> None:
        super().__init__(whole.capacity, whole.columns)
        self._whole = whole
        self._chosen = list(slots)
        self._before = whole._before

    def _slots(self) -> list[Slot]:
        return self._chosen

    def touch(self, slots: int) -> None:
        self._whole.touch(slots)

    def insert(self, keys: Array, ids: Array) -> None:
        raise StateError("subwindows between two times can be asked only; insert into the index")

    def expire(self, before: int) -> None:
        raise StateError("subwindows between two times can be asked only; expire in the index")

    def check(self) -> None:
        for slot in self._chosen:
            slot.index.check()


def _pairs(parts: list[tuple[Answer, int | None]]) -> Pairs:
    """The chunks of several answers, without ids below a bound."""
    for answer, before in parts:
        yield from _unexpired(answer.again(), before)


def _unexpired(chunks: Pairs, before: int | None) -> Pairs:
    """Chunks without ids below a bound, and without empty ones."""
    for values, ids in chunks:
        if before is not None:
            live = ids >= before
            if not live.all():
                values, ids = values[live], ids[live]
        if ids.size:
            yield values, ids


def _newest(index: Index, keys: Array) -> Array:
    """The largest id of each key, or -1."""
    if isinstance(index, OrderedIndex | Slotted):
        return index.find(keys)
    newest = np.full(keys.size, -1, np.int64)
    for positions, ids in index.probe(keys, keys):
        np.maximum.at(newest, positions, ids)
    return newest


# --- Merging scans ------------------------------------------------------------------------------


def _merged(scans: list[Pairs]) -> Pairs:
    """Several scans as one, in order of (key, id).

    Each chunk holds the keys below the least key at which some scan may continue.
    """
    held: dict[int, Pair] = {}
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
        elif edge is not None:  # rows of the edge's key are yielded once all of them are read
            for number in [n for n in going if n in held and held[n][0][-1] == edge]:
                _extend(held, going, number)


def _extend(held: dict[int, Pair], going: dict[int, Pairs], number: int) -> None:
    """Append the next chunk of a scan to the rows held of it."""
    if (chunk := next(going[number], None)) is None:
        del going[number]
    else:
        keys, ids = map(np.concatenate, zip(held[number], chunk, strict=True))
        held[number] = keys, ids


def _cut(chunks: Pairs, size: int) -> Pairs:
    """Chunks of at most ``size`` rows."""
    for keys, ids in chunks:
        for start in range(0, ids.size, size):
            yield keys[start : start + size], ids[start : start + size]

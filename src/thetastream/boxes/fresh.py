"""Rows arriving now on one stream: payload, keys, and their places among other rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array, Mask
from thetastream.boxes.keys import Keys
from thetastream.data.batch import one_batch
from thetastream.side import Side


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places of rows among others; None where that does not matter.

    ``ranks`` decide the order of arrival. ``positions`` are places among all rows of the stream, if
    this is one of several partitions, or the arrival within a push. ``numbers`` are arrival numbers
    if they differ from ids. ``counts`` are ``c(x)``: how many rows of the other side arrived
    before. ``copies`` marks rows that belong to another partition.
    """

    ranks: Array | None = None
    positions: Array | None = None
    numbers: Array | None = None
    counts: Array | None = None
    copies: Mask | None = None

    def map(self, change: Callable[[Any], Any]) -> Places:
        """Apply the same change to every array."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return Places(**{n: None if a is None else change(a) for n, a in arrays.items()})


NOWHERE = Places()


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """Rows of one stream; ``roles`` holds their keys for each side they can take in a pair."""

    side: Side
    batch: pa.RecordBatch
    roles: Mapping[Side, Keys]
    places: Places = NOWHERE

    @property
    def keys(self) -> Keys:
        """The keys for their own side."""
        return self.roles[self.side]

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    def placed(self, **known: Any) -> Fresh:
        """The same rows with more places known."""
        return replace(self, places=replace(self.places, **known))

    def filter(self, keep: Mask) -> Fresh:
        """Only the marked rows."""
        return self._cut(self.batch.filter(pa.array(keep)), lambda values: values[keep])

    def take(self, at: Array) -> Fresh:
        """The rows at these places, in that order."""
        return self._cut(self.batch.take(pa.array(at)), lambda values: values[at])

    def slice(self, start: int, stop: int) -> Fresh:
        """Rows ``[start, stop)``."""
        part = self.batch.slice(start, stop - start)
        return self._cut(part, lambda values: values[start:stop])

    def _cut(self, batch: pa.RecordBatch, change: Callable[[Any], Any]) -> Fresh:
        def cut(keys: Keys) -> Keys:
            masks = (keys.times, keys.valid, keys.timed)
            times, valid, timed = (None if m is None else change(m) for m in masks)
            return Keys(keys.side, [*map(change, keys.keys)], times, batch.num_rows, valid, timed)

        roles = {role: cut(keys) for role, keys in self.roles.items()}
        return Fresh(self.side, batch, roles, self.places.map(change))


def concatenated(pieces: Sequence[Fresh]) -> Fresh:
    """Concatenate pieces, at least one."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    table = pa.Table.from_batches([piece.batch for piece in pieces])
    batch = one_batch(table.unify_dictionaries())
    roles = {role: _joined_keys([piece.roles[role] for piece in pieces]) for role in first.roles}
    parts = {f.name: [getattr(p.places, f.name) for p in pieces] for f in fields(Places)}
    copies = _joined_masks(parts.pop("copies"), [p.count for p in pieces], missing=False)
    places = Places(copies=copies, **{name: _all(arrays) for name, arrays in parts.items()})
    return Fresh(first.side, batch, roles, places)


def _joined_keys(pieces: Sequence[Keys]) -> Keys:
    counts = [len(piece) for piece in pieces]
    return Keys(
        pieces[0].side,
        [np.concatenate(keys) for keys in zip(*(piece.keys for piece in pieces), strict=True)],
        _all([piece.times for piece in pieces]),
        sum(counts),
        _joined_masks([piece.valid for piece in pieces], counts, missing=True),
        _joined_masks([piece.timed for piece in pieces], counts, missing=True),
    )


def _all(parts: Sequence[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _joined_masks(
    masks: Sequence[Mask | None], counts: Sequence[int], *, missing: bool
) -> Mask | None:
    if all(mask is None for mask in masks):
        return None
    parts = [
        np.full(count, missing) if mask is None else mask
        for mask, count in zip(masks, counts, strict=True)
    ]
    return np.concatenate(parts)

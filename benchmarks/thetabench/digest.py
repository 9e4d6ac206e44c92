"""Fingerprints of answers that do not depend on the order of their rows, and their comparison.

A digest is the number of pairs and a checksum modulo 2^64 that a missing, extra, doubled or swapped
pair changes. There are two kinds of pairs:

- ids of two rows: the checksum is the sum of a well-mixed number per pair (:func:`mix`);
- a box and a row: the sum of ``weight(box) × hash(id)`` (:func:`pair_digest`). As the weight of a
  box is a factor, sums of hashes over many rows can be kept and used for any box that holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.arrays import Array, Sums
from thetastream.errors import ThetastreamError

_LEFT = np.uint64(0x9E3779B97F4A7C15)
_RIGHT = np.uint64(0xC2B2AE3D27D4EB4F)
_FINISH = np.uint64(0xD6E8FEB86659FD93)
_ODD = np.uint64(1)
_SHIFT = np.uint64(32)
_CHUNK = 1 << 20


class VerificationError(ThetastreamError):
    """A contestant gave a wrong answer, so its time means nothing."""


class Digest(NamedTuple):
    """Number of pairs and their checksum."""

    matches: int
    checksum: int

    def __add__(self, other: object) -> Digest:
        """Add another answer's digest: the digest of both answers together."""
        assert isinstance(other, Digest)
        total = (self.checksum + other.checksum) % (1 << 64)
        return Digest(self.matches + other.matches, total)


def verify(
    who: str, digests: Sequence[Sequence[int]], truth: Sequence[Digest], what: str = "push"
) -> Digest:
    """Compare digests with the right ones; returns their total, or raises."""
    total = Digest(0, 0)
    for number, (found, expected) in enumerate(zip(digests, truth, strict=False)):
        check_pairs(who, number, Digest(*found), expected, what)
        total += expected
    assert len(truth) >= len(digests), "the reference must cover every answer"
    return total


def check_pairs(who: str, number: int, found: Digest, right: Digest, what: str = "batch") -> None:
    """Raise unless an answer is right."""
    if found != right:
        raise VerificationError(
            f"{who} gave a wrong answer in {what} {number}: expected {right.matches:,} matches "
            f"with checksum {right.checksum:016x}, got {found.matches:,} with "
            f"{found.checksum:016x}. No result was written for this cell."
        )


# --- Pairs of rows -------------------------------------------------------------------------------


def mix(left: NDArray[Any], right: NDArray[Any]) -> Sums:
    """One well-mixed 64-bit number per pair of ids."""
    mixed = left.astype(np.uint64) * _LEFT + _ODD
    mixed ^= mixed >> _SHIFT
    mixed += right.astype(np.uint64) * _RIGHT
    mixed ^= mixed >> _SHIFT
    mixed *= _FINISH
    mixed ^= mixed >> _SHIFT
    return mixed


def digest(answer: pa.Table) -> Digest:
    """The digest of an answer with the columns ``id`` and ``id_right``.

    >>> one = pa.table({"id": [1, 2], "id_right": [5, 6]})
    >>> other_order = pa.table({"id": [2, 1], "id_right": [6, 5]})
    >>> swapped = pa.table({"id": [5, 6], "id_right": [1, 2]})
    >>> digest(one) == digest(other_order), digest(one) == digest(swapped)
    (True, False)
    """
    left = answer.column("id").to_numpy()
    right = answer.column("id_right").to_numpy()
    total = 0
    for start in range(0, len(left), _CHUNK):
        piece = slice(start, start + _CHUNK)
        total += int(mix(left[piece], right[piece]).sum(dtype=np.uint64))
    return Digest(len(left), total % (1 << 64))


def digest_by_group(
    left: NDArray[Any], right: NDArray[Any], group: NDArray[Any], groups: int
) -> tuple[Array, Sums]:
    """Counts and checksums of pairs by group number (0 … groups - 1)."""
    counts = np.bincount(group, minlength=groups).astype(np.int64)
    sums = np.zeros(groups, dtype=np.uint64)
    np.add.at(sums, group, mix(left, right))
    return counts, sums


# --- Pairs of a box and a row --------------------------------------------------------------------


def pair_digest(positions: Array, ids: Array) -> Digest:
    """The digest of pairs of a box and a row."""
    return Digest(positions.size, weighed(positions, row_hash(ids)))


def weighed(positions: Array, sums: NDArray[Any]) -> int:
    """The sum of what boxes hold, each times the weight of its box, modulo 2^64."""
    return int((weights(positions) * sums.astype(np.uint64, copy=False)).sum(dtype=np.uint64))


def weights(positions: Array) -> Sums:
    """A well-mixed number per box."""
    mixed = (positions.astype(np.uint64) * _LEFT) | _ODD
    mixed ^= mixed >> _SHIFT
    return mixed


def row_hash(ids: Array) -> Sums:
    """A well-mixed number per row."""
    mixed = ids.astype(np.uint64) * _RIGHT + _ODD
    mixed ^= mixed >> _SHIFT
    mixed *= _LEFT
    mixed ^= mixed >> _SHIFT
    return mixed

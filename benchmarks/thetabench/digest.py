"""A fingerprint of an answer that does not depend on the order of its rows.

Every pair of ids becomes a well-mixed 64-bit number; the digest is the number of pairs and the
sum of these numbers modulo 2^64. A missing, extra, doubled or swapped pair changes it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Digest", "digest", "digest_by_group", "mix"]

_LEFT = np.uint64(0x9E3779B97F4A7C15)
_RIGHT = np.uint64(0xC2B2AE3D27D4EB4F)
_FINISH = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_CHUNK = 1 << 20


class Digest(NamedTuple):
    """Number of pairs and their checksum."""

    matches: int
    checksum: int

    def __add__(self, other: object) -> Digest:
        """Add another answer's digest: the digest of both answers together."""
        assert isinstance(other, Digest)
        total = (self.checksum + other.checksum) % (1 << 64)
        return Digest(self.matches + other.matches, total)


def mix(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.uint64]:
    """Give one 64-bit number per pair of ids."""
    mixed = left.astype(np.uint64) * _LEFT + np.uint64(1)
    mixed ^= mixed >> _SHIFT
    mixed += right.astype(np.uint64) * _RIGHT
    mixed ^= mixed >> _SHIFT
    mixed *= _FINISH
    mixed ^= mixed >> _SHIFT
    return mixed


def digest(answer: pa.Table) -> Digest:
    """Give the digest of an answer with the columns ``id`` and ``id_right``.

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
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Give counts and checksums of pairs by group number (0 … groups - 1)."""
    counts = np.bincount(group, minlength=groups).astype(np.int64)
    sums = np.zeros(groups, dtype=np.uint64)
    np.add.at(sums, group, mix(left, right))
    return counts, sums

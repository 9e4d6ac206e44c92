"""A fingerprint of an answer to boxes: which box holds which row.

The checksum is the sum over all pairs of ``weight(box) × hash(id)`` modulo 2^64, with well-mixed
factors. A missing, extra, doubled or swapped pair changes it. As the weight of a box is a factor,
sums of hashes over many rows can be kept and used for any box that holds just these rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetabench.digest import Digest
from thetabench.runner import VerificationError

__all__ = ["Sums", "check_pairs", "pair_digest", "row_hash", "weighed", "weights"]

Array = NDArray[np.int64]
Sums = NDArray[np.uint64]

_BOX = np.uint64(0x9E3779B97F4A7C15)
_ROW = np.uint64(0xC2B2AE3D27D4EB4F)
_ODD = np.uint64(1)
_SHIFT = np.uint64(32)


def pair_digest(positions: Array, ids: Array) -> Digest:
    """The digest of pairs of a box and a row."""
    return Digest(positions.size, weighed(positions, row_hash(ids)))


def check_pairs(who: str, batch: int, found: Digest, right: Digest) -> None:
    """Raise unless an answer is right."""
    if found != right:
        raise VerificationError(
            f"{who} gave a wrong answer in batch {batch}: expected {right.matches:,} matches with "
            f"checksum {right.checksum:016x}, got {found.matches:,} with {found.checksum:016x}. "
            "No result was written for this cell."
        )


def weighed(positions: Array, sums: NDArray[Any]) -> int:
    """The sum of what boxes hold, each times the weight of its box, modulo 2^64."""
    return int((weights(positions) * sums.astype(np.uint64, copy=False)).sum(dtype=np.uint64))


def weights(positions: Array) -> Sums:
    """A well-mixed number per box."""
    found = (positions.astype(np.uint64) * _BOX) | _ODD
    found ^= found >> _SHIFT
    return found


def row_hash(ids: Array) -> Sums:
    """A well-mixed number per row."""
    mixed = ids.astype(np.uint64) * _ROW + _ODD
    mixed ^= mixed >> _SHIFT
    mixed *= _BOX
    mixed ^= mixed >> _SHIFT
    return mixed

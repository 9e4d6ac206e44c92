"""Boxes of strings and binary in order, by keys of their first eight bytes.

A string above another one has no smaller key, but strings may share a key. So an interval of keys
holds all matches, and other strings at its edges; a residual compares the candidates exactly.

    l.s < r.s           fresh r.s = "pear"        keys up to that of "pear", this one included
    starts_with(l.s, r.s)
        fresh start     "pe"                      from pe 00 … 00 to pe ff … ff
        fresh string    "pear"                    nine points: "", "p", "pe", "pea", "pear", …

Zeros that fill a short key look like zero bytes of a string. Both are taken for either.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.condition.expression import Function
from thetastream.condition.term import Compare, Condition, StartsWith
from thetastream.side import Side

Pieces = list[tuple[Array, Array]]

_BIAS = np.uint64(1 << 63)
_BYTES = 8
_LOWER = (Function.EQ, Function.GE, Function.GT)
_UPPER = (Function.EQ, Function.LE, Function.LT)


def pieces(condition: Condition, fresh: Side, keys: Array) -> Pieces:
    """Disjoint intervals of stored keys that hold all matches of fresh keys."""
    if isinstance(condition, StartsWith):
        return [_continued(keys)] if condition.start is fresh else _beginnings(keys)
    assert isinstance(condition, Compare)
    op = condition.op if fresh is Side.RIGHT else condition.op.flip()
    low = keys if op in _LOWER else np.full_like(keys, LEAST)
    high = keys if op in _UPPER else np.full_like(keys, MOST)
    return [(low, high)]


def _continued(keys: Array) -> tuple[Array, Array]:
    """The keys of all strings that begin with a fresh one."""
    code = keys.view(np.uint64) ^ _BIAS
    last = code.copy()
    for count in range(1, _BYTES + 1):
        rest = _ones(count)
        last = np.where(code & rest == 0, code | rest, last)
    return keys, (last ^ _BIAS).view(np.int64)


def _beginnings(keys: Array) -> Pieces:
    """The keys of all strings with which a fresh one begins, each once."""
    code = keys.view(np.uint64) ^ _BIAS
    points = [(code & ~_ones(count)) ^ _BIAS for count in range(_BYTES + 1)]
    pieces: Pieces = []
    for shorter, longer in zip(points[1:], points, strict=False):
        same = shorter == longer
        key = shorter.view(np.int64)
        pieces.append((np.where(same, 1, key), np.where(same, 0, key)))
    return [(keys, keys), *pieces]


def _ones(count: int) -> np.uint64:
    """The last ``count`` bytes of a key."""
    return np.uint64((1 << (8 * count)) - 1)

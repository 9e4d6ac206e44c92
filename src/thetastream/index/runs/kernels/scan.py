"""The nested loop: every row against every box, 64 rows at a time."""

from __future__ import annotations

from typing import Any

from thetastream._jit.arrays import Array, u64
from thetastream._jit.compiling import kernel
from thetastream._jit.intrinsics import lowest_bit
from thetastream.index.runs.kernels.search import any_empty, paused, rows_inside

_VECTOR = 64


@kernel("i8(i8[:,::1], i8[::1], i8[:,::1], i8[:,::1], i8[::1], i8, i8[::1], i8[::1])")
def scan(
    keys: Array, ids: Array, lows: Array, highs: Array, cursor: Array, filled: int,
    positions: Array, rows: Array,
) -> Any:  # fmt: skip
    """Test every stored row against every box. ``cursor`` starts at (0, 0).

    Tests blocks of 64 rows column by column, in vector code, while some of them are inside.
    """
    n, one, vector = u64(ids.size), u64(1), u64(_VECTOR)
    room, k = u64(positions.size), u64(filled)
    box, at = u64(cursor[0]), u64(cursor[1])
    while box < u64(lows.shape[1]):
        if any_empty(lows, highs, box):
            at = n
        while at < n:
            hits = rows_inside(keys[0], at, lows[0, box], highs[0, box])
            for c in range(u64(1), u64(keys.shape[0])):
                if hits == 0:
                    break
                hits &= rows_inside(keys[c], at, lows[c, box], highs[c, box])
            while hits != 0:
                if k == room:
                    return paused(cursor, box, at + lowest_bit(hits), k)
                positions[k] = box
                rows[k] = ids[at + lowest_bit(hits)]
                k += one
                hits &= hits - one
            at += vector
        box += one
        at = u64(0)
    return paused(cursor, box, 0, k)

"""A StreamJoin over one column, batches for it, and the rows and pairs that come out."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

import thetastream as ts

BAND = "abs(l.x - r.x) <= 1"


def table(xs, **more):
    return pa.table({"x": pa.array(xs, pa.int64()), **more})


def rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def pairs(batches, left="x", right="x_right"):
    return Counter((row.get(left), row.get(right)) for row in rows(batches))


def joined(on=BAND, window=None, **options):
    return ts.StreamJoin(on, window=window or ts.CountWindow(100), **options)

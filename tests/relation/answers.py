"""What a join of a stream with a relation must give: from the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa

from thetastream.truth.oracle import join
from thetastream.window import CountWindow

__all__ = ["expected", "given", "positions", "run"]

Positions = list[tuple[int | None, int | None]]
# The oracle is slow, and several joins are asked the same. Tables are kept: ids stay theirs.
_known: dict[tuple[int, int, str, str], tuple[pa.Table, pa.Table, Positions]] = {}


def positions(stream: pa.Table, relation: pa.Table, on: str, how: str) -> Positions:
    """Places of the rows of the answer in both tables; None where the relation's is missing."""
    key = (id(stream), id(relation), on, how)
    if key not in _known:
        pairs = join([(stream, relation)], on, CountWindow(1 << 40), how).pairs
        _known[key] = (stream, relation, list(pairs))
    return _known[key][2]


def expected(
    stream: pa.Table, relation: pa.Table, on: str, how: str, names: tuple[str, str] = ("n", "m")
) -> Counter[Any]:
    """Pairs of the columns that number the rows; None where the relation's is missing."""
    ns, ms = stream.column(names[0]).to_pylist(), relation.column(names[1]).to_pylist()
    return Counter(
        (ns[left], None if right is None else ms[right])
        for left, right in positions(stream, relation, on, how)
        if left is not None
    )


def given(batches: Iterable[pa.RecordBatch]) -> Counter[Any]:
    """The same of what a join gave; semi and anti joins give no column ``m``."""
    found: Counter[Any] = Counter()
    for batch in batches:
        ns = batch.column("n").to_pylist()
        named = "m" in batch.schema.names
        ms = batch.column("m").to_pylist() if named else [None] * len(ns)
        found.update(zip(ns, ms, strict=True))
    return found


def run(join: Any, stream: pa.Table, cuts: Iterable[int]) -> list[pa.RecordBatch]:
    """Push a stream, cut at some rows, and flush."""
    batches: list[pa.RecordBatch] = []
    edges = [0, *sorted(min(cut, stream.num_rows) for cut in cuts), stream.num_rows]
    for start, stop in pairwise(edges):
        batches += join.push(stream.slice(start, stop - start))
    return [*batches, *join.flush()]

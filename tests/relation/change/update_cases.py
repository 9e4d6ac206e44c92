"""What tests of updates share: a small relation of wide rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from thetastream.relation.store import Relation

PAD = "·" * 600


def numbered(keys: Iterable[int], note: str = "") -> pa.Table:
    """Rows of some 1,200 bytes, so that a block holds three."""
    found = list(keys)
    pads = [PAD + note] * len(found)
    return pa.table({"k": pa.array(found, pa.int64()), "pad": pa.array(pads, pa.string())})


def keys_of(relation: Relation) -> list[int]:
    relation.check()
    return [int(key) for key in relation.to_table(["k"])["k"].to_pylist()]


def small(path: Path) -> Relation:
    """The keys 0, 2, … 38, two of them in each leaf."""
    return Relation.build(path, numbered(range(0, 40, 2)), "k", 4096, 0.7)

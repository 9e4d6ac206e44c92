"""What tests of joins with a relation share: small relations of several leaves, and the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from thetastream.relation.store import Relation

from .answers import positions

PAD = "·" * 150  # so that a block of 4,096 bytes holds a dozen rows


def built(path: Path, rows: pa.Table, key: Any = "k") -> Relation:
    """A relation in small blocks."""
    return Relation.build(path, rows, key=key, block_bytes=4096)


def padded(columns: dict[str, Any], kinds: dict[str, pa.DataType] | None = None) -> pa.Table:
    """A table with a wide column, and a number for every row."""
    arrays = {name: pa.array(values, (kinds or {}).get(name)) for name, values in columns.items()}
    count = len(next(iter(arrays.values())))
    return pa.table({**arrays, "id": range(count), "pad": [PAD + str(i) for i in range(count)]})


def truth(stream: pa.Table, relation: pa.Table, on: str, how: str) -> Counter[tuple[Any, ...]]:
    """Rows of the answer, by the oracle; ``id_right`` names the relation's row."""
    lefts, rights = stream.to_pylist(), relation.to_pylist()
    found: Counter[tuple[Any, ...]] = Counter()
    for left, right in positions(stream, relation, on, how):
        assert left is not None
        given = {**lefts[left]}
        if how in ("inner", "left"):
            for name in relation.column_names:
                value = None if right is None else rights[right][name]
                given[f"{name}_right" if name in lefts[left] else name] = value
        found[tuple(map(repr, given.values()))] += 1
    return found


def rows_of(batches: Iterable[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """Rows of record batches, in no order."""
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            found[tuple(map(repr, row.values()))] += 1
    return found

"""What differs between two states of a relation, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.data.batch import in_python, plain
from thetastream.errors import SchemaError
from thetastream.relation.files.scan import scan
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.files.unique import value_numbers
from thetastream.relation.image.columns import codec_of


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of two states. Equal rows are matched one to one; they are in none of the tables."""

    inserted: pa.Table
    """Rows of the later state only."""
    removed: pa.Table
    """Rows of the earlier state only."""
    replaced: pa.Table
    """Rows of the earlier state whose unique key has other values in the later one."""
    replacing: pa.Table
    """Those other values, in the same order."""
    unchanged: int
    """How many rows are in both."""


def difference(before: Snapshot, after: Snapshot) -> Difference:
    """Compare two states with the same columns; all rows are in memory meanwhile. O(n log n)."""
    schema = after.layout.schema
    if not before.layout.schema.equals(schema):
        raise SchemaError(
            "the relations have different columns: "
            f"{_columns(before.layout.schema)} and {_columns(schema)}; compare relations with the "
            "same ones"
        )
    tables = [pa.Table.from_batches(scan(state), schema=schema) for state in (before, after)]
    old, new = _numbers(tables, schema.names)
    gone, fresh = _unpaired(old, new), _unpaired(new, old)
    unchanged = len(old) - len(gone)
    unique = after.state.facts.unique
    first = second = np.empty(0, np.int64)
    if unique and unique == before.state.facts.unique:
        left, right = _numbers([tables[0].take(gone), tables[1].take(fresh)], unique)
        _, at, other = np.intersect1d(left, right, return_indices=True)
        first, second = gone[at], fresh[other]
        gone, fresh = np.setdiff1d(gone, first), np.setdiff1d(fresh, second)
    return Difference(
        inserted=tables[1].take(fresh),
        removed=tables[0].take(gone),
        replaced=tables[0].take(first),
        replacing=tables[1].take(second),
        unchanged=unchanged,
    )


def _numbers(tables: list[pa.Table], names: tuple[str, ...] | list[str]) -> list[Array]:
    """Equal numbers for equal rows of both tables."""
    columns = []
    for name in names:
        parts = [plain(table.column(name)) for table in tables]
        codec = codec_of(tables[0].schema.field(name).type, name)
        column = pa.concat_arrays([codec.decode(part) for part in parts])
        try:
            columns.append(value_numbers([column]))
        except (SchemaError, pa.ArrowNotImplementedError):  # Arrow cannot compare such values
            texts = pa.array([repr(value) for value in in_python(column)], pa.string())
            columns.append(value_numbers([texts]))
    every = value_numbers([pa.array(column) for column in columns])
    return np.split(every, [tables[0].num_rows])


def _unpaired(rows: Array, others: Array) -> Array:
    """Places of rows beyond those that have an equal one among others, one for one."""
    order = np.argsort(rows, kind="stable")
    values, starts, counts = np.unique(rows[order], return_index=True, return_counts=True)
    each, present = np.unique(others, return_counts=True)
    at = np.minimum(np.searchsorted(each, values), max(len(each) - 1, 0))
    paired = present[at] * (each[at] == values) if len(each) else np.zeros_like(counts)
    rank = np.arange(len(rows)) - np.repeat(starts, counts)
    return np.sort(order[rank >= np.repeat(paired, counts)])


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

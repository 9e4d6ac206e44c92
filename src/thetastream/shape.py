"""The shape of a join's output: which columns it has, and where each comes from.

This is the only place that names output columns. Left columns keep their names; a right column
whose name is taken gets the suffix. Semi and anti joins, and joins whose right side is unknown,
have the left columns alone. Aggregates stand in the place of right columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from thetastream.aggregate import Aggregate, check_aggregates, result_fields
from thetastream.errors import SchemaError, suggest
from thetastream.options.checks import read_columns
from thetastream.output_mode import Output
from thetastream.side import How, Side


@dataclass(frozen=True, slots=True)
class OutputShape:
    """Output columns: their schema, and for each its side and its name there.

    An aggregate is its own origin: the right side, and its own name.

    >>> left, right = pa.schema([("x", pa.int64())]), pa.schema([("x", pa.int64())])
    >>> shape = Shape.of(left, right)
    >>> shape.schema.names, shape.origin[1][1]
    (['x', 'x_right'], 'x')
    """

    schema: pa.Schema
    origin: tuple[tuple[Side, str], ...]

    @classmethod
    def of(
        cls,
        left: pa.Schema,
        right: pa.Schema | None,
        how: How = How.INNER,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        aggregates: Sequence[Aggregate] = (),
        *,
        fields: Sequence[pa.Field] | None = None,
    ) -> OutputShape:
        """The shape of a join; ``columns`` keeps only those, in that order.

        ``fields`` are the aggregates' columns where the types they come from are unknown.
        """
        if fields is None:
            fields = []
            if aggregates:
                assert right is not None
                check_aggregates(aggregates, right, "the right side")
                fields = result_fields(aggregates, right)
        schema, origin = _whole(left, right, how, suffix, fields)
        return cls(schema, tuple(origin)).select(columns)

    def select(self, columns: Sequence[str] | None) -> OutputShape:
        """Keep the wanted output columns, in the wanted order."""
        columns = read_columns(columns)
        if columns is None:
            return self
        places = {name: at for at, name in enumerate(self.schema.names)}
        for name in columns:
            if name not in places:
                raise SchemaError(
                    f"there is no output column {name!r}; there are "
                    f"{', '.join(self.schema.names)}.{suggest(name, self.schema.names)}"
                )
        kept = [places[name] for name in columns]
        schema = pa.schema([self.schema.field(at) for at in kept])
        return OutputShape(schema, tuple(self.origin[at] for at in kept))

    def names(self, side: Side) -> set[str]:
        """The columns of a side that the output needs."""
        return {name for origin, name in self.origin if origin is side}


NUMBERS = OutputShape(
    pa.schema([(side.value, pa.int64()) for side in Side]),
    tuple((side, side.value) for side in Side),
)
COUNTS = pa.schema([("side", pa.string()), ("row", pa.int64()), ("matches", pa.int64())])
RANGES = pa.schema(
    [
        ("side", pa.string()),
        ("row", pa.int64()),
        ("run", pa.int64()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("negated", pa.bool_()),
    ]
)


def fixed_shape(output: Output) -> OutputShape | None:
    """The shape of an output that has no columns of the streams; None for rows."""
    fixed = {Output.COUNT: OutputShape(COUNTS, ()), Output.RANGES: OutputShape(RANGES, ())}
    return None if output is Output.ROWS else fixed.get(output, NUMBERS)


def _whole(
    left: pa.Schema, right: pa.Schema | None, how: How, suffix: str, aggregates: Sequence[pa.Field]
) -> tuple[pa.Schema, list[tuple[Side, str]]]:
    """All columns, and where they come from."""
    fields = [field.with_nullable(True) for field in left]
    origin = [(Side.LEFT, field.name) for field in left]
    taken = set(left.names)
    for field in aggregates:
        if field.name in taken:
            raise SchemaError(
                f"aggregate {field.name!r} has the name of a column of the left side, which is "
                "given beside it; choose another name"
            )
        fields.append(field)
        origin.append((Side.RIGHT, field.name))
    if how.pairs and right is not None and not aggregates:
        for field in right:
            name = field.name + suffix if field.name in taken else field.name
            if name in taken:
                raise SchemaError(
                    f"two output columns would be called {name!r}; choose another suffix than "
                    f"{suffix!r}"
                )
            taken.add(name)
            fields.append(field.with_name(name).with_nullable(True))
            origin.append((Side.RIGHT, field.name))
    return pa.schema(fields), origin

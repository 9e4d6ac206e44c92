"""The shape of a join's output: which columns it has, and where each comes from.

Only this module names output columns. Left columns keep their names; a right column whose name is
taken gets the suffix. Semi and anti joins, and joins whose right side is unknown, have left columns
only. Aggregates take the place of right columns.
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
    """Output columns: their schema, and the side and original name of each.

    The origin of an aggregate is the right side and its own name.

    >>> left, right = pa.schema([("x", pa.int64())]), pa.schema([("x", pa.int64())])
    >>> shape = OutputShape.of(left, right)
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
        """The shape of a join; ``columns`` selects columns, in that order.

        ``fields`` are the columns of the aggregates if their argument types are unknown.
        """
        if fields is None and aggregates:
            assert right is not None
            check_aggregates(aggregates, right, "the right side")
            fields = result_fields(aggregates, right)
        schema, origin = _all_columns(left, right, how, suffix, fields or ())
        return cls(schema, tuple(origin)).select(columns)

    def select(self, columns: Sequence[str] | None) -> OutputShape:
        """Select output columns, in this order."""
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
_PLACES = dict.fromkeys(("row", "run", "start", "stop"), pa.int64())
RANGES = pa.schema({"side": pa.string(), **_PLACES, "negated": pa.bool_()})


def fixed_shape(output: Output) -> OutputShape | None:
    """The shape of an output without columns of the streams; None for rows."""
    fixed = {Output.COUNT: OutputShape(COUNTS, ()), Output.RANGES: OutputShape(RANGES, ())}
    return None if output is Output.ROWS else fixed.get(output, NUMBERS)


def _all_columns(
    left: pa.Schema, right: pa.Schema | None, how: How, suffix: str, aggregates: Sequence[pa.Field]
) -> tuple[pa.Schema, list[tuple[Side, str]]]:
    """All columns and their origins."""
    fields = [field.with_nullable(True) for field in left]
    origin = [(Side.LEFT, field.name) for field in left]
    taken = set(left.names)
    for field in aggregates:
        if field.name in taken:
            raise SchemaError(
                f"aggregate {field.name!r} has the name of a column of the left side, which is "
                "in the output too; choose another name"
            )
        fields.append(field)
        origin.append((Side.RIGHT, field.name))
    if how.pairs and right is not None and not aggregates:
        for field in right:
            name = field.name + suffix if field.name in taken else field.name
            if name in taken:
                raise SchemaError(
                    f"two output columns would be called {name!r}; choose a suffix other than "
                    f"{suffix!r}"
                )
            taken.add(name)
            fields.append(field.with_name(name).with_nullable(True))
            origin.append((Side.RIGHT, field.name))
    return pa.schema(fields), origin

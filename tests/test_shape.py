"""The shape of the output: names, origins, and columns that were chosen."""

from __future__ import annotations

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import OptionError, SchemaError, StateError
from thetastream.shape import OutputShape
from thetastream.side import How, Side

LEFT = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.float64())])
RIGHT = pa.schema([pa.field("x", pa.string()), pa.field("y", pa.bool_(), nullable=False)])


@pytest.mark.parametrize("how", [How.INNER, How.LEFT, How.RIGHT, How.FULL])
def test_names_of_pairs(how: How) -> None:
    shape = OutputShape.of(LEFT, RIGHT, how)
    schema, origin = shape.schema, list(shape.origin)
    assert schema.names == ["id", "x", "x_right", "y"]
    assert schema.types == [pa.int64(), pa.float64(), pa.string(), pa.bool_()]
    assert all(field.nullable for field in schema)
    assert origin == [(Side.LEFT, "id"), (Side.LEFT, "x"), (Side.RIGHT, "x"), (Side.RIGHT, "y")]


@pytest.mark.parametrize("how", [How.SEMI, How.ANTI])
def test_semi_and_anti_give_the_left_columns(how: How) -> None:
    shape = OutputShape.of(LEFT, RIGHT, how)
    schema, origin = shape.schema, list(shape.origin)
    assert schema.names == ["id", "x"]
    assert origin == [(Side.LEFT, "id"), (Side.LEFT, "x")]


def test_an_unknown_right_side() -> None:
    assert OutputShape.of(LEFT, None, How.LEFT).schema.names == ["id", "x"]


def test_names_that_collide() -> None:
    right = pa.schema([("x_right", pa.int64()), ("x", pa.int64())])
    left = pa.schema([("x", pa.int64())])
    with pytest.raises(SchemaError, match="two output columns would be called 'x_right'; choose"):
        OutputShape.of(left, right)
    with pytest.raises(SchemaError, match="a suffix other than ''"):
        OutputShape.of(LEFT, LEFT, How.INNER, "")
    assert OutputShape.of(left, right, How.INNER, "_r").schema.names == ["x", "x_right", "x_r"]


def test_selected_columns_keep_the_wanted_order() -> None:
    whole = OutputShape.of(LEFT, RIGHT)
    some = whole.select(["y", "id"])
    assert some.schema.names == ["y", "id"]
    assert some.origin == ((Side.RIGHT, "y"), (Side.LEFT, "id"))
    assert some.names(Side.LEFT) == {"id"}
    assert whole.select(None) == whole
    with pytest.raises(OptionError, match="at least one output column"):
        whole.select([])
    with pytest.raises(SchemaError, match=r"no output column 'x_rihgt'.*Did you mean 'x_right'\?"):
        whole.select(["x_rihgt"])


def test_metadata_of_fields_is_kept() -> None:
    field = pa.field("x", pa.int64(), metadata={"unit": "EUR"})
    shape = OutputShape.of(pa.schema([field]), pa.schema([field]), How.INNER, "_r")
    assert [f.metadata for f in shape.schema] == [{b"unit": b"EUR"}] * 2


# --- What a join says of its result ---------------------------------------------------------------

SCHEMAS = (pa.schema([("x", pa.int64())]), pa.schema([("x", pa.float64())]))


@pytest.mark.parametrize("output", ["rows", "pairs", "count", "ranges"])
def test_a_join_knows_the_columns_of_its_result(output: str) -> None:
    options = {"window": ts.CountWindow(5), "output": output, "schemas": SCHEMAS}
    join = ts.StreamJoin("l.x < r.x", **options)
    join.push(left=pa.record_batch({"x": [1]}))
    found = list(join.push(right=pa.record_batch({"x": [2.0]})))
    assert found
    assert all(batch.schema == join.schema for batch in found)


def test_aggregates_are_columns_of_the_result() -> None:
    aggregate = {"n": "count", "top": ("r.x", "max")}
    options = {"window": ts.CountWindow(5), "aggregate": aggregate, "schemas": SCHEMAS}
    join = ts.StreamJoin("l.x < r.x", **options)
    assert join.schema.names == ["x", "n", "top"]
    (found,) = join.push(left=pa.record_batch({"x": [1]}))
    assert found.schema == join.schema


def test_a_join_that_has_seen_one_side_says_what_to_do() -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(5))
    join.push(left=pa.record_batch({"x": [1]}))
    with pytest.raises(StateError, match="push rows of both sides first, or pass schemas="):
        _ = join.schema

"""Every Spark type as payload, in batch mode and through the state of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thetastream.errors import SchemaError
from thetastream.spark import theta_join
from thetastream.spark.types import arrow_schema
from thetastream.window import TimeWindow

from .drive import run

WINDOW = TimeWindow("1 hour", time="t")

# name: (type, a usual value, an extreme value); a third row holds NULL in all of them
PAYLOAD = {
    "i8": ("tinyint", "5", "-128"),
    "i16": ("smallint", "500", "-32768"),
    "i32": ("int", "70000", "-2147483648"),
    "i64": ("bigint", "5000000000", "9223372036854775807"),
    "f32": ("float", "1.5", "'NaN'"),
    "f64": ("double", "0.1", "'NaN'"),
    "zero": ("double", "'-0.0'", "'-Infinity'"),
    "small": ("decimal(9,2)", "12.34", "-9999999.99"),
    "large": ("decimal(38,18)", "0.000000000000000001", "99999999999999999999.999999999999999999"),
    "whole": ("decimal(38,0)", "1", "-99999999999999999999999999999999999999"),
    "text": ("string", "'tëxt 🎈'", "''"),
    "bytes": ("binary", "X'00FF10'", "X''"),
    "flag": ("boolean", "true", "false"),
    "day": ("date", "DATE'2024-02-29'", "DATE'0001-01-01'"),
    "ts": ("timestamp", "TIMESTAMP'2024-03-31 02:30:00.123456'", "TIMESTAMP'1500-01-01 00:00:00'"),
    "ntz": (
        "timestamp_ntz",
        "TIMESTAMP_NTZ'2024-03-31 02:30:00.123456'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    ),
    "span": (
        "interval day to second",
        "INTERVAL '1 02:03:04.567891' DAY TO SECOND",
        "INTERVAL '-106751990 04:00:54.775808' DAY TO SECOND",
    ),
    "numbers": ("array<int>", "array(1, NULL, 3)", "array()"),
    "nested": ("array<array<string>>", "array(array('a', NULL), array(), NULL)", "array()"),
    "named": (
        "map<string,double>",
        "map('a', 1.5D, 'b', NULL)",
        "map()",
    ),
    "timed": ("map<int,timestamp>", "map(7, TIMESTAMP'2024-01-01 00:00:00.000001')", "map()"),
    "struct": (
        "struct<x:int,y:struct<z:string,w:decimal(10,3)>>",
        "named_struct('x', 1, 'y', named_struct('z', 'q', 'w', 1.125))",
        "named_struct('x', NULL, 'y', NULL)",
    ),
    "events": (
        "array<struct<at:timestamp,local:timestamp_ntz,tags:map<string,array<bigint>>>>",
        "array(named_struct('at', TIMESTAMP'2024-01-01 00:00:00', 'local', "
        "TIMESTAMP_NTZ'2024-01-01 00:00:00', 'tags', map('k', array(1L, NULL))), NULL)",
        "array(named_struct('at', NULL, 'local', NULL, 'tags', map()))",
    ),
}


def everything(spark: Any, clock: str) -> Any:
    """Three rows: usual values, extremes, NULLs."""
    selects = []
    for number in range(3):
        values = [
            f"CAST({'NULL' if number == 2 else spec[number + 1]} AS {spec[0]}) AS {name}"
            for name, spec in PAYLOAD.items()
        ]
        selects.append(
            f"SELECT {number}L AS id, TIMESTAMP'{clock}' + INTERVAL '{number}' SECOND AS t, "
            + ", ".join(values)
        )
    return spark.sql(" UNION ALL ".join(selects)).coalesce(1)


def shown(frame: Any, suffix: str = "") -> list[str]:
    """Rows as text, exactly: NaN, -0.0 and microseconds included."""
    names = ["id", *PAYLOAD]
    table = frame if isinstance(frame, pa.Table) else frame.toArrow()
    table = table.select([name + suffix for name in names]).rename_columns(names)
    return [repr(row) for row in sorted(table.to_pylist(), key=lambda row: row["id"])]


def test_values_survive_in_batch_mode(spark: Any) -> None:
    frame = everything(spark, "2024-01-01 00:00:00")
    answer = theta_join(frame, everything(spark, "2024-01-01 00:00:00"), "l.id = r.id", WINDOW)
    assert [f.dataType for f in answer.schema] == [f.dataType for f in frame.schema] * 2
    table = answer.toArrow()
    assert shown(table) == shown(frame)
    assert shown(table, "_right") == shown(frame)


def test_values_survive_the_state_of_a_stream(spark: Any, tmp_path: Path) -> None:
    """Left rows are stored in the first micro-batch and read back, from a run, in the second."""
    frame = everything(spark, "2024-01-01 00:00:00")
    later = everything(spark, "2024-01-01 00:30:00")
    empty = frame.where("false")
    for side, batches in (("left", (frame, empty)), ("right", (empty, later))):
        for number, batch in enumerate(batches):
            batch.write.mode("append").parquet(str(tmp_path / side / f"n={number}"))
    streams = [
        spark.readStream.schema(frame.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / side / "n=*"))
        for side in ("left", "right")
    ]
    ran = run(theta_join(*streams, "l.id = r.id", WINDOW, "full"), tmp_path)
    assert shown(ran.table) == shown(frame)
    assert shown(ran.table, "_right") == shown(frame)
    names = [f.dataType for f in theta_join(*streams, "l.id = r.id", WINDOW).schema]
    assert names == [f.dataType for f in frame.schema] * 2


def frame_of(spark: Any, value: str) -> Any:
    return spark.sql(f"SELECT 1L AS id, TIMESTAMP'2024-01-01 00:00:00' AS t, {value} AS c")


def test_less_usual_types(spark: Any) -> None:
    """All in one query: times of day, collations, other intervals, times as keys of maps."""
    values = {
        "time": "TIME'12:34:56.123456'",
        "hours": "INTERVAL '3' HOUR",
        "collated": "'a' COLLATE UTF8_LCASE",
        "keyed": "map(TIMESTAMP'2024-01-01 00:00:00', array(DATE'2024-01-01'))",
        "spans": "array(INTERVAL '1' DAY)",
    }
    columns = ", ".join(f"{value} AS {name}" for name, value in values.items())
    frame = spark.sql(f"SELECT 1L AS id, TIMESTAMP'2024-01-01 00:00:00' AS t, {columns}")
    answer = theta_join(frame, frame.select("*"), "l.id = r.id", WINDOW, "semi")
    assert [f.dataType for f in answer.schema] == [f.dataType for f in frame.schema]
    assert repr(answer.toArrow().to_pylist()) == repr(frame.toArrow().to_pylist())


REFUSED = {
    "parse_json('{}')": "variant",
    "array(parse_json('{}'))": "array<variant>",
    "named_struct('v', map(1, parse_json('{}')))": "struct<v:map<int,variant>>",
    "make_interval(1, 2)": "interval",
    "INTERVAL '1-2' YEAR TO MONTH": "interval year to month",
    "NULL": "void",
    "array()": "array<void>",
}


@pytest.mark.parametrize("value", REFUSED)
def test_types_that_spark_does_not_hand_to_python(spark: Any, value: str) -> None:
    frame = frame_of(spark, value)
    with pytest.raises(SchemaError) as caught:
        theta_join(frame, frame.select("*"), "l.id = r.id", WINDOW)
    assert f"column 'c' of the left side has type {REFUSED[value]}," in str(caught.value)
    assert "columns=" in str(caught.value)
    with pytest.raises(SchemaError, match="column 'c' of the right side"):
        theta_join(frame.drop("c"), frame, "l.id = r.id", WINDOW)


def test_leaving_the_column_out_works(spark: Any) -> None:
    frame = frame_of(spark, "parse_json('{}')")
    kept = theta_join(frame, frame.select("*"), "l.id = r.id", WINDOW, columns=["id", "t_right"])
    assert kept.columns == ["id", "t_right"]
    assert kept.count() == 1


def test_a_variant_may_be_compared_once_it_is_cast(spark: Any) -> None:
    frame = frame_of(spark, """parse_json('{"a": 5}')""")
    on = "l.id = r.id AND variant_get(l.c, '$.a', 'int') = r.id + 4"
    assert theta_join(frame, frame.select("*"), on, WINDOW, columns=["id"]).count() == 1


def test_arrow_types_of_spark_types(spark: Any) -> None:
    schema = arrow_schema(everything(spark, "2024-01-01 00:00:00").schema, "left")
    assert schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert schema.field("ntz").type == pa.timestamp("us")
    assert schema.field("span").type == pa.duration("us")
    assert schema.field("large").type == pa.decimal128(38, 18)

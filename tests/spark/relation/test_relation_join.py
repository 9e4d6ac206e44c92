"""``relation_join`` on a real session: exact in every mode, names and types, what is refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import (
    DataError,
    OptionError,
    PredicateError,
    RelationError,
    SchemaError,
    StateError,
)
from thetastream.spark import explain, relation_join

from .relation_rows import MEMORY, MODES, built, given, table, truth

CONDITIONS: dict[str, tuple[str, Any]] = {
    "equal": ("l.x = r.x", "x"),
    "equal strings": ("l.s = r.s AND l.x <> r.x", "s"),
    "range": ("r.x BETWEEN l.x AND l.x + 2", "x"),
    "band of floats": ("abs(l.v - r.v) <= 0.5", "v"),
    "times": ("l.t >= r.t AND l.t < r.t + INTERVAL '2 seconds'", "t"),
    "interval": ("l.x BETWEEN r.lo AND r.hi", ("lo", "hi")),
    "computed by Spark": ("pmod(l.x * 7, 11) = r.x AND r.x % 2 = 0", "x"),
}
ORACLE = {"computed by Spark": "(l.x * 7) % 11 = r.x AND r.x % 2 = 0"}


# --- Answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONDITIONS)
def test_static_answers_are_exact(spark: Any, tmp_path: Path, name: str) -> None:
    on, key = CONDITIONS[name]
    left, right = table(1, 70), table(2, 60)
    path = built(tmp_path, right, key)
    frame = spark.createDataFrame(left).repartition(3)
    for how in MODES:
        expected = truth(left, right, ORACLE.get(name, on), how)
        assert expected, "an empty answer proves nothing"
        found = relation_join(frame, path, on, MEMORY, how).toArrow()
        assert given(found) == expected, how


@pytest.mark.smoke
def test_names_types_and_chosen_columns(spark: Any, tmp_path: Path) -> None:
    right = pa.table(
        {
            "k": pa.array([1, 2], pa.uint32()),
            "a.b": pa.array(["x", "y"], pa.large_string()),
            "code": pa.array(["p", "q"]).dictionary_encode(),
            "big": pa.array([2**64 - 1, None], pa.uint64()),
            "at": pa.array([1, 2], pa.timestamp("ns", tz="Europe/Paris")).cast(
                pa.timestamp("s", tz="Europe/Paris"), safe=False
            ),
            "naive": pa.array([1000, 2000], pa.timestamp("ns")),
            "list": pa.array([[1], None], pa.large_list(pa.uint8())),
            "raw": pa.array([b"ab", b"cd"], pa.binary(2)),
        }
    )
    path = built(tmp_path, right, "k")
    left = spark.createDataFrame([(1, "l", 5), (3, "m", 6)], "k long, `a.b` string, z int")
    out = relation_join(left, path, "l.k = r.k", MEMORY, "left")
    assert dict(out.dtypes) == {
        "k": "bigint",
        "a.b": "string",
        "z": "int",
        "k_right": "bigint",
        "a.b_right": "string",
        "code": "string",
        "big": "decimal(20,0)",
        "at": "timestamp",
        "naive": "timestamp_ntz",
        "list": "array<smallint>",
        "raw": "binary",
    }
    rows = {row["k"]: row.asDict() for row in out.collect()}
    assert rows[1]["a.b_right"] == "x"
    assert rows[1]["big"] == 2**64 - 1
    assert rows[1]["list"] == [1]
    assert bytes(rows[1]["raw"]) == b"ab"
    assert rows[1]["naive"] == datetime(1970, 1, 1, 0, 0, 0, 1)
    assert [value for name, value in rows[3].items() if name not in ("k", "a.b", "z")] == [None] * 8
    chosen = relation_join(left, path, "l.k = r.k", MEMORY, columns=["a.b_right", "z"])
    assert [tuple(row) for row in chosen.collect()] == [("x", 5)]


def test_a_relation_of_a_dataframe(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(0, 500).selectExpr("id * 3 AS k", "concat('n', id) AS name")
    with ts.Relation.build(tmp_path / "table.rel", frame, key="k") as relation:
        assert relation.rows == 500
    stream = spark.range(0, 1500, 2).selectExpr("id AS k")
    found = relation_join(stream, tmp_path / "table.rel", "l.k = r.k", MEMORY)
    expected = stream.join(frame, "k").selectExpr("k", "k AS k_right", "name")
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))


# --- What is refused ------------------------------------------------------------------------------


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no relation": ({"path": "nowhere.rel"}, RelationError, "nowhere.rel"),
    "a URI": ({"path": "hdfs://host/table.rel"}, RelationError, "mount it"),
    "right": ({"how": "right"}, OptionError, "inner, left, semi, anti.*a stream has no end"),
    "full": ({"how": "full"}, OptionError, "a stream has no end"),
    "no mode": ({"how": "inwards"}, OptionError, "how must be one of"),
    "key type": ({"on": "l.s = r.x"}, SchemaError, "cannot be compared"),
    "no such column": ({"on": "l.y = r.x"}, SchemaError, "l.y"),
    "no column of the relation": ({"on": "l.x = r.y"}, PredicateError, "no column 'y'"),
    "no term on the key": ({"on": "l.v = r.v"}, Exception, "x"),
    "random": ({"on": "l.x = r.x AND rand() < 0.5"}, PredicateError, "another value each time"),
    "Spark cannot": ({"on": "nofunction(l.x) = r.x"}, PredicateError, "Spark cannot compute"),
    "memory": ({"memory": "many"}, OptionError, "64 MB"),
    "too little": ({"memory": "2 kB"}, RelationError, "needs|budget|at least"),
    "no columns": ({"columns": []}, OptionError, "at least one"),
    "other columns": ({"columns": ["nix"]}, SchemaError, "no output column 'nix'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_shows_at_the_call(spark: Any, tmp_path: Path, name: str) -> None:
    changed, error, message = REFUSED[name]
    path = built(tmp_path, table(2, 60))
    frame = spark.createDataFrame(table(1, 5))
    arguments = {"path": path, "on": "l.x = r.x", "memory": MEMORY, **changed}
    with pytest.raises(error, match=message):
        relation_join(frame, **arguments)


def test_types_that_spark_lacks_are_named(spark: Any, tmp_path: Path) -> None:
    right = pa.table({"k": [1], "d": pa.array([1], pa.decimal256(60, 2))})
    path = built(tmp_path, right, "k")
    frame = spark.range(3).selectExpr("id AS k")
    with pytest.raises(SchemaError, match="'d' of the relation.*columns="):
        relation_join(frame, path, "l.k = r.k")
    assert relation_join(frame, path, "l.k = r.k", columns=["k"]).count() == 1


def test_a_time_too_fine_for_spark_is_not_rounded(tmp_path: Path) -> None:
    from thetastream.spark.types import handed

    fine = pa.array([1_001], pa.timestamp("ns"))
    with pytest.raises(DataError, match="'at'.*round it in the relation"):
        handed("at", fine, pa.timestamp("us"))


def test_a_key_behind_another_column_with_open_ends(spark: Any, tmp_path: Path) -> None:
    rates = pa.table(
        {
            "region": ["EU", "EU", "US"],
            "since": [1, 10, 1],
            "until": [9, None, None],
            "rate": [3, 4, 5],
        }
    )
    key = ("region", ("since", "until"))
    path = tmp_path / "rates.rel"
    ts.Relation.build(path, spark.createDataFrame(rates), key=key, open_ends=True).close()
    orders = pa.table({"region": ["EU", "EU", "US", "CH"], "day": [2, 5000, 3, 1]})
    on = "l.Region = r.region AND l.DAY BETWEEN r.since AND r.until"
    joined = relation_join(spark.createDataFrame(orders), path, on, MEMORY)
    facts = explain(joined).as_dict()
    assert facts["relation"]["key"] == "region, (since, until)"
    assert (facts["mode"], facts["join"]) == ("batch", f"inner on {on}")
    found = joined.toArrow().to_pylist()
    assert sorted((row["region"], row["day"], row["rate"]) for row in found) == [
        ("EU", 2, 3),
        ("EU", 5000, 4),
        ("US", 3, 5),
    ]
    with ts.Relation.open(path) as relation:
        kinds = relation.schema
        change = pa.table([["US"], [1], [7], [6]], schema=kinds)
        assert relation.update(spark.createDataFrame(change)).replaced == 1
    with pytest.raises(StateError, match="theta_join or relation_join returned"):
        explain(joined.select("day"))

"""``theta_join`` of a stream with a static DataFrame that is larger than ``memory=``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from thetastream.errors import OptionError
from thetastream.spark import explain, relation_metrics, theta_join
from thetastream.testing import assert_same_pairs, run_oracle

from ..drive import read_sink, read_stream, rows, run, run_to_files, write_pushes
from ..simulate import pairs_of
from .test_table_join import scenario, sides

SMALL = "500"  # bytes, less than any of these tables
CONDITIONS = {
    "band": "abs(l.x - r.x) <= 2 AND l.n < r.n + 5 AND coalesce(l.s, '') >= coalesce(r.s, '')",
    "equality": "l.s = r.s AND l.x * 2 + 1 > r.x",
    "computed": "pmod(l.x * 7, 11) = pmod(r.x * 5, 12) AND l.n < r.n",
    "inequality": "l.v < r.v AND l.x > r.x + 6",
}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("how", "name"),
    [("inner", "band"), ("left", "equality"), ("semi", "computed"), ("anti", "inequality")],
)
def test_a_table_larger_than_memory(spark: Any, tmp_path: Path, how: str, name: str) -> None:
    on = CONDITIONS[name]
    same = re.sub(r"pmod\((.*?), (\d+)\)", r"(\1) % \2", on)  # of numbers that are not negative
    asked = scenario(how, same)
    joined = theta_join(*sides(spark, tmp_path, asked), on, how=how, memory=SMALL, name="limits")
    told = explain(joined)
    assert "table: a table on disk of " in told
    assert "__e" not in told
    assert len(told.splitlines()) <= 25
    query = run_to_files(joined, tmp_path)
    truth = run_oracle(asked).pairs
    assert len(truth) > 10
    assert_same_pairs(pairs_of(read_sink(spark, tmp_path)), truth, note=name)
    metrics = relation_metrics(query)
    assert {each.join for each in metrics} == {"relation_join-limits"}
    assert sum(each.numInputRows for each in metrics) == 120
    assert sum(each.outputRows for each in metrics) == len(truth)


def test_intervals_are_the_key(spark: Any, tmp_path: Path) -> None:
    """Ends that are NULL match nothing, as in SQL, and empty intervals contain nothing."""
    table = rows(1, 60, 0)
    write_pushes(tmp_path / "left", [table])
    ends = "id % 9 AS low", "IF(id % 7 = 0, NULL, id % 11) AS high", "id"
    intervals = spark.range(200).selectExpr(*ends)
    stream, on = read_stream(spark, tmp_path / "left"), "l.x BETWEEN r.low AND r.high"
    joined = theta_join(stream, intervals, on, memory=SMALL, columns=["x", "id"])
    assert explain(joined).as_dict()["relation"]["key"] == "low, high"
    found = run(joined, tmp_path).table
    expected = sorted(
        (x, number)
        for x in table["x"].to_pylist()
        for number in range(200)
        if x is not None and number % 7 and number % 9 <= x <= number % 11
    )
    assert len(expected) > 100
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == expected


def test_a_table_that_is_smaller_than_it_looks(spark: Any, tmp_path: Path) -> None:
    """Spark expects a large table; what comes fits into memory, or there is nothing at all."""
    write_pushes(tmp_path / "left", [rows(1, 30, 0)])
    large = spark.range(100_000).selectExpr("id AS x", "repeat('a', 20) AS s")
    for filtered, expected in (("x % 50000 = 3", {3}), ("x % 50000 = -1", set())):
        stream = read_stream(spark, tmp_path / "left")
        joined = theta_join(stream, large.where(filtered), "l.x = r.x", memory="10 kB")
        assert "in memory per worker" not in explain(joined)
        assert set(run(joined, tmp_path).table["x"].to_pylist()) == expected


@pytest.mark.smoke
def test_what_cannot_be_joined_from_disk(spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.schema("x bigint, v double").parquet(str(tmp_path))
    table = spark.range(1000).selectExpr("id AS x", "double(id) AS w")
    larger = r"static right side is larger than memory=1 kB, .* and {}\. Raise memory=, .*Relation"
    for on, options, reason in (
        ("l.v * r.w > 3 OR l.x = 4", {"tactic": "nested-loop"}, "no term compares one of its"),
        ("l.x = r.x", {"residual": lambda left, right: left["x"] == right["x"]}, "a residual"),
    ):
        with pytest.raises(OptionError, match=larger.format(f"{reason}.*")):
            theta_join(stream, table, on, memory="1 kB", **options)
    with pytest.raises(OptionError, match="left side is larger .* only a table on the right"):
        theta_join(table, stream, "l.x = r.x", memory="1 kB")

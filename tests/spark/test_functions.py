"""Functions and residual functions through Spark: the same rows as embedded."""

from __future__ import annotations

import datetime as dt
import random
import warnings
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import thetastream as ts
from thetastream.condition.functions import TABLE
from thetastream.condition.sql import parse
from thetastream.data.evaluate import evaluate
from thetastream.errors import DataError, NestedLoopWarning, OptionError, PredicateError
from thetastream.spark import theta_join

WINDOW = ts.TimeWindow("1 day", time="at")
RANDOM = random.Random(7)
AT = dt.datetime(2024, 1, 1)
NUMBERS = [0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 100.0, float("nan"), None]
NUMBERS += [RANDOM.uniform(-3, 3) for _ in range(15)]
WORDS = ["", " a ", "abca", "aa", "日本語", None, *("ab"[at % 2] * at for at in range(12))]
TIMES = [AT + dt.timedelta(days=RANDOM.randint(-9000, 9000), seconds=at) for at in range(20)]
KINDS = {
    "number": {"x": pa.array(NUMBERS, pa.float64()), "y": pa.array(NUMBERS[::-1], pa.float64())},
    "text": {"s": pa.array(WORDS, pa.string())},
    "time": {
        "t": pa.array(TIMES, pa.timestamp("us", "UTC")),
        "u": pa.array(TIMES[::-1], pa.timestamp("us", "UTC")),
    },
}


def frame(spark: Any, columns: dict[str, pa.Array]) -> Any:
    count = len(next(iter(columns.values())))
    at = pa.array([AT] * count, pa.timestamp("us", "UTC"))
    return spark.createDataFrame(pa.table({"id": range(count), "at": at, **columns}))


@pytest.mark.parametrize("computed_by", ["spark", "engine"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_function_of_the_table(spark: Any, kind: str, computed_by: str) -> None:
    """Each row's values of all functions equal those that the embedded evaluation found."""
    columns = KINDS[kind]
    count = len(next(iter(columns.values())))
    entries = [e for e in TABLE.values() if (e.kinds[:1] or ("number",))[0] in (kind, "any")]
    if kind != "number":
        entries = [entry for entry in entries if entry.kinds[:1] == (kind,)]
    values, tests = {}, ["l.id = r.id"]
    zone = spark.conf.get("spark.sql.session.timeZone") if computed_by == "spark" else "UTC"
    own = {n: c.cast(pa.timestamp("us", zone)) if kind == "time" else c for n, c in columns.items()}
    for at, entry in enumerate(entries):
        node = parse(entry.example)
        values[f"v{at}"] = evaluate(node, lambda column: own[column.name], count)
        text = entry.example
        if computed_by == "engine":
            for name in columns:
                text = text.replace(f"l.{name}", f"COALESCE(l.{name}, r.{name})")
        near = f"{text} = r.v{at}"
        if pa.types.is_floating(values[f"v{at}"].type):
            near += f" OR abs({text} - r.v{at}) <= 0.000000000001 * abs(r.v{at})"
        tests.append(f"({near} OR (({text}) IS NULL AND r.v{at} IS NULL))")
    left, right = frame(spark, columns), frame(spark, {**columns, **values})
    wrong = []
    found = theta_join(left, right, " AND ".join(tests), WINDOW, columns=["id"]).collect()
    if len(found) < count:
        for entry, test in zip(entries, tests[1:], strict=True):
            one = theta_join(left, right, f"l.id = r.id AND {test}", WINDOW, columns=["id"])
            if one.count() < count:
                wrong.append(entry.name)
    assert not wrong
    assert sorted(row["id"] for row in found) == list(range(count))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_residual_function(spark: Any, how: str) -> None:
    """A closure over a local value, on columns that the condition does not read."""
    least = 3

    def far(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.Array:
        assert left.schema.names == ["id", "at", "x"]
        return pc.greater(pc.abs(pc.subtract(left["id"], right["id"])), least)

    columns = {"x": pa.array([at % 4 for at in range(12)])}
    left, right = frame(spark, columns), frame(spark, columns)
    found = theta_join(left, right, "l.x + 0 = r.x", WINDOW, how, residual=far).collect()
    join = ts.StreamJoin("l.x = r.x", window=ts.Unbounded(), how=how, residual=far)
    table = pa.table({"id": range(12), "at": pa.nulls(12, pa.int64()), **columns})
    expected = list(join.push(table, table)) + list(join.flush())
    pairs = [
        tuple(row.get(n) for n in ("id", "id_right")) for b in expected for row in b.to_pylist()
    ]
    answer = [row.asDict() for row in found]
    assert sorted(map(str, pairs)) == sorted(
        str((row["id"], row.get("id_right"))) for row in answer
    )
    assert bool(pairs) is (how != "anti")


def test_errors_name_what_the_user_wrote(spark: Any) -> None:
    left, right = (frame(spark, {"x": pa.array([1.0])}) for _ in range(2))
    with pytest.raises(PredicateError, match="the function asinn is not supported") as caught:
        theta_join(left, right, "asinn(sqrt(power(l.x + 1, 2) + r.x)) <= 1", WINDOW)
    assert "__e0" not in str(caught.value)
    assert caught.value.text[slice(*(caught.value.span or (0, 0)))] == "asinn"
    with pytest.raises(OptionError, match="cannot be sent to Spark's workers"):
        theta_join(left, right, "l.x = r.x", WINDOW, residual=lambda left, right: spark and left)
    with pytest.raises(OptionError, match="residual must be a function"):
        theta_join(left, right, "l.x = r.x", WINDOW, residual=5)  # type: ignore[arg-type]


def test_a_function_that_fails_fails_the_query(spark: Any) -> None:
    def wrong(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.Array:
        raise DataError("no such luck")

    def long(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.Array:
        return pa.array([True, None])

    left, right = (frame(spark, {"x": pa.array([1.0])}) for _ in range(2))
    for function, message in ((wrong, "no such luck"), (long, "1 pairs and returned 2 values")):
        with pytest.raises(Exception, match=message):
            theta_join(left, right, "l.x = r.x", WINDOW, residual=function).collect()


def test_widths_of_one_side(spark: Any) -> None:
    """As embedded; Spark computes the width, and the engine the interval that it finds."""
    xs = [-100.0, 0.0, 99.5, 100.0, 101.0, float("inf"), float("nan"), None]
    columns = {"x": pa.array(xs), "w": pa.array([1.0, None, 2.0, 0.5, -1.0, float("nan"), 1, 5.0])}
    left, right = frame(spark, columns), frame(spark, columns)
    on = "abs(l.x - r.x) <= l.w * 2 AND abs(l.x - r.x) <= r.x / 50"
    with warnings.catch_warnings():
        warnings.simplefilter("error", NestedLoopWarning)
        joined = theta_join(left, right, on, WINDOW, columns=["id", "id_right"])
    table = pa.table({"id": range(len(xs)), **columns})
    truth = ts.oracle.join([(table, table)], on, ts.Unbounded()).pairs
    assert sorted((row["id"], row["id_right"]) for row in joined.collect()) == sorted(truth)
    assert truth


@pytest.mark.parametrize(
    "on",
    ["l.s < r.s", "l.s BETWEEN r.s AND r.p", "starts_with(l.s, r.p)", "l.s NOT LIKE r.p"],
)
def test_strings_in_order(spark: Any, on: str) -> None:
    """As embedded, also where strings share their first bytes."""
    words = ["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgz", "é", "日本語の文字", "a%", None]
    columns = {"s": pa.array(words, pa.string()), "p": pa.array(words[::-1], pa.string())}
    left, right = frame(spark, columns), frame(spark, columns)
    tactic = "nested-loop" if "LIKE" in on else "auto"
    found = theta_join(left, right, on, WINDOW, columns=["id", "id_right"], tactic=tactic).collect()
    table = pa.table({"id": range(len(words)), **columns})
    truth = ts.oracle.join([(table, table)], on, ts.Unbounded()).pairs
    assert sorted((row["id"], row["id_right"]) for row in found) == sorted(truth)


def test_a_nested_loop_is_told_as_the_user_wrote_it(spark: Any) -> None:
    left, right = (frame(spark, {"x": pa.array([1.0, 0.0])}) for _ in range(2))
    with pytest.warns(NestedLoopWarning, match=r"^\(l.x \+ 1\) / r.x >= 0: no part") as seen:
        joined = theta_join(left, right, "(l.x + 1) / r.x >= 0", WINDOW, columns=["id_right"])
    assert seen[0].filename == __file__
    assert {row["id_right"] for row in joined.collect()} == {0}, "NULL, not infinity"

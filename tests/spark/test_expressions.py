"""Side expressions: what is taken out for Spark, what stays, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import thetastream as ts
from thetastream.errors import PredicateError, SchemaError
from thetastream.side import Side
from thetastream.spark import explain, theta_join
from thetastream.spark.expressions import split
from thetastream.window import TimeWindow

WINDOW = TimeWindow("1 day", time="t")


def computed(on: Any) -> tuple[str, list[str], list[str]]:
    """The predicate, and the expressions of the left and the right side."""
    found = split(on)
    return (
        found.on,
        list(found.computed[Side.LEFT].values()),
        list(found.computed[Side.RIGHT].values()),
    )


# --- Splitting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "on",
    [
        "l.x = r.x",
        "abs(l.x - r.x) <= 5",
        "l.x - r.x BETWEEN -1 AND 2",
        "l.x + 5 <= r.x - 3",
        "l.t - r.t <= INTERVAL '5' SECONDS",
        "l.a < r.a OR l.b = r.b",
        "l.a + r.b < 5",
        "concat(l.s, r.s) = 'ab'",
    ],
)
def test_what_the_engine_compares_stays(on: str) -> None:
    assert computed(on)[1:] == ([], [])


def test_expressions_of_one_side_are_taken_out() -> None:
    on, left, right = computed("l.price * 1.1 + l.fee <= r.limit AND l.x = upper(r.y)")
    assert left == ["`price` * 1.1 + `fee`"]
    assert right == ["UPPER(`y`)"]
    assert on.replace("`", "") == "l.__e0 <= r.limit AND l.x = r.__e1"


def test_a_constant_beside_an_expression_stays_for_the_engine() -> None:
    """So a band over computed columns is still a band."""
    on, left, right = computed("l.a * 2 - r.b * 3 BETWEEN -4 AND 4")
    assert (left, right) == (["`a` * 2"], ["`b` * 3"])
    assert "BETWEEN -4 AND 4" in on
    assert computed("l.a * 2 + 7 <= r.b")[1:] == (["`a` * 2"], [])


def test_the_same_expression_is_computed_once() -> None:
    _, left, right = computed("l.a * 2 < r.b AND l.a * 2 > r.c AND r.a * 2 > l.c")
    assert left == ["`a` * 2"]
    assert right == ["`a` * 2"]


def test_conditions_of_one_side_become_truth_values() -> None:
    on, left, _ = computed("l.x = r.x AND l.name RLIKE 'a.*' AND NOT l.flag")
    assert left == ["`name` RLIKE 'a.*'", "NOT `flag`"]
    assert on.count("= TRUE") == 2, on
    assert computed("l.x = r.x AND l.flag")[1] == []


def test_dotted_names() -> None:
    _, left, right = computed("l.info.x = r.info.y.z AND left.a = right.b")
    assert left == ["`info`.`x`"]
    assert right == ["`info`.`y`.`z`"]


def test_names_are_quoted_for_spark() -> None:
    assert computed("l.`a b` * 2 = r.x")[1] == ["`a b` * 2"]
    assert computed("l.`a.b` * 2 = r.x")[1] == ["`a.b` * 2"]


def test_predicates_that_were_built() -> None:
    assert computed(ts.left.x * 2 < ts.right.y)[1] == ["`x` * 2"]
    assert computed(ts.Predicate.parse("l.x * 2 < r.y"))[1] == ["`x` * 2"]


RANDOM = [
    "rand() < 0.5", "randn(3) < l.x", "uuid() = l.s", "l.t < current_timestamp()",
    "l.t < current_timestamp", "l.t < now()", "l.d <= current_date()", "l.d <= curdate()",
    "shuffle(l.a)[0] = r.x", "monotonically_increasing_id() = l.x", "input_file_name() = l.s",
    "l.x > unix_timestamp()", "l.x < uniform(1, 9)", "l.t < localtimestamp()",
    "spark_partition_id() = r.x", "l.x + r.x < rand()",
]  # fmt: skip


@pytest.mark.parametrize("condition", RANDOM)
def test_what_gives_another_value_each_time_is_refused(condition: str) -> None:
    with pytest.raises(PredicateError, match="returns another value each time") as caught:
        split(f"l.x = r.x AND {condition}")
    assert condition in str(caught.value)


def test_a_time_of_a_column_is_no_clock() -> None:
    assert computed("unix_timestamp(l.t) = r.x")[2] == []


# --- Computed by Spark --------------------------------------------------------------------------

TRUE = [
    "l.price * 1.1D + l.fee = 13.0D AND l.id = r.id",
    "substring(l.s, 1, 3) = substring(r.s, 1, 3)",
    "l.info.x + 1 = r.info.x + 1",
    "l.info.y.z = r.info.y.z",
    "l.m['a'] = element_at(r.m, 'a')",
    "l.arr[0] = r.id",
    "twice(l.id) = r.id + 1",
    "CASE WHEN l.id > 0 THEN 'h' ELSE 'n' END = left(r.s, 1)",
    "transform(l.arr, x -> x + 1)[0] = r.id + 1",
    "l.s RLIKE '^h.*o$' AND l.id = r.id",
    "l.t::date = to_date('2024-01-01') AND l.id = r.id",
    "date_trunc('hour', l.t) = date_trunc('hour', r.t)",
    "abs(unix_micros(l.t) - unix_micros(r.t)) <= 5",
    "size(l.arr) > cardinality(r.m)",
    "concat(l.s, r.s) = 'hellohello' AND l.id = r.id",
    "l.id IN (1, 2) AND l.id = r.id AND l.nothing IS NULL",
]


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    from pyspark.sql.functions import udf

    twice = udf(lambda value: value * 2, "bigint")
    spark.udf.register("twice", twice)
    spark.udf.register("noisy", twice.asNondeterministic())
    return spark.sql(
        "SELECT 1L AS id, TIMESTAMP'2024-01-01 00:00:00' AS t, 10.0D AS price, 2.0D AS fee, "
        "named_struct('x', 5, 'y', named_struct('z', 'q')) AS info, map('a', 7L) AS m, "
        "array(1L, 2L) AS arr, 'hello' AS s, CAST(NULL AS INT) AS nothing"
    )


def test_any_spark_sql_of_one_side(frame: Any) -> None:
    """All in one query: every predicate holds for the one pair, and fails for its negation."""
    other = frame.select("*")
    found = [
        theta_join(frame, other, on, WINDOW, columns=["id"]).selectExpr(f"{number} AS n")
        for number, on in enumerate(TRUE)
    ]
    none = theta_join(frame, other, "substring(l.s, 1, 3) = upper(r.s)", WINDOW, columns=["id"])
    united = none.selectExpr("-1 AS n")
    for answer in found:
        united = united.unionByName(answer)
    assert sorted(row["n"] for row in united.collect()) == list(range(len(TRUE)))


def test_explain_tells_what_spark_computes(frame: Any) -> None:
    on = "l.price * 2 + l.fee <= r.price"
    facts = explain(theta_join(frame, frame.select("*"), on, WINDOW)).as_dict()
    assert facts["computed by Spark"] == {"left": {"__e0": "`price` * 2 + `fee`"}}
    assert facts["predicate"] == on


def test_a_column_that_no_pair_of_names_can_confuse(frame: Any) -> None:
    """The computed columns are not in the answer."""
    joined = theta_join(frame, frame.select("*"), "l.id * 2 = r.id * 2", WINDOW)
    assert joined.columns == [*frame.columns, *(f"{name}_right" for name in frame.columns)]


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("noisy(l.id) = r.id", "left side is not deterministic"),
        ("l.id = noisy(r.id) + 1", "right side is not deterministic"),
        ("sum(l.id) = r.id", r"left side: .*sum\(id\)"),
        ("l.id = count(r.id) OVER ()", "right side: .*window function"),
        ("explode(l.arr) = r.id", "left side: .*generator"),
        ("nosuch(l.id) = r.id", "left side: .*NOSUCH"),
        ("l.info.nope = r.id", "left side: .*nope"),
        ("upper(l.arr) = r.s", "left side: .*UPPER"),
        ("current_user() = r.s", "must use columns of both sides"),
    ],
)
def test_what_spark_refuses_is_passed_on(frame: Any, on: str, message: str) -> None:
    with pytest.raises(PredicateError, match=f"(?i){message}") as caught:
        theta_join(frame, frame.select("*"), on, WINDOW)
    assert on in str(caught.value), "the text as the user wrote it"
    assert "__e0" not in str(caught.value)
    assert len(str(caught.value)) < 700, "no plan, no stack"


def test_values_that_have_no_order(frame: Any) -> None:
    with pytest.raises(SchemaError, match="l.info = r.info.*cannot be compared"):
        theta_join(frame, frame.select("*"), "l.info = r.info", WINDOW)

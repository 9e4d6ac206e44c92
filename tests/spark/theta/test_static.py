"""``theta_join`` on static DataFrames: the same call, everything at once, the oracle's rows."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from thetastream.spark import explain, theta_join
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.streams import MODES, Scenario
from thetastream.window import CountWindow, TimeWindow

from ..drive import SCHEMA, join_tables, rows, stream

ON = [
    "abs(l.x - r.x) <= 2",
    "l.x = r.x",
    "l.x < r.x AND l.v >= r.v",
    "l.v = r.v AND l.s <= r.s",
    "abs(l.v - r.v) < 1.5 AND l.x != r.x",
    "l.x - r.x BETWEEN -1 AND 3 OR l.s = r.s",
    "l.t - r.t BETWEEN INTERVAL '-3 seconds' AND INTERVAL '5 seconds' AND l.s = r.s",
    "l.x + 1 = r.x AND coalesce(l.s, 'none') = coalesce(r.s, 'none')",
    "r.v BETWEEN l.v * 0.8 AND 1.25 * l.v",
    "abs(l.v - r.v) <= 0.2 * l.v AND l.s = r.s",
]


@pytest.mark.parametrize("on", ON[-2:])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_relative_bands_are_partitioned_by_cells(spark: Any, on: str, how: str) -> None:
    tables = [rows(seed, 60, 0) for seed in (1, 2)]
    scenario = Scenario((tuple(tables),), on, TimeWindow("30 s", time="t"), how)
    frames = [spark.createDataFrame(table.to_pandas()) for table in tables]
    joined = theta_join(*frames, on, scenario.window, how, partitions=4)
    shown = explain(joined).as_dict()["partitioning"]
    assert shown["scheme"] == "cells"
    assert "of the values wide" in shown["by"]
    places = shown["places of a row, expected"]
    assert min(places.values()) == 1.0
    if how == "inner" or "BETWEEN" in on:
        assert max(places.values()) <= 1.2
    got = join_tables(spark, scenario, partitions=4)
    truth = run_oracle(scenario).pairs
    assert truth
    assert_same_pairs(got, truth, left=tables[0], right=tables[1], note=scenario)


def scenario_of(seed: int) -> tuple[Scenario, dict[str, Any]]:
    """Anything a seed can think of."""
    rng = random.Random(seed)
    left, right = (rows(rng.randrange(10**9), rng.choice([30, 60]), 0) for _ in range(2))
    ranks = [rng.sample(range(1000), t.num_rows) for t in (left, right)]
    left, right = (
        table.append_column("o", pa.array(sorted(rank), pa.int64()))
        for table, rank in zip((left, right), ranks, strict=True)
    )
    window: Any = rng.choice(
        [
            TimeWindow("4 s", time="t"),
            TimeWindow(("2 s", "9 s"), time="t"),
            TimeWindow("6 s", time="t", slide="2 s"),
            TimeWindow(5, time="n"),
            CountWindow((12, 20), order="o"),
            CountWindow(12, order="o", slide=4),
        ]
    )
    self_join = rng.random() < 0.25
    scenario = Scenario(
        ((left, None if self_join else right),),
        ON[seed % len(ON)],
        window,
        MODES[(seed + seed // 5) % len(MODES)],
        self_join,
    )
    return scenario, {"partitions": rng.randint(1, 4)}


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(12))
def test_static_tables_give_the_rows_of_the_oracle(spark: Any, seed: int) -> None:
    scenario, options = scenario_of(seed)
    got = join_tables(spark, scenario, **options)
    truth = run_oracle(scenario).pairs
    assert truth
    tables = [scenario.table(0), scenario.table(0 if scenario.self_join else 1)]
    assert_same_pairs(got, truth, left=tables[0], right=tables[1], note=(options, scenario))


@pytest.mark.smoke
def test_the_same_frame_twice_is_a_self_join(spark: Any) -> None:
    table = rows(3, 40, 0)
    scenario = Scenario(((table, None),), "l.x < r.x", TimeWindow("3 s", time="t"), "inner", True)
    frame = spark.createDataFrame(table.append_column("id", pa.array(range(40))))
    answer = theta_join(frame, frame, scenario.on, scenario.window).select("id", "id_right")
    got = [tuple(row) for row in answer.collect()]
    assert_same_pairs(got, run_oracle(scenario).pairs)


def test_empty_sides(spark: Any) -> None:
    full = spark.createDataFrame(rows(3, 5, 0))
    empty = spark.createDataFrame([], full.schema)
    window = TimeWindow("3 s", time="t")
    for left, right, how, expected in (
        (full, empty, "left", 5),
        (empty, full, "full", 5),
        (empty, full, "inner", 0),
        (empty, empty, "anti", 0),
    ):
        assert theta_join(left, right, "l.x = r.x", window, how).count() == expected, how


@pytest.mark.smoke
def test_names_and_types_of_the_answer(spark: Any) -> None:
    left = spark.createDataFrame(rows(3, 5, 0))
    right = left.withColumnRenamed("v", "w")
    window = TimeWindow("3 s", time="t")
    whole = theta_join(left, right, "l.x = r.x", window, suffix="_2")
    assert whole.columns == ["x", "v", "s", "t", "n", "x_2", "w", "s_2", "t_2", "n_2"]
    assert [f.dataType for f in whole.schema] == [
        *(f.dataType for f in left.schema),
        *(f.dataType for f in right.schema),
    ]
    some = theta_join(left, right, "l.x = r.x", window, columns=["w", "x_right"], event_time="et")
    assert some.columns == ["w", "x_right", "et"]
    assert some.schema["et"].dataType.simpleString() == "timestamp"
    semi = theta_join(left, right, "l.x = r.x", window, "semi")
    assert semi.columns == left.columns


def test_event_time_is_the_later_of_both(spark: Any) -> None:
    left, right = (spark.createDataFrame(rows(seed, 40, 0)) for seed in (1, 2))
    window = TimeWindow("5 s", time="t")
    answer = theta_join(left, right, "l.x = r.x", window, event_time="et").toArrow()
    assert answer.num_rows > 5
    for row in answer.to_pylist():
        assert row["et"] == max(row["t"], row["t_right"])


def test_names_in_need_of_quotes(spark: Any) -> None:
    """Dots, spaces, backticks, keywords, and columns called ``l`` and ``r``."""
    names = ["l", "r", "a.b", "the time", "sel`ect"]
    table = pa.table(
        {name: pa.array([1, 2, 3], pa.int64()) for name in names if name != "the time"}
        | {"the time": rows(1, 3, 0, nulls=False)["t"]}
    )
    frame = spark.createDataFrame(table)
    window = TimeWindow("1 day", time="the time")
    for on in ("l.l = r.r", "l.r = r.l", "l.`a.b` = r.`a.b`", "l.`sel``ect` = r.l"):
        answer = theta_join(frame, spark.createDataFrame(table), on, window).toArrow()
        assert answer.num_rows == 3, on
        assert answer.column_names == [
            *table.column_names,
            *(f"{n}_right" for n in table.column_names),
        ]
    computed = theta_join(frame, spark.createDataFrame(table), "l.l * 2 = r.r * 2", window)
    assert computed.count() == 3


def test_many_small_spark_partitions_and_none(spark: Any) -> None:
    """Rows spread over many tasks, most of them empty, and the answer in small batches."""
    table = rows(9, 60, 0)
    scenario = Scenario(((table, table),), "l.x = r.x", TimeWindow("9 s", time="t"))
    numbers = pa.array(range(60))
    left, right = (
        spark.createDataFrame(table.append_column("id", numbers)).repartition(7) for _ in range(2)
    )
    answer = theta_join(left, right, scenario.on, scenario.window, partitions=3, batch_rows=5)
    got = [tuple(row) for row in answer.select("id", "id_right").collect()]
    assert_same_pairs(got, run_oracle(scenario).pairs)


@pytest.mark.smoke
def test_explain_says_how_it_is_done(spark: Any) -> None:
    frame = spark.createDataFrame(SCHEMA.empty_table())
    window = TimeWindow("9 s", time="t")
    band = theta_join(frame, frame.select("*"), "abs(l.x - r.x) <= 2", window, partitions=3)
    facts = explain(band).as_dict()
    assert facts["partitioning"]["scheme"] == "cells"
    assert facts["partitioning"]["partitions"] == 3
    places = facts["partitioning"]["places of a row, expected"]
    assert places["left"] == 1.0
    assert 1.0 < places["right"] < 3.0
    assert facts["state"].startswith("none")  # both frames are finite
    assert "batch" in facts["mode"]
    equal = theta_join(frame, frame.select("*"), "l.x = r.x", window)
    assert explain(equal).as_dict()["partitioning"]["scheme"] == "hash"
    less = theta_join(frame, frame.select("*"), "l.x * 2 < r.x", window, partitions=4)
    facts = explain(less).as_dict()
    assert facts["partitioning"]["scheme"] == "matrix"
    assert "`x` * 2" in str(facts["computed by Spark"])
    for word in ("cells of width", "l.x", "state"):
        assert word in str(explain(band))
    assert len(explain(less).splitlines()) <= 25
    assert "__e" not in explain(less), "names of computed columns are for the long text"
    assert "`x` * 2" in explain(less, verbose=True)


def test_a_stream_and_a_table_agree(spark: Any, tmp_path: Any) -> None:
    """Where nothing is late, batch mode gives what the stream gives."""
    from ..drive import closed, join_streams

    pushes = closed(stream(17, pushes=2))
    window = TimeWindow("7 s", time="t", lateness="1 hour")
    scenario = Scenario(tuple(pushes), ON[0], window)
    streamed = join_streams(spark, tmp_path, scenario)
    assert streamed.late == 0
    assert_same_pairs(streamed.pairs, join_tables(spark, scenario))


@pytest.mark.parametrize(
    "on",
    [
        "abs(l.a - r.a) <= 0.01 * l.a",
        "r.a BETWEEN l.a * 0.99 AND l.a * 1.01",
        "r.a >= l.a * (1 - 0.01) AND l.a * (1 + 0.01) >= r.a",
    ],
)
def test_relative_bands_have_cells(spark: Any, on: str) -> None:
    """One place for the rows of one side, little more for the other; the pairs are all there."""
    rng = random.Random(5)
    values = [[rng.uniform(1, 50) ** 3 for _ in range(400)] for _ in range(2)]
    left, right = (
        spark.createDataFrame(pa.table({"id": pa.array(range(400)), "a": pa.array(column)}))
        for column in values
    )
    answer = theta_join(left, right, on, partitions=4, columns=["id", "id_right"])
    plan = explain(answer).as_dict()["partitioning"]
    assert plan["scheme"] == "cells"
    assert sorted(plan["places of a row, expected"].values()) == [1.0, 1.167]
    got = [tuple(row) for row in answer.collect()]
    expected = [
        (i, j)
        for i, a in enumerate(values[0])
        for j, b in enumerate(values[1])
        if (abs(a - b) <= 0.01 * a if "abs" in on else a * 0.99 <= b <= a * 1.01)
    ]
    assert len(expected) > 200
    assert_same_pairs(got, expected)

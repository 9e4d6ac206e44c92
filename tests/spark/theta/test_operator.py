"""``theta_join`` on streams against the oracle: a push is a micro-batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thetastream.spark import theta_join
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.streams import Scenario
from thetastream.truth.oracle import Truth
from thetastream.window import CountWindow, TimeWindow

from ..drive import (
    SCHEMA,
    Ran,
    at,
    closed,
    join_streams,
    pairs_of,
    ranked,
    run,
    sources,
    stream,
    without_closing,
)

BAND = "abs(l.x - r.x) <= 2"
MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "inner": ("l.x - r.x BETWEEN -1 AND 2 AND l.s != r.s", {}),
    "left": (BAND, {"partitioning": "cells", "cell_width": 1}),  # a band wider than its cells
    "right": ("l.x = r.x AND l.v < r.v", {}),
    "full": (BAND, {"partitions": 3}),
    "semi": ("l.v < r.v AND l.x > r.x", {"partitions": 3}),
    "anti": ("l.x = r.x", {"partitioning": "matrix"}),
}


def check_stream(spark: Any, folder: Path, scenario: Scenario, **options: Any) -> tuple[Ran, Truth]:
    """Run a scenario that ends with ``closing`` rows, and compare it with the oracle."""
    ran = join_streams(spark, folder, scenario, **options)
    truth = run_oracle(scenario)
    expected = list(without_closing(scenario, truth.pairs))
    assert expected, "a scenario without an answer shows nothing"
    tables = [scenario.table(0), scenario.table(0 if scenario.self_join else 1)]
    assert_same_pairs(ran.pairs, expected, left=tables[0], right=tables[1], note=scenario)
    return ran, truth


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.smoke] if how == "left" else []) for how in MODES]
)
def test_every_mode_on_two_streams(spark: Any, tmp_path: Path, how: str) -> None:
    """NULL keys and times, disorder, late rows, a push without a right side, sizes per side.

    The closing rows arrive in the last micro-batch with data: rows that became final through them
    are returned in the micro-batch after it, for which no data has come. A join that has no such
    rows does nothing there.
    """
    on, options = MODES[how]
    window = TimeWindow(("9 s", "4 s"), time="t", lateness="2 s")
    scenario = Scenario(tuple(closed(stream(sum(map(ord, how)), pushes=4))), on, window, how)
    ran, truth = check_stream(spark, tmp_path, scenario, **options)
    assert sum(truth.late.values()) > 0
    assert ran.late == sum(truth.late.values())
    waits = how in {"left", "right", "full", "anti"}
    assert [m.numInputRows for m in ran.metrics] == [28, 28, 14, 28, 2, *([0] if waits else [])]
    if waits:
        assert ran.metrics[-1].numRowsTotal <= 2, "only the closing rows are left"
        assert ran.metrics[-1].outputRows > 0


def test_slides_and_integer_times(spark: Any, tmp_path: Path) -> None:
    window = TimeWindow((8, 4), time="n", lateness=3, slide=4)
    scenario = Scenario(tuple(closed(stream(5, pushes=4))), BAND, window, "full")
    ran, truth = check_stream(spark, tmp_path, scenario)
    assert ran.late == sum(truth.late.values()) > 0


def test_a_watermark_of_the_user(spark: Any, tmp_path: Path) -> None:
    """``withWatermark`` instead of ``lateness``: rows at the watermark are late, as Spark says."""
    window = TimeWindow("9 s", time="t", lateness="1999 ms")
    scenario = Scenario(tuple(closed(stream(43, pushes=4))), BAND, window, "right")
    left, right = (
        frame.withWatermark("t", "2 seconds") for frame in sources(spark, tmp_path, scenario)
    )
    ran = run(theta_join(left, right, BAND, TimeWindow("9 s", time="t"), "right"), tmp_path)
    truth = run_oracle(scenario)
    assert_same_pairs(ran.pairs, list(without_closing(scenario, truth.pairs)), note=scenario)
    assert ran.late == sum(truth.late.values()) > 0


@pytest.mark.parametrize("twice", [False, True], ids=["right=None", "the same twice"])
def test_a_stream_with_itself(spark: Any, tmp_path: Path, twice: bool) -> None:
    """Both roles of every row; ``how`` and predicate are not symmetric."""
    pushes = closed([(left, None) for left, _ in stream(23, pushes=3)])
    how = "full" if twice else "left"
    scenario = Scenario(
        tuple((left, None) for left, _ in pushes),
        "l.x - r.x BETWEEN 1 AND 3",
        TimeWindow(("8 s", "3 s"), time="t", lateness="2 s"),
        how,
        self_join=True,
    )
    source, _ = sources(spark, tmp_path, scenario)
    frame = theta_join(
        source, source if twice else None, scenario.on, scenario.window, how, partitions=3
    )
    ran = run(frame, tmp_path)
    truth = run_oracle(scenario)
    expected = list(without_closing(scenario, truth.pairs))
    assert_same_pairs(ran.pairs, expected, note=scenario)
    assert ran.late == truth.late["left"] > 0


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_count_windows_mean_the_same_for_any_number_of_partitions(
    spark: Any, tmp_path: Path, partitions: int
) -> None:
    window = CountWindow((9, 6), order="o", slide=3)
    scenario = Scenario(ranked(closed(stream(31, pushes=3))), BAND, window)
    ran, _ = check_stream(spark, tmp_path, scenario, partitions=partitions)
    assert {m.numRowsDroppedByWatermark for m in ran.metrics} == {0}
    assert set(ran.metrics[0].rowsPerPartition) == set(range(partitions))


def test_unmatched_rows_of_a_count_window_leave_with_it(spark: Any, tmp_path: Path) -> None:
    """Rows still in the window when the stream pauses are not given yet; none is given twice."""
    window = CountWindow(8, order="o")
    scenario = Scenario(ranked(closed(stream(37, pushes=4))), BAND, window, "full")
    ran = join_streams(spark, tmp_path, scenario, partitions=2)
    truth = run_oracle(scenario).pairs
    assert len(set(ran.pairs)) == len(ran.pairs)
    assert set(ran.pairs) <= set(truth)
    left, right = scenario.table(0).num_rows, scenario.table(1).num_rows
    missing = set(truth) - set(ran.pairs)
    assert all(None in pair for pair in missing)
    assert all((p if p is not None else left) >= left - 9 for p, _ in missing)
    assert all((q if q is not None else right) >= right - 9 for _, q in missing)


# --- Keys that partitioning finds hard ----------------------------------------------------------


def keyed(keys: list[int], start: int) -> pa.Table:
    """One row per key, a second apart."""
    count = len(keys)
    columns = {
        "x": keys,
        "v": [0.5] * count,
        "s": ["a"] * count,
        "t": [at(start + i) for i in range(count)],
        "n": list(range(1, count + 1)),
    }
    return pa.table(columns, schema=SCHEMA)


def on_the_wall(table: pa.Table) -> pa.Table:
    """The same times without a zone."""
    at_t = table.column_names.index("t")
    return table.set_column(at_t, "t", table["t"].cast(pa.timestamp("us")))


def test_a_hot_cell_is_right_and_visible(spark: Any, tmp_path: Path) -> None:
    """All keys in one cell: one partition does the work, and the metrics say so."""
    pushes = [(keyed([5, 6, 7] * 4, 12 * i), keyed([6, 5, 6] * 4, 12 * i)) for i in range(2)]
    scenario = Scenario(tuple(closed(pushes)), BAND, TimeWindow("5 s", time="t"))
    ran, _ = check_stream(spark, tmp_path, scenario, partitions=3, cell_width=1000)
    assert sorted(ran.metrics[0].rowsPerPartition.values()) == [0, 0, 24]
    assert ran.metrics[0].skew == 3.0


def test_strictly_rising_keys_move_from_cell_to_cell(spark: Any, tmp_path: Path) -> None:
    """No partition is left alone with the newest keys; the times here have no zone."""
    pushes = [
        (
            keyed([10**12 + 20 * (40 * i + j) for j in range(40)], 40 * i),
            keyed([10**12 + 20 * (40 * i + j) + 1 for j in range(40)], 40 * i),
        )
        for i in range(3)
    ]
    walls = tuple((on_the_wall(left), on_the_wall(right)) for left, right in closed(pushes))
    scenario = Scenario(walls, BAND, TimeWindow("6 s", time="t"), "left")
    ran, _ = check_stream(spark, tmp_path, scenario, partitions=3)
    for metrics in ran.metrics[:3]:
        assert all(rows > 0 for rows in metrics.rowsPerPartition.values()), metrics
        assert metrics.skew < 2


def test_schemes_give_the_same_rows(spark: Any, tmp_path: Path) -> None:
    """One query, three joins: by hash, by cells narrower than the band, and by a matrix."""
    on = "l.x = r.x AND abs(l.n - r.n) <= 4"
    scenario = Scenario(
        tuple(closed(stream(41, pushes=3))), on, TimeWindow("9 s", time="t", lateness="4 s")
    )
    left, right = sources(spark, tmp_path, scenario)
    from pyspark.sql import functions as F

    options: dict[str, dict[str, Any]] = {
        "hash": {},
        "cells": {"cell_width": 1},
        "matrix": {"partitions": 4},
    }
    frames = [
        theta_join(left, right, on, scenario.window, partitioning=scheme, **more).withColumn(
            "scheme", F.lit(scheme)
        )
        for scheme, more in options.items()
    ]
    ran = run(frames[0].unionByName(frames[1]).unionByName(frames[2]), tmp_path)
    truth = run_oracle(scenario)
    for scheme in options:
        mask = pa.compute.equal(ran.table["scheme"], scheme)
        assert_same_pairs(pairs_of(ran.table.filter(mask)), truth.pairs, note=(scheme, scenario))
    assert len({metrics.join for metrics in ran.metrics}) == 3, "every join reports by itself"
    assert ran.late == 3 * sum(truth.late.values())

"""Joins with their whole state in files, on real Spark: without a state store and a watermark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from thetastream.errors import DataError, StateError
from thetastream.spark import explain, theta_join
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.streams import Scenario
from thetastream.window import CountWindow, TimeWindow

from ..drive import (
    check_restart,
    closed,
    go_on,
    join_streams,
    pairs_of,
    ranked,
    read_sink,
    run_to_files,
    sources,
    stream,
)

BAND = "abs(l.x - r.x) <= 2"
WINDOW = TimeWindow(("9 s", "4 s"), time="t", lateness="2 s")
RANKS = CountWindow(20, order="o")


def scenario(
    how: str = "inner", on: str = BAND, window: Any = WINDOW, pushes: int = 4, **more: Any
) -> Scenario:
    rows: Any = stream(11, pushes)
    rows = ranked(rows) if isinstance(window, CountWindow) else tuple(closed(rows))
    return Scenario(rows, on, window, how, **more)


@pytest.mark.parametrize(
    ("how", "on", "window"),
    [
        pytest.param("inner", BAND, WINDOW, marks=pytest.mark.smoke),
        ("semi", "l.v < r.v AND l.x > r.x", WINDOW),
        ("inner", "l.x = r.x AND l.v < r.v", TimeWindow((8, 4), time="n", lateness=3)),
        ("inner", BAND, RANKS),
    ],
)
def test_the_answer_is_that_of_the_oracle(
    spark: Any, tmp_path: Path, how: str, on: str, window: Any
) -> None:
    case = scenario(how, on, window)
    ran = join_streams(spark, tmp_path, case, partitions=3, state_path=str(tmp_path / "state"))
    truth = run_oracle(case)
    if window is RANKS:
        assert set(ran.pairs) <= set(truth.pairs), "rows of the last ranks still wait"
        assert len(set(ran.pairs)) == len(ran.pairs) > 20
    else:
        assert_same_pairs(ran.pairs, truth.pairs, note=case)
        assert ran.late == sum(truth.late.values()) > 0
    assert not any(progress.stateOperators for progress in ran.progress)
    assert all(len(metrics.rowsPerPartition) == 3 for metrics in ran.metrics)


def test_a_self_join(spark: Any, tmp_path: Path) -> None:
    case = scenario(self_join=True)
    ran = join_streams(spark, tmp_path, case, state_path=str(tmp_path / "state"))
    assert_same_pairs(ran.pairs, run_oracle(case).pairs, note=case)


def test_what_waits_for_the_watermark_uses_the_state_store(spark: Any, tmp_path: Path) -> None:
    left, right = sources(spark, tmp_path, scenario())
    options: dict[str, Any] = {"window": WINDOW, "state_path": str(tmp_path / "state")}
    facts = explain(theta_join(left, right, BAND, **options)).as_dict()["state"]
    assert facts["record"].startswith("files in ")
    timed = left.withWatermark("t", "2 seconds"), right.withWatermark("t", "2 seconds")
    marked = {"window": TimeWindow("9 s", time="t"), "state_path": str(tmp_path / "state")}
    for joined in (
        theta_join(left, right, BAND, how="left", **options),
        theta_join(left, right, BAND, event_time="at", **options),
        theta_join(left, right, BAND, aggregate={"pairs": "count"}, **options),
        theta_join(*timed, BAND, **marked),
    ):
        assert explain(joined).as_dict()["state"]["record"] == "in Spark's state store"


# --- Restarts and sinks -------------------------------------------------------------------------


def test_a_restart_goes_on(spark: Any, tmp_path: Path) -> None:
    case = scenario(pushes=6)
    check_restart(spark, tmp_path, case, 3, state_path=str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("changed", "folder", "error", "message"),
    [
        (
            {},
            "elsewhere",
            DataError,
            "needs the record of micro-batch 1 in state_path, and there is none",
        ),
        ({"on": "abs(l.x - r.x) <= 1"}, "state", StateError, "holds the state of another join"),
    ],
)
def test_what_does_not_belong_to_the_checkpoint_is_refused(
    spark: Any,
    tmp_path: Path,
    changed: dict[str, Any],
    folder: str,
    error: type[Exception],
    message: str,
) -> None:
    case = scenario()
    go_on(spark, tmp_path, case, 2, state_path=str(tmp_path / "state"))
    other, path = replace(case, **changed), str(tmp_path / folder)
    with pytest.raises(error, match=message):
        go_on(spark, tmp_path, other, len(case.pushes), state_path=path)
    go_on(spark, tmp_path, case, state_path=str(tmp_path / "state"))
    assert_same_pairs(pairs_of(read_sink(spark, tmp_path)), run_oracle(case).pairs, note=case)


def test_two_joins_of_a_query_do_not_share_a_folder(spark: Any, tmp_path: Path) -> None:
    left, right = sources(spark, tmp_path, scenario())
    path = str(tmp_path / "state")
    joins = [
        theta_join(left, right, BAND, window=WINDOW, state_path=at) for at in (path, path + "/")
    ]
    writer = joins[0].union(joins[1]).writeStream.format("noop")
    with pytest.raises(StateError, match="2 joins of this query have state_path=.*/state'"):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert not (tmp_path / "checkpoint").exists()


def each(spark: Any, folder: Path, sink: Any) -> None:
    """Run a join into a function that is called with the answer of every micro-batch."""
    left, right = sources(spark, folder, scenario())
    query = (
        theta_join(left, right, BAND, window=WINDOW, state_path=str(folder / "state"))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_sink_may_read_an_answer_twice(spark: Any, tmp_path: Path) -> None:
    pairs: list[Any] = []

    def twice(batch: Any, number: int) -> None:
        count = batch.count()
        rows = batch.select("`row number`", "`row number_right`").collect()
        assert len(rows) == count
        pairs.extend(tuple(row) for row in rows)

    each(spark, tmp_path, twice)
    assert_same_pairs(pairs, run_oracle(scenario()).pairs, note=scenario())


def test_a_sink_that_passes_over_an_answer_stops_the_query(spark: Any, tmp_path: Path) -> None:
    def all_but_the_first(batch: Any, number: int) -> None:
        if number:
            batch.collect()

    with pytest.raises(StreamingQueryException, match="a sink did not read the whole answer"):
        each(spark, tmp_path, all_but_the_first)


@pytest.mark.parametrize("how", ["coalesce", "union"])
def test_partitions_that_are_regrouped_are_refused(spark: Any, tmp_path: Path, how: str) -> None:
    left, right = sources(spark, tmp_path, scenario())
    one, other = (
        theta_join(left, right, on, WINDOW, state_path=str(tmp_path / f"state {number}"))
        for number, on in enumerate((BAND, "l.x = r.x"))
    )
    frame = one.coalesce(1) if how == "coalesce" else one.unionByName(other)
    with pytest.raises(StreamingQueryException, match="Something regrouped the partitions"):
        run_to_files(frame.select("`row number`"), tmp_path)


def test_the_state_may_lie_in_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    state = str(tmp_path / "checkpoint" / "thetastream")
    check_restart(spark, tmp_path, scenario(pushes=6), 3, state_path=state)


def test_micro_batches_without_rows(spark: Any, tmp_path: Path) -> None:
    rows, empty = stream(11, 4), (None, None)
    pushes: Any = (empty, *rows[:2], empty, empty, *closed(rows[2:]))
    case = replace(scenario(), pushes=pushes)
    ran = join_streams(spark, tmp_path, case, partitions=3, state_path=str(tmp_path / "state"))
    assert_same_pairs(ran.pairs, run_oracle(case).pairs, note=case)


def test_a_micro_batch_leaves_one_record(spark: Any, tmp_path: Path) -> None:
    state = tmp_path / "state"
    ran = join_streams(spark, tmp_path, scenario(), partitions=2, state_path=str(state))
    records = sorted(path.stem for path in state.rglob("*.state"))
    assert records == sorted(str(m.batchId) for m in ran.metrics for _ in range(2))
    assert not list(state.rglob("*.part"))

"""Opening a partition: an engine that is behind catches up, or is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from thetastream.spark.state.opening import new_partition
from thetastream.spark.state.record import ANCESTORS
from thetastream.spark.state.state import OpenPartition
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.step import ALIVE

from ..simulate import DictStore
from .steps import begun, feed, spec

pytestmark = pytest.mark.usefixtures("own_runs")


def behind(join: JoinSpec, store: DictStore, batches: int) -> OpenPartition:
    """A partition is alive here, while another process has it for some micro-batches."""
    here = ALIVE._held.copy()
    for number in range(batches):
        times = range(21 + 20 * number, 41 + 20 * number)
        feed(join, store, times, times.start - 1, fresh=True)
    ALIVE._held = here
    (opened,) = here.values()
    return opened


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
@pytest.mark.parametrize("batches", [1, 3, 12])
def test_an_engine_that_is_behind_catches_up(how: str, batches: int) -> None:
    join, store = begun(how)
    opened = behind(join, store, batches)
    stored = opened.meta.stored["left"]
    twin, times = store.copy(), range(21 + 20 * batches, 41 + 20 * batches)
    report = feed(join, store, times, times.start - 1)
    assert report["origin"] == "catch-up"
    assert opened.meta.stored["left"] == stored + 20 * (batches + 1)
    opened.partition.check()
    other = feed(join, twin, times, times.start - 1, fresh=True)
    assert other["origin"] == "attach"
    for name in ("rows", "matches", "output_rows", "left_stored", "right_stored"):
        assert report[name] == other[name], name


def test_an_engine_that_is_far_behind_is_dropped() -> None:
    join, store = begun()
    behind(join, store, ANCESTORS + 1)
    times = range(21 + 20 * (ANCESTORS + 1), 41 + 20 * (ANCESTORS + 1))
    assert feed(join, store, times, times.start - 1)["origin"] == "attach"


def test_an_engine_of_a_failed_task_is_dropped() -> None:
    """Its token is in no record, though its rows may be those of the task that succeeded."""
    join, store = begun()
    before = store.copy()
    feed(join, store, range(21, 41), 20)
    assert feed(join, before, range(21, 41), 20)["origin"] == "attach"


def test_catching_up_reads_what_was_added(tmp_path: Path) -> None:
    join, store = begun()
    behind(join, store, 2)
    for path in (tmp_path / "runs").rglob("*.arrow"):
        path.unlink()
    report = feed(join, store, range(61, 81), 60)
    assert (report["origin"], report["fetched_runs"]) == ("catch-up", 4), "two runs a side"


def test_a_new_partition_holds_nothing() -> None:
    held = new_partition(spec())
    assert (held.meta.runs, held.meta.stored) == ([], {})

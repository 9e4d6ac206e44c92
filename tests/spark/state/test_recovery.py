"""Recovery drills: whatever is stopped or killed, the sink holds the oracle's rows, each once.

The query runs in processes of its own, over files, into files; see ``rig`` and ``drill``.
"""

from __future__ import annotations

import random
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from thetastream.spark.session import LOCAL_MANAGER, MANAGER, SHUFFLE

from .rig import CASES, FAILED, Drill, Process, kill, processes, write_stream

pytestmark = [
    pytest.mark.drill,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="drills find processes through /proc"
    ),
]
PUSHES, ROWS = 6, 40
JOINS = [
    ("cells", 1),
    ("hash", 2),
    ("matrix", 3),
    ("ranks", 4),
    ("files", 5),
    ("all in files", 6),
    ("relative", 7),
    ("both", 8),
]
KILLS = {
    1: ("later", "logged"),
    2: ("written", "begun"),
    3: ("logged", "later"),
    4: ("begun", "written"),
    5: ("written", "logged"),
    6: ("logged", "begun", "written"),
    7: ("begun", "logged"),
    8: ("later", "written"),
}


def prepared(folder: Path, name: str, seed: int, pushes: int = PUSHES, **changes: Any) -> Drill:
    drill = Drill(folder, CASES[name], **changes)
    write_stream(drill.source, drill.case, seed, pushes, ROWS)
    return drill


def is_worker(process: Process) -> bool:
    return "spark.daemon" in process.command  # Spark's own, or the one that loads the engine


def run_to_end(drill: Drill) -> None:
    """Start until the query has come to its end; a failure means one more start."""
    for _ in range(4):
        if drill.finish() == 0:
            return
    pytest.fail(f"the query does not recover: {drill.errors()}; {drill.log()}")


# --- Stop and start -----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "seed"), JOINS)
def test_stop_and_start_again(tmp_path: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)
    first, second, third = sorted(rng.sample(range(PUSHES - 1), 3))
    drill = prepared(tmp_path, name, seed, changes={"stops": [first, second], "leave": True})
    assert drill.finish() == 0, drill.log()
    before = drill.committed()
    assert second <= before < PUSHES
    if seed % 2:
        drill.environment["THETASTREAM_RUNS"] = str(tmp_path / "another host")
    else:
        for path in drill.runs.rglob("*.arrow"):
            spoilt = bytearray(path.read_bytes())
            spoilt[-9] ^= 1
            path.write_bytes(spoilt)
    drill.changes = {"stops": [max(third, before + 1)]}
    assert drill.finish() == 0, drill.log()
    drill.check()
    rebuilds = sum(metrics["rebuilds"] for metrics in drill.metrics())
    if (name, seed) in JOINS[:4]:  # whose runs are in the state store, too
        assert rebuilds == 2, "each partition is rebuilt once, after its files were lost"


def test_a_local_checkpoint_continues_with_another_file_manager(tmp_path: Path) -> None:
    """There and back again; a driver is killed on the way."""
    local = {"settings": {MANAGER: LOCAL_MANAGER}}
    drill = prepared(tmp_path, "hash", 2, changes={"stops": [1], "leave": True})
    assert drill.finish() == 0, drill.log()
    drill.changes = local
    with drill.process() as running:
        assert drill.await_that(running, lambda: drill.begun() >= 3), drill.log()
        running.kill()
    drill.changes = {**local, "stops": [4], "leave": True}
    assert drill.finish() == 0, drill.log()
    drill.changes = {}
    run_to_end(drill)
    drill.check()


def test_a_restart_elsewhere(tmp_path: Path) -> None:
    """A driver is killed; the query goes on with other cores, tasks, and another spelling."""
    drill = prepared(tmp_path, "cells", 9)
    with drill.process() as running:
        assert drill.await_that(running, lambda: drill.begun() >= 3), drill.log()
        running.kill()
    drill.master = "local[3,4]"
    drill.changes = {
        "on": "(ABS(l.X-r.`x`)<=1.5)",
        "options": {"batch_rows": 64, "cell_width": 2, "checkpoint": str(drill.checkpoint)},
        "settings": {SHUFFLE: "5"},
    }
    run_to_end(drill)
    drill.check()


@pytest.mark.parametrize("name", ["table", "table on disk"])
def test_a_stream_with_a_table_is_killed(tmp_path: Path, name: str) -> None:
    """No state, but micro-batches that are begun again, and workers that index the table again."""
    drill = prepared(tmp_path, name, 7)
    with drill.process() as running:
        assert drill.await_that(running, lambda: drill.begun() >= 1), drill.log()
        found = [process for process in processes(drill.mark) if is_worker(process)]
        daemons = {process.id for process in found}
        for process in found:
            if process.parent in daemons:
                kill(process.id)
        assert drill.await_that(running, lambda: drill.begun() >= 3), drill.log()
        running.kill()
    run_to_end(drill)
    drill.check()


# --- The driver ---------------------------------------------------------------------------------


def reach(drill: Drill, running: Any, moment: str, rng: random.Random) -> bool:
    """Wait for a moment in the middle of a micro-batch; False when the query ended before it.

    *begun*: its files were chosen. *later*: some time after. *written*: files of the answer are in
    the sink's folder. *logged*: they are in the sink's log, but the micro-batch is not committed.
    """
    target = drill.committed() + 2 + rng.randrange(2)  # there is state by then
    if not drill.await_that(running, lambda: drill.begun() >= target):
        return False
    sink = drill.folder / "sink"
    if moment == "later":
        time.sleep(rng.uniform(0, 1.5))
    elif moment == "written":
        files = set(sink.glob("*.parquet"))
        return drill.await_that(running, lambda: set(sink.glob("*.parquet")) != files)
    elif moment == "logged":
        logged = sink / "_spark_metadata" / str(target)
        return drill.await_that(running, logged.exists)
    return True


@pytest.mark.parametrize(("name", "seed"), JOINS)
def test_kill_of_the_driver(tmp_path: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)
    drill = prepared(tmp_path, name, seed)
    halves = 0
    for moment in KILLS[seed]:
        with drill.process() as running:
            if not reach(drill, running, moment, rng):
                break
            for process in processes(drill.mark):
                if not is_worker(process):
                    kill(process.id)
            running.wait(60)
            halves += drill.begun() > drill.committed()
    assert halves, "no micro-batch was cut"
    run_to_end(drill)
    drill.check()


# --- Workers and executors ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "seed"), [JOINS[1], JOINS[2], JOINS[4], JOINS[5]])
def test_kill_of_python_workers(tmp_path: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)
    drill = prepared(tmp_path, name, seed)
    killed = 0
    with drill.process() as running:
        for _ in range(4):
            if not drill.await_that(running, lambda: drill.begun() > drill.committed()):
                break
            time.sleep(rng.uniform(0, 0.7))
            found = [process for process in processes(drill.mark) if is_worker(process)]
            ids = {process.id for process in found}
            workers = [process for process in found if process.parent in ids]
            for process in rng.sample(workers, min(len(workers), rng.randint(1, 2))):
                kill(process.id)
                killed += 1
            done = drill.committed()
            if not drill.await_that(running, lambda done=done: drill.committed() > done):
                break
        status = running.wait(600)
    assert killed, "there was no worker to kill"
    if status:
        run_to_end(drill)
    drill.check()


@pytest.mark.parametrize(("name", "seed"), [JOINS[1], JOINS[5]])
@pytest.mark.parametrize("victim", ["worker", "executor", "driver"])
def test_kill_while_a_partition_catches_up(
    tmp_path: Path, name: str, seed: int, victim: str
) -> None:
    """It stores the rows that another worker has added since, and does not come to its end."""
    marker = tmp_path / "stalled"
    trip = {"stage": "catch-up", "marker": str(marker)}
    drill = prepared(tmp_path, name, seed, pushes=14, changes={"trip": trip})
    if victim == "executor":
        drill.master = "local-cluster[1,2,1024]"
        drill.environment["SPARK_HOME"] = str(spark_home(tmp_path))
    with drill.process() as running:
        stalled = drill.await_that(running, lambda: marker.exists() and bool(marker.read_text()))
        assert stalled, f"no partition was behind; {drill.log()}"
        if victim == "worker":
            kill(int(marker.read_text()))
        elif victim == "executor":
            (executor,) = executors(drill)
            kill(executor.id)
        status = FAILED if victim == "driver" else running.wait(600)
    if status:
        run_to_end(drill)
    drill.check()


@pytest.mark.parametrize(("name", "seed"), [JOINS[0], JOINS[3]])
def test_run_files_are_deleted_between_micro_batches(tmp_path: Path, name: str, seed: int) -> None:
    drill = prepared(tmp_path, name, seed, pushes=12)
    deleted = 0
    with drill.process() as running:
        done = drill.committed()
        while drill.await_that(running, lambda done=done: drill.committed() > done):
            done = drill.committed()
            for path in drill.runs.rglob("*.arrow"):
                path.unlink(missing_ok=True)
                deleted += 1
        assert running.wait(600) == 0, drill.log()
    assert deleted
    assert sum(metrics["fetchedRuns"] for metrics in drill.metrics()) > 0
    drill.check()


@pytest.mark.parametrize(("name", "seed"), [JOINS[1], JOINS[5]])
def test_a_host_that_refuses_warm_workers(tmp_path: Path, name: str, seed: int) -> None:
    """NumPy starts threads there, so no loaded process can be forked."""
    settings = {"spark.executorEnv.OMP_NUM_THREADS": "4"}
    drill = prepared(tmp_path, name, seed, changes={"settings": settings})
    drill.environment["OMP_NUM_THREADS"] = "4"
    with drill.process() as running:
        assert drill.await_that(running, lambda: drill.begun() > 1), drill.log()
        found = [process for process in processes(drill.mark) if is_worker(process)]
        ids = {process.id for process in found}
        workers = [process for process in found if process.parent in ids]
        assert workers, "there was no worker to kill"
        kill(workers[0].id)
        status = running.wait(600)
        log = (tmp_path / f"log-{drill.starts}.txt").read_text(errors="replace")
    assert "Python workers start cold: " in log
    if status:
        run_to_end(drill)
    drill.check()


@pytest.mark.parametrize(("name", "seed"), [JOINS[0], JOINS[1], JOINS[5]])
def test_loss_of_an_executor(tmp_path: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)
    drill = prepared(tmp_path, name, seed, master="local-cluster[2,1,1024]")
    drill.environment["SPARK_HOME"] = str(spark_home(tmp_path))
    with drill.process() as running:
        assert drill.await_that(running, lambda: drill.begun() >= 1), drill.log()
        time.sleep(rng.uniform(0, 1))
        found = executors(drill)
        assert found, "there was no executor to kill"
        kill(rng.choice(found).id)
        status = running.wait(600)
    if status:
        run_to_end(drill)
    drill.check()


def executors(drill: Drill) -> list[Process]:
    found = processes(drill.mark)
    return [process for process in found if "CoarseGrainedExecutorBackend" in process.command]


def spark_home(folder: Path) -> Path:
    """Spark as it is installed, but with a place of its own for the files of executors."""
    import pyspark

    home = folder / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


# --- Tasks that fail halfway --------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_failure_while_packing(tmp_path: Path, seed: int) -> None:
    trip = {"stage": "pack", "row": 2 * ROWS + seed, "marker": str(tmp_path / "tripped")}
    drill = prepared(tmp_path, "cells", seed, changes={"trip": trip})
    drill.case = replace(drill.case, on="abs(trip(l.x, l.id) - r.x) <= 1.5")
    assert drill.finish() == 0, drill.log()
    assert (tmp_path / "tripped").exists()
    drill.check()


@pytest.mark.parametrize(
    ("name", "seed", "moment"),
    [
        *[("cells", 1, "last"), ("hash", 2, "first"), ("matrix", 3, "last")],
        *[("ranks", 4, "first"), ("files", 5, "last")],
        *[("all in files", 6, "first"), ("all in files", 7, "last")],
    ],
)
def test_failure_while_joining(tmp_path: Path, name: str, seed: int, moment: str) -> None:
    marker = tmp_path / "tripped"
    trip = {"stage": "join", "moment": moment, "skip": 2, "marker": str(marker)}
    drill = prepared(tmp_path, name, seed, changes={"trip": trip})
    assert drill.finish() == 0, drill.log()
    assert marker.exists()
    drill.check()


# --- What is refused ----------------------------------------------------------------------------


def test_another_join_on_an_old_checkpoint(tmp_path: Path) -> None:
    drill = prepared(tmp_path, "cells", 1, changes={"stops": [2], "leave": True})
    assert drill.finish() == 0, drill.log()
    window = {**drill.case.window, "size": "31 seconds"}
    options = drill.orders()["options"]
    schema = drill.orders()["schema"].replace("note string", "note string, more bigint")
    drill.changes = {
        "variants": [
            {"on": "abs(l.x - r.x) <= 1"},
            {"window": window},
            {"schema": schema},
            {"how": "inner"},
            {"options": {**options, "partitions": 3}},
        ]
    }
    assert drill.finish() == FAILED
    predicate, length, columns, how, number = drill.errors()
    assert "was  abs(l.x - r.x) <= 1.5" in predicate
    assert "is   abs(l.x - r.x) <= 1\n" in predicate
    assert "30 s" in length
    assert "31 s" in length
    assert "columns of the left side" in columns
    assert "more int64" in columns
    assert "was  left" in how
    assert "is   inner" in how
    assert "partitions" in number
    assert "is   3" in number
    for text in drill.errors():
        assert "the checkpoint holds the state of another join" in text
    drill.changes = {}
    assert drill.finish() == 0, "the join that it was goes on"
    drill.check()


@pytest.mark.parametrize(("name", "seed"), [("hash", 2), ("files", 5), ("all in files", 6)])
def test_a_corrupt_run_stops_the_query(tmp_path: Path, name: str, seed: int) -> None:
    drill = prepared(tmp_path, name, seed, changes={"stops": [2], "leave": True})
    assert drill.finish() == 0, drill.log()
    files = {path: path.read_bytes() for path in drill.state.rglob("*.arrow")}
    if drill.case.files:
        for path, blob in files.items():
            path.write_bytes(blob[:-9] + bytes([blob[-9] ^ 1]) + blob[-8:])
        drill.changes = {}
    else:
        drill.environment["THETASTREAM_RUNS"] = str(tmp_path / "another host")
        drill.changes = {"corrupt": True}
    assert drill.finish() == FAILED
    (text,) = drill.errors()
    assert re.search(r"partition [01] of 2: run \w{32} of the (left|right) side", text)
    assert "is corrupt: expected" in text
    assert "the query stops rather than lose rows" in text
    for path, blob in files.items():
        path.write_bytes(blob)
    drill.changes = {}
    assert drill.finish() == 0, drill.log()
    drill.check()

"""What a recovery drill needs around the query: streams on disk, processes to kill, the truth.

A drill's query runs in processes of its own (``drill.py``). Which files made up a micro-batch is
read back from the checkpoint, as a kill between two logs of Spark may put two files into one; the
oracle joins exactly those pushes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import thetastream
from thetastream.truth import oracle
from thetastream.window import CountWindow, TimeWindow, Unbounded, Window

SCRIPT = Path(__file__).with_name("drill.py")
MARK = "THETASTREAM_DRILL"
FAILED = 3
SLOW = "Python worker failed to connect back"
START = datetime(2024, 3, 1, 12, tzinfo=UTC)
FAR = 1_000_000
SIDES = ("left", "right")

# --- Joins --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A join to drill. ``clock`` is the kind of its time column.

    With ``files`` the runs are files of a folder instead of blobs in the state store; the whole
    state is, if the join is an inner one.
    """

    on: str
    how: str
    window: dict[str, Any]
    scheme: str
    clock: str = "timestamp"
    options: dict[str, Any] = field(default_factory=dict)
    files: bool = False

    @property
    def kind(self) -> str:
        return self.window["kind"]

    def bound(self) -> Window:
        if self.kind == "none":
            return Unbounded()
        shape = {name: value for name, value in self.window.items() if name != "kind"}
        return TimeWindow(**shape) if self.kind == "time" else CountWindow(**shape)


_SECONDS = {"kind": "time", "size": "30 seconds", "time": "t", "lateness": "5 seconds"}
_UNITS = {"kind": "time", "size": 30_000, "time": "t", "lateness": 5_000}
CASES = {
    "cells": Case("abs(l.x - r.x) <= 1.5", "left", _SECONDS, "cells", options={"cell_width": 2}),
    "hash": Case("l.k = r.k AND l.x <= r.x", "full", _UNITS, "hash", "bigint"),
    "matrix": Case("l.x < r.x - 4 AND l.y > r.y + 4", "left", _SECONDS, "matrix"),
    "table": Case("abs(l.x - r.x) <= 1.5 AND l.y < r.y", "left", {"kind": "none"}, ""),
    "table on disk": Case(
        "abs(l.x - r.x) <= 1.5 AND l.y < r.y",
        "left",
        {"kind": "none"},
        "",
        options={"memory": "1 kB"},
    ),
    "relative": Case("abs(l.x - r.x) <= 0.1 * l.x", "left", _SECONDS, "cells"),
    "both": Case("l.k = r.k AND abs(l.x - r.x) <= 4", "full", _SECONDS, "cells"),
    "files": Case("l.k = r.k AND l.y > r.x", "full", _SECONDS, "hash", files=True),
    "all in files": Case(
        "abs(l.x - r.x) <= 1.5", "inner", _SECONDS, "cells", options={"cell_width": 2}, files=True
    ),
    "ranks": Case(
        "abs(l.x - r.x) <= 1",
        "inner",
        {"kind": "count", "size": 40, "order": "t"},
        "cells",
        "bigint",
    ),
}


# --- Streams ------------------------------------------------------------------------------------


def _times(rng: random.Random, case: Case, number: int, rows: int) -> list[Any]:
    """Times in milliseconds, with disorder and rows that come too late; ranks only rise."""
    times = [1000 + 6000 * number + rng.randrange(6000) for _ in range(rows)]
    if case.kind == "count":
        return sorted(times)
    return [max(1, time - 20_000) if rng.random() < 0.06 else time for time in times]


def _table(rng: random.Random, case: Case, number: int, rows: int, first: int) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.04 else value

    times = _times(rng, case, number, rows)
    return _typed(
        case,
        id=[first + row for row in range(rows)],
        t=times,
        k=[maybe(rng.randrange(25)) for _ in range(rows)],
        x=[maybe(rng.randrange(80) / 4) for _ in range(rows)],
        y=[maybe(rng.randrange(80) / 4) for _ in range(rows)],
        note=[maybe(rng.choice(["a", "", "ä" * 40])) for _ in range(rows)],
    )


def _typed(case: Case, **columns: Any) -> pa.Table:
    stamps = case.clock == "timestamp"
    if stamps:
        columns["t"] = [START + timedelta(milliseconds=time) for time in columns["t"]]
    types = {
        "id": pa.int64(),
        "t": pa.timestamp("us", tz="UTC") if stamps else pa.int64(),
        "k": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "note": pa.string(),
    }
    return pa.table(columns, schema=pa.schema(list(types.items())))


def write_stream(folder: Path, case: Case, seed: int, pushes: int, rows: int) -> None:
    """One file per side and push; the last push moves time beyond all windows, matching nothing."""
    rng = random.Random(seed)
    for side in SIDES:
        (folder / side).mkdir(parents=True)
        first = 0
        for number in range(pushes):
            table = _table(rng, case, number, rows, first)
            first += rows
            _write(folder / side, number, table)
        last = {"id": [first], "t": [FAR * 1000], "k": [None], "x": [None], "y": [None]}
        _write(folder / side, pushes, _typed(case, **last, note=["the end"]))


def _write(folder: Path, number: int, table: pa.Table) -> None:
    path = folder / f"{number:04}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


# --- The truth ----------------------------------------------------------------------------------


def pushes_of(checkpoint: Path, source: Path) -> list[tuple[pa.Table | None, pa.Table | None]]:
    """What every micro-batch read, from the logs of the checkpoint.

    A side that is a table is no source: all of it counts as read in the first micro-batch.
    """
    folders = [checkpoint / "sources" / str(place) for place in range(len(SIDES))]
    logs = [_source_log(folder) for folder in folders if folder.exists()]
    ends = [-1] * len(SIDES)
    pushes = []
    for number in sorted(
        int(p.name) for p in (checkpoint / "offsets").iterdir() if p.name.isdigit()
    ):
        lines = (checkpoint / "offsets" / str(number)).read_text().splitlines()[2:]
        push: list[pa.Table | None] = []
        for place, line in enumerate(lines):
            end = json.loads(line)["logOffset"] if line != "-" else ends[place]
            files = [name for batch, name in logs[place] if ends[place] < batch <= end]
            ends[place] = end
            tables = [pq.read_table(source / SIDES[place] / name) for name in files]
            push.append(pa.concat_tables(tables) if tables else None)
        if len(logs) < len(SIDES):
            table = [pq.read_table(path) for path in sorted((source / SIDES[1]).iterdir())]
            push.append(None if pushes else pa.concat_tables(table))
        pushes.append((push[0], push[1]))
    return pushes


def _source_log(folder: Path) -> list[tuple[int, str]]:
    """Batch and name of every file that a source has seen, in order."""
    found = set()
    for path in folder.iterdir():
        if path.name.removesuffix(".compact").isdigit():
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                found.add((entry["batchId"], entry["path"].rsplit("/", 1)[1]))
    return sorted(found)


def truth(case: Case, pushes: list[Any]) -> Counter[tuple[Any, ...]]:
    """The oracle's rows, but for the closing ones: their windows are open for ever."""
    answer = oracle.join(pushes, case.on.replace("trip(l.x, l.id)", "l.x"), case.bound(), case.how)
    sides = [pa.concat_tables([p[at] for p in pushes if p[at] is not None]) for at in (0, 1)]
    rows = [[tuple(row.values()) for row in side.to_pylist()] for side in sides]
    empty = (None,) * len(sides[0].column_names)
    expected: Counter[tuple[Any, ...]] = Counter()
    for pair in answer.pairs:
        parts = [empty if at is None else rows[place][at] for place, at in enumerate(pair)]
        if case.kind == "none" or not any(part[-1] == "the end" for part in parts):
            expected[parts[0] + parts[1]] += 1
    return expected


def check_rows(case: Case, checkpoint: Path, source: Path, answer: pa.Table) -> None:
    """All files were read, and the answer has the oracle's rows, none missing, none twice."""
    pushes = pushes_of(checkpoint, source)
    for place, side in enumerate(SIDES):
        read = sum(push[place].num_rows for push in pushes if push[place] is not None)
        there = sum(pq.read_metadata(p).num_rows for p in (source / side).iterdir())
        assert read == there, f"the {side} source has {there} rows, {read} were read"
    got = Counter(tuple(row.values()) for row in answer.to_pylist())
    expected = truth(case, pushes)
    assert sum(expected.values()) >= 50, "a stream without an answer shows nothing"
    missing, extra = expected - got, got - expected
    assert not missing + extra, (
        f"{sum(missing.values())} rows missing, {sum(extra.values())} too many of "
        f"{sum(expected.values())}; missing {list(missing)[:3]}, extra {list(extra)[:3]}"
    )


# --- Processes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    id: int
    parent: int
    command: str


def processes(mark: str) -> list[Process]:
    """All processes alive that were started, directly or not, with this mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if state != "Z":
            found.append(Process(int(folder.name), int(parent), command))
    return found


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@dataclass
class Drill:
    """One query over one stream, run by as many processes as it takes."""

    folder: Path
    case: Case
    master: str = "local[2,4]"
    changes: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    starts: int = 0

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def runs(self) -> Path:
        """Run files of this host: a cache."""
        return self.folder / "runs"

    @property
    def state(self) -> Path:
        """Run files that are the state, in the checkpoint, so that both are kept or removed."""
        return self.checkpoint / "thetastream"

    def orders(self) -> dict[str, Any]:
        return {
            "home": str(self.folder),
            "master": self.master,
            "source": str(self.source),
            "schema": f"id bigint, t {self.case.clock}, k bigint, x double, y double, note string",
            "checkpoint": str(self.checkpoint),
            "sink": str(self.folder / "sink"),
            "answer": str(self.folder / "answer.parquet"),
            "errors": str(self.folder / "errors.json"),
            "metrics": str(self.folder / "metrics.jsonl"),
            "on": self.case.on,
            "how": self.case.how,
            "window": self.case.window,
            "options": {
                "batch_rows": 64,
                **(
                    {}
                    if self.case.kind == "none"
                    else {"partitions": 2, "partitioning": self.case.scheme}
                ),
                **({"state_path": str(self.state)} if self.case.files else {}),
                **self.case.options,
            },
            **self.changes,
        }

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        """The query at work; whatever it has started is gone when the block ends."""
        self.starts += 1
        for name in ("tmp", "local"):
            (self.folder / name).mkdir(exist_ok=True)
        orders = self.folder / f"orders-{self.starts}.json"
        orders.write_text(json.dumps(self.orders()))
        package = str(Path(thetastream.__file__).parent.parent)
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "TMPDIR": str(self.folder / "tmp"),
            "THETASTREAM_RUNS": str(self.runs),
            MARK: self.mark,
            **self.environment,
        }
        with (self.folder / f"log-{self.starts}.txt").open("wb") as log:
            running = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(orders)],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                yield running
            finally:
                self.end(running)

    def end(self, running: subprocess.Popen[bytes]) -> None:
        for _ in range(100):  # a process may be about to start another
            alive = processes(self.mark)
            if not alive:
                break
            for process in alive:
                kill(process.id)
            time.sleep(0.1)
        running.wait(30)
        assert not processes(self.mark)

    def finish(self, limit: float = 600) -> int:
        """Run until the process ends by itself; gives what it returned.

        Spark gives a Python process ten seconds to start. A machine that is too busy for that is
        no failure of the query, which is started again.
        """
        while True:
            with self.process() as running:
                status = running.wait(limit)
            if status != FAILED or not any(SLOW in text for text in self.errors()):
                return status
            assert self.starts < 12, f"this machine is too slow; {self.log()}"

    def committed(self) -> int:
        """The last micro-batch that was committed, or -1."""
        return self._last("commits")

    def begun(self) -> int:
        """The last micro-batch whose files were written down, or -1."""
        return self._last("offsets")

    def _last(self, log: str) -> int:
        folder = self.checkpoint / log
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def await_that(
        self, running: subprocess.Popen[bytes], reached: Callable[[], bool], limit: float = 300
    ) -> bool:
        """Wait until something has happened; False when the process ended before it did."""
        end = time.monotonic() + limit
        while not reached():
            if running.poll() is not None:
                return False
            assert time.monotonic() < end, f"nothing happened; {self.log()}"
            time.sleep(0.01)
        return True

    def log(self) -> str:
        return (self.folder / f"log-{self.starts}.txt").read_text(errors="replace")[-4000:]

    def errors(self) -> list[str]:
        return json.loads((self.folder / "errors.json").read_text())

    def metrics(self) -> list[dict[str, Any]]:
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def check(self) -> None:
        """The sink holds the oracle's rows, none missing, none twice."""
        answer = pq.read_table(self.folder / "answer.parquet")
        check_rows(self.case, self.checkpoint, self.source, answer)

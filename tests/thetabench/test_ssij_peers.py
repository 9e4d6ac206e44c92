"""Databases as contestants: each returns the answer of a nested loop, and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thetastream as ts
from thetabench.contestant import Unavailable
from thetabench.ssij.peers import PEERS, Peer, checksum, enter, forget, proof, spark
from thetabench.ssij.peers import server as servers
from thetabench.ssij.peers.server import Server
from thetabench.ssij.peers.spark import join_stream
from thetastream.errors import RegistryError

BUDGET = 4 << 20
CONDITIONS: dict[str, tuple[str | None, Callable[[Any, Any], bool]]] = {
    "equal": (None, lambda one, two: one["k"] == two["k"]),
    "range": (
        "r.k BETWEEN l.k AND l.k + l.width",
        lambda one, two: one["k"] <= two["k"] <= one["k"] + one["width"],
    ),
}


def table(rows: int = 300, seed: int = 1) -> pa.Table:
    """Keys that occur several times or not at all, one NULL, payload of several types."""
    rng = random.Random(seed)
    keys = [None, *(rng.randrange(60) * 2 for _ in range(rows - 1))]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "id": pa.array(range(5000, 5000 + rows), pa.int32()),
            "name": pa.array([None if n % 7 == 0 else f'"{n}", é' for n in range(rows)]),
            "raw": pa.array([bytes([n % 256, 0, 92]) for n in range(rows)], pa.binary()),
            "price": pa.array([n / 4 for n in range(rows)]),
            "t": pa.array(range(rows), pa.timestamp("us")),
        }
    )


def stream(number: int, rows: int = 80) -> pa.RecordBatch:
    rng = random.Random(number)
    return pa.record_batch(
        {
            "id": pa.array(range(number * rows, (number + 1) * rows), pa.int64()),
            "k": pa.array([None if n % 9 == 0 else rng.randrange(125) for n in range(rows)]),
            "width": pa.array([rng.randrange(4) for _ in range(rows)]),
        }
    )


def truth(batch: pa.RecordBatch, rows: pa.Table, holds: Callable[[Any, Any], bool]) -> list[Any]:
    return [
        (one["id"], two["id"])
        for one in batch.to_pylist()
        for two in rows.to_pylist()
        if one["k"] is not None and two["k"] is not None and holds(one, two)
    ]


def summed(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    left, right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    return len(pairs), checksum(left, right)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def saved(rows: pa.Table, work: Path) -> Path:
    """A Parquet file beside the folder."""
    path = work.parent / "it's a table.parquet"
    pq.write_table(rows, path)
    return path


def entered(name: str, *arguments: Any, **options: Any) -> Peer:
    try:
        return enter(name, *arguments, **options)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_database_answers_as_a_nested_loop_does(name: str, condition: str, work: Path) -> None:
    rows = table()
    on, holds = CONDITIONS[condition]
    peer = entered(name, saved(rows, work), "k", BUDGET, work, on=on)
    try:
        assert peer.name == name
        for number in range(3):
            batch = stream(number)
            expected = truth(batch, rows, holds)
            assert expected, "a batch without matches proves nothing"
            answer = peer.join(batch)
            assert answer[:2] == summed(expected), f"batch {number}"
            assert answer.seconds > 0
        nothing = peer.join(stream(0).slice(0, 0))
        assert nothing[:2] == (0, 0)
        assert peer.folder.is_dir()
        forget(peer.folder)
        assert peer.join(stream(1))[:2] == summed(truth(stream(1), rows, holds))
    finally:
        peer.close()
    assert not list(work.iterdir()), "files are left"


def test_the_forms_of_postgresql_are_what_they_say(work: Path) -> None:
    rng = np.random.default_rng(3)
    rows = pa.table({"k": rng.permutation(20_000), "id": np.arange(20_000)})
    batch = pa.record_batch({"id": np.arange(8000), "k": rng.integers(0, 20_000, 8000)})
    used = {}
    for name in ("postgresql", "postgresql-sorted", "postgresql-free"):
        peer: Any = entered(name, saved(rows, work), "k", BUDGET, work)
        try:
            answer = peer.join(batch)
            used[name] = peer.used
            assert answer.matches == 8000
            assert "Hash Join" in peer.choice, "nearly half of the table is asked for"
            assert peer.used == used[name], "asking for the choice changes nothing"
        finally:
            peer.close()
    assert "Nested Loop" in used["postgresql"]
    assert "Index Scan using r_key on r" in used["postgresql"]
    assert "Sort" not in used["postgresql"]
    assert "Sort" in used["postgresql-sorted"]
    assert "Index Scan using r_key on r" in used["postgresql-sorted"]
    assert "Hash Join" in used["postgresql-free"]


def test_sqlite_looks_up_every_stream_row(work: Path) -> None:
    peer: Any = enter("sqlite", saved(table(), work), "k", BUDGET, work)
    try:
        peer.join(stream(0))
        outer, inner = peer.plan.split(" > ")
        assert "SCAN l" in outer
        assert "SEARCH r USING PRIMARY KEY" in inner
    finally:
        peer.close()


def test_duckdb_says_how_much_memory_it_took(work: Path) -> None:
    peer: Any = entered("duckdb", saved(table(), work), "k", 1 << 10, work)
    try:
        answer = peer.join(stream(0))
        assert answer.matches == len(truth(stream(0), table(), CONDITIONS["equal"][1]))
        assert peer.limit > peer.budget == 1 << 10
    finally:
        peer.close()


def test_an_unknown_database_or_plan_is_refused(work: Path) -> None:
    with pytest.raises(RegistryError, match="Did you mean 'sqlite'"):
        enter("sqlit", saved(table(), work), "k", BUDGET, work)
    with pytest.raises(RegistryError, match="plan must be one of"):
        enter("postgresql", saved(table(), work), "k", BUDGET, work, plan="quick")


@pytest.mark.parametrize("name", ["postgresql", "sqlite"])
def test_a_column_that_a_database_cannot_hold_is_named(name: str, work: Path) -> None:
    rows = table(5).append_column("list", pa.array([[1]] * 5))
    with pytest.raises(Unavailable, match="'list' of type|not installed|refuses to run as root"):
        enter(name, saved(rows, work), "k", BUDGET, work)
    assert not list(work.iterdir())


@pytest.mark.parametrize("name", PEERS)
def test_a_condition_that_is_wrong_leaves_nothing(name: str, work: Path) -> None:
    peer = entered(name, saved(table(), work), "k", BUDGET, work, on="l.nothing = r.k")
    with pytest.raises(Exception, match="nothing"):
        peer.join(stream(0))
    peer.close()
    assert not list(work.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spark-static", "spark-broadcast", "relation_join"])
def test_spark_answers_as_a_nested_loop_does(name: str, work: Path) -> None:
    given = [stream(0), stream(1).slice(0, 0), stream(2)]
    path, source = work.parent / "table.rel", saved(table(), work)
    ts.Relation.build(path, table(), key="k").close()
    answers = join_stream(name, source, "k", given, work, budget=BUDGET, relation=path, memory="1g")
    holds = CONDITIONS["equal"][1]
    assert [answer[:2] for answer in answers] == [summed(truth(b, table(), holds)) for b in given]
    assert [answer.seconds > 0 for answer in answers] == [True, False, True]
    assert not list(work.iterdir())


@pytest.mark.slow
def test_spark_that_fails_says_why_and_leaves_nothing(work: Path) -> None:
    source, wrong = saved(table(), work), "l.nothing = 1"
    with pytest.raises(Unavailable, match="nothing"):
        join_stream("spark-static", source, "k", [stream(0)], work, budget=BUDGET, on=wrong)
    assert not list(work.iterdir())


def test_answers_of_spark_belong_to_batches_that_have_rows() -> None:
    done = [
        {"rows": rows, "answer": (3, rows), "milliseconds": {"triggerExecution": 500}}
        for rows in (80, 0, 20)
    ]
    batches = [stream(0), stream(1).slice(0, 0), stream(2).slice(0, 20)]
    answers = spark._answers("spark-static", {"batches": done}, batches)
    assert answers == [(3, 80, 0.5), (0, 0, 0.0), (3, 20, 0.5)]
    with pytest.raises(Unavailable, match=r"micro-batches of \[80\] rows were expected"):
        spark._answers("spark-static", {"batches": done}, batches[:1])


# --- What all of them share ---------------------------------------------------------------------


def test_the_column_of_the_checksum() -> None:
    integer, text = pa.int64(), pa.string()
    assert proof(pa.schema({"k": integer, "n": integer, "id": integer}), "k") == "id"
    assert proof(pa.schema({"id": integer, "n": integer}), "id") == "n"
    assert proof(pa.schema({"k": integer, "name": text}), "k") == "k"
    with pytest.raises(Unavailable, match="integer column"):
        proof(pa.schema({"name": text}), "name")


def test_the_checksum_sees_swapped_missing_and_doubled_pairs() -> None:
    pairs = [(1, 10), (2, 20), (3, 30)]
    others = [
        [(1, 20), (2, 10), (3, 30)],
        [(1, 10), (2, 20)],
        [*pairs, (3, 30)],
        [(0, 10), (2, 20), (3, 30)],
    ]
    assert summed(pairs) == summed(pairs[::-1])
    assert all(summed(other) != summed(pairs) for other in others)


def test_forgetting_keeps_the_files(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"x" * 10_000)
    forget(tmp_path)
    assert (tmp_path / "below" / "file").read_bytes() == b"x" * 10_000


# --- The server ---------------------------------------------------------------------------------


@pytest.fixture
def aside(tmp_path: Path) -> Iterator[Path]:
    """A folder that any account can enter, unlike those of pytest, and with a short path."""
    with tempfile.TemporaryDirectory(prefix="ssij-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def available() -> None:
    try:
        servers.programs()
        servers._account()
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_without_postgresql_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: Path
) -> None:
    monkeypatch.setattr(servers, "_PLACES", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="PostgreSQL is not installed"):
        enter("postgresql", saved(table(), work), "k", BUDGET, work)


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(aside: Path) -> None:
    available()
    with pytest.raises(Unavailable, match="shared_buffers"):
        Server(aside, {"shared_buffers": "lots"})
    assert not list(aside.iterdir())


def test_the_server_listens_on_no_port_and_ends_with_close(aside: Path) -> None:
    available()
    server = Server(aside, {})
    try:
        session = server.session()
        assert session.ask("SHOW listen_addresses;") == [""]
        assert session.ask("SHOW fsync;") == ["off"]
        assert server.folder.parent == aside
        session.close()
        assert server.running
    finally:
        server.close()
    server.close()
    assert not server.running
    assert not list(aside.iterdir())


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_server_ends_with_the_process_that_started_it(aside: Path, end: int) -> None:
    available()
    text = (
        "import sys, time, pathlib\n"
        "from thetabench.ssij.peers.server import Server\n"
        f"server = Server(pathlib.Path({str(aside)!r}), {{}})\n"
        "print(open(server.folder / 'data' / 'postmaster.pid').readline().strip(), flush=True)\n"
        "time.sleep(600)\n"
    )
    source = str(Path(servers.__file__).parents[3])
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": source},
        text=True,
    )
    try:
        assert process.stdout is not None
        postmaster = int(process.stdout.readline())
        process.send_signal(end)
        process.wait()
        limit = time.monotonic() + 60
        while _alive(postmaster) and time.monotonic() < limit:
            time.sleep(0.05)
        assert not _alive(postmaster)
    finally:
        process.kill()
        process.communicate()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True

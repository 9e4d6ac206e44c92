"""The state of a partition: what is written, what is refused, what is shed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import DataError, OptionError, StateError
from thetastream.side import Side
from thetastream.spark.blobs import read_blob, write_blob
from thetastream.spark.state import state
from thetastream.spark.state.cache import Alive, RunFiles, default_root, remove_forgotten
from thetastream.spark.state.folder import read_location
from thetastream.spark.state.opening import new_partition
from thetastream.spark.state.record import ANCESTORS, Meta, RunBlob, check_fingerprint
from thetastream.spark.state.state import OpenPartition
from thetastream.spark.theta.packing import Packer, frontier
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.step import ALIVE, Step, packets_of
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from ..simulate import DictStore, spec_of

WINDOW = TimeWindow(100, time="t")


@pytest.fixture(autouse=True)
def _own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ALIVE._held.clear()
    monkeypatch.setenv("THETASTREAM_RUNS", str(tmp_path / "runs"))


def table(times: range, seed: int = 0) -> pa.Table:
    keys = np.random.default_rng(seed).integers(0, 50, len(times))
    return pa.table({"x": keys, "t": pa.array(times, pa.int64())})


def spec(how: str = "inner", window: Any = WINDOW, on: str = "abs(l.x - r.x) <= 1") -> JoinSpec:
    rows = table(range(1, 2))
    return spec_of(Scenario(((rows, rows),), on, window, how), 1)


def feed(
    join: JoinSpec, store: DictStore, times: range, watermark: int = 0, fresh: bool = False
) -> dict[str, Any]:
    if fresh:
        ALIVE._held.clear()
    packets = []
    for side in Side:
        rows = table(times, side.position).append_column(
            "row number", pa.array(range(len(times)), pa.int64())
        )
        for batch in Packer(join, side).pack(rows.to_batches(), 0):
            packets += packets_of(batch.to_pydict())
    step = Step(join, join.keys[0], store, watermark)
    for _ in step.run(packets):
        pass
    return step.report


def begun(how: str = "inner") -> tuple[JoinSpec, DictStore]:
    """A join that has seen rows of the times 1 to 20."""
    join, store = spec(how), DictStore()
    feed(join, store, range(1, 21))
    return join, store


def test_runs_expire_whole_and_the_state_stays_bounded() -> None:
    join, store = spec(), DictStore()
    sizes = []
    for i in range(40):
        report = feed(join, store, range(1 + 50 * i, 51 + 50 * i), watermark=50 * i)
        sizes.append(sum(map(len, store.blobs.values())))
        assert set(store.blobs) == {run.id for run in Meta.of(store.meta or "", "").runs}
    assert report["left_stored"] <= 200, "the window and the run that is not wholly outside it"
    assert max(sizes[10:]) <= 2 * sizes[4]
    assert report["state_bytes"] == sizes[-1]


def test_small_runs_are_compacted() -> None:
    join, store = spec(window=TimeWindow(10**6, time="t")), DictStore()
    compactions, written, packed = 0, 0, 0
    for i in range(64):
        report = feed(join, store, range(1 + 50 * i, 51 + 50 * i), watermark=50 * i)
        compactions += report["compactions"]
        written += report["written_bytes"]
    packed = 64 * 2 * len(write_blob(table(range(50)).to_batches()[0]))
    assert compactions >= 16
    assert report["runs"] <= 2 * 2 * state.TIER
    assert report["left_stored"] == 64 * 50
    assert written < 6 * packed, "every row is written a few times, not once per micro-batch"


def test_files_that_another_process_doomed_go_too(tmp_path: Path) -> None:
    join, store = spec(), DictStore()
    for i in range(40):
        feed(join, store, range(1 + 50 * i, 51 + 50 * i), watermark=50 * i, fresh=True)
    runs = {run.id for run in Meta.of(store.meta or "", "").runs}
    files = {path.stem for path in (tmp_path / "runs").rglob("*.arrow")}
    assert runs <= files
    assert len(files) <= len(runs) + 4, "those of the last micro-batch may wait for the next"


def test_state_under_a_key_of_another_join_is_named() -> None:
    step = Step(spec(), 99, DictStore(), 0)
    assert step.where == "the partition with group key 99"


def test_a_restart_finds_the_same_state() -> None:
    join, store = spec("full"), DictStore()
    for i in range(5):
        origin = feed(join, store, range(1 + 20 * i, 21 + 20 * i), 20 * i, fresh=True)["origin"]
        assert origin == ("attach" if i else "new")
    assert feed(join, store, range(101, 121), 100)["origin"] == "hit"


def test_another_tactic_reads_the_state_and_makes_its_own_engine() -> None:
    join, store = spec("full"), DictStore()
    assert feed(join, store, range(1, 21))["origin"] == "new"
    assert feed(join, store, range(21, 41), 20)["origin"] == "hit"
    for at, tactic in enumerate(("pim-tree(depth=1)", "pim-tree(depth=2)", "panjoin"), start=2):
        changed = dataclasses.replace(join, tactic=ts.Tactic(tactic))
        start = 1 + 40 * at
        report = feed(changed, store, range(start, start + 20), start - 1)
        assert report["origin"] == "attach", "not the living engine, which has another tactic"
        report = feed(changed, store, range(start + 20, start + 40), start + 19)
        assert report["origin"] == "hit"


def test_lost_files_mean_a_rebuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join, store = begun()
    monkeypatch.setenv("THETASTREAM_RUNS", str(tmp_path / "elsewhere"))
    report = feed(join, store, range(21, 41), fresh=True)
    assert (report["origin"], report["fetched_runs"]) == ("rebuild", 2)
    assert feed(join, store, range(41, 61), fresh=True)["origin"] == "attach"


def test_damaged_files_are_not_trusted(tmp_path: Path) -> None:
    join, store = begun()
    for path in (tmp_path / "runs").rglob("*.arrow"):
        path.write_bytes(path.read_bytes()[:-9] + b"\x01" * 9)
    assert feed(join, store, range(21, 41), fresh=True)["origin"] == "rebuild"


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda blob: blob[:40] + b"\x00\x01" + blob[42:], "is corrupt: expected"),
        (lambda blob: blob[:-1], "is corrupt: expected"),
        (lambda blob: None, "is missing; the checkpoint is damaged"),
    ],
)
def test_a_corrupt_run_stops_the_query(
    harm: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join, store = begun()
    name = Meta.of(store.meta or "", "").runs[0].id
    store.blobs[name] = harm(store.blobs[name])
    monkeypatch.setenv("THETASTREAM_RUNS", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=f"partition 0 of 1: run {name} of the left side") as error:
        feed(join, store, range(21, 41), fresh=True)
    assert message in str(error.value)


def test_damaged_flags_stop_the_query() -> None:
    join, store = begun("left")
    store.blobs["flags"] = store.blobs["flags"][:-1]
    with pytest.raises(DataError, match="match flags are damaged: expected 3 bytes, read 2"):
        feed(join, store, range(21, 41), fresh=True)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"on": "abs(l.x - r.x) <= 2"}, "predicate"),
        ({"window": TimeWindow(200, time="t")}, "window"),
        ({"how": "left"}, "how"),
    ],
)
def test_another_join_on_an_old_checkpoint_is_refused(changed: Any, named: str) -> None:
    store = DictStore()
    feed(spec(), store, range(1, 21))
    other = spec(**changed)
    with pytest.raises(StateError, match="the state of another join; it differs in") as error:
        feed(other, store, range(21, 41))
    assert f"  {named}\n    was  {spec().fingerprint[named]}" in str(error.value)
    assert f"    is   {other.fingerprint[named]}" in str(error.value)


def test_columns_and_keys_are_part_of_the_fingerprint() -> None:
    join = spec()
    meta = Meta(dict(join.fingerprint), "a", "b")
    check_fingerprint(meta, join.fingerprint, "here")
    wider = dataclasses.replace(
        join,
        schemas={s: join.schemas[s].append(pa.field("z", pa.int8())) for s in Side},
    )
    with pytest.raises(StateError, match="columns of the left side"):
        check_fingerprint(meta, wider.fingerprint, "here")
    with pytest.raises(StateError, match="group keys 7 .*\n.*group keys 9 "):
        check_fingerprint(meta, dataclasses.replace(join, keys=(9,)).fingerprint, "here")


def test_another_format_is_refused() -> None:
    join, store = begun()
    assert store.meta is not None
    store.meta = json.dumps(json.loads(store.meta) | {"format": 99})
    with pytest.raises(StateError, match="holds state of format 99, and this version reads"):
        feed(join, store, range(21, 41))


def test_a_record_survives_the_trip() -> None:
    meta = Meta(
        {"a": "b"}, "line", "token", [RunBlob("r", "left", 3, 40, 7, -5, 12)], {"left": 4}, 9
    )
    assert Meta.of(meta.as_text(), "here") == meta


def test_runs_in_files_of_a_folder(tmp_path: Path) -> None:
    window = TimeWindow(100, time="t")
    join = dataclasses.replace(spec("full", window), state_path=str(tmp_path / "state"))
    store = DictStore()
    for i in range(12):
        fresh = i % 3 == 2
        report = feed(join, store, range(1 + 50 * i, 51 + 50 * i), watermark=50 * i, fresh=fresh)
        assert report["origin"] == ("new" if i == 0 else "attach" if fresh else "hit")
        assert set(store.blobs) == {"flags"}, "rows are not in the state store"
    held = {path.stem for path in (tmp_path / "state").rglob("*.arrow")}
    meta = Meta.of(store.meta or "", "")
    assert held == {run.id for run in meta.runs} | {name for name, _ in meta.graves}
    assert meta.graves, "what has expired stays for a restart from an older version"
    assert not list((tmp_path / "state").rglob("*.part"))


def test_files_of_expired_runs_go_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "GRACE", 3)
    join = dataclasses.replace(spec(), state_path=f"file://{tmp_path}/state")
    store = DictStore()
    for i in range(20):
        feed(join, store, range(1 + 50 * i, 51 + 50 * i), watermark=50 * i)
    meta = Meta.of(store.meta or "", "")
    assert len(list((tmp_path / "state").rglob("*.arrow"))) == len(meta.runs) + len(meta.graves)
    assert len(meta.graves) <= 2 * 4


def test_a_missing_file_stops_the_query(tmp_path: Path) -> None:
    join = dataclasses.replace(spec(), state_path=str(tmp_path / "state"))
    store = DictStore()
    feed(join, store, range(1, 21))
    for path in (tmp_path / "state").rglob("*.arrow"):
        path.unlink()
    with pytest.raises(DataError, match="is missing"):
        feed(join, store, range(21, 41), fresh=True)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (str(tmp_path / "file"), "nosuchscheme://x/y"):
        with pytest.raises(OptionError, match="state_path=.* cannot be used"):
            read_location(path)


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


# --- The cache ----------------------------------------------------------------------------------


def test_run_files(tmp_path: Path) -> None:
    import zlib

    files = RunFiles("line", tmp_path)
    files.touch()
    files.write("a", b"abc")
    found = files.read("a", 3, zlib.crc32(b"abc"))
    assert found is not None
    assert found.to_pybytes() == b"abc"
    assert files.read("a", 4, zlib.crc32(b"abc")) is None
    assert files.read("a", 3, 1) is None
    assert files.read("b", 3, 1) is None
    files.remove(["a", "never there"])
    assert files.read("a", 3, zlib.crc32(b"abc")) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "line").write_text("a file where the folder should be")
    RunFiles("line", tmp_path).write("a", b"abc")


def test_forgotten_folders_go(tmp_path: Path) -> None:
    RunFiles("line", tmp_path).write("a", b"abc")
    remove_forgotten(tmp_path)
    assert (tmp_path / "line").exists()
    remove_forgotten(tmp_path, now=(tmp_path / "line").stat().st_mtime + 10**6)
    assert not (tmp_path / "line").exists()
    remove_forgotten(tmp_path / "never there")


def test_the_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_root() == tmp_path / "runs"
    monkeypatch.delenv("THETASTREAM_RUNS")
    assert default_root().name.startswith("thetastream-runs-")


def test_the_least_recently_used_is_dropped() -> None:
    alive: Alive[str] = Alive(limit=2)
    alive.keep("a", "x")
    assert alive.take("a") == "x"
    assert alive.take("a") is None, "taken out"
    for name in "abc":
        alive.keep(name, name)
    assert [alive.take(name) for name in "abc"] == [None, "b", "c"]


# --- Packing ------------------------------------------------------------------------------------


def test_the_frontier_is_one_above_the_watermark() -> None:
    assert frontier(spec(), 0) is None, "nothing is known yet"
    assert frontier(spec(), 41) == 42
    stamps = pa.table({"x": [1], "t": pa.array([0], pa.timestamp("us", "UTC"))})
    window = TimeWindow("1 minute", time="t")
    join = spec_of(Scenario(((stamps, stamps),), "l.x = r.x", window), 1)
    assert frontier(join, 41) == 42_000
    days = pa.table({"x": [1], "t": pa.array([0], pa.date32())})
    join = spec_of(Scenario(((days, days),), "l.x = r.x", TimeWindow("2 days", time="t")), 1)
    assert [frontier(join, ms) for ms in (86_400_000 - 1, 86_400_000)] == [1, 2]


def test_an_event_time_beyond_the_watermark_is_refused() -> None:
    rows = pa.table({"x": [1], "t": [10**16], "row number": [0]})
    with pytest.raises(DataError, match="beyond what Spark's watermark can count"):
        list(Packer(spec(), Side.LEFT).pack(rows.to_batches(), 0))


def test_the_first_partition_hears_of_every_chunk() -> None:
    rows = pa.table({"x": [5], "t": [1]})
    join = spec_of(Scenario(((rows, rows),), "l.x = r.x", WINDOW), 40)
    numbered = rows.append_column("row number", pa.array([0]))
    packed = [b.to_pylist()[0] for b in Packer(join, Side.LEFT).pack(numbered.to_batches(), 0)]
    assert join.keys[0] in {row["partition"] for row in packed}
    kinds = {row["partition"]: row["kind"] for row in packed}
    assert sorted(kinds.values()) in ([0], [0, 2])


def test_blobs_survive_the_trip() -> None:
    batch = pa.record_batch({"a": [1, 2, None], "b": [["x"], None, []]})
    assert read_blob(write_blob(batch)).equals(batch)
    assert read_blob(write_blob(batch.slice(1, 1))).equals(batch.slice(1, 1))

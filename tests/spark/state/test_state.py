"""The state of a partition: what is written, what is refused, what is shed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import DataError, OptionError, StateError
from thetastream.side import Side
from thetastream.spark.blobs import read_blob, write_blob
from thetastream.spark.state import state
from thetastream.spark.state.folder import read_location
from thetastream.spark.state.record import Meta, RunBlob, check_fingerprint
from thetastream.spark.theta.packing import Packer, frontier
from thetastream.spark.theta.step import Step
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from ..simulate import DictStore, spec_of
from .steps import WINDOW, begun, feed, spec, table

pytestmark = pytest.mark.usefixtures("own_runs")


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


def test_larger_runs_are_compacted_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ENTRY_BYTES", 64)
    join, store = spec(window=TimeWindow(10**6, time="t")), DictStore()
    counts, written = [], 0
    for i in range(80):
        report = feed(join, store, range(1 + 50 * i, 51 + 50 * i), watermark=50 * i)
        counts.append(report["runs"] // 2)
        written += report["written_bytes"] - len(store.meta or "")
    size = Meta.of(store.meta or "", "").runs[0].bytes
    many = -(-size // 64)
    assert counts[: many - 1] == list(range(1, many)), "as long as there are few, they stay"
    assert many - state.TIER < max(counts[many:]) <= many + state.TIER
    assert written < 2 * 2 * 80 * size, "every row is written once or twice"


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
    with pytest.raises(StateError, match="group keys 7\n.*group keys 9\n"):
        check_fingerprint(meta, dataclasses.replace(join, keys=(9,)).fingerprint, "here")


def test_another_format_is_refused() -> None:
    join, store = begun()
    assert store.meta is not None
    store.meta = json.dumps(json.loads(store.meta) | {"format": 99})
    with pytest.raises(StateError, match="holds state of format 99, and this version reads"):
        feed(join, store, range(21, 41))


def test_a_record_survives_the_trip() -> None:
    meta = Meta(
        {"a": "b"},
        "line",
        "token",
        [RunBlob("r", "left", 3, 40, "blake2b:7", -5, 12)],
        {"left": 4},
        9,
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

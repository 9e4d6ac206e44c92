"""The mark of a copy: in rows and runs of queries that can have copies, and nowhere else.

State of format 1 has the mark in every row, as the last column; it is read, and new runs beside it
have the new form.
"""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.engine.partition.partition import COPY
from thetastream.side import Side
from thetastream.spark.blobs import read_blob, write_blob
from thetastream.spark.state.record import FORMAT, Meta
from thetastream.spark.theta.packing import ROWS
from thetastream.testing.driver import run_oracle
from thetastream.testing.streams import Scenario
from thetastream.window import CountWindow, TimeWindow, Window

from ..simulate import DictStore, Simulation, numbered, spec_of, tables_of

TIME = TimeWindow(100, time="t")
COUNT = CountWindow(90, order="t")
QUERIES: list[tuple[str, str, Window, int, set[Side]]] = [
    ("l.x = r.x", "inner", TIME, 3, set()),
    ("l.x = r.x", "full", COUNT, 2, set()),
    ("abs(l.x - r.x) <= 1", "full", TIME, 1, set()),
    ("abs(l.x - r.x) <= 1", "left", COUNT, 3, {Side.RIGHT}),
    ("abs(l.x - r.x) <= 1", "full", TIME, 3, set(Side)),
    ("l.x < r.x", "inner", TIME, 3, {Side.LEFT}),
]


def scenario(on: str, how: str, window: Window, self_join: bool = False) -> Scenario:
    rng = np.random.default_rng(3)
    pushes = []
    for number in range(24):
        tables = [
            pa.table({"x": rng.integers(0, 40, 6), "t": np.arange(6 * number, 6 * number + 6) + 1})
            for _ in Side
        ]
        pushes.append((tables[0], None if self_join else tables[1]))
    return Scenario(tuple(pushes), on, window, how, self_join=self_join)


def marked(batch: pa.RecordBatch) -> bool:
    return COPY in batch.schema.names


def rows_in(store: DictStore) -> dict[Side, list[pa.RecordBatch]]:
    """The rows of all runs, and those that wait."""
    runs = Meta.of(store.meta or "", "here").runs
    found = {side: [store.blobs[r.id] for r in runs if r.side == side.value] for side in Side}
    for side in Side:
        found[side] += [blob for name in [f"waiting-{side.value}"] if (blob := store.get(name))]
    return {side: [read_blob(blob) for blob in blobs] for side, blobs in found.items()}


def to_format_1(store: DictStore) -> None:
    """Write the state again as it was before: every row has a mark, in the last column."""
    facts = json.loads(store.meta or "")
    for run in facts["runs"]:
        blob = store.blobs[run["id"]] = old_form(store.blobs[run["id"]])
        run |= {"bytes": len(blob), "checksum": zlib.crc32(blob)}
        del run["start"], run["digest"]
    for side in Side:
        if blob := store.get(f"waiting-{side.value}"):
            store.put(f"waiting-{side.value}", old_form(blob))
    for name in ("stored", "ancestors"):
        del facts[name]
    store.meta = json.dumps(facts | {"format": 1})


def old_form(blob: bytes) -> bytes:
    batch = read_blob(blob)
    if not marked(batch):
        batch = batch.append_column(COPY, pa.array(np.zeros(batch.num_rows, np.bool_)))
    names = [name for name in batch.schema.names if name != COPY]
    return write_blob(batch.select([*names, COPY])).to_pybytes()


def simulated(join: Scenario, partitions: int, root: Path, old_at: int | None) -> Simulation:
    simulation = Simulation(spec_of(join, partitions), random.Random(5), root)
    for number, push in enumerate(numbered(join)):
        if number == old_at:
            for store in simulation.stores.values():
                to_format_1(store)
            for worker in simulation._workers:
                worker.clear()
        simulation.push(tables_of(push))
    return simulation


@pytest.mark.parametrize(("on", "how", "window", "partitions", "copied"), QUERIES)
def test_only_rows_that_can_be_copies_are_marked(
    tmp_path: Path, on: str, how: str, window: Window, partitions: int, copied: set[Side]
) -> None:
    join = scenario(on, how, window)
    simulation = simulated(join, partitions, tmp_path, None)
    for packets in simulation.packed(tables_of(numbered(join)[0])).values():
        for packet in packets:
            if packet.kind == ROWS:
                assert marked(read_blob(packet.blob)) == (packet.side in copied)
    for store in simulation.stores.values():
        for side, batches in rows_in(store).items():
            assert batches
            assert {marked(batch) for batch in batches} == {side in copied}


@pytest.mark.parametrize("on", ["l.x = r.x", "l.x = r.x + 1"])
def test_a_self_join_marks_rows_unless_they_are_hashed_alike(tmp_path: Path, on: str) -> None:
    join = scenario(on, "inner", TIME, self_join=True)
    simulation = simulated(join, 3, tmp_path, None)
    assert Counter(simulation.pairs) == Counter(run_oracle(join).pairs)
    found = [batch for store in simulation.stores.values() for batch in rows_in(store)[Side.LEFT]]
    assert {marked(batch) for batch in found} == {on == "l.x = r.x + 1"}


@pytest.mark.parametrize(("on", "how", "window", "partitions", "copied"), QUERIES)
def test_state_of_format_1_is_read(
    tmp_path: Path, on: str, how: str, window: Window, partitions: int, copied: set[Side]
) -> None:
    join = scenario(on, how, window)
    kept = simulated(join, partitions, tmp_path / "kept", None)
    changed = simulated(join, partitions, tmp_path / "changed", old_at=5)
    assert Counter(changed.pairs) == Counter(kept.pairs)
    assert len(set(kept.pairs)) > 20
    assert sum(report["compactions"] for report in changed.reports) > 0, "old and new runs as one"
    for store in changed.stores.values():
        assert json.loads(store.meta or "")["format"] == FORMAT


def test_a_copy_of_format_1_stays_a_copy(tmp_path: Path) -> None:
    """Unmatched rows are given once though each lies in several partitions."""
    window: Any = TimeWindow(5, time="t")
    join = scenario("abs(l.x - r.x) <= 1", "full", window)
    simulation = simulated(join, 4, tmp_path, old_at=12)
    assert len(simulation.pairs) == len(set(simulation.pairs))
    assert set(simulation.pairs) <= set(run_oracle(join).pairs)
    assert any(None in pair for pair in simulation.pairs)

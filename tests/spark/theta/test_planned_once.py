"""A join is parsed and bound where it is planned; workers read the plan and never make it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.condition.predicate import Predicate
from thetastream.side import Side
from thetastream.spark import payload as payload_module
from thetastream.spark.theta import spec as spec_module
from thetastream.spark.theta import worker
from thetastream.spark.theta.packing import Packer
from thetastream.spark.theta.step import ALIVE, Step, packets_of
from thetastream.testing.driver import numbered
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from ..simulate import DictStore, spec_of


def no_planning(*_: Any, **__: Any) -> None:
    raise AssertionError("a worker parses or binds the condition")


def test_workers_neither_parse_nor_bind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THETASTREAM_RUNS", str(tmp_path))
    rows = pa.table({"x": 5 * np.arange(20), "t": np.arange(20) + 1})
    window = TimeWindow(100, time="t")
    scenario = Scenario(((rows, rows),), "abs(l.x - r.x) <= 1", window, "full")
    planned = spec_of(scenario, 2)
    payload = worker.pickled(planned)
    monkeypatch.setattr(payload_module, "_SPECS", {b"another": planned})
    monkeypatch.setattr(Predicate, "parse", no_planning)
    monkeypatch.setattr(spec_module, "bind", no_planning)
    stores = {key: DictStore() for key in planned.keys}
    table = numbered(scenario)[0][0]
    for _ in range(3):
        ALIVE._held.clear()  # another process has had the partition
        join = worker._spec(bytes(bytearray(payload)))  # Spark hands over new bytes every time
        assert join is worker._spec(payload)
        packets: dict[int, list[Any]] = {key: [] for key in join.keys}
        for side in Side:
            for batch in Packer(join, side).pack(table.to_batches(), 0):
                columns = batch.to_pydict()
                for key, packet in zip(columns["partition"], packets_of(columns), strict=True):
                    packets[key].append(packet)
        for key, store in stores.items():
            assert sum(batch.num_rows for batch in Step(join, key, store, 0).run(packets[key]))

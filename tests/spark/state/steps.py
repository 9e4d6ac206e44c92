"""Steps of a small join, in this process: what tests of its state start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from thetastream.side import Side
from thetastream.spark.theta.packing import Packer
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.step import ALIVE, Step, packets_of
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from ..simulate import DictStore, spec_of

WINDOW = TimeWindow(100, time="t")


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

"""Steps of one partition of ``theta_join`` without Spark: found alive, mapped, or read back.

All contestants take their steps on the same partition, one after the other, so they find the same
rows stored. Before a step the partition is forgotten in this process (it attaches to its run
files), and its run files may be removed too (it rebuilds from the state store). What is measured is
processor time, of the whole step: what is found must be put to use before the first probe.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from thetabench.digest import Digest, VerificationError
from thetabench.spark.cells import ATTACH, HIT, REBUILD
from thetabench.spark.feed import Feed
from thetabench.spark.peers import Seat, spec_of
from thetabench.spark.reference import codes
from thetastream.side import Side
from thetastream.spark.theta.packing import Packer
from thetastream.spark.theta.step import ALIVE, Step, packets_of

_RUNS = "THETASTREAM_RUNS"
_ORIGINS = {HIT: "hit", ATTACH: "attach", REBUILD: "rebuild"}
"""What a step reports of how it found its partition."""


class Memory:
    """A state store in memory."""

    def __init__(self) -> None:
        self._meta: str | None = None
        self._blobs: dict[str, bytes] = {}

    def read_meta(self) -> str | None:
        return self._meta

    def write_meta(self, text: str) -> None:
        self._meta = text

    def get(self, name: str) -> bytes | None:
        return self._blobs.get(name)

    def put(self, name: str, blob: bytes) -> None:
        self._blobs[name] = bytes(blob)

    def remove(self, name: str, size: int = 0) -> None:
        self._blobs.pop(name, None)


class Steps:
    """The steps of one partition: micro-batches of a feed, in order."""

    def __init__(self, feed: Feed, seat: Seat, folder: Path) -> None:
        self._feed = feed
        self._folder = folder
        schemas = {side: table.schema for side, table in feed.tables.items()}
        self._spec = spec_of(seat, schemas, keys=(0,))
        self._store = Memory()
        self._before = os.environ.get(_RUNS)
        os.environ[_RUNS] = str(folder)
        self.done = 0
        self.stored = 0
        self.step(None)

    def step(self, who: str | None) -> tuple[float, Digest]:
        """The next step, in the way of a contestant: processor seconds, and its answer.

        The first one fills the window.
        """
        if who in (ATTACH, REBUILD):
            ALIVE._held.clear()
        if who == REBUILD:
            shutil.rmtree(self._folder, ignore_errors=True)
        begin, end = self._feed.shape.edges[self.done : self.done + 2]
        packets = [
            packet
            for side in Side
            for batch in Packer(self._spec, side).pack(
                self._feed.tables[side].slice(begin, end - begin).to_batches(), 0
            )
            for packet in packets_of(batch.to_pydict())
        ]
        # Spark's watermark: one below the largest time of the micro-batches before.
        step = Step(self._spec, 0, self._store, max(begin - 1, 0))
        started = time.process_time()
        batches = list(step.run(packets))
        seconds = time.process_time() - started
        if who is not None and step.report["origin"] != _ORIGINS[who]:
            raise VerificationError(
                f"a step that must be of kind {who} reports {step.report['origin']!r}"
            )
        self.done += 1
        self.stored = sum(step.report[f"{side.value}_stored"] for side in Side)
        return seconds, _digest(batches)

    def close(self) -> None:
        """Restore the environment."""
        if self._before is None:
            os.environ.pop(_RUNS, None)
        else:
            os.environ[_RUNS] = self._before


def _digest(batches: list[Any]) -> Digest:
    if not batches:
        return Digest(0, 0)
    answer = pa.Table.from_batches(batches)
    left, right = (np.asarray(answer.column(name)) for name in ("t", "t_right"))
    return Digest(answer.num_rows, int(codes(left, right).sum()))

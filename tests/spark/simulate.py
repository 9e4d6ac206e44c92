"""The whole pipeline of the Spark operator without Spark: pack, route, step, save, restore."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pyarrow as pa

from thetastream.aggregate import Aggregate
from thetastream.condition.predicate import Predicate
from thetastream.data.batch import to_keys
from thetastream.plan.tactic import Tactic
from thetastream.shape import OutputShape
from thetastream.side import How, Side
from thetastream.spark.state.manifests import Manifests
from thetastream.spark.state.record import StateStore
from thetastream.spark.state.state import OpenPartition
from thetastream.spark.theta import step as step_module
from thetastream.spark.theta.packing import Packer
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.step import ALIVE, Packet, Step, join_whole, packets_of
from thetastream.testing.driver import ROW, numbered
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

Pair = tuple[int | None, int | None]


class DictStore:
    """A state store in memory."""

    def __init__(self) -> None:
        self.meta: str | None = None
        self.blobs: dict[str, bytes] = {}

    def read_meta(self) -> str | None:
        return self.meta

    def write_meta(self, text: str) -> None:
        self.meta = text

    def get(self, name: str) -> bytes | None:
        return self.blobs.get(name)

    def put(self, name: str, blob: bytes) -> None:
        self.blobs[name] = bytes(blob)

    def remove(self, name: str, size: int = 0) -> None:
        self.blobs.pop(name, None)

    def copy(self) -> DictStore:
        twin = DictStore()
        twin.meta, twin.blobs = self.meta, dict(self.blobs)
        return twin


class Torn(Manifests):
    """The files of an attempt that is killed before it has written its record."""

    def write_meta(self, text: str) -> None:
        """Too late."""


def spec_of(
    scenario: Scenario,
    partitions: int,
    scheme: str = "auto",
    cell_width: float | None = None,
    aggregates: tuple[Aggregate, ...] = (),
) -> JoinSpec:
    pushes = numbered(scenario)
    schemas: dict[Side, Any] = {}
    for side in Side:
        at = 0 if scenario.self_join else side.position
        tables = [push[at] for push in pushes if push[at] is not None]
        schemas[side] = tables[0].schema
    return JoinSpec(
        on=str(Predicate.of(scenario.on)),
        window=scenario.window,
        how=How.of(scenario.how),
        self_join=scenario.self_join,
        tactic=Tactic("auto"),
        suffix="_right",
        schemas=schemas,
        answer=answer_of(schemas, How.of(scenario.how), aggregates),
        keys=tuple(range(7, 7 + partitions)),
        scheme=scheme,
        cell_width=cell_width,
        batch_rows=65_536,
        event_time=None,
        original=scenario.on,
        aggregates=aggregates,
    )


def answer_of(
    schemas: dict[Side, Any], how: How, aggregates: tuple[Aggregate, ...] = ()
) -> tuple[tuple[str, Side, str], ...]:
    given = [pa.field(found.name, pa.null()) for found in aggregates]
    shape = OutputShape.of(schemas[Side.LEFT], schemas[Side.RIGHT], how, "_right", fields=given)
    return tuple((n, *place) for n, place in zip(shape.schema.names, shape.origin, strict=True))


@dataclass
class Simulation:
    """Runs micro-batches as Spark would, with workers that come and go.

    ``chaos`` decides before every step which of two worker processes takes it, whether that one was
    started anew, and whether it finds the run files of the host; and whether the task fails once
    and is run again, with its packets in another order. With the whole state in files, an attempt
    may also go on after another one has succeeded, and be killed before it is done. So a partition
    is alive and up to date in the worker, alive and some micro-batches behind, attached, or
    rebuilt.
    """

    spec: JoinSpec
    chaos: random.Random
    root: Any
    stores: dict[int, DictStore] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    pushes: int = 0
    _largest: dict[Side, int] = field(default_factory=dict)
    _workers: list[OrderedDict[str, OpenPartition]] = field(
        default_factory=lambda: [OrderedDict(), OrderedDict()]
    )

    def packed(self, tables: dict[Side, pa.Table | None]) -> dict[int, list[Packet]]:
        found: dict[int, list[Packet]] = {key: [] for key in self.spec.keys}
        for side in self.spec.streams:
            table = tables.get(side)
            if table is None:
                continue
            cut = self.chaos.randint(0, table.num_rows)
            for task, part in enumerate((table.slice(0, cut), table.slice(cut))):
                for batch in Packer(self.spec, side).pack(part.to_batches(), task):
                    columns = batch.to_pydict()
                    for key, packet in zip(columns["partition"], packets_of(columns), strict=True):
                        found[key].append(packet)
        return found

    def frontier(self) -> int | None:
        window = self.spec.window
        assert isinstance(window, TimeWindow)
        if set(self._largest) != set(self.spec.streams):
            return None
        bound = self.spec.binding.time
        assert bound is not None
        return bound.frontier(min(self._largest.values()))

    def push(self, tables: dict[Side, pa.Table | None]) -> None:
        timed = isinstance(self.spec.window, TimeWindow)
        frontier = self.frontier() if timed else None
        packets = self.packed(tables)
        for key in self.spec.keys:
            if self.chaos.random() < 0.3:
                self._run(key, self.store(key, fails=True), self.mixed(packets[key]), frontier)
            batches, report = self._run(key, self.store(key), packets[key], frontier)
            self.batches += batches
            self.pairs += [pair for batch in batches for pair in pairs_of(batch)]
            self.reports.append(report)
            if self.spec.in_files and self.chaos.random() < 0.3:
                self._run(key, self.files(key, Torn), self.mixed(packets[key]), frontier)
        self.pushes += 1
        if timed:
            self._note(tables)

    def store(self, key: int, *, fails: bool = False) -> StateStore:
        """The state of a partition. What a failed task wrote to files stays, uncommitted or not."""
        if self.spec.in_files:
            return self.files(key, Manifests)
        store = self.stores.setdefault(key, DictStore())
        return store.copy() if fails else store

    def files(self, key: int, kind: type[Manifests]) -> Manifests:
        assert self.spec.state_path is not None
        return kind(self.spec.state_path, "query", self.spec.keys.index(key), self.pushes)

    def mixed(self, packets: list[Packet]) -> list[Packet]:
        return self.chaos.sample(packets, len(packets))

    def _run(
        self, key: int, store: StateStore, packets: list[Packet], frontier: int | None
    ) -> tuple[list[pa.RecordBatch], dict[str, Any]]:
        mood = self.chaos.choice(["alive", "alive", "alive", "attach", "rebuild"])
        ALIVE._held = self.chaos.choice(self._workers)
        if mood != "alive":
            ALIVE._held.clear()
        root = self.root if mood != "rebuild" else self.root / "lost"
        with (
            mock.patch.object(step_module, "frontier", return_value=frontier),
            mock.patch("thetastream.spark.state.cache.default_root", return_value=root),
            mock.patch.object(step_module, "default_root", return_value=root),
        ):
            step = Step(self.spec, key, store, None if self.spec.in_files else frontier or 0)
            batches = list(step.run(packets))
            step.opened.partition.check()
        return batches, step.report

    def _note(self, tables: dict[Side, pa.Table | None]) -> None:
        window = self.spec.window
        assert isinstance(window, TimeWindow)
        for side in self.spec.streams:
            table = tables.get(side)
            if table is None or not table.num_rows:
                continue
            column = table[window.time[side.position]].combine_chunks()
            keys, valid = to_keys(column, self.spec.binding.time_domain, "t")
            known = keys if valid is None else keys[valid]
            if known.size:
                top = int(known.max())
                self._largest[side] = max(self._largest.get(side, top), top)

    @property
    def late(self) -> dict[str, int]:
        return {
            side.value: sum(report.get(f"{side.value}_dropped", 0) for report in self.reports)
            for side in Side
        }


def pairs_of(table: pa.Table | pa.RecordBatch) -> list[Pair]:
    """Row-number pairs of an answer."""

    def column(name: str) -> list[Any]:
        if name in table.schema.names:
            return list(table.column(name).to_pylist())
        return [None] * table.num_rows

    return list(zip(column(ROW), column(f"{ROW}_right"), strict=True))


def tables_of(push: tuple[Any, Any]) -> dict[Side, pa.Table | None]:
    return {Side.LEFT: push[0], Side.RIGHT: push[1]}


def whole(scenario: Scenario, spec: JoinSpec) -> list[Pair]:
    """The batch mode: everything at once."""
    simulation = Simulation(spec, random.Random(0), None)
    tables: dict[Side, Any] = {}
    for side in spec.streams:
        parts = [p[side.position] for p in numbered(scenario) if p[side.position] is not None]
        tables[side] = pa.concat_tables(parts) if parts else None
    packed = simulation.packed(tables)
    return [
        pair
        for key in spec.keys
        for batch in join_whole(spec, packed[key])
        for pair in pairs_of(batch)
    ]

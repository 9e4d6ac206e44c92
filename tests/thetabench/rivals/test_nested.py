"""Index nested loops against the oracle, and their buffer pool against a plain one."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as over
from hypothesis import strategies as st

from thetabench.rivals.nested import IndexNestedLoop
from thetastream.errors import RelationError, StateError
from thetastream.relation.disk.clock import Costs, SimulatedClock
from thetastream.relation.disk.device import BlockFile, Simulated
from thetastream.relation.store import Relation

from ...relation.answers import expected, given, run
from ...relation.tables import CONDITIONS, HOWS, interval_table, keyed_table, stream_table
from ...scale import scaled

WAYS = [False, True]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Relation:
    path = tmp_path_factory.mktemp("nested") / "keyed.rel"
    return Relation.build(path, keyed_table(), key="k", block_bytes=4096)


@pytest.fixture(scope="module")
def intervals(tmp_path_factory: pytest.TempPathFactory) -> Relation:
    path = tmp_path_factory.mktemp("nested") / "intervals.rel"
    return Relation.build(
        path, interval_table(), key=("lo", "hi"), block_bytes=4096, keep_empty=True
    )


@pytest.mark.parametrize("batched", WAYS)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("on", CONDITIONS)
def test_every_way_of_joining(keyed: Relation, on: str, how: str, batched: bool) -> None:
    stream = stream_table(60, seed=3)
    with IndexNestedLoop(keyed, on, "100 kB", how, batched=batched) as join:
        found = given(run(join, stream, [11, 40, 41]))
        metrics = join.metrics()
    assert found == expected(stream, keyed_table(), on, how)
    assert metrics.rows == 60
    assert metrics.waiting_rows == 0
    assert metrics.output_rows == found.total()
    assert metrics.peak_bytes <= metrics.budget_bytes * 1.05


@pytest.mark.parametrize("batched", WAYS)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "on",
    ["l.x BETWEEN r.lo AND r.hi", "l.x > r.lo", "l.x <= r.hi", "l.x = r.lo AND l.n <> r.m"],
)
def test_intervals(intervals: Relation, on: str, how: str, batched: bool) -> None:
    stream = stream_table(40, seed=4)
    with IndexNestedLoop(intervals, on, "100 kB", how, batched=batched) as join:
        assert given(run(join, stream, [30])) == expected(stream, interval_table(), on, how)


@over(
    st.lists(st.one_of(st.none(), st.integers(-2, 45)), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
    st.integers(60, 250),
    st.sampled_from(CONDITIONS),
    st.sampled_from(HOWS),
    st.booleans(),
)
@settings(max_examples=scaled(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cuts_and_budgets(
    keyed: Relation,
    xs: list[int | None],
    cuts: list[int],
    kilobytes: int,
    on: str,
    how: str,
    batched: bool,
) -> None:
    stream = pa.table(
        {
            "x": pa.array(xs, pa.int64()),
            "n": pa.array(range(len(xs)), pa.int64()),
            "s": pa.array(["y" * (i % 4) for i in range(len(xs))], pa.string()),
        }
    )
    with IndexNestedLoop(keyed, on, kilobytes * 1000, how, batched=batched) as join:
        found = given(run(join, stream, cuts))
    assert found == expected(stream, keyed_table(), on, how)


def plain_pool(trace: list[int], capacity: int) -> int:
    """Leaves that a pool must read, row by row."""
    pool: OrderedDict[int, None] = OrderedDict()
    reads = 0
    for leaf in trace:
        if leaf in pool:
            pool.move_to_end(leaf)
            continue
        reads += 1
        if len(pool) == capacity:
            pool.popitem(last=False)
        pool[leaf] = None
    return reads


@over(st.lists(st.integers(0, 39), max_size=120), st.integers(50, 150))
@settings(max_examples=scaled(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reads_are_those_of_a_plain_pool(keyed: Relation, xs: list[int], kilobytes: int) -> None:
    stream = pa.table({"x": pa.array(xs, pa.int64()), "n": pa.array(range(len(xs)), pa.int64())})
    with keyed.snapshot() as snapshot:
        keys = np.array(xs, np.int64)
        first, stop = snapshot.fences.ranges(keys, keys)
    trace = [leaf for a, z in zip(first, stop, strict=True) for leaf in range(a, z)]
    with IndexNestedLoop(keyed, "l.x = r.k", kilobytes * 1000) as join:
        found = given(run(join, stream, [7, 50]))
        metrics = join.metrics()
        capacity = join._engine.cache.capacity if xs else 0  # type: ignore[union-attr]
    assert found == expected(stream, keyed_table(), "l.x = r.k", "inner")
    assert metrics.seeks == metrics.blocks_read == metrics.misses == plain_pool(trace, capacity)
    assert metrics.hits + metrics.misses == len(trace)
    assert metrics.cached_blocks <= capacity


def test_a_batch_reads_each_leaf_once_and_neighbours_together(keyed: Relation) -> None:
    xs = [int(x) for x in np.random.default_rng(1).permutation(np.repeat(np.arange(40), 3))]
    stream = pa.table({"x": pa.array(xs, pa.int64()), "n": pa.array(range(120), pa.int64())})
    with IndexNestedLoop(keyed, "l.x = r.k", "1 MB", batched=True) as join:
        found = given(run(join, stream, []))
        metrics = join.metrics()
    assert found == expected(stream, keyed_table(), "l.x = r.k", "inner")
    assert metrics.blocks_read == keyed.leaves
    assert metrics.seeks == -(-keyed.leaves // 7)  # a 32nd of the budget is 7 blocks


@pytest.mark.parametrize("batched", WAYS)
def test_wide_leaves(tmp_path: Path, batched: bool) -> None:
    pads = ["p" * (20_000 if i % 37 == 5 else 150) for i in range(150)]
    table = pa.table({"k": [i // 2 for i in range(150)], "m": range(150), "pad": pads})
    relation = Relation.build(tmp_path / "w.rel", table, key="k", block_bytes=4096)
    stream = stream_table(100, seed=10)
    with IndexNestedLoop(
        relation, "abs(l.x - r.k) <= 1", "150 kB", "left", batched=batched
    ) as join:
        found = given(run(join, stream, [50]))
    assert found == expected(stream, table, "abs(l.x - r.k) <= 1", "left")


@pytest.mark.parametrize("batched", WAYS)
def test_leaves_that_moved(tmp_path: Path, batched: bool) -> None:
    table = keyed_table()
    relation = Relation.build(tmp_path / "m.rel", table, key="k", block_bytes=4096)
    more = pa.table(
        {
            "k": pa.array([i % 40 for i in range(160)], pa.int64()),
            "m": pa.array(range(1000, 1160), pa.int64()),
            "pad": ["q" * 300] * 160,
        }
    )
    stream = stream_table(80, seed=14)
    on = "abs(l.x - r.k) <= 1"
    with IndexNestedLoop(relation, on, "120 kB", batched=batched) as join:
        first = given(run(join, stream, []))
        relation.insert(more)
        second = given(run(join, stream, [33]))
        version = join.metrics().version
    assert relation.snapshot().fences.moved
    assert first == expected(stream, table, on, "inner")
    assert second == expected(stream, pa.concat_tables([table, more]), on, "inner")
    assert version == relation.version


def test_costs_are_accounted_for(keyed: Relation) -> None:
    costs = Costs(seek=1.0, transfer=0.01, row=1e-3, pair=1e-4, block=1e-2)
    clock = SimulatedClock(costs)
    relation = Relation.open(
        keyed.path, device=lambda path, size: Simulated(BlockFile(path, size), clock), clock=clock
    )
    with IndexNestedLoop(relation, "l.x = r.k", "200 kB", clock=clock) as join:
        rows = given(run(join, stream_table(80, seed=2), [])).total()
        metrics = join.metrics()
    spent = metrics.seeks * costs.seek + metrics.blocks_read * (costs.transfer + costs.block)
    assert clock.now() == pytest.approx(spent + 80 * costs.row + rows * costs.pair)


@pytest.mark.parametrize("batched", WAYS)
def test_an_empty_relation(tmp_path: Path, batched: bool) -> None:
    table = keyed_table().slice(0, 0)
    relation = Relation.build(tmp_path / "e.rel", table, key="k", block_bytes=4096)
    stream = stream_table(10, seed=1)
    with IndexNestedLoop(relation, "l.x = r.k", "200 kB", "left", batched=batched) as join:
        assert given(run(join, stream, [])) == expected(stream, table, "l.x = r.k", "left")


def test_a_budget_that_is_too_small(keyed: Relation) -> None:
    with pytest.raises(RelationError, match="too small: the index of the relation takes"):
        IndexNestedLoop(keyed, "l.x = r.k", "12 kB").push(stream_table(5, seed=1))


@pytest.mark.parametrize("batched", WAYS)
def test_damage_is_found(tmp_path: Path, batched: bool) -> None:
    relation = Relation.build(tmp_path / "d.rel", keyed_table(), key="k", block_bytes=4096)
    (file,) = (tmp_path / "d.rel").glob("blocks-*")
    broken = bytearray(file.read_bytes())
    broken[5 * 4096 + 700] ^= 1
    file.write_bytes(broken)
    join = IndexNestedLoop(relation, "l.x = r.k", "150 kB", batched=batched)
    stream = stream_table(100, seed=11)
    with pytest.raises(RelationError, match="block 5 of the relation is damaged"):
        run(join, stream, [])


def test_offer_reset_close_and_explain(keyed: Relation) -> None:
    join = IndexNestedLoop(keyed, "l.x = r.k", "200 kB", batched=True)
    assert "not known yet" in join.explain()
    stream = stream_table(60, seed=12)
    assert join.offer(stream)
    assert join.metrics().waiting_rows == 60
    join.reset()
    assert join.metrics().waiting_rows == 0
    assert given(run(join, stream, [])) == expected(stream, keyed_table(), "l.x = r.k", "inner")
    assert "per batch, in the order of the leaves" in join.explain()
    join.close()
    with pytest.raises(StateError, match="closed"):
        join.push(stream)

"""MeshJoin against the oracle: every way of joining, cuts of the stream, updates, bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import given as over
from hypothesis import strategies as st

from thetabench.rivals.circle import Circle
from thetabench.rivals.mesh import MeshJoin, Shape, best_shape
from thetastream.errors import DataError, OptionError, PredicateError, RelationError, StateError
from thetastream.relation.disk.clock import PROFILES, Costs, SimulatedClock
from thetastream.relation.files.fences import Fences
from thetastream.relation.store import Relation

from ...relation.answers import expected, given, run
from ...relation.tables import CONDITIONS, HOWS, interval_table, keyed_table, stream_table
from ...scale import scaled

Build = Callable[..., Relation]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Relation:
    path = tmp_path_factory.mktemp("mesh") / "keyed.rel"
    return Relation.build(path, keyed_table(), key="k", block_bytes=4096)


@pytest.fixture(scope="module")
def intervals(tmp_path_factory: pytest.TempPathFactory) -> Relation:
    path = tmp_path_factory.mktemp("mesh") / "intervals.rel"
    return Relation.build(
        path, interval_table(), key=("lo", "hi"), block_bytes=4096, keep_empty=True
    )


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("on", CONDITIONS)
def test_every_way_of_joining(keyed: Relation, on: str, how: str) -> None:
    stream = stream_table(60, seed=3)
    with MeshJoin(keyed, on, "200 kB", how) as join:
        found = given(run(join, stream, [11, 40, 41]))
        metrics = join.metrics()
    assert found == expected(stream, keyed_table(), on, how)
    assert metrics.rows == 60
    assert metrics.waiting_rows == 0
    assert metrics.output_rows == found.total()
    assert metrics.seeks == metrics.join_phases > 0
    assert metrics.peak_bytes <= metrics.budget_bytes * 1.05


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "on",
    ["l.x BETWEEN r.lo AND r.hi", "l.x > r.lo", "l.x <= r.hi", "l.x = r.lo AND l.n <> r.m"],
)
def test_intervals(intervals: Relation, on: str, how: str) -> None:
    stream = stream_table(60, seed=4)
    with MeshJoin(intervals, on, "150 kB", how) as join:
        assert given(run(join, stream, [30])) == expected(stream, interval_table(), on, how)


@over(
    st.lists(st.one_of(st.none(), st.integers(-2, 45)), max_size=30),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(60, 400),
    st.sampled_from(CONDITIONS),
    st.sampled_from(HOWS),
)
@settings(max_examples=scaled(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cuts_and_budgets(
    keyed: Relation, xs: list[int | None], cuts: list[int], kilobytes: int, on: str, how: str
) -> None:
    stream = pa.table(
        {
            "x": pa.array(xs, pa.int64()),
            "n": pa.array(range(len(xs)), pa.int64()),
            "s": pa.array(["y" * (i % 4) for i in range(len(xs))], pa.string()),
        }
    )
    with MeshJoin(keyed, on, kilobytes * 1000, how) as join:
        found = given(run(join, stream, cuts))
    assert found == expected(stream, keyed_table(), on, how)


def test_a_row_stays_for_one_circle(keyed: Relation) -> None:
    """A batch meets each step once, and leaves when it comes round: it is not read again."""
    join = MeshJoin(keyed, "l.x = r.k", "70 kB", "left")
    stream = stream_table(900, seed=5)
    batches = list(join.push(stream))
    shape: Shape = join._engine.shape  # type: ignore[union-attr]
    assert shape.steps >= 3
    before = join.metrics()
    assert before.join_phases > 2 * shape.steps  # several circles
    assert before.waiting_rows < 900
    batches += join.flush()
    assert given(batches) == expected(stream, keyed_table(), "l.x = r.k", "left")
    after = join.metrics()
    assert after.join_phases - before.join_phases <= shape.steps * 2 + 2
    assert after.blocks_read >= keyed.blocks


def test_flush_and_go_on(keyed: Relation) -> None:
    stream = stream_table(90, seed=6)
    with MeshJoin(keyed, "l.x = r.k", "200 kB", "anti") as join:
        batches = run(join, stream.slice(0, 50), [])
        assert list(join.flush()) == []
        batches += run(join, stream.slice(50), [20])
    assert given(batches) == expected(stream, keyed_table(), "l.x = r.k", "anti")


def test_offer_and_step(keyed: Relation) -> None:
    stream = stream_table(900, seed=7)
    with MeshJoin(keyed, "l.x = r.k", "100 kB") as join:
        batches: list[pa.RecordBatch] = []
        refused = 0
        for start in range(0, 900, 50):
            while not join.offer(stream.slice(start, 50)):
                refused += 1
                batches += join.step() or []
        batches += join.flush()
        assert join.step() is None
    assert refused > 0
    assert given(batches) == expected(stream, keyed_table(), "l.x = r.k", "inner")


def test_an_update_is_seen_whole(tmp_path: Path) -> None:
    """Rows that met a part of the relation meet the rest of it as it was."""
    table = keyed_table()
    relation = Relation.build(tmp_path / "r.rel", table, key="k", block_bytes=4096)
    join = MeshJoin(relation, "l.x = r.k", "100 kB")
    early, late = stream_table(400, seed=8), stream_table(50, seed=9)
    late = late.set_column(1, "n", pa.array(range(400, 450), pa.int64()))
    batches = list(join.push(early))
    assert join.metrics().waiting_rows > 0
    changed = table.set_column(1, "m", pa.array(np.arange(table.num_rows) + 10_000))
    Relation.build(tmp_path / "r.rel", changed, key="k", block_bytes=4096, replace=True).close()
    relation.refresh()
    batches += join.push(late)
    batches += join.flush()
    found = given(batches)
    before = expected(early, table, "l.x = r.k", "inner")
    after = expected(early, changed, "l.x = r.k", "inner")
    for n in range(400):
        mine = {pair: count for pair, count in found.items() if pair[0] == n}
        old = {pair: count for pair, count in before.items() if pair[0] == n}
        new = {pair: count for pair, count in after.items() if pair[0] == n}
        assert mine in (old, new)
    seen_late = {pair: count for pair, count in found.items() if pair[0] >= 400}
    assert seen_late == dict(expected(late, changed, "l.x = r.k", "inner"))


def test_wide_leaves(tmp_path: Path) -> None:
    pads = ["p" * (20_000 if i % 37 == 5 else 150) for i in range(150)]
    table = pa.table({"k": [i // 2 for i in range(150)], "m": range(150), "pad": pads})
    relation = Relation.build(tmp_path / "w.rel", table, key="k", block_bytes=4096)
    stream = stream_table(100, seed=10)
    with MeshJoin(relation, "abs(l.x - r.k) <= 1", "200 kB", "left") as join:
        found = given(run(join, stream, [50]))
    assert found == expected(stream, table, "abs(l.x - r.k) <= 1", "left")


def test_an_empty_relation_and_an_empty_stream(tmp_path: Path) -> None:
    table = keyed_table().slice(0, 0)
    relation = Relation.build(tmp_path / "e.rel", table, key="k", block_bytes=4096)
    stream = stream_table(10, seed=1)
    with MeshJoin(relation, "l.x = r.k", "200 kB", "left") as join:
        assert given(run(join, stream, [])) == expected(stream, table, "l.x = r.k", "left")
    with MeshJoin(relation, "l.x = r.k", "200 kB") as join:
        assert list(join.push(stream.slice(0, 0))) == []
        assert list(join.flush()) == []
        assert "not known yet" in join.explain()


def test_costs_are_accounted_for(keyed: Relation) -> None:
    """Simulated time is one seek and the transfers of each step, and the processor's part."""
    costs = Costs(seek=1.0, transfer=0.01, row=1e-3, pair=1e-4, block=1e-2)
    clock = SimulatedClock(costs)
    relation = Relation.open(
        keyed.path, device=lambda path, size: _simulated(path, size, clock), clock=clock
    )
    join = MeshJoin(relation, "l.x = r.k", "200 kB", clock=clock, costs=costs)
    rows = given(run(join, stream_table(80, seed=2), [])).total()
    metrics = join.metrics()
    spent = metrics.seeks * costs.seek + metrics.blocks_read * (costs.transfer + costs.block)
    assert clock.now() == pytest.approx(spent + 80 * costs.row + rows * costs.pair)
    assert metrics.latency_p99 is not None
    assert metrics.latency_p99 <= clock.now() * 1.03


def _simulated(path: Path, block_bytes: int, clock: SimulatedClock) -> Any:
    from thetastream.relation.disk.device import BlockFile, Simulated

    return Simulated(BlockFile(path, block_bytes), clock)


# --- Parameters -----------------------------------------------------------------------------------


@over(
    st.integers(10_000, 10**7),
    st.integers(1, 3000),
    st.floats(20, 400),
    st.sampled_from(list(PROFILES.values())),
    st.floats(0, 1e-2),
)
def test_no_other_parameters_promise_more(
    memory: int, blocks: int, row_bytes: float, costs: Costs, step: float
) -> None:
    def rate(b: int) -> float:
        steps = -(-blocks // b)
        w = int((memory - b * 4096) // ((steps + 1) * row_bytes))
        spent = costs.seek + b * (costs.transfer + costs.block) + w * costs.row + step
        return w / spent if w >= 1 else 0.0

    best = max(rate(b) for b in range(1, max(1, min(blocks, memory // 4096)) + 1))
    if best == 0.0:
        with pytest.raises(RelationError, match="too small for MeshJoin"):
            best_shape(memory, blocks, 4096, row_bytes, costs, step_seconds=step)
        return
    shape = best_shape(memory, blocks, 4096, row_bytes, costs, step_seconds=step)
    assert shape.rate == pytest.approx(best)
    assert shape.blocks * 4096 + (shape.steps + 1) * shape.rows * row_bytes <= memory
    assert shape.steps == -(-blocks // shape.blocks)


def test_memory_that_a_message_asks_for_is_enough(keyed: Relation) -> None:
    with pytest.raises(RelationError, match="is too small for MeshJoin") as caught:
        list(MeshJoin(keyed, "l.x = r.k", "8 kB").push(stream_table(5, seed=1)))
    assert "needs" in str(caught.value)


@over(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=30),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_a_circle_passes_every_leaf_once(
    sizes: list[tuple[int, int]], most: int, random: Any
) -> None:
    spans = np.array([span for span, _ in sizes])
    assume(most >= spans.max())
    gaps = np.array([gap for _, gap in sizes])
    blocks = np.cumsum(spans + gaps) - spans
    order = list(range(len(sizes)))
    random.shuffle(order)
    firsts, continued = np.arange(len(sizes)) * 10, np.zeros(len(sizes), np.uint8)
    fences = Fences(firsts, continued, None, blocks[order], spans[order])
    circle = Circle(fences, most)
    seen: list[int] = []
    for at in range(circle.steps):
        start, count = circle.span(at)
        leaves, firsts = circle.leaves(at)
        assert 0 < count <= min(most, circle.largest)
        assert (np.diff(leaves) > 0).all()
        assert (firsts == fences.blocks[leaves]).all()
        wide = np.ones(len(leaves), int) if fences.spans is None else fences.spans[leaves]
        assert ((firsts >= start) & (firsts + wide <= start + count)).all()
        assert [leaf for run in circle.runs(at) for leaf in range(*run)] == leaves.tolist()
        seen += leaves.tolist()
    assert sorted(seen) == list(range(len(sizes)))


# --- Bad input ------------------------------------------------------------------------------------


def test_wrong_conditions(keyed: Relation) -> None:
    with pytest.raises(PredicateError, match="sorted by k"):
        MeshJoin(keyed, "l.x = r.m", schema=stream_table(1, seed=1).schema)
    with pytest.raises(OptionError, match="how='right'"):
        MeshJoin(keyed, "l.x = r.k", how="right", schema=stream_table(1, seed=1).schema)


def test_a_bad_batch_changes_nothing(tmp_path: Path) -> None:
    table = pa.table({"k": pa.array([1, 2, 2**63 - 1], pa.int64()), "m": [0, 1, 2]})
    relation = Relation.build(tmp_path / "b.rel", table, key="k", block_bytes=4096)
    join = MeshJoin(relation, "l.x = r.k", "200 kB")
    good = pa.table({"x": pa.array([2, 5], pa.uint64()), "n": [0, 1]})
    bad = pa.table({"x": pa.array([2, 2**64 - 1], pa.uint64()), "n": [2, 3]})
    batches = list(join.push(good))
    with pytest.raises(DataError, match="does not fit"):
        join.push(bad)
    batches += join.flush()
    assert given(batches) == {(0, 1): 1}
    assert join.metrics().rows == 2


def test_damage_is_found_and_nothing_is_lost(tmp_path: Path) -> None:
    table = keyed_table()
    relation = Relation.build(tmp_path / "d.rel", table, key="k", block_bytes=4096)
    (file,) = (tmp_path / "d.rel").glob("blocks-*")
    stream = stream_table(100, seed=11)
    whole = file.read_bytes()
    broken = bytearray(whole)
    broken[5 * 4096 + 700] ^= 1
    file.write_bytes(broken)
    join = MeshJoin(relation, "l.x = r.k", "150 kB", "left")
    batches = list(join.push(stream))
    with pytest.raises(RelationError, match="block 5 of the relation is damaged"):
        batches.extend(join.flush())
    file.write_bytes(whole)
    batches += join.flush()
    assert given(batches) == expected(stream, table, "l.x = r.k", "left")


def test_reset_and_close(keyed: Relation) -> None:
    join = MeshJoin(keyed, "l.x = r.k", "200 kB", "left")
    list(join.push(stream_table(100, seed=12)))
    join.reset()
    assert join.metrics().waiting_rows == 0
    assert list(join.flush()) == []
    stream = stream_table(30, seed=13)
    assert given(run(join, stream, [])) == expected(stream, keyed_table(), "l.x = r.k", "left")
    join.close()
    join.close()
    with pytest.raises(StateError, match="closed"):
        join.push(stream)


def test_it_explains_itself(keyed: Relation) -> None:
    join = MeshJoin(keyed, "l.x = r.k", "200 kB")
    list(join.push(stream_table(10, seed=1)))
    text = join.explain(verbose=True)
    assert "read in a circle" in text
    assert "rows per second" in text
    assert join.schema.names == ["x", "n", "s", "k", "m", "pad"]

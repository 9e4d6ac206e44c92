"""RelationJoin at work: what waits and is counted, updates, damage, budgets, deadlines, Ctrl-C."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from thetastream import RelationJoin
from thetastream.errors import (
    DataError,
    OptionError,
    PredicateError,
    RelationError,
    SchemaError,
    StateError,
)
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.store import Relation

from ..relation_cases import built, padded, rows_of, truth

KEYS = list(range(0, 400, 2))


@pytest.fixture
def plain() -> pa.Table:
    return padded({"k": KEYS})


@pytest.fixture
def relation(tmp_path: Path, plain: pa.Table) -> Relation:
    return built(tmp_path / "r.rel", plain)


def stream(keys: Any) -> pa.Table:
    keys = list(keys)
    return pa.table({"x": pa.array(keys, pa.int64()), "n": range(len(keys))})


def test_rows_wait_until_there_are_enough(relation: Relation, plain: pa.Table) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB", input_rows=10, stream_rows=25)
    first, second = stream(range(0, 40, 2)), stream(range(40, 60, 2))
    assert not list(join.push(first.slice(0, 9)))
    assert join.metrics().online_phases == 0
    assert not list(join.push(first.slice(9)))
    found = join.metrics()
    assert (found.online_phases, found.join_phases, found.waiting_rows) == (2, 0, 20)
    assert (found.hits, found.misses, found.blocks_read) == (0, 20, 0)
    answer = list(join.push(second))
    found = join.metrics()
    assert (found.join_phases, found.waiting_rows, found.matches) == (1, 0, 30)
    assert rows_of(answer) == truth(pa.concat_tables([first, second]), plain, "l.x = r.k", "inner")


def test_what_was_read_answers_from_the_cache(relation: Relation) -> None:
    join = RelationJoin(relation, "l.x = r.k", "2 MB")
    for _ in range(3):
        assert sum(b.num_rows for b in [*join.push(stream(KEYS)), *join.flush()]) == len(KEYS)
    found = join.metrics()
    assert found.cached_blocks == relation.leaves
    assert (found.hits, found.misses) == (2 * len(KEYS), len(KEYS))
    assert found.blocks_read == relation.leaves
    assert found.latency_p50 is not None


def test_an_answer_that_is_not_read_is_not_lost(relation: Relation, plain: pa.Table) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB", input_rows=4, batch_rows=50)
    pieces = [stream(KEYS[start : start + 20]) for start in range(0, 200, 20)]
    for piece in pieces:
        join.push(piece)  # nobody reads
    half = join.flush()
    taken = [next(half), next(half)]
    rest = list(join.poll())
    assert rows_of([*taken, *rest]) == truth(pa.concat_tables(pieces), plain, "l.x = r.k", "inner")


def test_budget_holds_whatever_is_pushed(relation: Relation) -> None:
    join = RelationJoin(relation, "l.x >= r.k", "200 kB")
    for _ in range(3):
        for _ in join.push(stream(np.arange(4000) % 500)):
            join.check()
    for _ in join.flush():
        join.check()
    found = join.metrics()
    assert found.peak_bytes <= 1.05 * found.budget_bytes


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_an_update_is_seen_by_rows_that_come_later(
    relation: Relation, plain: pa.Table, how: str
) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB", how=how, input_rows=1, stream_rows=1000)
    early, late = stream([2, 3, 4]), stream([2, 3, 4])
    batches = list(join.push(early))
    row = padded({"k": [3]})
    relation.insert(row)
    relation.delete(pa.table({"k": [4]}))
    after = pa.concat_tables([plain.filter(pc.field("k") != 4), row])
    assert join.metrics().version < relation.version
    batches += [*join.push(late), *join.flush()]
    assert join.metrics().version == relation.version
    before = truth(early, plain, "l.x = r.k", how)
    assert rows_of(batches) == before + truth(late, after, "l.x = r.k", how)


def test_blocks_that_an_update_left_alone_stay_cached(relation: Relation) -> None:
    join = RelationJoin(relation, "l.x = r.k", "2 MB")
    list(join.push(stream(KEYS)))
    list(join.flush())
    read = join.metrics().blocks_read
    relation.insert(padded({"k": [1] * 30}))  # splits a leaf, so that all others get new numbers
    relation.delete(pa.table({"k": [399 - 1]}))
    found = sum(b.num_rows for b in [*join.push(stream([1, *KEYS])), *join.flush()])
    assert found == 30 + len(KEYS) - 1
    join.check()
    assert 0 < join.metrics().blocks_read - read <= 6


@pytest.mark.parametrize("seed", range(5))
def test_many_updates_between_pushes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = padded({"k": rng.integers(0, 40, 100).tolist()})
    relation = built(tmp_path / "r.rel", table)
    join = RelationJoin(relation, "abs(l.x - r.k) <= 1", "1 MB", how="left", input_rows=5)
    expected = rows_of([])
    found = []
    for _ in range(12):
        if rng.random() < 0.6:
            fresh = padded({"k": rng.integers(0, 40, int(rng.integers(1, 30))).tolist()})
            relation.insert(fresh)
            table = pa.concat_tables([table, fresh])
        else:
            gone = pa.array(np.unique(rng.integers(0, 40, 3)))
            relation.delete(pa.table({"k": gone}))
            table = table.filter(pc.invert(pc.is_in(table["k"], gone)))
        rows = stream(rng.integers(-2, 43, 15))
        found += join.push(rows)
        found += join.flush()
        join.check()
        expected += truth(rows, table, "abs(l.x - r.k) <= 1", "left")
    assert rows_of(found) == expected


def damage(relation: Relation, block: int) -> None:
    (path,) = relation.path.glob("blocks-*")
    with path.open("r+b") as file:
        file.seek(block * relation.block_bytes + 2000)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 4]))


def test_a_damaged_block_is_named_and_the_others_are_joined_once(
    relation: Relation, plain: pa.Table
) -> None:
    good = stream(KEYS[:100])
    join = RelationJoin(relation, "l.x = r.k", "1 MB", max_scan=1)
    damage(relation, relation.leaves - 1)
    answer = list(join.push(stream(KEYS)))
    with pytest.raises(RelationError, match=rf"block {relation.leaves - 1} .* damaged"):
        answer += join.flush()
    for _ in range(2):
        with pytest.raises(RelationError, match="build the relation again"):
            answer += join.flush()
    found = rows_of(answer)
    assert max(found.values()) == 1, "nothing is given twice"
    assert not truth(good, plain, "l.x = r.k", "inner") - found
    assert join.metrics().waiting_rows > 0, "what could not be joined goes on waiting"
    join.reset()
    assert join.metrics().waiting_rows == 0


def test_reset_forgets_rows(relation: Relation) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB", input_rows=3, stream_rows=50)
    list(join.push(stream(KEYS[:10])))
    half = join.push(stream(KEYS))
    next(half, None)
    join.reset()
    assert not list(join.flush())
    assert sum(b.num_rows for b in [*join.push(stream([2])), *join.flush()]) == 1


def test_an_interrupt_waits_for_the_step(relation: Relation) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB", input_rows=10, stream_rows=10, batch_rows=5)
    rows: list[pa.RecordBatch] = []
    pushed = iter(range(0, 200, 10))
    stops = 0
    work = iter(())  # type: ignore[var-annotated]
    while True:
        try:
            for batch in work:
                rows.append(batch)
                signal.raise_signal(signal.SIGINT)
            start = next(pushed, None)
            if start is None:
                break
            work = join.push(stream(KEYS[start : start + 10]))
        except KeyboardInterrupt:
            stops += 1
            work = join.poll()
    rows += join.flush()
    assert stops > 10
    assert sum(batch.num_rows for batch in rows) == len(KEYS)


# --- Deadlines ----------------------------------------------------------------------------------


def simulated(relation: Relation, **options: Any) -> tuple[RelationJoin, SimulatedClock]:
    clock = SimulatedClock(PROFILES["disk"])
    opened = Relation.open(relation.path, device="disk", clock=clock)
    return RelationJoin(opened, "l.x = r.k", "1 MB", clock=clock, **options), clock


def test_rows_are_answered_before_their_deadline(relation: Relation) -> None:
    join, clock = simulated(relation, deadline="2 s")
    assert join.due is None
    found = 0
    for number in range(200):
        clock.wait_until(number * 0.1)
        found += sum(batch.num_rows for batch in join.push(stream([number * 2 % 400])))
        while (due := join.due) is not None and due < 0.1:
            clock.wait_until(clock.now() + due)
            found += sum(batch.num_rows for batch in join.poll())
    found += sum(batch.num_rows for batch in join.flush())
    counts = join.metrics()
    assert found == counts.rows == counts.deadlines_met == 200
    assert counts.deadlines_missed == 0
    assert counts.latency_p99 is not None
    assert counts.latency_p99 <= 2
    assert counts.join_phases < 200, "rows share reads as far as the deadline allows"


def test_missed_deadlines_are_counted(relation: Relation) -> None:
    join, clock = simulated(relation, deadline="100 ms")
    list(join.push(stream([2, 4])))
    clock.wait_until(5)
    list(join.poll())
    assert join.metrics().deadlines_missed == 2


def test_a_deadline_that_cannot_be_met(relation: Relation) -> None:
    with pytest.raises(RelationError, match=r"a deadline of 5 ms cannot be met: .* or more can be"):
        simulated(relation, deadline="5 ms")


# --- Bad input ----------------------------------------------------------------------------------


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "memory": ({"memory": "20 kB"}, RelationError, "use at least"),
    "how": ({"how": "full"}, OptionError, "use inner, left, semi or anti"),
    "other how": ({"how": "inn"}, OptionError, "Did you mean 'inner'"),
    "cache": ({"cache": "lfu"}, OptionError, "Did you mean 'lru'"),
    "plan": ({"plan": "optimum"}, OptionError, "Did you mean 'optimal'"),
    "split": ({"split": 1.5}, OptionError, "0 ≤ split < 1"),
    "threshold": ({"stream_rows": 0}, OptionError, "stream_rows must be a whole number"),
    "no key": ({"on": "l.x = r.id"}, PredicateError, "must compare r.k itself"),
    "column": ({"on": "l.x = r.key"}, PredicateError, "no column 'key'"),
    "type": ({"on": "l.s = r.k"}, SchemaError, "cannot be compared"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(relation: Relation, name: str) -> None:
    options, kind, advice = BAD[name]
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    with pytest.raises(kind, match=advice):
        RelationJoin(relation, **{"on": "l.x = r.k", "memory": "1 MB", "schema": schema, **options})


def test_bad_rows_change_nothing(relation: Relation) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB")
    list(join.push(stream([2])))
    with pytest.raises(SchemaError, match="changed its type"):
        join.push(pa.table({"x": [1.5], "n": [0]}))
    with pytest.raises(SchemaError, match="got int, which holds no rows"):
        join.push([2])  # type: ignore[arg-type]
    assert join.metrics().rows == 1
    join.close()
    with pytest.raises(StateError, match="make a new RelationJoin"):
        join.push(stream([2]))


def test_a_look_up_that_fails_half_way_ends_the_join(relation: Relation) -> None:
    on = "l.x = r.k AND (l.n + r.id) * 4611686018427387904 >= 0"
    join = RelationJoin(relation, on, "1 MB", input_rows=1)
    list(join.push(stream([0])))
    list(join.flush())
    rows = pa.table({"x": [0, 0], "n": [0, 5]})  # a product is no 64-bit number
    with pytest.raises(DataError, match="overflow"):
        list(join.push(rows))
    with pytest.raises(StateError, match="make a new RelationJoin"):
        join.poll()
    join.reset()
    assert sum(b.num_rows for b in [*join.push(stream([0])), *join.flush()]) == 1


def test_explains_itself(relation: Relation) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB")
    assert "not known yet" in join.explain()
    with pytest.raises(StateError, match="pass schema="):
        _ = join.schema
    list(join.push(stream([2, 6])))
    facts = join.explain().as_dict()
    assert facts["thresholds"].keys() == {"input_rows", "stream_rows", "max_scan", "why"}
    assert facts["memory"]["budget"] == "1 MB"
    assert len(join.explain().splitlines()) <= 25 < len(join.explain(verbose=True).splitlines())
    assert join.schema.names == ["x", "n", "k", "id", "pad"]


def test_any_frame_in_and_results_one_can_use(relation: Relation, plain: pa.Table) -> None:
    join = RelationJoin(relation, "l.x = r.k", "1 MB", input_rows=1, stream_rows=1)
    assert "not known yet" in repr(join.poll())
    rows = stream([2, 4])
    frames = (pl.DataFrame(rows.to_pydict()), rows.to_pandas(), rows.to_pylist(), rows.to_pydict())
    for frame in frames:
        list(join.push(frame))
        result = join.flush()
        assert result.schema == join.schema
        assert "k  " in repr(result)
        assert "k" in result._repr_html_()
        wanted = sum(key in (2, 4) for key in plain["k"].to_pylist())
        assert wanted > 0
        result.to_table()
    assert join.metrics().matches == len(frames) * wanted
    join.push(rows)
    assert join.flush().to_polars().height == wanted
    assert join.flush().to_pandas().columns.tolist() == join.schema.names
    assert repr(join).startswith("RelationJoin on l.x = r.k\n")
    assert "rows in" in join._repr_html_()
    assert "hits" in repr(join.metrics())

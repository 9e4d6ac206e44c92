"""RelationJoin against the oracle: tiny domains, every mode, every threshold."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.relation.join.join import RelationJoin
from thetastream.relation.store import Relation

from ...scale import scaled
from ..relation_cases import built, padded, rows_of, truth

HOW = ["inner", "left", "semi", "anti"]
NUMBERS = st.one_of(st.none(), st.integers(-3, 30))


@pytest.fixture(scope="module")
def relation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Relation, pa.Table]:
    keys = sorted(np.random.default_rng(1).integers(0, 28, 120).tolist() + [7] * 40)
    rows = padded({"k": keys, "v": [k % 5 for k in keys]})
    return built(tmp_path_factory.mktemp("r") / "r.rel", rows), rows


@pytest.fixture(scope="module")
def intervals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Relation, pa.Table]:
    rng = np.random.default_rng(2)
    lows = rng.integers(0, 28, 120)
    highs = lows + rng.integers(0, 3, 120)
    highs[::40] = 40
    rows = padded({"lo": lows.tolist(), "hi": highs.tolist()})
    return built(tmp_path_factory.mktemp("r") / "i.rel", rows, ("lo", "hi")), rows


def joined(join: RelationJoin, stream: pa.Table, pieces: int) -> Any:
    step = max(1, -(-stream.num_rows // pieces))
    batches = []
    for start in range(0, stream.num_rows, step):
        batches += join.push(stream.slice(start, step))
        join.check()
    batches += join.flush()
    join.check()
    return rows_of(batches)


PREDICATES = [
    "l.x = r.k",
    "abs(l.x - r.k) <= 2",
    "l.x < r.k",
    "l.x != r.k",
    "l.x = r.k AND l.y < r.v",
    "l.x = r.k AND (l.y + r.v) % 2 = 0",
    "l.x >= r.k AND r.v = 3",
    "l.x = r.k AND l.y = 1",
    "l.x = r.k OR l.x = r.k + 3",
]


@settings(max_examples=scaled(12), deadline=None)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("on", PREDICATES)
@given(data=st.data())
def test_as_the_oracle(
    relation: tuple[Relation, pa.Table], on: str, how: str, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(NUMBERS, st.integers(0, 3)), min_size=1, max_size=40))
    stream = pa.table(
        {
            "x": pa.array([x for x, _ in rows], pa.int64()),
            "y": [y for _, y in rows],
            "n": range(len(rows)),
        }
    )
    table, plain = relation
    options: dict[str, Any] = {
        "input_rows": data.draw(st.sampled_from([None, 1, 7])),
        "stream_rows": data.draw(st.sampled_from([None, 1, 5])),
        "max_scan": data.draw(st.sampled_from([None, 1, 3])),
        "cache": data.draw(st.sampled_from(["utility", "lru", "none"])),
        "split": data.draw(st.sampled_from([None, 0.5])),
        "plan": data.draw(st.sampled_from(["optimal", "greedy", "single"])),
        "batch_rows": data.draw(st.sampled_from([3, 1000])),
    }
    with RelationJoin(table, on, "1 MB", how=how, **options) as join:
        found = joined(join, stream, data.draw(st.integers(1, 4)))
    assert found == truth(stream, plain, on, how)


@settings(max_examples=scaled(15), deadline=None)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "on",
    ["l.x >= r.lo AND l.x <= r.hi", "l.x > r.lo AND l.x < r.hi", "l.x >= r.lo", "l.x = r.hi"],
)
@given(data=st.data())
def test_points_in_intervals(
    intervals: tuple[Relation, pa.Table], on: str, how: str, data: st.DataObject
) -> None:
    xs = data.draw(st.lists(st.one_of(st.none(), st.integers(-1, 42)), min_size=1, max_size=30))
    stream = pa.table({"x": pa.array(xs, pa.int64()), "n": range(len(xs))})
    table, plain = intervals
    with RelationJoin(table, on, "1 MB", how=how, stream_rows=4, input_rows=5) as join:
        found = joined(join, stream, 3)
    assert found == truth(stream, plain, on, how)


@pytest.mark.parametrize("how", HOW)
def test_values_of_every_width_wait(relation: tuple[Relation, pa.Table], how: str) -> None:
    table, plain = relation
    rng = np.random.default_rng(3)
    gone = [bool(g) for g in rng.random(40) < 0.3]

    def column(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if g else v for g, v in zip(gone, values, strict=True)], kind)

    words = [f"{i:03}" for i in range(40)]
    stream = pa.table(
        {
            "x": pa.array(rng.integers(0, 30, 40)),
            "b": column([word.encode() for word in words], pa.binary(3)),
            "d": column([Decimal(i) for i in range(40)], pa.decimal128(20, 2)),
            "w": column([Decimal(i) for i in range(40)], pa.decimal256(50, 2)),
            "s": column(words, pa.string()),
            "t": column(list(range(40)), pa.int16()),
            "y": column([i % 2 == 0 for i in range(40)], pa.bool_()),
            "l": column([[i, None] for i in range(40)], pa.list_(pa.int64())),
            "e": pa.array([b""] * 40, pa.binary(0)),
        }
    )
    with RelationJoin(table, "l.x = r.k", "1 MB", how=how, input_rows=7) as join:
        assert joined(join, stream, 3) == truth(stream, plain, "l.x = r.k", how)

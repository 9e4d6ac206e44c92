"""The benchmark workloads: the contract, the seed, the match rate."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from thetastream.datasets import (
    WORKLOADS,
    Shape,
    Workload,
    cut,
    measured_match_rate,
    w1,
    w2,
    w3,
)
from thetastream.errors import DataError
from thetastream.truth import oracle
from thetastream.window import CountWindow

SCHEMAS = {
    "W1": pa.schema({"x": pa.int64(), "id": pa.int64()}),
    "W2": pa.schema({"a": pa.float64(), "b": pa.float64(), "id": pa.int64()}),
    "W3": pa.schema({"x": pa.int64(), "y": pa.int64(), "id": pa.int64()}),
}


def counted(workload: Workload, sample: int | None = None) -> float:
    shape = Shape.INEQUALITIES if workload.name == "W2" else Shape.BAND
    widths = set(re.findall(r"<= (\d+)", workload.predicate)) or {"0"}
    assert len(widths) == 1
    sides = [
        tuple(column.to_numpy() for column in side.drop_columns("id").columns)
        for side in (workload.left, workload.right)
        if side is not None
    ]
    return measured_match_rate(
        shape, int(widths.pop()), *sides, window=workload.window, sample=sample
    )


@pytest.mark.parametrize("name", WORKLOADS)
def test_contract(name: str) -> None:
    workload = WORKLOADS[name](100, 250, seed=1)
    assert workload.name == name
    assert workload.window == 100
    assert workload.match_rate == {"W1": 2.0, "W2": 10.0, "W3": 5.0}[name]
    assert workload.self_join is (name == "W3")
    assert (workload.right is None) is workload.self_join
    for side in (workload.left, workload.right):
        if side is not None:
            assert side.schema == SCHEMAS[name]
            assert side["id"].to_pylist() == list(range(250))


def test_predicates() -> None:
    assert re.fullmatch(r"abs\(l\.x - r\.x\) <= \d+", w1(100, 1).predicate)
    assert w2(100, 1).predicate == "l.a < r.a AND l.b > r.b"
    band = r"abs\(l\.x - r\.x\) <= (\d+) AND abs\(l\.y - r\.y\) <= \1"
    assert re.fullmatch(band, w3(100, 1).predicate)


@pytest.mark.parametrize("name", WORKLOADS)
def test_seeded(name: str) -> None:
    make = WORKLOADS[name]
    assert make(100, 250, seed=1) == make(100, 250, seed=1)
    assert make(100, 250, seed=1).left != make(100, 250, seed=2).left
    one = make(100, 250, seed=1)
    assert one.right is None or one.left != one.right


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(
    ("window", "rate"), [(2000, None), (2000, 40.0), (64, None), (20, 10.0), (20, 19.0), (7, 0.5)]
)
def test_match_rate(name: str, window: int, rate: float | None) -> None:
    chosen = {} if rate is None else {"match_rate": rate}
    workload = WORKLOADS[name](window, 20_000, seed=4, **chosen)
    assert counted(workload, sample=6000) == pytest.approx(workload.match_rate, rel=0.05)


@pytest.mark.parametrize("window", [50_000, 500_000])
def test_match_rate_of_w2_at_the_benchmark_windows(window: int) -> None:
    workload = w2(window, window + 20_000)
    assert counted(workload) == pytest.approx(10, rel=0.1)


def test_w2_keys_are_correlated_and_each_term_is_a_coin_toss() -> None:
    workload = w2(50_000, 20_000)
    assert workload.right is not None
    (a, b), (c, d) = (
        (side["a"].to_numpy(), side["b"].to_numpy()) for side in (workload.left, workload.right)
    )
    assert np.corrcoef(a, b)[0, 1] > 0.99999
    assert (a < c).mean() == pytest.approx(0.5, abs=0.02)
    assert (b > d).mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_match_is_an_output_pair_of_the_oracle(name: str) -> None:
    workload = WORKLOADS[name](20, 120, seed=2)
    left, right = (
        [None] * 120 if side is None else list(cut(side, 1))
        for side in (workload.left, workload.right)
    )
    answer = oracle.join(
        zip(left, right, strict=True),
        workload.predicate,
        CountWindow(workload.window),
        self_join=workload.self_join,
    )
    arrivals = [max(pair) for pair in answer.pairs]  # type: ignore[type-var]
    rows = 100 if workload.self_join else 200  # that arrive at a full window
    full = sum(at >= 20 for at in arrivals)  # type: ignore[operator]
    assert full / rows == pytest.approx(counted(workload, sample=120))


def test_every_pair_can_match() -> None:
    assert counted(w2(10, 3000, match_rate=10.0)) == pytest.approx(10)
    assert counted(w1(10, 3000, match_rate=10.0)) == pytest.approx(10)
    assert counted(w3(10, 3000, match_rate=20.0)) == pytest.approx(20)


@pytest.mark.parametrize("name", WORKLOADS)
def test_bad_arguments(name: str) -> None:
    with pytest.raises(DataError, match="match_rate"):
        WORKLOADS[name](2, 10, match_rate=5.0)
    with pytest.raises(DataError, match="window"):
        WORKLOADS[name](0, 10)
    with pytest.raises(DataError, match="rows"):
        WORKLOADS[name](100, -1)
    assert WORKLOADS[name](100, 0).left.num_rows == 0

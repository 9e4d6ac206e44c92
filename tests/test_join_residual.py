"""A residual function of the user's own: every join mode against the oracle, and bad results."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.condition.custom import Custom
from thetastream.errors import DataError, OptionError, SchemaError
from thetastream.truth import oracle

from .join_rows import joined, rows, table

CELLS = st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=8)
MODES = ["inner", "left", "right", "full", "semi", "anti"]


def product(left: Any, right: Any) -> Any:
    """True, false and NULL: NULL does not match."""
    return pc.greater(pc.multiply(left["x"], right["x"]), 1)


def parity(left: Any, right: Any) -> Any:
    """As NumPy, over columns that the condition does not read."""
    total = left["n"].to_numpy() + right["n"].to_numpy()
    return total % 2 == 0


def numbered(xs: list[int | None]) -> pa.Table:
    return table(xs, n=pa.array(range(len(xs)), pa.int64()))


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize("function", [product, parity])
@given(left=CELLS, right=CELLS)
def test_every_mode(how: str, function: Any, left: list[Any], right: list[Any]) -> None:
    on, window = "abs(l.x - r.x) <= 2", ts.CountWindow(5)
    pushes = [(numbered(left), numbered(right))]
    join = joined(on, window=window, how=how, residual=function)
    found = rows(join.push(*pushes[0])) + rows(join.flush())
    truth = oracle.join(pushes, ts.Predicate.of(on, function), window, how)
    names = ("n",) if how in ("semi", "anti") else ("n", "n_right")
    expected = sorted(str(pair[: len(names)]) for pair in truth.pairs)
    assert sorted(str(tuple(row[name] for name in names)) for row in found) == expected


@pytest.mark.parametrize("output", ["pairs", "count"])
def test_numbered_output(output: str) -> None:
    join = joined(residual=product, output=output)
    join.push(left=numbered([1, 2, 3]))
    found = rows(join.push(right=numbered([2, None, 3])))
    if output == "pairs":
        assert len(found) == 5
    else:
        assert sum(row["matches"] for row in found) == 5


def test_aggregates_and_self_joins() -> None:
    join = joined(residual=product, aggregate={"n_of": "count"})
    list(join.push(right=numbered([1, 2, 3])))
    assert [row["n_of"] for row in rows(join.push(left=numbered([2, -2])))] == [3, 0]
    own = joined(residual=lambda left, right: pc.less(left["n"], right["n"]), self_join=True)
    assert len(rows(own.push(left=numbered([1, 2, 3])))) == 2


def test_a_function_alone_is_a_nested_loop() -> None:
    join = joined("TRUE", residual=product, tactic="nested-loop")
    list(join.push(left=numbered([1, 2])))
    assert len(rows(join.push(right=numbered([2, -1])))) == 2
    assert "product(l, r)" in join.explain()


def test_it_is_part_of_the_predicate() -> None:
    predicate = ts.Predicate.of("l.x = r.x", product)
    assert predicate == ts.Predicate.of(ts.Predicate.parse("l.x = r.x"), product)
    assert predicate != ts.Predicate.parse("l.x = r.x")
    assert len({predicate, ts.Predicate.of("l.x = r.x", Custom.of(product))}) == 1
    assert not ts.Predicate.of("abs(l.x - r.x) <= 1", product).is_symmetric
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def _raises(left: Any, right: Any) -> Any:
    raise ZeroDivisionError("oh no")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (_raises, DataError, "_raises raised ZeroDivisionError on 1 candidate pairs: oh no"),
        (
            lambda left, right: pa.array([True, True]),
            DataError,
            "got 1 pairs and returned 2 values",
        ),
        (lambda left, right: np.array([], np.bool_), DataError, "returned 0 values"),
        (lambda left, right: pa.array([1]), SchemaError, "got Int64Array of int64"),
        (
            lambda left, right: True,
            SchemaError,
            "must return a boolean Arrow or NumPy array.* got bool",
        ),
        (lambda left, right: np.array([1.0]), SchemaError, "got ndarray of float64"),
        (lambda left, right: None, SchemaError, "got NoneType"),
    ],
)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_bad_functions(function: Any, error: type, message: str, how: str) -> None:
    join = joined(residual=function, how=how)
    list(join.push(left=numbered([1])))
    with pytest.raises(error, match=message):
        rows(join.push(right=numbered([1])))


def test_the_cause_is_kept() -> None:
    join = joined(residual=_raises)
    list(join.push(left=numbered([1])))
    with pytest.raises(DataError) as caught:
        rows(join.push(right=numbered([1])))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_it_is_called_on_candidates_only() -> None:
    seen: list[int] = []

    def counting(left: Any, right: Any) -> Any:
        seen.append(left.num_rows)
        return pa.chunked_array([pa.array([True] * left.num_rows)])

    join = joined(residual=counting)
    list(join.push(left=numbered(list(range(100)))))
    assert len(rows(join.push(right=numbered([50])))) == 3
    assert sum(seen) == 3


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(OptionError, match="residual must be a function"):
        joined(residual="l.x > 0")

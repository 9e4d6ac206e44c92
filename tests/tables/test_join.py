"""``ts.join``: exact in every mode, whichever side is stored, however the other is cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.data.frames import batches_of
from thetastream.engine.query import Query
from thetastream.errors import NestedLoopWarning, OptionError, PredicateError, SchemaError
from thetastream.side import Side
from thetastream.tables.finite import FiniteJoin
from thetastream.tables.ways import CHUNK, LEAST_CHUNK, chunk_of
from thetastream.testing import assert_same_pairs
from thetastream.testing.driver import run_oracle
from thetastream.testing.streams import MODES, Scenario, unbounded_scenarios

BAND = "abs(l.x - r.x) <= 1"


def finite(left: Any, right: Any, on: str, how: str = "inner", **options: Any) -> FiniteJoin:
    """A join whose plan can be overruled."""
    plan = {name: options.pop(name) for name in ("stored", "chunk") if name in options}
    settings = {"tactic": "auto", "threads": 1, "output": "pairs", **options}
    query = Query(
        ts.Predicate.parse(on),
        ts.Unbounded(),
        ts.How.of(how),
        self_join=False,
        tactic=ts.Tactic.of(settings["tactic"]),
        suffix="_right",
        columns=None,
        threads=settings["threads"],
        batch_rows=3,
        output=type(Query.output).of(settings["output"]),
    )
    given = zip(Side, (left, right), strict=True)
    return FiniteJoin(query, {s: batches_of(rows, None, s.value) for s, rows in given}, **plan)


def numbers(result: FiniteJoin) -> list[tuple[Any, Any]]:
    """Pairs of row numbers."""
    table = result.to_table()
    return list(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))


@given(
    scenario=unbounded_scenarios(),
    stored=st.sampled_from(Side),
    chunk=st.integers(1, 4),
    threads=st.sampled_from([1, 2]),
)
def test_any_predicate_and_mode_as_the_oracle_says(
    scenario: Scenario, stored: Side, chunk: int, threads: int
) -> None:
    left, right = scenario.table(0), scenario.table(1)
    if left is None or right is None:
        return
    options = {"stored": stored, "chunk": chunk, "threads": threads}
    found = numbers(finite(left, right, scenario.on, scenario.how, **options))
    assert_same_pairs(found, run_oracle(scenario).pairs, left=left, right=right, note=scenario)


@pytest.mark.parametrize("tactic", ts.tactics())
@pytest.mark.parametrize("stored", Side)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_tactic_finds_the_same(tactic: str, stored: Side, threads: int) -> None:
    random = np.random.default_rng(3)
    left, right = (
        pa.table({name: random.integers(0, 9, count) for name in "xy"}) for count in (60, 40)
    )
    on = {"hash": "l.x = r.x AND l.y < r.y", "spo-join": "l.x < r.x AND l.y > r.y"}
    on["cells"] = "abs(l.x - r.x) <= 1 AND abs(l.y - r.y) <= 2"
    text = on.get(tactic, BAND)
    truth = ts.oracle.join([(left, right)], text, ts.Unbounded(), "full").pairs
    options = {"tactic": tactic, "stored": stored, "threads": threads, "chunk": 7}
    assert_same_pairs(numbers(finite(left, right, text, "full", **options)), truth)


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize("threads", [1, 2])
def test_large_tables_as_duckdb_says(how: str, threads: int) -> None:
    random = np.random.default_rng(7)
    left = pa.table({"x": random.integers(0, 90_000, 30_000), "a": np.arange(30_000)})
    right = pa.table({"y": random.integers(0, 90_000, 20_000), "b": np.arange(20_000)})
    words = {"right": "RIGHT", "left": "LEFT", "full": "FULL", "inner": "INNER"}
    verb = words.get(how, how.upper())
    names = "a" if how in ("semi", "anti") else "a, b"
    with duckdb.connect() as engine:
        engine.register("l", left)
        engine.register("r", right)
        sql = f"SELECT {names} FROM l {verb} JOIN r ON abs(l.x - r.y) <= 1"
        wanted = Counter(engine.execute(sql).fetchall())
    found = ts.join(left, right, "abs(l.x - r.y) <= 1", how, threads=threads)
    columns = [found[name].to_pylist() for name in names.split(", ")]
    assert Counter(zip(*columns, strict=True)) == wanted


def test_two_inequalities_as_polars_says() -> None:
    random = np.random.default_rng(8)
    left, right = (
        pl.DataFrame({"a": random.integers(0, 999, n), "b": random.integers(0, 999, n)})
        for n in (400, 300)
    )
    wanted = left.join_where(
        right, pl.col("a") < pl.col("a_right"), pl.col("b") > pl.col("b_right")
    )
    found = ts.join(left, right, "l.a < r.a AND l.b > r.b")
    assert isinstance(found, pl.DataFrame)
    assert Counter(found.rows()) == Counter(wanted.rows())


def test_the_order_of_rows_does_not_depend_on_threads() -> None:
    random = np.random.default_rng(9)
    left, right = (pa.table({"x": random.integers(0, 50_000, 40_000)}) for _ in range(2))
    one, two = (ts.join(left, right, BAND, threads=threads) for threads in (1, 2))
    assert one.num_rows > 0
    assert one.equals(two)


# --- What is stored -----------------------------------------------------------------------------


def test_the_cheaper_way_round_is_chosen() -> None:
    """Points and intervals: sorting the points is cheaper than asking a million times."""
    random = np.random.default_rng(2)
    points = pa.table({"x": random.integers(0, 10**9, 100_000)})
    starts = random.integers(0, 10**9, 1000)
    intervals = pa.table({"s": starts, "e": starts + 10**6})
    for left, right, on in (
        (points, intervals, "l.x BETWEEN r.s AND r.e"),
        (intervals, points, "r.x BETWEEN l.s AND l.e"),
    ):
        result = ts.join_iter(left, right, on)
        stored = result.explain().as_dict()["way"]["stored"]
        assert stored == ("left" if left is points else "right")
        other = [finite(left, right, on, stored=side) for side in Side]
        seconds = [o.explain().as_dict()["way"]["expected seconds, one thread"] for o in other]
        assert result.explain().as_dict()["way"]["expected seconds, one thread"] == min(seconds)


def test_a_reader_is_streamed_and_not_kept() -> None:
    read = []

    def batches() -> Any:
        for start in range(0, 200_000, 1000):
            read.append(start)
            yield pa.record_batch({"x": np.arange(start, start + 1000)})

    result = ts.join_iter(batches(), pa.table({"x": np.arange(0, 200_000, 100)}), "l.x = r.x")
    assert len(read) <= 2  # the first one tells the columns, and is a sample
    first = next(result)
    assert first.num_rows > 0
    assert len(read) < 100
    assert "the left rows are streamed and not kept" in result.explain()
    assert first.num_rows + sum(batch.num_rows for batch in result) == 2000
    assert result.metrics().window_rows == 2000


def test_of_two_readers_the_shorter_one_is_stored() -> None:
    def batches(count: int) -> Any:
        return (pa.record_batch({"x": [i, i + 1]}) for i in range(count))

    result = ts.join_iter(batches(50), batches(3), "l.x = r.x")
    assert result.explain().as_dict()["way"]["stored"] == "right"
    assert result.to_table().num_rows == 11


def test_pieces_are_bounded() -> None:
    same = pa.table({"x": [1] * 500})
    sizes = [batch.num_rows for batch in ts.join_iter(same, same, "l.x = r.x", batch_rows=1000)]
    assert sum(sizes) == 250_000
    assert max(sizes) <= 1000


# --- Options ------------------------------------------------------------------------------------


def test_output_and_aggregates() -> None:
    left, right = {"x": [1, 5, 5]}, {"x": [5, 6, 40]}
    found = ts.join(left, right, BAND, output="pairs")
    pairs = zip(found["left"], found["right"], strict=True)
    assert sorted(pairs) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    counts = ts.join(left, right, BAND, output="count")
    assert counts == {"side": ["left", "left"], "row": [1, 2], "matches": [2, 2]}
    folded = ts.join(left, right, BAND, aggregate={"n": "count", "top": ("r.x", "max")})
    assert folded == {"x": [1, 5, 5], "n": [0, 2, 2], "top": [None, 6, 6]}
    both = ts.join(left, right, BAND, "semi", columns=["x"], suffix="_b")
    assert both == {"x": [5, 5]}


@pytest.mark.parametrize("threads", [1, 2])
def test_counts_of_two_keys_are_those_of_the_pairs(threads: int) -> None:
    random = np.random.default_rng(4)
    left, right = (pa.table({n: random.integers(0, 9, 50) for n in "xy"}) for _ in range(2))
    on = "l.x < r.x AND l.y > r.y"
    pairs = ts.join(left, right, on, output="pairs", threads=threads)
    counts = ts.join(left, right, on, output="count", threads=threads)
    found = dict(zip(counts["row"].to_pylist(), counts["matches"].to_pylist(), strict=True))
    assert found == Counter(pairs["left"].to_pylist())


def test_wrong_options_say_what_to_do() -> None:
    one = {"x": [1]}
    with pytest.raises(OptionError, match="output='pairs' or output='count'"):
        ts.join(one, one, BAND, output="ranges")
    with pytest.raises(OptionError, match="threads must be a whole number"):
        ts.join(one, one, BAND, threads=0)
    with pytest.raises(OptionError, match="progress must be True or False"):
        ts.join(one, one, BAND, progress="yes")
    with pytest.raises(OptionError, match="how must be one of"):
        ts.join(one, one, BAND, "cross")
    with pytest.raises(PredicateError, match="no column 'z'"):
        ts.join(one, one, "l.z = r.x")
    with pytest.raises(SchemaError, match="cannot be compared"):
        ts.join(one, {"x": ["a"]}, BAND)


def test_empty_sides_keep_their_columns() -> None:
    none = pa.table({"x": pa.array([], pa.int64())})
    some = pa.table({"x": [1, 2]})
    assert ts.join(none, some, BAND).schema.names == ["x", "x_right"]
    assert ts.join(some, none, BAND, "left").to_pydict() == {"x": [1, 2], "x_right": [None, None]}
    assert ts.join(none, none, BAND, "full").num_rows == 0


def test_it_says_what_it_is() -> None:
    result = ts.join_iter({"x": [1, 5]}, {"x": [1]}, BAND, "left")
    assert "left join on ABS(l.x - r.x) <= 1" in repr(result)
    assert "x_right" in result._repr_html_()
    assert len(result.explain().splitlines()) <= 25
    assert result.to_table().num_rows == 2
    assert result.metrics().matches == 1
    assert result.metrics().rows == 3


@pytest.mark.parametrize("shown", [True, False])
def test_a_bar_appears_only_for_long_work(shown: bool, capfd: pytest.CaptureFixture[str]) -> None:
    ts.join({"x": [1]}, {"x": [1]}, BAND, progress=shown)
    assert capfd.readouterr().err == ""


def test_a_bar_shows_long_work(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("thetastream.tables.progress.PATIENCE", 0.0)
    rows = pa.table({"x": range(40_000)})
    assert ts.join(rows, rows, "l.x = r.x", progress=True).num_rows == 40_000
    assert "matches" in capfd.readouterr().err
    ts.join(rows, rows, "l.x = r.x", progress=False)
    assert capfd.readouterr().err == ""


# --- Columns that bound each other --------------------------------------------------------------

OVERLAP = "l.s < r.e AND r.s < l.e"
INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 3))))


def intervals(rows: list[tuple[int, int | None]], kind: pa.DataType) -> pa.Table:
    ends = [None if length is None else start + length for start, length in rows]
    starts = [start for start, _ in rows]
    return pa.table(
        {n: pa.array(v, pa.int64()).cast(kind) for n, v in (("s", starts), ("e", ends))}
    )


@given(
    rows=st.tuples(INTERVALS, INTERVALS),
    on=st.sampled_from([OVERLAP, "l.s <= r.s AND l.e >= r.e", "l.s < r.s AND l.e > r.e"]),
    how=st.sampled_from(MODES),
    stored=st.sampled_from(Side),
    kind=st.sampled_from([pa.int64(), pa.float64(), pa.timestamp("s")]),
)
def test_intervals_as_the_oracle_says(
    rows: tuple[Any, Any], on: str, how: str, stored: Side, kind: pa.DataType
) -> None:
    left, right = (intervals(side, kind) for side in rows)
    truth = ts.oracle.join([(left, right)], on, ts.Unbounded(), how).pairs
    found = numbers(finite(left, right, on, how, stored=stored, chunk=5))
    assert_same_pairs(found, truth, left=left, right=right)


@pytest.mark.parametrize("stored", Side)
def test_a_long_interval_that_the_sample_does_not_see(stored: Side) -> None:
    starts = np.arange(20_000) * 10
    ends = starts + 5
    some = pa.table({"s": starts + 3, "e": ends + 3})
    result = finite(some, some, OVERLAP, stored=stored)
    assert "bounded by" in result.explain()
    assert result.to_table().num_rows == 20_000
    ends[7] = 300_000  # meets all that follow
    long = pa.table({"s": starts, "e": ends})
    result = finite(long, long, OVERLAP, stored=stored)
    assert "bounded by" in result.explain(), "the sample has no long one"
    assert result.to_table().num_rows == 20_000 + 2 * (20_000 - 8)
    assert "bounded by" not in result.explain()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_a_residual_function(how: str, threads: int) -> None:
    def odd(left: pa.RecordBatch, right: pa.RecordBatch) -> Any:
        return (left["n"].to_numpy() + right["n"].to_numpy()) % 2 == 1

    random = np.random.default_rng(3)
    sides = [
        pa.table({"x": random.integers(0, 40, count), "n": np.arange(count)}) for count in (90, 60)
    ]
    truth = ts.oracle.join([tuple(sides)], ts.Predicate.of(BAND, odd), ts.Unbounded(), how).pairs
    found = ts.join(*sides, BAND, how, residual=odd, threads=threads, output="pairs").to_pylist()
    assert Counter((row.get("left"), row.get("right")) for row in found) == Counter(truth)


def test_a_nested_loop_warns_at_the_call() -> None:
    for join in (ts.join, ts.join_iter):
        with pytest.warns(NestedLoopWarning, match="no part of this condition") as seen:
            join({"x": [1]}, {"x": [2]}, "l.x * r.x > 1")
        assert [warning.filename for warning in seen] == [__file__]
    ts.join({"x": [1]}, {"x": [2]}, "l.x * r.x > 1", tactic="nested-loop")


@given(st.integers(1, 10**8), st.floats(0.0, 1e6))
def test_chunks_are_equal_and_bounded(rows: int, matches: float) -> None:
    """An even number of chunks, of about a whole piece of pairs each, unless there are few rows."""
    size = chunk_of(rows, matches)
    count = -(-rows // size)
    assert 1 <= size <= CHUNK
    assert count * size - rows < count, "the last one is as large as the others"
    assert count == 1 or count % 2 == 0 or rows < 2 * LEAST_CHUNK
    assert size * matches <= max(2**22, LEAST_CHUNK * matches) + matches

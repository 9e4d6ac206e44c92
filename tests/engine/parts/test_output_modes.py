"""What is given for matches: rows, pairs of arrival numbers, ranges, counts. All of them agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.engine import probe
from thetastream.engine.emit import base
from thetastream.engine.parts.batches import Batches
from thetastream.errors import DataError, PredicateError
from thetastream.side import Side
from thetastream.testing.driver import run_oracle
from thetastream.testing.kinds import KINDS, Kind
from thetastream.testing.streams import Kinds, Scenario, count_scenarios, scenarios
from thetastream.tuplewise.parallel import ParallelJoin

Pair = tuple[int | None, int | None]
TACTICS = [*ts.tactics(), "ordered/nested-loop"]
RANGED = [name for name in ts.index.names() if ts.index.structure(name).ranged]
RANGED_TACTICS = [
    *("auto", "ordered"),
    *(f"{family}/{name}" for family in ("ordered", "panjoin") for name in RANGED),
]
NUMBERS = [
    (KINDS[a], KINDS[b])
    for a, b in [("int", "int"), ("float", "float"), ("int", "float"), ("extreme", "extreme")]
]


def pushed(scenario: Scenario, output: str, **options: Any) -> tuple[Any, list[Batches]]:
    """A join over the scenario, and the result of every push and of the flush, not yet read."""
    join = ts.StreamJoin(
        scenario.on,
        window=scenario.window,
        how=scenario.how,
        self_join=scenario.self_join,
        output=output,
        **options,
    )
    results = []
    for left, right in scenario.pushes:
        given_right = {} if scenario.self_join else {"right": right}
        results.append(join.push(left=left, **given_right))
        join.check()
    return join, [*results, join.flush()]


def rows_of(results: list[Batches], names: list[str]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for result in results:
        for batch in result:
            assert batch.schema.names == names
            found += zip(*batch.to_pydict().values(), strict=True)
    return found


def later(scenario: Scenario, pair: tuple[int, int]) -> tuple[str, int]:
    """The row of a pair that came later, and so found the other."""
    if scenario.self_join:
        return ("left", pair[0]) if pair[0] > pair[1] else ("right", pair[1])
    came = []
    for position, row in enumerate(pair):
        order = getattr(scenario.window, "order", None)
        if order is not None:
            came.append((scenario.table(position)["o"][row].as_py(), position))
            continue
        sizes = [0 if push[position] is None else len(push[position]) for push in scenario.pushes]
        came.append((int(np.searchsorted(np.cumsum(sizes), row, "right")), position))
    return ("left", pair[0]) if came[0] > came[1] else ("right", pair[1])


def may_refuse(tactic: str, run: Callable[[], None]) -> None:
    """Some tactics cannot serve every predicate."""
    try:
        run()
    except PredicateError:
        if tactic == "auto":
            raise


# --- Pairs and counts against the oracle ---------------------------------------------------------


@pytest.mark.parametrize("tactic", TACTICS)
@given(scenario=scenarios(self_join=None))
def test_pairs_are_those_of_the_oracle(tactic: str, scenario: Scenario) -> None:
    def run() -> None:
        join, results = pushed(scenario, "pairs", tactic=tactic)
        found = rows_of(results, ["left", "right"])
        truth = run_oracle(scenario).pairs
        assert Counter(found) == Counter(truth)
        if scenario.how == "inner":
            assert join.metrics().matches == join.metrics().output_rows == len(truth)

    may_refuse(tactic, run)


@pytest.mark.parametrize("tactic", TACTICS)
@given(scenario=scenarios(self_join=None, modes=("inner",)))
def test_counts_are_those_of_the_oracle(tactic: str, scenario: Scenario) -> None:
    def run() -> None:
        join, results = pushed(scenario, "count", tactic=tactic)
        found = rows_of(results, ["side", "row", "matches"])
        truth = run_oracle(scenario).pairs
        expected = Counter(later(scenario, (a, b)) for a, b in truth)
        assert {(side, row): count for side, row, count in found} == expected
        assert len(found) == len(expected), "a row occurs once"
        assert join.metrics().matches == len(truth)

    may_refuse(tactic, run)


@given(
    scenario=scenarios(self_join=None, modes=("inner",)),
    threads=st.sampled_from([1, 3]),
    batch_rows=st.integers(1, 5),
    collect=st.sampled_from([None, 1, 4]),
)
def test_rows_pairs_and_counts_agree(
    scenario: Scenario, threads: int, batch_rows: int, collect: int | None
) -> None:
    totals = set()
    for output in ("rows", "pairs", "count"):
        options: dict[str, Any] = {"threads": threads, "batch_rows": batch_rows, "collect": collect}
        join, results = pushed(scenario, output, **options)
        batches = [batch for result in results for batch in result]
        assert all(0 < batch.num_rows <= batch_rows for batch in batches)
        total = sum(
            sum(batch["matches"].to_pylist()) if output == "count" else batch.num_rows
            for batch in batches
        )
        assert join.metrics().matches == total
        totals.add(total)
    assert totals == {len(run_oracle(scenario).pairs)}


@pytest.mark.parametrize("eager", [0, 3])
@given(scenario=scenarios(self_join=None))
def test_pairs_of_answers_that_are_computed_twice(eager: int, scenario: Scenario) -> None:
    before, base.EAGER_PAIRS = base.EAGER_PAIRS, eager
    try:
        _, results = pushed(scenario, "pairs", threads=2)
        found = rows_of(results, ["left", "right"])
    finally:
        base.EAGER_PAIRS = before
    assert Counter(found) == Counter(run_oracle(scenario).pairs)


@given(scenario=scenarios(modes=("inner",), self_join=None))
def test_the_parallel_join_gives_pairs(scenario: Scenario) -> None:
    if getattr(scenario.window, "order", None) is not None:
        return  # arrival by rank is StreamJoin's
    try:
        join = ParallelJoin(
            scenario.on,
            window=scenario.window,
            self_join=scenario.self_join,
            output="pairs",
            threads=1,
        )
        results = []
        for left, right in scenario.pushes:
            results.append(join.push(left=left, **({} if scenario.self_join else {"right": right})))
        results.append(join.flush())
    except PredicateError as error:
        assert "ParallelJoin needs a term" in str(error)  # noqa: PT017
        return
    found = rows_of(results, ["left", "right"])
    assert Counter(found) == Counter(run_oracle(scenario).pairs)


# --- Ranges --------------------------------------------------------------------------------------

ONE_COLUMN = (
    *("l.a = r.a", "l.a < r.a", "l.a >= r.a", "r.a > l.a + 1", "l.a != r.a", "l.a <> r.a + 1"),
    *("abs(l.a - r.a) <= 1", "l.a BETWEEN r.a - 1 AND r.a + 2", "NOT (l.a < r.a)"),
    "(abs(l.a - r.a) <= 1 OR l.a - r.a = 3)",
    "(l.a = r.a OR l.a = r.a + 2 OR l.a < r.a - 1)",
    "NOT (l.a BETWEEN r.a - 1 AND r.a + 1)",
    "l.a != r.a AND l.a > r.a - 2",
    "l.a <= r.a AND l.a > 0 AND r.a < 3",
    "l.a != r.a AND r.a >= 0",
)
NEGATED = tuple(on for on in ONE_COLUMN if on.split(" AND r.a")[0] in (*ONE_COLUMN[4:6],))


def one_column(kinds: Kinds) -> st.SearchStrategy[str]:
    return st.sampled_from(ONE_COLUMN)


@st.composite
def ranged_scenarios(draw: st.DrawFn, **options: Any) -> Scenario:
    """Inner joins on one column over a count window, with or without slide, not by rank."""
    kinds: list[tuple[Kind, Kind]] = NUMBERS
    scenario = draw(count_scenarios(kinds, on=one_column, modes=("inner",), **options))
    window = scenario.window
    assert isinstance(window, ts.CountWindow)
    plain = ts.CountWindow(window.sizes, slide=window.slide)
    return Scenario(scenario.pushes, scenario.on, plain)


def materialised(result: Batches, records: list[tuple[Any, ...]]) -> list[Pair]:
    """The pairs behind records, by hand."""
    found: list[Pair] = []
    for side, row, run, start, stop, negated in records:
        stored = result.stored(run).tolist()
        rows = stored[:start] + stored[stop:] if negated else stored[start:stop]
        assert rows, "a record stands for a row at least"
        found += [(row, other) if side == "left" else (other, row) for other in rows]
    return found


def as_pairs(chunks: Iterator[tuple[Any, Any]], limit: int) -> list[Pair]:
    found: list[Pair] = []
    for left, right in chunks:
        assert 0 < left.size == right.size <= limit
        found += zip(left.tolist(), right.tolist(), strict=True)
    return found


COLUMNS = ["side", "row", "run", "start", "stop", "negated"]


@pytest.mark.parametrize("tactic", RANGED_TACTICS)
@given(scenario=ranged_scenarios(), late=st.booleans(), size=st.integers(1, 9))
def test_ranges_stand_for_the_pairs(tactic: str, scenario: Scenario, late: bool, size: int) -> None:
    join, results = pushed(scenario, "ranges", tactic=tactic, batch_rows=size)
    truth = Counter(run_oracle(scenario).pairs)
    assert join.metrics().matches == truth.total()  # known before anything is read
    found: list[Pair] = []
    for result in reversed(results) if late else results:
        before = as_pairs(result.pairs(size), size)
        batches = list(result)
        assert all(0 < batch.num_rows <= size for batch in batches)
        records = [r for b in batches for r in zip(*b.to_pydict().values(), strict=True)]
        pairs = materialised(result, records)
        assert Counter(before) == Counter(pairs) == Counter(as_pairs(result.pairs(), 1 << 16))
        negated = scenario.on in NEGATED
        assert all(record[5] is negated for record in records)
        if negated:
            assert len({record[:3] for record in records}) == len(records)
        found += pairs
    assert Counter(found) == truth
    assert join.metrics().candidates == 0


@given(scenario=ranged_scenarios())
def test_the_runs_of_a_result_are_in_key_order(scenario: Scenario) -> None:
    _, results = pushed(scenario, "ranges")
    for result in results:
        for batch in result:
            assert batch.schema.names == COLUMNS
            for record in batch.to_pylist():
                stored = scenario.table(1 if record["side"] == "left" else 0)
                keys = stored["a"].take(pa.array(result.stored(record["run"]))).to_pylist()
                assert None not in keys
                ranks = [(True, 0) if key != key else (False, key) for key in keys]  # NaN is last
                assert ranks == sorted(ranks)


def test_records_of_the_paper() -> None:
    """Two bands give two records; not equal gives one with the label not."""
    stored = pa.table({"x": [10, 5, 20, 10, 30]})
    asked = pa.table({"x": [10, 7, None]})

    def records(on: str) -> list[dict[str, Any]]:
        join = ts.StreamJoin(on, window=ts.CountWindow(100), output="ranges")
        list(join.push(left=stored))
        return [record for batch in join.push(right=asked) for record in batch.to_pylist()]

    def record(row: int, start: int, stop: int, negated: bool = False) -> dict[str, Any]:
        kept = {"side": "right", "row": row, "run": 0, "start": start, "stop": stop}
        return {**kept, "negated": negated}

    assert records("l.x <> r.x") == [record(1, 0, 0, True), record(0, 1, 3, True)]
    bands = records("l.x = r.x OR l.x BETWEEN r.x + 5 AND r.x + 20")
    assert sorted(bands, key=lambda r: (r["row"], r["start"])) == [
        *(record(0, 1, 3), record(0, 3, 5), record(1, 3, 4)),
    ]


def test_runs_are_numbered_through_a_result() -> None:
    join = ts.StreamJoin("l.x <= r.x", window=ts.CountWindow(100), output="ranges")
    join.push(left=pa.table({"x": [1]}), right=pa.table({"x": [2, 1]}))
    result = join.push(left=pa.table({"x": [0]}), right=pa.table({"x": [7]}))
    records = [record for batch in result for record in batch.to_pylist()]
    assert [(r["side"], r["row"], r["run"]) for r in records] == [("left", 1, 0), ("right", 2, 1)]
    assert result.stored(0).tolist() == [1, 0]
    assert result.stored(1).tolist() == [1, 0]
    with pytest.raises(DataError, match="no run 2; the runs of this result are 0 to 1"):
        result.stored(2)
    result.stored(0)[:] = 99  # a copy
    assert sorted(as_pairs(result.pairs(), 99)) == [(0, 2), (1, 0), (1, 1), (1, 2)]


def test_ranges_are_read_long_after() -> None:
    """Runs that a result points into stay, whatever is merged and expired later."""
    rng = np.random.default_rng(5)
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(2000), output="ranges")
    lefts, rights = rng.integers(0, 50, 9000), rng.integers(0, 50, 90)
    results = []
    for at in range(90):
        join.push(left=pa.table({"x": lefts[100 * at : 100 * (at + 1)]}))
        results.append(join.push(right=pa.table({"x": rights[at : at + 1]})))
    for at, result in enumerate(results):
        found = [left for chunk, _ in result.pairs() for left in chunk.tolist()]
        window = range(max(0, 100 * (at + 1) - 2000), 100 * (at + 1))
        assert sorted(found) == [row for row in window if lefts[row] < rights[at]]


@pytest.mark.parametrize("on", ["l.x < r.x", "l.x <> r.x"])
@pytest.mark.parametrize("tactic", RANGED_TACTICS)
def test_a_result_alone_keeps_its_runs(tactic: str, on: str) -> None:
    """Held for a few pushes at a time: in between, runs may be merged where they lie."""
    keys = np.random.default_rng(1).integers(0, 100, 12_000)
    join = ts.StreamJoin(on, window=ts.CountWindow(1 << 16), tactic=tactic, output="ranges")
    result = None
    for step, start in enumerate(range(0, keys.size, 64)):
        join.push(left=pa.table({"x": keys[start : start + 64]}))
        if step % 5 == 0:
            stop = min(start + 64, keys.size)
            result = join.push(right=pa.table({"x": [50]}))
        elif step % 5 == 3:
            found = sorted(row for left, _ in result.pairs() for row in left.tolist())
            match = keys[:stop] < 50 if on == "l.x < r.x" else keys[:stop] != 50
            assert found == np.flatnonzero(match).tolist()
            result = None


# --- What it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["count", "ranges"])
@pytest.mark.parametrize("tactic", RANGED_TACTICS)
def test_a_huge_match_rate_costs_nothing(tactic: str, output: str) -> None:
    """2^31 matches, of which none is written."""
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(1 << 16), tactic=tactic, output=output)
    join.push(left=pa.table({"x": np.zeros(1 << 16, np.int64)}))
    result = join.push(right=pa.table({"x": np.zeros(1 << 15, np.int64)}))
    rows = sum(batch.num_rows for batch in result)
    metrics = join.metrics()
    assert metrics.matches == 1 << 31
    assert metrics.candidates == 0
    assert 1 << 15 <= rows == metrics.output_rows <= (1 << 15) * metrics.runs
    if output == "ranges":
        assert sum(left.size for left, _ in islice(result.pairs(1000), 5)) == 5000


def test_hashed_counts_write_no_pair_either() -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(100), tactic="hash", output="count")
    join.push(left=pa.table({"x": [1, 1, 2, None]}))
    (batch,) = join.push(right=pa.table({"x": [1, 3, 2]}))
    assert batch.to_pydict() == {"side": ["right"] * 2, "row": [0, 2], "matches": [2, 1]}
    assert join.metrics().candidates == 0


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("l.x < r.x AND l.y < r.y", {}),
        ("l.x < r.x AND l.x * r.x > 0", {}),
        ("l.x < r.x", {"self_join": True}),
        ("l.x < r.x", {"collect": 2}),
        ("l.x < r.x", {"tactic": "ordered/nested-loop"}),
    ],
)
def test_elsewhere_counts_come_from_pairs(on: str, options: dict[str, Any]) -> None:
    join = ts.StreamJoin(on, window=ts.CountWindow(100), output="count", **options)
    rows = pa.table({"x": [1, 2, 3], "y": [1, 2, 3]})
    results = [join.push(left=rows)]
    if not join.metrics().sides["right"].rows and not options.get("self_join"):
        results.append(join.push(right=rows))
    results.append(join.flush())
    assert join.metrics().candidates == 0  # nothing has been read
    total = sum(sum(batch["matches"].to_pylist()) for result in results for batch in result)
    assert total == join.metrics().matches == 3
    assert join.metrics().candidates >= 3


@pytest.mark.parametrize("output", ["pairs", "count", "ranges"])
def test_no_payload_is_kept(output: str) -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), output=output)
    rows = pa.table({"x": [1, 2], "note": ["a", "b"]})
    assert [batch.num_rows for batch in join.push(left=rows, right=rows)] == [1]
    assert join.metrics().payload_bytes == 0


def test_payload_of_residuals_is_kept() -> None:
    on = "l.x < r.x AND l.x + r.x <> l.y * r.x"
    join = ts.StreamJoin(on, window=ts.CountWindow(9), output="pairs")
    rows = pa.table({"x": [1, 2], "y": [3, 4], "note": ["a", "b"]})
    (batch,) = join.push(left=rows, right=rows)
    assert batch.to_pydict() == {"left": [0], "right": [1]}
    assert join._engine.streams[Side.LEFT].rows.columns == ["x", "y"]


# --- Numbers, order, interrupts ------------------------------------------------------------------


@pytest.mark.parametrize("output", ["pairs", "count"])
def test_numbers_count_late_rows_and_survive_sweeps(output: str) -> None:
    """A row from the future holds the front, so that living rows are stored anew."""
    window = ts.TimeWindow(1, time="t")
    join = ts.StreamJoin("l.x = r.x", window=window, output=output)
    plain = ts.StreamJoin("l.x = r.x", window=window, columns=["n", "n_right"])
    found: Counter = Counter()
    truth: Counter = Counter()
    number = 0
    for step in range(30):
        times = np.full(500, step)
        times[0] = 0  # of each later push too late
        rows = pa.table({"t": times, "x": np.arange(500), "n": np.arange(number, number + 500)})
        ahead = rows.set_column(0, "t", pa.array([10**6] * 2 + [step] * 498))
        number += 500
        both = {"left": rows if step else ahead, "right": rows}
        for batch in join.push(**both):
            found.update(zip(*batch.to_pydict().values(), strict=True))
        for batch in plain.push(**both):
            truth.update(zip(*batch.to_pydict().values(), strict=True))
    stream = join._engine.streams[Side.LEFT]
    assert stream.rows.next > number, "rows were stored anew"
    assert join.metrics().dropped > 0
    assert truth
    if output == "pairs":
        assert found == truth
    else:
        assert sum(count for (_, _, count) in found.elements()) == truth.total()
        assert {row for _, row, _ in found} == {max(pair) for pair in truth}


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_a_side_that_never_comes(how: str) -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(2), how=how, output="pairs")
    join.push(left=pa.table({"x": [1, 2, 3]}))
    join.push(left=pa.table({"x": [4]}))
    found = rows_of([join.flush()], ["left", "right"])
    assert found == [(row, None) for row in range(4)]


def test_rows_that_left_before_the_other_side_came_are_numbered() -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(2), output="pairs")
    for x in range(10):
        join.push(left=pa.table({"x": [x]}))
    found = rows_of([join.push(right=pa.table({"x": [99]}))], ["left", "right"])
    assert sorted(found) == [(8, 0), (9, 0)]


def test_counting_goes_on_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [KeyboardInterrupt()]
    keep_within = probe.keep_within

    def interrupted(*arguments: Any) -> int:
        if failures:
            raise failures.pop()
        return keep_within(*arguments)

    monkeypatch.setattr(probe, "keep_within", interrupted)
    join = ts.StreamJoin("l.x <= r.x", window=ts.CountWindow(9), self_join=True, output="count")
    result = join.push(left=pa.table({"x": [1, 2, 3]}))
    with pytest.raises(KeyboardInterrupt):
        next(result)
    found = rows_of([result], ["side", "row", "matches"])
    assert sorted(found) == [("right", 1, 1), ("right", 2, 2)]
    assert join.metrics().matches == 3


def test_reading_records_goes_on_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), output="ranges", batch_rows=1)
    join.push(left=pa.table({"x": [1, 2, 3]}))
    result = join.push(right=pa.table({"x": [2, 3, 4]}))
    first = next(result)
    with monkeypatch.context() as patched:
        patched.setattr(pa, "repeat", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            next(result)
    rest = list(result)
    assert [batch["stop"].to_pylist() for batch in (first, *rest)] == [[1], [2], [3]]

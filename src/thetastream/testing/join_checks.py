"""The battery for joins: what every registered tactic must answer.

A check takes a *factory* of joins (``make_join(tactic)``), a *scale* for the number of examples,
and whether the tactic may refuse predicates with ``PredicateError``; those are skipped.

    for check in JOIN_CHECKS:
        check.run(make_join("auto"), scale=1.0, may_refuse=False)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from thetastream.errors import PredicateError
from thetastream.testing.assertions import assert_same_pairs
from thetastream.testing.driver import ROW, JoinFactory, Outcome, run_engine, run_oracle
from thetastream.testing.index_checks import forall
from thetastream.testing.kinds import KINDS, Kind
from thetastream.testing.predicates import conjunctions
from thetastream.testing.streams import (
    MODES,
    Scenario,
    count_scenarios,
    recut,
    scenarios,
    time_scenarios,
)
from thetastream.window import CountWindow, TimeWindow

Scenarios = st.SearchStrategy[Scenario]


@dataclass(frozen=True)
class Trial:
    """A factory under test, how many examples to try, and whether it may refuse predicates."""

    make: JoinFactory
    scale: float = 1.0
    may_refuse: bool = False

    def engine(self, scenario: Scenario, **options: Any) -> Outcome | None:
        """The outcome of the engine; None for a predicate that it refuses."""
        try:
            return run_engine(scenario, self.make, **options)
        except PredicateError:
            if not self.may_refuse:
                raise
            return None

    def agrees(self, scenario: Scenario, **options: Any) -> Outcome | None:
        """Assert that the engine returns what the oracle returns."""
        outcome = self.engine(scenario, **options)
        if outcome is not None:
            truth = run_oracle(scenario)
            same(scenario, outcome.pairs, truth.pairs)
            assert outcome.late == truth.late, (outcome.late, truth.late, scenario)
        return outcome

    def forall(self, examples: int, *strategies: Any) -> Callable[[Callable[..., None]], None]:
        """Return a decorator that runs a function on examples of the strategies at once."""
        return forall(self.scale, examples, *strategies)


@dataclass(frozen=True)
class JoinCheck:
    """One named check."""

    name: str
    body: Callable[[Trial], None]

    def run(self, make: JoinFactory, scale: float = 1.0, *, may_refuse: bool = False) -> None:
        """Run the check on joins of a factory."""
        self.body(Trial(make, scale, may_refuse))


JOIN_CHECKS: list[JoinCheck] = []


def check(body: Callable[[Trial], None]) -> Callable[[Trial], None]:
    """Put a check into the battery, under the name of the function."""
    JOIN_CHECKS.append(JoinCheck(body.__name__, body))
    return body


def exact(examples: int) -> Callable[[Callable[[], Scenarios]], None]:
    """Put a check into the battery: the engine agrees with the oracle on these scenarios."""

    def put(scenarios_of: Callable[[], Scenarios]) -> None:
        def body(trial: Trial) -> None:
            @trial.forall(examples, scenarios_of())
            def agrees(scenario: Scenario) -> None:
                trial.agrees(scenario)

        JOIN_CHECKS.append(JoinCheck(scenarios_of.__name__, body))

    return put


def same(scenario: Scenario, actual: list[Any], expected: list[Any]) -> None:
    """Compare pairs; a difference shows the rows and the scenario."""
    left = scenario.table(0)
    right = left if scenario.self_join else scenario.table(1)
    assert_same_pairs(actual, expected, left=left, right=right, note=scenario)


def _of(*names: str) -> list[tuple[Kind, Kind]]:
    return [(KINDS[name], KINDS[name]) for name in names]


_INTS = _of("int")
_ALIKE = [(kind, kind) for kind in (Kind("same", pa.int64(), (7,), ("0",)),)]


# --- Exactness ----------------------------------------------------------------------------------


@exact(150)
def exact_count_windows() -> Scenarios:
    """Any predicate and mode over a count window, as the oracle says."""
    return count_scenarios()


@exact(150)
def exact_time_windows() -> Scenarios:
    """Any predicate and mode over a time window, late rows and NULL times included."""
    return time_scenarios()


@exact(100)
def self_joins() -> Scenarios:
    """One stream against itself: every ordered pair of two different rows."""
    return scenarios(self_join=True)


@check
def modes(trial: Trial) -> None:
    """Every mode over the same rows, on whole numbers so that matches are many."""

    @trial.forall(40, scenarios(_INTS, modes=("inner",), self_join=None))
    def exact(scenario: Scenario) -> None:
        for how in MODES:
            trial.agrees(replace(scenario, how=how))


@check
def conjunctions_of_terms(trial: Trial) -> None:
    """Two or three plain terms at once, for which multi-term structures are made."""
    numbers = _of("int", "float", "finite", "extreme", "decimal", "date", "timestamp", "string")
    options: dict[str, Any] = {"on": conjunctions, "columns": 2, "self_join": None}
    served = []

    @trial.forall(120, scenarios(numbers, **options, max_rows=14))
    def exact(scenario: Scenario) -> None:
        served.append(trial.agrees(scenario) is not None)

    assert any(served), "the tactic refused every predicate"


@exact(100)
def special_floats() -> Scenarios:
    """NaN, ±0.0, ±inf, the largest and the smallest numbers, NULL."""
    pairings = [*_of("float", "float32"), (KINDS["extreme"], KINDS["float"])]
    return scenarios(pairings, modes=("inner", "full"))


@exact(80)
def extreme_integers() -> Scenarios:
    """The ends of the integers; band edges saturate and never wrap."""
    pairings = _of("extreme", "unsigned", "small")
    return scenarios(pairings, modes=("inner", "full"))


@check
def band_edges(trial: Trial) -> None:
    """Every operator with constants on either side of what 64 bits hold, on every pair of ends."""
    templates = ("l.a - r.a {} {}", "l.a {} r.a + {}", "r.a - {1} {0} l.a", "abs(l.a - r.a) {} {}")
    top = 2**63
    for kind in (KINDS["extreme"], KINDS["unsigned"]):
        table = pa.table({"a": pa.array(kind.values, kind.type)})
        for constant in (1, top - 1, top, 2 * top - 1, 2 * top, 10**30):
            for template, op in product(templates, ("=", "<", "<=", ">", ">=")):
                on = template.format(op, constant)
                trial.agrees(Scenario(((table, table),), on, CountWindow(20)))


@exact(80)
def times_and_text() -> Scenarios:
    """Dates, timestamps of mixed units, clock times, durations, strings and bytes as keys."""
    names = ("date", "timestamp", "coarse", "clock", "duration", "string", "binary", "bool")
    pairings = [*_of(*names), (KINDS["coarse"], KINDS["timestamp"])]
    return scenarios(pairings, modes=("inner", "full"))


@exact(60)
def empty_and_single() -> Scenarios:
    """Streams of no rows or one, pushes of nothing."""
    return scenarios(_INTS, max_rows=1, self_join=None)


@exact(80)
def expiry_edges() -> Scenarios:
    """Rows that all match, so that only the window decides which rows leave, and when."""
    return scenarios(_ALIKE, on="l.a = r.a", self_join=None, max_rows=20)


@exact(40)
def duplicates() -> Scenarios:
    """Many equal keys: every pair once, no pair twice."""
    return scenarios(_ALIKE, modes=("inner",), self_join=None, max_rows=16)


# --- Invariance ---------------------------------------------------------------------------------


def _punctual(**options: Any) -> Scenarios:
    return st.one_of(
        count_scenarios(**options, self_join=None),
        time_scenarios(**options, self_join=None, punctual=True),
    )


@check
def split_invariance(trial: Trial) -> None:
    """Any cutting of the same arrivals into pushes returns the same pairs."""

    @trial.forall(80, st.data())
    def invariant(data: Any) -> None:
        scenario = data.draw(_punctual())
        other = data.draw(recut(scenario))
        first, second = trial.engine(scenario), trial.engine(other)
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            same(scenario, second.pairs, first.pairs)


@check
def disorder(trial: Trial) -> None:
    """Rows out of order, but within the lateness, return the pairs of the ordered stream."""

    @trial.forall(80, time_scenarios(self_join=None, punctual=True))
    def reordered(scenario: Scenario) -> None:
        outcome = trial.engine(scenario)
        if outcome is None:
            return
        assert outcome.metrics.dropped == 0
        left, right = _in_order(scenario.table(0)), _in_order(scenario.table(1))
        ordered = trial.engine(scenario.with_pushes([(left[0], right[0])]))
        assert ordered is not None
        first, second = left[1], left[1] if scenario.self_join else right[1]
        pairs = [
            (None if a is None else first[a], None if b is None else second[b])
            for a, b in ordered.pairs
        ]
        same(scenario, outcome.pairs, pairs)


def _in_order(table: Any) -> tuple[Any, list[int]]:
    """The table by event time, and the row number that each of its rows had."""
    if table is None:
        return None, []
    order = pc.sort_indices(table["t"])
    return table.take(order), order.to_pylist()


@check
def threads(trial: Trial) -> None:
    """Any number of threads returns the same rows in the same order."""

    @trial.forall(30, scenarios(self_join=None, max_rows=16))
    def identical(scenario: Scenario) -> None:
        alone, several = trial.engine(scenario), trial.engine(scenario, threads=3)
        if alone is not None and several is not None:
            assert several.pairs == alone.pairs


@check
def bounded_batches(trial: Trial) -> None:
    """No output batch is empty or longer than ``batch_rows``."""

    @trial.forall(60, scenarios(self_join=None), st.integers(1, 4))
    def bounded(scenario: Scenario, batch_rows: int) -> None:
        outcome = trial.agrees(scenario, batch_rows=batch_rows)
        if outcome is not None:
            assert all(0 < batch.num_rows <= batch_rows for batch in outcome.batches)


@check
def lazy_answers(trial: Trial) -> None:
    """Answers that are read after the whole stream has been pushed are the same."""

    @trial.forall(60, scenarios(self_join=None), st.sampled_from([2, 65_536]))
    def later(scenario: Scenario, batch_rows: int) -> None:
        trial.agrees(scenario, lazy=True, batch_rows=batch_rows)


@check
def stress(trial: Trial) -> None:
    """Long streams in small pushes through small windows; ``check()`` after every step."""

    @trial.forall(40, st.data())
    def stressed(data: Any) -> None:
        scenario = data.draw(_punctual(pairings=_INTS, max_rows=40))
        trial.agrees(data.draw(recut(scenario)), check=True)


_LONG = (
    "abs(l.a - r.a) <= 3",
    "l.a < r.a AND l.b > r.b AND l.a + 40 >= r.a",
    "abs(l.a - r.a) <= 5 AND abs(l.b - r.b) <= 8",
    "l.c = r.c AND abs(l.b - r.b) <= 20",
    "l.c = r.c AND l.a != r.a AND l.b - r.b BETWEEN -30 AND 5",
)


@check
def long_streams(trial: Trial) -> None:
    """Drifting keys in pushes of all sizes: plans change, threads share the work, windows turn."""

    @trial.forall(
        16, st.sampled_from(_LONG), st.sampled_from(MODES), st.integers(0, 10**6), st.booleans()
    )
    def exact(on: str, how: str, seed: int, timed: bool) -> None:
        scenario = _drifting(on, how, np.random.default_rng(seed), timed)
        outcome = trial.agrees(scenario, check=True, batch_rows=100)
        if outcome is not None:
            two, three = (trial.engine(scenario, threads=n, batch_rows=100) for n in (2, 3))
            assert two is not None
            assert three is not None
            same(scenario, three.pairs, outcome.pairs)
            assert two.pairs == three.pairs, "several threads: the order is always the same"


def _drifting(on: str, how: str, random: Any, timed: bool) -> Scenario:
    rows, alone = 400, bool(random.random() < 0.25)
    tables = []
    for _ in range(1 if alone else 2):
        drift = np.arange(rows) * random.integers(0, 3)
        noise = random.normal(0, 20, rows).astype(np.int64)
        columns = {
            "a": drift + noise,
            "b": random.normal(0, 40, rows) - drift,
            "c": random.integers(0, 5, rows),
            "t": np.arange(rows) + random.integers(0, 5, rows),
        }
        tables.append(pa.table(columns))
    pieces = int(random.integers(2, 12))
    edges = [np.sort(random.integers(0, rows + 1, pieces - 1)).tolist() for _ in tables]
    cuts = [list(pairwise([0, *edge, rows])) for edge in edges]
    pushes = []
    for number in range(pieces):
        push = [
            t.slice(c[number][0], c[number][1] - c[number][0])
            for t, c in zip(tables, cuts, strict=True)
        ]
        pushes.append((push[0], None if alone else push[1]))
    window: CountWindow | TimeWindow = CountWindow(int(random.integers(5, 120)))
    if timed:
        window = TimeWindow(int(random.integers(5, 120)), time="t", lateness=5)
    return Scenario(tuple(pushes), on, window, how, alone)


@check
def many_matches(trial: Trial) -> None:
    """More than a million pairs from one push come in small batches, and none is lost."""
    rows = 1100
    table = pa.table({"a": pa.array([7] * rows), "id": pa.array(range(rows))})
    for how in ("inner", "left", "semi"):
        scenario = Scenario(((table, table),), "l.a = r.a", CountWindow(rows), how)
        outcome = trial.engine(scenario, batch_rows=10_000)
        if outcome is None:
            return
        assert max(batch.num_rows for batch in outcome.batches) <= 10_000
        numbers = [None] if how == "semi" else range(rows)
        assert sorted(outcome.pairs) == [(a, b) for a in range(rows) for b in numbers]


# --- Payload, metrics, options ------------------------------------------------------------------


@check
def payload(trial: Trial) -> None:
    """Every column of an output row, of any type, equals that of its input rows."""

    @trial.forall(40, scenarios(self_join=None))
    def carried(scenario: Scenario) -> None:
        rich = scenario.with_pushes([tuple(map(_with_payload, p)) for p in scenario.pushes])
        outcome = trial.engine(rich, batch_rows=3)
        if outcome is None:
            return
        tables = [rich.table(0), rich.table(0 if rich.self_join else 1)]
        for batch in outcome.batches:
            for table, suffix in zip(tables, ("", "_right"), strict=True):
                if table is None or f"{ROW}{suffix}" not in batch.schema.names:
                    continue
                expected = table.take(batch.column(f"{ROW}{suffix}"))
                for name in table.schema.names:
                    got = batch.column(f"{name}{suffix}")
                    assert got.type == table.schema.field(name).type
                    assert _plain(got) == _plain(expected[name]), name


def _with_payload(table: Any) -> Any:
    """The table with columns of nested, dictionary and text types, derived from ``id``."""
    if table is None:
        return None
    ids = table["id"].to_pylist()
    words = pa.array([None if i % 3 == 2 else "word " * i for i in ids], pa.string())
    lists = pa.array([[i] * (i % 3) for i in ids], pa.list_(pa.int32()))
    structs = pa.array([{"x": i, "y": [str(i)]} for i in ids], _STRUCT)
    table = table.append_column("words", words.dictionary_encode())
    return table.append_column("lists", lists).append_column("structs", structs)


_STRUCT = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])


def _plain(values: Any) -> str:
    return str(values.to_pylist())  # as text: NaN equals itself, 0.0 is not -0.0


@check
def metrics(trial: Trial) -> None:
    """Counters agree with the answer."""

    @trial.forall(60, scenarios(_INTS, on="l.a <= r.a", self_join=None))
    def consistent(scenario: Scenario) -> None:
        outcome = trial.engine(scenario)
        if outcome is None:
            return
        counted, truth = outcome.metrics, run_oracle(scenario)
        inner = run_oracle(replace(scenario, how="inner"))
        tables = [table for p in (0, 1) if (table := scenario.table(p)) is not None]
        assert counted.pushes == len(scenario.pushes)
        assert counted.rows == sum(table.num_rows for table in tables)
        assert counted.dropped == sum(truth.late.values())
        assert counted.output_rows == len(truth.pairs)
        assert counted.matches == len(inner.pairs)
        assert counted["rows"] == counted.as_dict()["rows"] == counted.rows
        for side, table in zip(("left", "right"), tables, strict=False):
            assert counted.sides[side].rows == table.num_rows
            assert counted.sides[side].dropped == truth.late[side]
        both = len(tables) == (1 if scenario.self_join else 2)
        if both and not counted.dropped:  # keys are made once both sides are known
            assert counted.null_keys == sum(table["a"].null_count for table in tables)


@check
def bounded_windows(trial: Trial) -> None:
    """A count window never stores more rows than its size."""

    @trial.forall(40, count_scenarios(_INTS, modes=("inner",), self_join=None, max_rows=40))
    def bounded(scenario: Scenario) -> None:
        assert isinstance(scenario.window, CountWindow)
        slack = scenario.window.slide or 0
        streams = 1 if scenario.self_join else 2
        most = sum(scenario.window.sizes[:streams]) + streams * slack

        def each(join: Any) -> None:
            if scenario.window.order is None:
                assert join.metrics().window_rows <= most

        trial.engine(scenario, each=each)


@check
def projection(trial: Trial) -> None:
    """``columns`` keeps the named output columns, in that order."""

    @trial.forall(20, scenarios(_INTS, modes=("inner", "left"), self_join=None))
    def projected(scenario: Scenario) -> None:
        wanted = [f"{ROW}_right", "id", ROW]
        outcome = trial.agrees(scenario, columns=wanted)
        if outcome is not None:
            assert all(batch.schema.names == wanted for batch in outcome.batches)

"""``theta_join`` on several inequalities: the router is the pack stage, elements are partitions."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.datasets.workloads import w2
from thetastream.side import Side
from thetastream.spark import explain, theta_join
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.driver import ROW, numbered
from thetastream.testing.kinds import KINDS
from thetastream.testing.streams import Scenario, scenarios
from thetastream.window import CountWindow, TimeWindow

from ...scale import scaled
from ..drive import (
    check_restart,
    closed,
    go_on,
    join_streams,
    join_tables,
    ranked,
    sources,
    stream,
    without_closing,
    write_pushes,
)
from ..elements import (
    codes,
    combined_partials,
    joined_by_elements,
    pairs_on_diagonals,
    rows_of,
    share_correct,
    targets_of,
)
from ..partitioned import check_restored, compare
from ..simulate import Simulation, spec_of, tables_of

TACTIC = "spo-join"
TACTICS = (TACTIC, *(f"spo-join/{name}" for name in ("po-join", "zoned-runs", "per-term")))
Q1 = "l.power < r.power AND l.cool > r.cool"
Q2 = "abs(l.power - r.power) < 3 AND abs(l.cool - r.cool) < 1.5"
THREE = "l.power <= r.power AND l.cool > r.cool AND l.n - r.n BETWEEN -6 AND 3"
TIME = TimeWindow(("9 s", "4 s"), time="t", lateness="2 s")


def plant(seed: int, pushes: int) -> list[tuple[Any, Any]]:
    """Small domains, NULLs, NaN, disorder, late rows, and closing rows; keys power and cool."""
    named = {"x": "power", "v": "cool"}

    def renamed(table: Any) -> Any:
        if table is None:
            return None
        return table.rename_columns([named.get(name, name) for name in table.column_names])

    return [(renamed(left), renamed(right)) for left, right in closed(stream(seed, pushes))]


# --- Against the oracle -------------------------------------------------------------------------

CONDITIONS = st.sampled_from(
    [
        "l.a < r.a AND l.b > r.b",
        "l.a <= r.b AND l.b >= r.a",
        "abs(l.a - r.a) <= 1 AND abs(l.b - r.b) <= 1",
        "l.a < r.a AND l.b > r.b AND l.c != r.c",
        "l.a - r.a BETWEEN -1 AND 2 AND l.b < r.b AND l.c >= r.c",
    ]
)
INTS = [(KINDS["int"], KINDS["int"])]


@settings(max_examples=scaled(60))
@given(
    scenarios(INTS, on=lambda kinds: CONDITIONS, columns=3, self_join=None, max_rows=14),
    st.integers(1, 6),
    st.integers(0, 2**32),
    st.sampled_from(TACTICS),
)
def test_partitions_that_are_restored_and_repeated(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, seed: int, tactic: str
) -> None:
    check_restored(scenario, partitions, seed, ts.Tactic(tactic), tmp_path_factory.mktemp("runs"))


def check(spark: Any, folder: Path, scenario: Scenario, partitions: int = 3) -> None:
    ran = join_streams(spark, folder, scenario, tactic=TACTIC, partitions=partitions)
    truth = run_oracle(scenario)
    expected = list(without_closing(scenario, truth.pairs))
    assert expected, "a scenario without an answer shows nothing"
    assert_same_pairs(ran.pairs, expected, note=scenario)
    assert ran.late == sum(truth.late.values())


@pytest.mark.parametrize(("on", "how"), [(Q1, "left"), (THREE, "anti")])
def test_streams(spark: Any, tmp_path: Path, on: str, how: str) -> None:
    check(spark, tmp_path, Scenario(tuple(plant(11, pushes=3)), on, TIME, how))


def test_a_band_in_two_dimensions_of_a_stream_with_itself(spark: Any, tmp_path: Path) -> None:
    pushes = tuple((left, None) for left, _ in plant(23, pushes=3))
    window = TimeWindow(8, time="n", lateness=3, slide=4)
    check(spark, tmp_path, Scenario(pushes, Q2, window, "inner", self_join=True))


def test_a_count_window(spark: Any, tmp_path: Path) -> None:
    window = CountWindow((9, 6), order="o", slide=3)
    check(spark, tmp_path, Scenario(ranked(plant(31, pushes=3)), THREE, window))


def test_tables(spark: Any) -> None:
    left, right = plant(7, pushes=1)[0]
    scenario = Scenario(((left, right),), Q1, TimeWindow("6 s", time="t"), "left")
    truth = run_oracle(scenario)
    assert_same_pairs(join_tables(spark, scenario, tactic=TACTIC), truth.pairs, note=scenario)


@pytest.mark.smoke
def test_a_query_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    scenario = Scenario(tuple(plant(19, pushes=4)), Q1, TIME, "left")
    check_restart(spark, tmp_path, scenario, 2, tactic=TACTIC, partitions=2)


def test_explain_names_tactic_and_partitioning(spark: Any, tmp_path: Path) -> None:
    scenario = Scenario(tuple(plant(3, pushes=1)), Q1, TIME)
    left, right = sources(spark, tmp_path, scenario)
    text = explain(theta_join(left, right, Q1, TIME, tactic=TACTIC, partitions=4), verbose=True)
    assert "tactic: spo-join" in text
    assert "matrix of 2 x 2 partitions" in text


# --- Figure 19: expiry that lags between elements -----------------------------------------------

ELEMENTS, HUNGRY = 4, 3
PUSHES, SHARE = 5, 8
SCHEMA = pa.schema([(name, pa.int64()) for name in ("power", "cool", "o")])
COUNTED = CountWindow((16, 8), order="o", slide=4)
TIMED = TimeWindow((16, 8), time="o", slide=4)


def starving(seed: int, window: Any) -> tuple[Scenario, Any]:
    """A join over partitions one of which gets no row for several micro-batches; and its spec.

    A grid of 2 × 2: a left row goes to both partitions of a row, a right row to both of a column.
    In the first micro-batch and in the last one rows go everywhere, in those between to the first
    row and column only, so the last partition gets none. The last row of a side has a far rank and
    matches nothing: no other row is left waiting for a higher rank.
    """
    rng = random.Random(seed)
    blank = Scenario(((SCHEMA.empty_table(), SCHEMA.empty_table()),), Q1, window)
    spec = replace(spec_of(blank, ELEMENTS), tactic=ts.Tactic(TACTIC))
    pushes = []
    for push in range(PUSHES):
        tables = []
        for side in Side:
            ranks = range(1 + 2 * SHARE * push + side.position, 1 + 2 * SHARE * (push + 1), 2)
            rows = [routed(rng, spec, side, rank, 0 < push < PUSHES - 1) for rank in ranks]
            if push == PUSHES - 1:
                rows.append({"power": None, "cool": None, "o": 10**6})
            tables.append(pa.Table.from_pylist(rows, schema=SCHEMA))
        pushes.append((tables[0], tables[1]))
    return blank.with_pushes(pushes), spec


def routed(rng: random.Random, spec: Any, side: Side, rank: int, starve: bool) -> dict[str, Any]:
    """A random row, one that is not sent to the hungry partition if that is to starve."""
    while True:
        row = {"power": rng.randrange(30), "cool": rng.randrange(30), "o": rank}
        (targets,) = targets_of(spec, side, pa.Table.from_pylist([row], schema=SCHEMA))
        if not (starve and HUNGRY in targets):
            return row


def meals(scenario: Scenario, spec: Any) -> list[int]:
    """How many rows each micro-batch brings to the hungry partition."""
    return [
        sum(
            HUNGRY in targets
            for side in Side
            for targets in targets_of(spec, side, push[side.position])
        )
        for push in scenario.pushes
    ]


def check_the_situation(scenario: Scenario, spec: Any) -> set[Any]:
    """Elements with clocks of their own give pairs too many; with one clock the oracle's."""
    first, *between, last = meals(scenario, spec)
    assert first > 0 < last
    assert not any(between), "it was to starve"
    truth = set(run_oracle(scenario).pairs)
    rows = rows_of(scenario, spec, "o")
    assert joined_by_elements(scenario, spec, rows, lagging=False) == truth
    lagging = joined_by_elements(scenario, spec, rows, lagging=True)
    assert truth < lagging, "no clock lags, or nothing had expired behind it"
    return truth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("window", [COUNTED, TIMED], ids=["count", "time"])
def test_no_row_meets_an_expired_one_where_few_rows_come(
    tmp_path: Path, window: Any, seed: int
) -> None:
    scenario, spec = starving(seed, window)
    check_the_situation(scenario, spec)
    simulation = Simulation(spec, random.Random(seed), tmp_path)
    for push in numbered(scenario):
        simulation.push(tables_of(push))
    compare(scenario, simulation, run_oracle(scenario))


@pytest.mark.parametrize("window", [COUNTED, TIMED], ids=["count", "time"])
def test_expiry_does_not_lag_on_spark(spark: Any, tmp_path: Path, window: Any) -> None:
    scenario, spec = starving(1, window)
    truth = check_the_situation(scenario, spec)
    ran = join_streams(spark, tmp_path, scenario, tactic=TACTIC, partitions=ELEMENTS)
    assert_same_pairs(ran.pairs, sorted(truth), note=scenario)


# --- Figure 18: partial results of two rows mixed up --------------------------------------------

NEAR = 1500


def rush(batches: int, half: int) -> Any:
    """Both streams, ``half`` rows per side and micro-batch, at times 1, 2, 3, …"""
    made = w2(NEAR, batches * half, match_rate=5, seed=5)
    times = pa.array(np.arange(1, batches * half + 1))
    return [
        t.rename_columns(["a", "b", ROW]).append_column("t", times) for t in (made.left, made.right)
    ]


def truth_of(tables: Any) -> Any:
    keys = [[table[name].to_numpy() for name in ("a", "b")] for table in tables]
    return pairs_on_diagonals(keys[0], keys[1], NEAR)


@pytest.mark.parametrize("elements", [1, 10, 40])
def test_the_check_sees_partial_results_mixed_up(elements: int) -> None:
    """Without a table by row few rows have their own result, with more elements a few more."""
    left, right = rush(1, 2000)
    a, b, c, d = (t[name].to_numpy() for t in (left, right) for name in ("a", "b"))
    terms = (a[:, None] < c, b[:, None] > d)
    truth = codes(*np.nonzero(terms[0] & terms[1]))
    keyed = combined_partials(terms, elements, delay=200, keyed=True, seed=3)
    mixed = combined_partials(terms, elements, delay=200, keyed=False, seed=3)
    assert share_correct(keyed, truth, left.num_rows) == 1.0
    assert share_correct(mixed, truth, left.num_rows) < 0.5


def test_every_row_of_a_rush_has_its_own_result(tmp_path: Path) -> None:
    """The pipeline without Spark: 20,000 rows at once, in four partitions."""
    tables = rush(3, 10_000)
    window = TimeWindow(NEAR, time="t")
    pushes = [tuple(t.slice(i * 10_000, 10_000) for t in tables) for i in range(3)]
    plain = [tuple(t.drop_columns([ROW]) for t in push) for push in pushes]
    scenario = Scenario(tuple(plain), "l.a < r.a AND l.b > r.b", window)
    spec = replace(spec_of(scenario, 4), tactic=ts.Tactic(TACTIC))
    simulation = Simulation(spec, random.Random(2), tmp_path)
    for push in numbered(scenario):
        simulation.push(tables_of(push))
    found = np.array(simulation.pairs)
    truth = truth_of(tables)
    assert share_correct(codes(found[:, 0], found[:, 1]), truth, 30_000) == 1.0
    assert len(found) == len(truth) > 100_000


def test_every_row_is_right_at_a_high_rate(spark: Any, tmp_path: Path) -> None:
    """Micro-batches of 50,000 rows, every pair compared with all that there are."""
    tables = rush(4, 25_000)
    for name, table in zip(("left", "right"), tables, strict=True):
        parts = [table.slice(i * 25_000, 25_000) for i in range(4)]
        write_pushes(tmp_path / name, parts)
    scenario = Scenario((), "l.a < r.a AND l.b > r.b", TimeWindow(NEAR, time="t"))
    go_on(spark, tmp_path, scenario, tactic=TACTIC, partitions=ELEMENTS)
    found = pq.read_table(tmp_path / "sink", columns=[ROW, f"{ROW}_right"])
    given = codes(found[ROW].to_numpy(), found[f"{ROW}_right"].to_numpy())
    truth = truth_of(tables)
    assert share_correct(given, truth, 100_000) == 1.0
    assert len(given) == len(truth) > 300_000

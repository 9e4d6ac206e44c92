from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.condition.predicate import Predicate
from thetastream.errors import DataError, SchemaError
from thetastream.side import Side
from thetastream.testing.kinds import KINDS, Kind
from thetastream.testing.predicates import predicates
from thetastream.truth import oracle
from thetastream.truth.oracle import Moment, evaluate, join, matches, read
from thetastream.window import CountWindow, TimeWindow

from ..scale import scaled

NAN, INF = math.nan, math.inf


def column(values: list[Any], name: str = "x", kind: Any = None) -> Any:
    return pa.table({name: pa.array(values, kind)})


def pairs(*args: Any, **options: Any) -> list[tuple[int | None, int | None]]:
    return sorted(join(*args, **options).pairs, key=str)


# --- Count windows ------------------------------------------------------------------------------


def test_a_count_window_keeps_the_last_rows_of_the_other_side() -> None:
    pushes = [(column([1, 1, 1, 1]), None), (None, column([1])), (column([1, 1]), column([1]))]
    # r0 meets the last two of l0..l3; l4, l5 meet r0; r1 meets l4, l5.
    expected = [(2, 0), (3, 0), (4, 0), (4, 1), (5, 0), (5, 1)]
    assert pairs(pushes, "l.x = r.x", CountWindow(2)) == expected


def test_sizes_may_differ_by_side() -> None:
    pushes = [(column([1] * 4), column([1] * 4)), (column([1]), None)]
    # Every right row meets the last left row only; the last left row meets three right ones.
    expected = [(3, 0), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3)]
    assert pairs(pushes, "l.x = r.x", CountWindow((1, 3))) == expected


def test_rows_of_a_sliding_count_window_leave_at_boundaries() -> None:
    def met(count: int) -> list[int | None]:
        answer = join([(column([1] * count), column([1]))], "l.x = r.x", CountWindow(6, slide=2))
        return [left for left, _ in answer.pairs]

    assert met(8) == [2, 3, 4, 5, 6, 7]
    assert met(9) == [4, 5, 6, 7, 8]


def test_ranks_decide_arrival_whatever_the_pushes() -> None:
    left = pa.table({"x": [1, 1, 1], "o": [1, 3, 5]})
    right = pa.table({"x": [1, 1], "o": [3, 4]})
    window = CountWindow(1, order="o")
    # Arrival: l0 l1 r0 r1 l2 (at rank 3 left first); r0 meets l1, r1 meets l1, l2 meets r1.
    expected = [(1, 0), (1, 1), (2, 1)]
    assert pairs([(left, right)], "l.x = r.x", window) == expected
    assert pairs([(None, right), (left, None)], "l.x = r.x", window) == expected


def test_falling_ranks_are_refused() -> None:
    table = pa.table({"x": [1, 1], "o": [2, 1]})
    with pytest.raises(DataError, match="never fall"):
        join([(table, table)], "l.x = r.x", CountWindow(1, order="o"))


def test_a_self_join_tests_every_ordered_pair_of_different_rows() -> None:
    pushes = [(column([1, 2, 1]), None), (column([1]), None)]
    answer = pairs(pushes, "l.x = r.x", CountWindow(2), self_join=True)
    assert answer == [(0, 2), (2, 0), (2, 3), (3, 2)]


# --- Time windows -------------------------------------------------------------------------------


def timed(times: list[int | None]) -> Any:
    return pa.table({"t": pa.array(times, pa.int64()), "x": [1] * len(times)})


def test_a_time_window_looks_at_event_time_on_both_sides() -> None:
    window = TimeWindow((2, 3), time="t")
    # l.t - size_right <= r.t <= l.t + size_left: 7 <= r.t <= 12
    rights = timed([6, 7, 12, 13])
    assert pairs([(timed([10]), rights)], "l.x = r.x", window) == [(0, 1), (0, 2)]
    assert pairs([(timed([10]), None), (None, rights)], "l.x = r.x", window) == [(0, 1), (0, 2)]


def test_rows_of_a_sliding_time_window_leave_at_boundaries() -> None:
    window = TimeWindow(6, time="t", slide=2)
    # floor(e / 2) > floor(9 / 2) - 3 = 1, so e >= 4; and floor(9 / 2) > floor(x / 2) - 3, x < 14.
    answer = pairs([(timed([9]), timed([3, 4, 13, 14]))], "l.x = r.x", window)
    assert answer == [(0, 1), (0, 2)]


def test_rows_below_the_frontier_are_late_and_appear_nowhere() -> None:
    window = TimeWindow(100, time="t", lateness=2)
    pushes = [(timed([10]), timed([20])), (timed([7, 8]), timed([7])), (timed([None]), None)]
    answer = join(pushes, "l.x = r.x", window, how="full")
    assert answer.late == {"left": 1, "right": 1}
    assert sorted(answer.pairs, key=str) == [(0, 0), (2, 0), (3, None)]


def test_nothing_is_late_before_both_sides_have_been_seen() -> None:
    pushes = [(timed([10]), timed([])), (timed([1]), None)]
    assert join(pushes, "l.x = r.x", TimeWindow(5, time="t")).late == {"left": 0, "right": 0}
    answer = join(pushes, "l.x = r.x", TimeWindow(5, time="t"), self_join=True)
    assert answer.late == {"left": 1, "right": 0}


def test_lateness_looks_at_earlier_pushes_only() -> None:
    pushes = [(timed([10, 1]), timed([10, 1]))]
    assert len(join(pushes, "l.x = r.x", TimeWindow(20, time="t")).pairs) == 4


def test_nanoseconds_and_dates_are_exact_event_times() -> None:
    big = 1_700_000_000_000_000_000
    left = pa.table({"t": pa.array([big], pa.timestamp("ns")), "x": [1]})
    right = pa.table({"t": pa.array([big + 1000, big + 1001], pa.timestamp("ns")), "x": [1, 1]})
    assert pairs([(left, right)], "l.x = r.x", TimeWindow("1 us", time="t")) == [(0, 0)]
    days = pa.table({"t": pa.array([0, 2, 3], pa.date32()), "x": [1, 1, 1]})
    window = TimeWindow("2 days", time="t")
    answer = pairs([(days.slice(0, 1), days)], "l.x = r.x", window)
    assert answer == [(0, 0), (0, 1)]


# --- Modes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [(0, 0), (0, 1)]),
        ("left", [(0, 0), (0, 1), (1, None)]),
        ("right", [(0, 0), (0, 1), (None, 2)]),
        ("full", [(0, 0), (0, 1), (1, None), (None, 2)]),
        ("semi", [(0, None)]),
        ("anti", [(1, None)]),
    ],
)
def test_modes(how: str, expected: list[tuple[int | None, int | None]]) -> None:
    pushes = [(column([1, 2]), column([1, 1, None]))]
    assert pairs(pushes, "l.x = r.x", CountWindow(9), how=how) == expected


# --- Predicates ---------------------------------------------------------------------------------


def holds(text: str, left: Any, right: Any) -> bool:
    return matches(text, {"x": left}, {"x": right})


def test_nan_is_the_greatest_number_and_equals_itself() -> None:
    assert holds("l.x = r.x", NAN, NAN)
    assert holds("l.x > r.x", NAN, INF)
    assert holds("l.x = r.x", -0.0, 0.0)
    assert not holds("abs(l.x - r.x) <= 1", INF, INF)
    assert holds("abs(l.x - r.x) >= 1", INF, INF)


def test_null_matches_nothing() -> None:
    for op in ("=", "!=", "<", "<=", ">", ">="):
        assert not holds(f"l.x {op} r.x", None, 1)
        assert not holds(f"NOT (l.x {op} r.x)", 1, None)


def test_integers_and_decimals_are_exact_and_unbounded() -> None:
    top = 2**63 - 1
    assert holds("l.x < r.x + 1", top, top)
    assert holds("l.x - r.x >= 18446744073709551615", top, -(2**63))
    assert not holds("l.x - r.x > 18446744073709551615", top, -(2**63))
    assert holds("l.x + 0.5 < r.x", top - 1, top)
    assert holds("l.x - r.x = 0.1", Decimal("0.30"), Decimal("0.20"))


def test_floating_conditions_are_evaluated_as_written() -> None:
    assert not holds("l.x - r.x = 0.1", 0.3, 0.2)
    assert holds("l.x <= r.x + 0.1", 0.1 + 0.2, 0.2)
    assert not holds("l.x - r.x <= 0.1", 0.1 + 0.2, 0.2)
    assert holds("l.x = r.x", 2**53 + 1, float(2**53))  # the integer becomes a float


def test_times_count_nanoseconds_and_dates_count_days() -> None:
    second = 10**9
    assert holds("abs(l.x - r.x) <= INTERVAL '1' SECOND", Moment(0), Moment(second))
    assert not holds("abs(l.x - r.x) <= INTERVAL '1' SECOND", Moment(0), Moment(second + 1))
    assert holds("l.x = r.x + 1", Moment(oracle.DAY, True), Moment(0, True))
    assert holds("l.x = r.x + INTERVAL '1' DAY", Moment(oracle.DAY, True), Moment(0, True))
    with pytest.raises(SchemaError, match="INTERVAL"):
        holds("l.x = r.x + 1", Moment(0), Moment(0))


def test_strings_meet_strings_only() -> None:
    assert holds("l.x != r.x", "a", "b")
    with pytest.raises(SchemaError, match="cannot compare"):
        holds("l.x = r.x", "a", 1)


@pytest.mark.parametrize(
    ("text", "left", "right", "expected"),
    [
        ("l.x / r.x = 0.5", 1, 2, True),
        ("l.x / r.x > 1e300", 1, 0, False),  # NULL
        ("(l.x / r.x) IS NULL", 0, 0, True),
        ("l.x % r.x = -1", -4, 3, True),
        ("l.x % r.x = 0", 4, 0, False),  # NULL
        ("LEAST(l.x, r.x) = 1", None, 1, True),
        ("GREATEST(l.x, r.x) > 5", NAN, 1.0, True),
        ("COALESCE(l.x, r.x) = 2", None, 2, True),
        ("l.x LIKE r.x", "abc", "a%", True),
        ("l.x LIKE r.x", "abc", "a_", False),
        ("l.x LIKE r.x", "a%", "a\\%", True),
        ("l.x > 0 OR r.x > 0", None, 1, True),
        ("NOT (l.x > 0 AND r.x > 0)", None, 1, False),
        ("CASE WHEN l.x > r.x THEN l.x ELSE r.x END = 3", 3, None, False),
    ],
)
def test_functions(text: str, left: Any, right: Any, expected: bool) -> None:
    assert holds(text, left, right) is expected


def test_computed_integers_that_overflow_are_an_error() -> None:
    with pytest.raises(DataError, match="64 bits"):
        holds("l.x * 2 = r.x", 2**62, 0)


def test_every_arrow_type_is_read_exactly() -> None:
    table = pa.table(
        {
            "half": pa.array([1.5, None], pa.float16()),
            "decimal": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "day": pa.array([1, None], pa.date32()),
            "day64": pa.array([86_400_000, None], pa.date64()),
            "clock": pa.array([1, None], pa.time32("ms")),
            "stamp": pa.array([2**62, None], pa.timestamp("ns", "UTC")),
            "length": pa.array([1, None], pa.duration("us")),
            "word": pa.array(["a", None]).dictionary_encode(),
        }
    )
    first, second = read(table)
    assert first == {
        "half": 1.5,
        "decimal": Decimal("1.50"),
        "day": Moment(oracle.DAY, True),
        "day64": Moment(oracle.DAY, True),
        "clock": Moment(10**6),
        "stamp": Moment(2**62),
        "length": Moment(1000),
        "word": "a",
    }
    assert set(second.values()) == {None}


# --- The oracle against itself and others -------------------------------------------------------


def every_row(kinds: dict[str, tuple[Kind, Kind]], position: int) -> Iterator[dict[str, Any]]:
    sides = [kinds[name][position] for name in kinds]
    domains = [read(column(list(kind.values), "v", kind.type)) for kind in sides]
    for values in product(*([row["v"] for row in domain] for domain in domains)):
        yield dict(zip(kinds, values, strict=True))


def agrees_with_its_text(text: str, kinds: dict[str, tuple[Kind, Kind]]) -> None:
    """Terms, residuals and filters say what the text says, on every pair of rows."""
    predicate = Predicate.parse(text)
    for left, right in product(every_row(kinds, 0), every_row(kinds, 1)):
        literal = evaluate(predicate.expression, {Side.LEFT: left, Side.RIGHT: right}) is True
        assert matches(predicate, left, right) is literal, (left, right)


def pair(name: str) -> dict[str, tuple[Kind, Kind]]:
    small = Kind("small int", pa.int64(), (None, -1, 0, 2), KINDS["int"].widths, arithmetic=True)
    kind = small if name == "int" else KINDS[name]
    return {"a": (kind, kind), "b": (small, small)} if name == "int" else {"a": (kind, kind)}


@given(predicates(pair("int")))
def test_terms_say_what_the_text_says_on_integers(text: str) -> None:
    agrees_with_its_text(text, pair("int"))


@given(predicates(pair("float"), regroup=False))
def test_terms_say_what_the_text_says_on_floats(text: str) -> None:
    agrees_with_its_text(text, pair("float"))


@given(
    st.sampled_from(["date", "timestamp"]).flatmap(
        lambda n: predicates(pair(n)).map(lambda t: (n, t))
    )
)
def test_terms_say_what_the_text_says_on_times(case: tuple[str, str]) -> None:
    agrees_with_its_text(case[1], pair(case[0]))


@settings(max_examples=scaled(40))
@given(st.data())
def test_duckdb_gives_the_same_rows(data: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    name = data.draw(st.sampled_from(["int", "finite"]))
    kind = KINDS[name]
    kinds = {"a": (kind, kind), "b": (kind, kind)}
    text = data.draw(predicates(kinds, regroup=False).filter(lambda t: "/" not in t))
    values = st.lists(st.sampled_from(kind.values), min_size=5, max_size=5)
    tables = [
        pa.table(
            {
                "a": pa.array(data.draw(values), kind.type),
                "b": pa.array(data.draw(values), kind.type),
            }
        ).append_column("id", pa.array(range(5)))
        for _ in range(2)
    ]
    with duckdb.connect() as connection:
        for alias, table in zip("lr", tables, strict=True):
            connection.register(alias, table)
        inner = connection.execute(f"SELECT l.id, r.id FROM l JOIN r ON ({text})").fetchall()
        anti = connection.execute(
            f"SELECT id FROM l WHERE id NOT IN (SELECT l.id FROM l JOIN r ON ({text}))"
        ).fetchall()
    window = CountWindow(100)
    assert pairs([tables], text, window) == sorted(inner, key=str)
    expected = sorted([(row[0], None) for row in anti], key=str)
    assert pairs([tables], text, window, how="anti") == expected


def test_the_oracle_stands_on_the_vocabulary_alone() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in modules if module and module.startswith("thetastream")}
    words = ("condition.expression", "condition.predicate", "condition.term", "duration", "errors")
    words += ("side", "truth.moments", "truth.sessions", "window")
    words += ("condition.custom", "condition.functions")
    assert ours == {f"thetastream.{word}" for word in words}
    plain = {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    assert plain == {"math", "operator", "re", "pyarrow"}
    source = Path(oracle.__file__).read_text(encoding="utf-8")
    assert not any(
        f".{name}(" in source for name in ("oldest", "interval", "expired_below", "bind")
    )
    assert len(source.splitlines()) <= 450

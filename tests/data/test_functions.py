"""Every function of the table: Arrow against its meaning, and against DuckDB."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.condition.expression import Expression, Function
from thetastream.condition.functions import TABLE, Entry
from thetastream.condition.normalize import fold
from thetastream.condition.sql import parse
from thetastream.errors import DataError, SchemaError
from thetastream.side import Side
from thetastream.truth import oracle

from .evaluated import INF, NAN, array, floats, ints, same, texts, values

RANDOM = random.Random(24)
NUMBERS = [
    *(None, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 2.5, -2.5, 0.49999999999999994, INF, -INF, NAN),
    *(1e-300, -1e-300, 1e300, 710.0, -710.0, 5e-324, 1.0000000000000002, 0.1, 100.0, 2.675),
    *(RANDOM.uniform(-1, 1) for _ in range(200)),
    *(RANDOM.uniform(-1e3, 1e3) for _ in range(200)),
    *(math.ldexp(RANDOM.random(), RANDOM.randint(-300, 300)) for _ in range(100)),
]
WORDS = [
    *(None, "", " ", "a", "aa", "abca", "  a b  ", "Äß", "日本語", "a%b_c", "naïve", "\ta\t"),
    *("".join(RANDOM.choices("ab é", k=RANDOM.randint(0, 6))) for _ in range(80)),
]
TIMES = [
    *(None, -1, 0, 1, -(10**6), 951_782_400 * 10**6, 4_102_444_799 * 10**6 + 999_999),
    *(RANDOM.randint(-(10**16), 10**16) for _ in range(300)),
]
ALL = list(TABLE.values())
NAMED = [entry for entry in ALL if entry.meaning is not None]


def table(entry: Entry) -> pa.Table:
    """Columns of the kinds that the example of a function reads."""
    if entry.kinds[:1] == ("time",):
        first = pa.array(TIMES, pa.timestamp("us"))
        return pa.table({"t": first, "u": pa.array(TIMES[::-1], pa.timestamp("us"))})
    if entry.kinds[:1] == ("text",):
        counts = [None if at % 9 == 0 else at % 5 - 1 for at in range(len(WORDS))]
        return pa.table({"s": texts(*WORDS), "n": ints(*counts), "p": texts(*WORDS[::-1])})
    return pa.table({"x": floats(*NUMBERS), "y": floats(*NUMBERS[::-1])})


def meant(node: Expression, rows: pa.Table) -> list[Any]:
    """The values by the oracle, row by row."""
    return [oracle.evaluate(node, {Side.LEFT: row}) for row in oracle.read(rows)]


def columns(rows: pa.Table) -> dict[str, pa.Array]:
    return {name: rows.column(name).combine_chunks() for name in rows.schema.names}


@pytest.mark.parametrize("entry", NAMED, ids=lambda entry: entry.name)
def test_arrow_computes_what_is_meant_to_the_last_bit(entry: Entry) -> None:
    rows = table(entry)
    node = parse(entry.example)
    assert node.same(parse(str(node)))
    found = array(node, columns(rows)).to_pylist()
    assert repr(found) == repr(meant(node, rows))


OTHERS = [entry for entry in ALL if entry.meaning is None]


@pytest.mark.parametrize("entry", OTHERS, ids=lambda entry: entry.name)
def test_what_the_types_decide_is_what_the_oracle_says(entry: Entry) -> None:
    """Equal numbers: a zero may have another sign, a whole number another type."""
    rows = table(entry)
    found = array(entry.example, columns(rows)).to_pylist()
    expected = meant(parse(entry.example), rows)
    assert [repr(v + 0.0) if isinstance(v, int | float) else v for v in found] == [
        repr(v + 0.0) if isinstance(v, int | float) else v for v in expected
    ]


@pytest.mark.parametrize("entry", NAMED, ids=lambda entry: entry.name)
def test_one_row_no_row_and_null(entry: Entry) -> None:
    rows = table(entry).slice(0, 4)
    values(entry.example, **columns(rows))
    if entry.kinds:
        name = entry.example.split("(")[1].split(",")[0].rstrip(")")
        assert values(entry.example.replace(name, "NULL", 1), **columns(rows)) == [None] * 4


DIFFERENT = {  # how DuckDB spells it, where that is not the same
    Function.LN: "CASE WHEN x <= 0 THEN NULL ELSE LN(x) END",
    Function.LOG2: "CASE WHEN x <= 0 THEN NULL ELSE LOG2(x) END",
    Function.LOG10: "CASE WHEN x <= 0 THEN NULL ELSE LOG10(x) END",
    Function.LOG: "CASE WHEN x <= 0 THEN NULL ELSE LN(x) / LN(3) END",
    Function.SQRT: "CASE WHEN x < 0 THEN 'nan'::DOUBLE ELSE SQRT(x) END",
    Function.E: "EXP(1)",
    Function.SIGN: "CASE WHEN ISNAN(x) THEN x ELSE SIGN(x) END",
    Function.STARTS_WITH: "STARTS_WITH(s, 'a')",
    Function.ENDS_WITH: "ENDS_WITH(s, 'a')",
    Function.SUBSTRING: "SUBSTRING(s, 2, 3)",
    Function.OCTET_LENGTH: "STRLEN(s)",
    Function.UPPER: "REPLACE(UPPER(s), 'ẞ', 'SS')",
    Function.CONCAT: "s || '-' || s",
    Function.DAYOFWEEK: "DAYOFWEEK(t) + 1",
    Function.WEEKDAY: "ISODOW(t) - 1",
    Function.DATEDIFF: "DATE_DIFF('day', u::DATE, t::DATE)",
    Function.UNIX_SECONDS: "FLOOR(EPOCH_US(t) / 1000000)",
    Function.UNIX_MILLIS: "FLOOR(EPOCH_US(t) / 1000)",
    Function.UNIX_MICROS: "EPOCH_US(t)",
}
UNKNOWN = {Function.EXPM1, Function.LOG1P}  # DuckDB has none
FINITE = {Function.SIN, Function.COS, Function.TAN}  # DuckDB refuses infinity
UNIT = {Function.ASIN, Function.ACOS, Function.ATANH}  # and angles outside -1 to 1
ABOVE = {Function.ACOSH}


@pytest.mark.parametrize(
    "entry", [e for e in ALL if e.function not in UNKNOWN], ids=lambda entry: entry.name
)
def test_duckdb_says_the_same(entry: Entry) -> None:
    rows, function = table(entry), entry.function
    if function in FINITE | UNIT | ABOVE:
        least, most = (
            (-1, 1) if function in UNIT else (1, 1e6) if function in ABOVE else (-1e6, 1e6)
        )
        rows = pa.table({"x": floats(*(x for x in NUMBERS if x is None or least <= x <= most))})
    sql = DIFFERENT.get(function, entry.example.replace("l.", ""))
    theirs = [row[0] for row in duckdb.sql(f"SELECT {sql} FROM rows").fetchall()]
    ours = array(entry.example, columns(rows)).to_pylist()
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, float) and isinstance(b, float):
            assert math.isclose(a, b, rel_tol=1e-12) or repr(a + 0.0) == repr(b + 0.0), (a, b)
        else:
            assert a == b


def test_arguments_that_are_columns() -> None:
    rows = table(TABLE[Function.SUBSTRING])
    for text in (
        *(
            "SUBSTRING(l.s, l.n)",
            "SUBSTRING(l.s, l.n, l.n)",
            "SUBSTRING(l.s, -2)",
            "LEFT(l.s, l.n)",
        ),
        *("SUBSTRING(l.s, 0, 2)", "SUBSTRING(l.s, 2, -1)", "RIGHT(l.s, l.n)", "RIGHT(l.s, 0)"),
        *("REPEAT(l.s, l.n)", "REPEAT(l.s, -1)", "REPLACE(l.s, l.p, 'x')", "REPLACE(l.s, '', 'x')"),
        *("STARTS_WITH(l.s, l.p)", "ENDS_WITH(l.s, l.p)", "CONTAINS(l.s, l.p)", "LEFT(l.s, -1)"),
    ):
        node = parse(text)
        assert array(node, columns(rows)).to_pylist() == meant(node, rows), text


def test_powers_of_columns() -> None:
    """A square is a product, whether the exponent is a constant or not."""
    exponents = [None, 0.0, 1.0, 2.0, 2.0, -2.0, 0.5, 3.0, INF, NAN]
    rows = pa.table({"x": floats(*NUMBERS), "y": floats(*(exponents * 99)[: len(NUMBERS)])})
    for text in ("POWER(l.x, l.y)", "POWER(2, l.y)", "POWER(l.x, 2.0)", "POWER(l.x, -l.y)"):
        node = parse(text)
        assert repr(array(node, columns(rows)).to_pylist()) == repr(meant(node, rows)), text


def test_whole_numbers_and_decimals_are_numbers() -> None:
    assert values("POWER(l.x, 2)", x=ints(3, None, -2)) == [9.0, None, 4.0]
    assert values("ROUND(l.x, 1)", x=ints(3, None)) == [3, None]
    two = pa.array([Decimal("1.25"), Decimal("-1.25"), None], pa.decimal128(9, 2))
    assert values("ROUND(l.x, 1)", x=two) == [Decimal("1.3"), Decimal("-1.3"), None]
    assert values("SIN(l.x)", x=pa.array([Decimal("0.50")]))[0] == math.sin(0.5)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns")])
def test_times_of_every_unit(kind: pa.DataType) -> None:
    days = [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1900, 1, 1), None]
    t = pa.array(days, pa.date32()).cast(kind)
    rows = pa.table({"t": t, "u": t})
    for entry in NAMED:
        if entry.kinds[:1] == ("time",):
            node = parse(entry.example)
            assert array(node, columns(rows)).to_pylist() == meant(node, rows), entry.name


def test_a_zone_counts_its_own_days() -> None:
    t = pa.array([dt.datetime(2024, 1, 1, 23, 30)], pa.timestamp("us", "UTC"))
    berlin = t.cast(pa.timestamp("us", "Europe/Berlin"))
    assert values("DAY(l.t) * 100 + HOUR(l.t)", t=berlin) == [200]
    assert values("DATEDIFF(l.t, l.u)", t=berlin, u=t) == [1]


def test_extract_and_other_names() -> None:
    t = pa.array([dt.datetime(2024, 5, 5, 7, 8, 9)])
    for text, expected in (
        ("EXTRACT(YEAR FROM l.t)", 2024),
        ("EXTRACT(DOW FROM l.t)", 1),
        ("EXTRACT(WEEK FROM l.t)", 18),
        ("week(l.t)", 18),
        ("pow(2, 3)", 8.0),
        ("MOD(HOUR(l.t), 4)", 3),
        ("SUBSTRING('abc' FROM 2 FOR 1)", "b"),
        ("TRIM('  a ')", "a"),
        ("starts_with('abc', 'ab')", True),
    ):
        assert values(text, t=t) == [expected], text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SIN(l.s)", r"SIN\(l.s\): SIN takes a number here, and got string"),
        ("LENGTH(l.x)", "expected strings, got int64"),
        ("YEAR(l.x)", "YEAR takes a time here, and got int64"),
        ("REPEAT(l.s, 1.5)", "REPEAT takes a whole number here, and got double"),
        ("ROUND(l.x, l.x)", "must be a constant from 0 to 15"),
        ("ROUND(l.x, 16)", "must be a constant from 0 to 15"),
        ("CAST(l.t AS BIGINT)", r"CAST\(l.t AS BIGINT\): a value of type .* cannot be cast"),
    ],
)
def test_wrong_types(text: str, message: str) -> None:
    columns = {"s": texts("a"), "x": ints(1), "t": pa.array([dt.date(2024, 1, 1)])}
    with pytest.raises(SchemaError, match=message):
        array(text, columns)


def test_constants_are_folded() -> None:
    for text, value in (
        ("LN(1.01)", math.log(1.01)),
        ("2 * PI() / 360", 2 * math.pi / 360),
        ("POWER(10, 3)", 1000.0),
        ("1 / 3", 1 / 3),
        ("ABS(-5)", 5),
        ("SQRT(2)", math.sqrt(2)),
        ("RADIANS(180)", math.pi),
    ):
        folded = fold(parse(text))
        assert float(str(folded)) == value, text
    assert str(fold(parse("LN(-1)"))) == "LN(-1)"
    assert str(fold(parse("EXP(1000)"))) == "EXP(1000)"
    (term,) = ts.Predicate.parse("abs(ln(l.a) - ln(r.a)) <= LN(1.01)").terms
    assert str(term.left) == "LN(l.a)"


# --- CAST -----------------------------------------------------------------------------------------


def test_casts() -> None:
    day, noon = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)
    rows = {
        "f": floats(1.9, -1.9, None),
        "i": ints(0, 3, None),
        "s": texts(" 12 ", "-3", None),
        "d": pa.array([day, dt.date(1969, 12, 31), None]),
        "t": pa.array([noon, dt.datetime(1969, 12, 31, 1), None]),
        "m": pa.array([Decimal("1.995"), Decimal("-1.995"), None]),
        "b": pa.array([True, False, None]),
        "w": texts("2024-02-29", "2024-02-29", None),
    }
    for text, expected in (
        ("CAST(l.f AS BIGINT)", [1, -1, None]),
        ("CAST(l.m AS INT)", [1, -1, None]),
        ("CAST(l.i AS DOUBLE)", [0.0, 3.0, None]),
        ("CAST(l.s AS BIGINT)", [12, -3, None]),
        ("CAST(l.s AS DOUBLE)", [12.0, -3.0, None]),
        ("CAST(l.b AS INT)", [1, 0, None]),
        ("CAST(l.i AS BOOLEAN)", [False, True, None]),
        ("CAST(l.i AS STRING)", ["0", "3", None]),
        ("CAST(l.m AS DECIMAL(5, 2))", [Decimal("2.00"), Decimal("-2.00"), None]),
        ("CAST(l.i AS DECIMAL(5, 2))", [Decimal("0.00"), Decimal("3.00"), None]),
        ("CAST(l.t AS DATE)", [day, dt.date(1969, 12, 31), None]),
        ("CAST(l.d AS TIMESTAMP)", [dt.datetime(2024, 2, 29), dt.datetime(1969, 12, 31), None]),
        ("CAST(l.w AS DATE)", [day, day, None]),
        ("DATE(l.t)", [day, dt.date(1969, 12, 31), None]),
        ("l.t::date", [day, dt.date(1969, 12, 31), None]),
    ):
        assert values(text, **rows) == expected, text
        node = parse(text)
        assert node.same(parse(str(node)))
        if node.args[0].columns(Side.LEFT) != ["m"]:  # type: ignore[attr-defined]
            stored = pa.table(rows)
            assert str(oracle.read(pa.table({"v": array(node, rows)}))) == str(
                [{"v": value} for value in meant(node, stored)]
            ), text


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("CAST(l.x AS TINYINT)", ints(300)),
        ("CAST(l.x AS BIGINT)", floats(1e300)),
        ("CAST(l.x AS BIGINT)", floats(NAN)),
        ("CAST(l.x AS BIGINT)", texts("abc")),
        ("CAST(l.x AS DATE)", texts("2024-13-01")),
    ],
)
def test_what_does_not_fit_is_an_error(text: str, column: pa.Array) -> None:
    with pytest.raises(DataError, match="CAST"):
        array(text, {"x": column})


# --- In Python ------------------------------------------------------------------------------------


def test_functions_of_python() -> None:
    assert str(ts.functions.sin(ts.left.x)) == "SIN(l.x)"
    assert ts.functions.power(ts.left.x, 2).same(parse("POWER(l.x, 2)"))
    assert str(ts.functions.cast(ts.left.x, "bigint")) == "CAST(l.x AS BIGINT)"
    assert "square root" in (ts.functions.sqrt.__doc__ or "")
    with pytest.raises(AttributeError, match="Did you mean 'SQRT'"):
        _ = ts.functions.sqrtt
    with pytest.raises(ts.errors.PredicateError, match="SIN takes 1 argument; got 2"):
        ts.functions.sin(1, 2)


def test_the_page_lists_every_function() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "functions.md").read_text()
    for entry in TABLE.values():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{entry.example}`"))
        assert entry.summary.replace("|", "\\|") in line
        assert all(f"`{name}`" in line for name in entry.aliases), entry.name
    assert same(values("SIGN(l.x)", x=floats(-2.0, NAN)), [-1.0, NAN])

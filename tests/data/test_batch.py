"""Arrow values to keys, and batches to the agreed schema."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.batch import conform, float_keys, keys_to_floats, plain, to_floats, to_keys
from thetastream.data.kernels.floats import NAN_KEY
from thetastream.errors import DataError, SchemaError
from thetastream.schema import Domain, KeyKind, common_domain

from ..keys import HIGH, LOW

SECOND, DAY = 10**9, 86_400 * 10**9
INTEGER, FLOAT = Domain(KeyKind.INTEGER), Domain(KeyKind.FLOAT)
SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
SMALL_UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32()]


def keys(values: pa.Array, domain: Domain | None = None) -> list[int | None]:
    """Keys as a list, None where the value is NULL."""
    if domain is None:
        domain = common_domain(values.type, values.type, "x")
    found, valid = to_keys(values, domain, "l.x")
    assert found.dtype == np.int64
    assert found.flags.writeable
    assert found.flags.c_contiguous
    assert len(found) == len(values)
    if valid is None:
        assert values.null_count == 0
        return found.tolist()
    return [key if good else None for key, good in zip(found.tolist(), valid, strict=True)]


# --- Whole numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*SIGNED, *SMALL_UNSIGNED], ids=str)
def test_integers_are_their_own_keys(kind: pa.DataType) -> None:
    info = np.iinfo(kind.to_pandas_dtype())
    values = [info.min, info.max, 0, 1, None]
    assert keys(pa.array(values, kind)) == values
    assert keys(pa.array([], kind)) == []


def test_unsigned_64_bit_integers_keep_their_order() -> None:
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
    found = keys(pa.array(values, pa.uint64()))
    assert found == [LOW, LOW + 1, -1, 0, HIGH]
    assert keys(pa.array([None, 2**64 - 1], pa.uint64())) == [None, HIGH]


def test_unsigned_against_signed_must_fit() -> None:
    assert keys(pa.array([2**63 - 1, 0, None], pa.uint64()), INTEGER) == [HIGH, 0, None]
    assert keys(pa.array([None], pa.uint64()), INTEGER) == [None]
    with pytest.raises(DataError, match=r"l\.x: 9223372036854775808 does not fit.*cast the other"):
        keys(pa.array([1, 2**63], pa.uint64()), INTEGER)


def test_booleans() -> None:
    assert keys(pa.array([True, False, None])) == [1, 0, None]


# --- Floats -------------------------------------------------------------------------------------

ORDERED = [-math.inf, -1.7e308, -1.0, -5e-324, 0.0, 5e-324, 0.1, 1.0, 1.7e308, math.inf, math.nan]


def test_floats_keep_their_order_and_nan_is_greatest() -> None:
    found = keys(pa.array(ORDERED))
    assert found == sorted(set(found))
    assert found[-1] == NAN_KEY
    assert keys(pa.array([-0.0])) == keys(pa.array([0.0])) == [0]


@pytest.mark.parametrize(
    "bits",
    [
        *(0x7FF8000000000000, 0xFFF8000000000000, 2**64 - 1),
        pytest.param(
            0x7FF0000000000001,
        ),
    ],
    ids=hex,
)
def test_every_nan_is_one_key(bits: int) -> None:
    odd = np.array([bits], np.uint64).view(np.float64)
    assert np.isnan(odd).all()
    assert keys(pa.array(odd)) == [NAN_KEY]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_narrow_floats_are_widened_exactly(kind: pa.DataType) -> None:
    values = np.array([-math.inf, -0.0, 0.5, 1.25, 6e-5, math.inf, math.nan])
    narrow = values.astype(kind.to_pandas_dtype())
    expected = float_keys(narrow.astype(np.float64)).tolist()
    assert keys(pa.array(narrow), FLOAT) == expected
    with_null = pa.array([None, 1.0], kind)
    assert keys(with_null, FLOAT) == [None, float_keys(np.array([1.0]))[0]]


@given(st.lists(st.floats(), min_size=2, max_size=2))
def test_float_keys_compare_as_values_do(pair: list[float]) -> None:
    a, b = float_keys(np.array(pair)).tolist()
    ranks = [(1, 0.0) if math.isnan(v) else (0, v + 0.0) for v in pair]
    assert (a < b, a == b) == (ranks[0] < ranks[1], ranks[0] == ranks[1])


@given(st.lists(st.floats()))
def test_float_keys_can_be_taken_back(values: list[float]) -> None:
    numbers = np.array(values, np.float64)
    back = keys_to_floats(float_keys(numbers))
    assert np.array_equal(back, numbers, equal_nan=True)


def test_numbers_against_floats() -> None:
    def expected(*numbers: float) -> list[int]:
        return float_keys(np.array(numbers)).tolist()

    # As float(x) does it, rounding included.
    assert keys(pa.array([2**53 + 1, LOW, HIGH]), FLOAT) == expected(2.0**53, -(2.0**63), 2.0**63)
    assert keys(pa.array([2**64 - 1, 1], pa.uint64()), FLOAT) == expected(2.0**64, 1.0)
    cents = pa.array([Decimal("0.10"), Decimal("-7.25"), None], pa.decimal128(9, 2))
    assert keys(cents, FLOAT) == [*expected(10 / 100.0, -725 / 100.0), None]
    assert to_floats(pa.array([None, 3], pa.int64())).tolist() == [0.0, 3.0]


# --- Decimals -----------------------------------------------------------------------------------

DECIMALS = [
    pa.decimal32(7, 2),
    pa.decimal64(18, 2),
    pa.decimal128(18, 2),
    pa.decimal128(38, 2),
    pa.decimal256(60, 2),
]


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_decimals_are_their_unscaled_number(kind: pa.DataType) -> None:
    values = pa.array([Decimal("1.25"), Decimal("-0.01"), None, Decimal(0)], kind)
    assert keys(values) == [125, -1, None, 0]
    assert keys(values[1:]) == [-1, None, 0]
    assert keys(values, Domain(KeyKind.DECIMAL, scale=4)) == [12500, -100, None, 0]


def test_integers_against_decimals_are_scaled() -> None:
    assert keys(pa.array([3, None, -1], pa.int16()), Domain(KeyKind.DECIMAL, scale=2)) == [
        300,
        None,
        -100,
    ]


def test_decimals_of_18_digits_and_of_more() -> None:
    widest = 10**18 - 1
    kind = pa.decimal128(38, 0)
    assert keys(pa.array([Decimal(widest), Decimal(-widest)], kind)) == [widest, -widest]
    for wide in (10**18, -(10**18), 2**63, 2**64, 10**37):
        with pytest.raises(DataError, match=rf"l\.x: .* 18 digits; {wide} has more: cast to"):
            keys(pa.array([Decimal(1), Decimal(wide)], kind))
    with pytest.raises(DataError, match="18 digits"):
        keys(pa.array([Decimal(10**30)], pa.decimal256(60, 0)))
    # What lies under a NULL does not matter.
    assert keys(pa.array([None, Decimal(5)], kind)) == [None, 5]


def test_the_lowest_of_19_digits() -> None:
    with pytest.raises(DataError, match="18 digits"):
        keys(pa.array([Decimal(LOW)], pa.decimal128(38, 0)))


def test_decimals_of_more_than_38_digits() -> None:
    with pytest.raises(DataError, match="18 digits"):
        keys(pa.array([Decimal(10**50)], pa.decimal256(60, 0)))


def test_scaling_out_of_range() -> None:
    domain = Domain(KeyKind.DECIMAL, scale=10)
    assert keys(pa.array([922_337_203], pa.int64()), domain) == [922_337_203 * 10**10]
    for big in (922_337_204, -922_337_204):
        with pytest.raises(DataError, match=rf"{big} leaves the range.*coarser unit or scale$"):
            keys(pa.array([0, big], pa.int64()), domain)


# --- Times --------------------------------------------------------------------------------------

MOMENT = dt.datetime(2024, 2, 29, 13, 37, 42)
SINCE = (MOMENT - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1)


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize(
    ("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", SECOND)]
)
def test_timestamps(unit: str, per_second: int, zone: str | None) -> None:
    values = pa.array([SINCE * per_second, None, -per_second], pa.timestamp(unit, zone))
    assert keys(values) == [SINCE * per_second, None, -per_second]
    kind = KeyKind.NAIVE if zone is None else KeyKind.ZONED
    assert keys(values, Domain(kind, tick=1)) == [SINCE * SECOND, None, -SECOND]


def test_zones_are_the_same_instant() -> None:
    utc = pa.array([SINCE], pa.timestamp("s", "UTC"))
    assert keys(utc) == keys(utc.cast(pa.timestamp("s", "Asia/Kolkata")))


def test_dates_times_and_durations() -> None:
    days = (MOMENT.date() - dt.date(1970, 1, 1)).days
    for kind in (pa.date32(), pa.date64()):
        values = pa.array([MOMENT.date(), None, dt.date(1969, 12, 31)], kind)
        assert keys(values) == [days, None, -1]
        assert keys(values, Domain(KeyKind.NAIVE, tick=SECOND)) == [days * 86_400, None, -86_400]
    for kind, per_second in (
        (pa.time32("s"), 1),
        (pa.time32("ms"), 1000),
        (pa.time64("us"), 10**6),
        (pa.time64("ns"), SECOND),
    ):
        assert keys(pa.array([dt.time(1, 2, 3), None], kind)) == [3723 * per_second, None]
    for unit, per_second in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", SECOND)):
        assert keys(pa.array([dt.timedelta(seconds=-5)], pa.duration(unit))) == [-5 * per_second]


def test_times_out_of_the_range_of_the_finer_unit() -> None:
    fine = Domain(KeyKind.NAIVE, tick=1)
    assert keys(pa.array([9_223_372_036], pa.timestamp("s")), fine) == [9_223_372_036 * SECOND]
    with pytest.raises(DataError, match=r"l\.x: 2262-04-11.* leaves the range of the common unit"):
        keys(pa.array([9_223_372_037], pa.timestamp("s")), fine)
    with pytest.raises(DataError, match="cast the other side to a coarser unit"):
        keys(pa.array([dt.date(9999, 1, 1)], pa.date32()), fine)


def test_times_beyond_the_calendar() -> None:
    with pytest.raises(DataError, match="leaves the range of the common unit"):
        keys(pa.array([2**60], pa.timestamp("s")), Domain(KeyKind.NAIVE, tick=1))


# --- Byte strings -------------------------------------------------------------------------------

WORDS = ["", "a", "b", "ab", "a\0", "žluť", None, "a"]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


def test_strings_of_every_layout_have_the_same_keys() -> None:
    found = [keys(pa.array(WORDS, kind), Domain(KeyKind.BYTES)) for kind in TEXTS]
    assert all(other == found[0] for other in found)
    assert found[0][1] == found[0][7]
    assert found[0][6] is None
    assert len({key for key in found[0] if key is not None}) == 6


def test_binary_of_every_layout_has_the_same_keys() -> None:
    values = [b"ab", b"cd", None, b"ab"]
    kinds = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)]
    found = [keys(pa.array(values, kind)) for kind in kinds]
    assert all(other == found[0] for other in found)
    assert keys(pa.array(["ab", "cd", None, "ab"])) == found[0]


def test_slices_of_strings() -> None:
    values = pa.array(WORDS)
    assert keys(values[2:5]) == keys(values)[2:5]
    assert keys(pa.array([], pa.string())) == []
    assert keys(pa.array(["", ""])) == [keys(values)[0]] * 2
    assert keys(pa.array([None, None], pa.string())) == [None, None]


# --- Layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, None, -1, 7], pa.int32()),
        pa.array([0.5, None, math.nan, -0.0]),
        pa.array([Decimal("1.5"), None, Decimal(2), Decimal(-3)], pa.decimal128(9, 1)),
        pa.array([1, None, 3, 4], pa.timestamp("ms")),
        pa.array([True, None, False, True]),
        pa.array(["x", None, "y", "x"]),
        pa.array([2**64 - 1, None, 0, 5], pa.uint64()),
    ],
    ids=lambda values: str(values.type),
)
def test_slices_chunks_and_dictionaries_change_nothing(values: pa.Array) -> None:
    expected = keys(values)
    assert keys(values[1:3]) == expected[1:3]
    assert keys(pa.chunked_array([values[:1], values[1:1], values[1:]])) == expected
    assert keys(pa.chunked_array([], values.type)) == []
    encoded = values.dictionary_encode()
    assert keys(encoded) == expected
    assert keys(encoded[2:]) == expected[2:]
    first, second = values[:2].dictionary_encode(), values[2:].dictionary_encode()
    assert keys(pa.chunked_array([first, second])) == expected


def test_plain_gives_one_array() -> None:
    assert plain(pa.chunked_array([["a"], ["b"]]).dictionary_encode()).to_pylist() == ["a", "b"]
    assert plain(pa.chunked_array([], pa.int64())).type == pa.int64()


def test_keys_do_not_alias_the_values() -> None:
    values = pa.array([1, 2, 3])
    found, _ = to_keys(values, INTEGER)
    found[:] = 9
    assert values.to_pylist() == [1, 2, 3]


ORDERABLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(LOW, HIGH)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.decimal128(18, 4), st.decimals(-(10**13), 10**13, places=4)),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-(10**5)), dt.timedelta(10**5))),
    (pa.bool_(), st.booleans()),
]


@pytest.mark.parametrize(("kind", "values"), ORDERABLE, ids=lambda x: str(x).split("(")[0])
@given(data=st.data())
def test_order_is_kept(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(values, min_size=2, max_size=6))
    found = keys(pa.array(drawn, kind))
    for i, a in enumerate(drawn):
        for j, b in enumerate(drawn):
            assert (found[i] < found[j], found[i] == found[j]) == (a < b, a == b)


# --- Batches ------------------------------------------------------------------------------------

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def test_batches_and_tables_are_taken() -> None:
    data = batch(x=[1, 2], s=["a", None])
    assert conform(data, None, "left") is data
    assert conform(data, SCHEMA, "left") is data
    table = pa.concat_tables([pa.Table.from_batches([data]), pa.Table.from_batches([data])])
    assert conform(table, SCHEMA, "left").to_pylist() == data.to_pylist() * 2
    empty = SCHEMA.empty_table()
    assert conform(empty, None, "left").schema == SCHEMA
    assert conform(pa.Table.from_batches([], SCHEMA), SCHEMA, "left").num_rows == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1], "got int, which holds no rows.*convert it, for example"),
        (None, "got NoneType, which holds no rows.*convert it, for example"),
        ("x", "got str, which holds no rows.*read the file first"),
        (pa.array([1]), "got a Int64Array, which is one column"),
    ],
    ids=["list", "None", "str", "array"],
)
def test_other_things_are_refused(data: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=f"the left side {message}"):
        conform(data, None, "left")


def test_a_missing_column() -> None:
    with pytest.raises(SchemaError, match=r"'x' is missing on the right side; earlier pushes"):
        conform(batch(s=["a"]), SCHEMA, "right")
    schema = pa.schema([("price", pa.int64())])
    with pytest.raises(SchemaError, match=r"Did you mean 'prise'\?"):
        conform(batch(prise=[1]), schema, "left")


def test_a_changed_type() -> None:
    for x in (pa.array([1], pa.int32()), pa.array([1.0]), pa.array(["1"])):
        with pytest.raises(SchemaError, match=rf"'x' of the left .* from int64 to {x.type}; cast"):
            conform(batch(x=x, s=["a"]), SCHEMA, "left")
    schema = pa.schema([("t", pa.timestamp("us"))])
    with pytest.raises(SchemaError, match="changed its type"):
        conform(batch(t=pa.array([1], pa.timestamp("us", "UTC"))), schema, "left")
    encoded = pa.schema([("d", pa.dictionary(pa.int32(), pa.string()))])
    with pytest.raises(SchemaError, match="changed its type"):
        conform(batch(d=pa.array([1]).dictionary_encode()), encoded, "left")


def test_text_as_any_library_writes_it() -> None:
    encodings = [pa.string(), pa.large_string(), pa.string_view()]
    for first in encodings:
        schema = pa.schema([("x", pa.int64()), ("s", first)])
        for kind in encodings:
            rows = conform(batch(x=[1, 2], s=pa.array(["a", None], kind)), schema, "left")
            assert rows.schema.equals(schema)
            assert rows["s"].to_pylist() == ["a", None]
    with pytest.raises(SchemaError, match="from string_view to binary"):
        conform(batch(x=[1], s=pa.array([b"a"])), schema, "left")


def test_new_columns() -> None:
    with pytest.raises(SchemaError, match="the left side has new columns y, z; earlier pushes did"):
        conform(batch(x=[1], s=["a"], y=[1], z=[2]), SCHEMA, "left")


def test_columns_in_another_order() -> None:
    found = conform(batch(s=["a"], x=[1]), SCHEMA, "left")
    assert found.schema == SCHEMA
    assert found.to_pylist() == [{"x": 1, "s": "a"}]


def test_a_column_of_type_null() -> None:
    first = conform(batch(x=pa.nulls(2)), None, "left")
    with pytest.raises(SchemaError, match="'x' .*had type null so far, and now has int64"):
        conform(batch(x=[1]), first.schema, "left")
    found = conform(batch(x=pa.nulls(2), s=["a", "b"]), SCHEMA, "left")
    assert found.schema == SCHEMA
    assert found.column("x").to_pylist() == [None, None]


def test_two_columns_of_one_name() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["x", "y", "x"])
    with pytest.raises(SchemaError, match="columns of the same name: x"):
        conform(twice, None, "left")


def test_nullability_and_metadata_do_not_matter() -> None:
    strict = pa.schema([pa.field("x", pa.int64(), nullable=False), pa.field("s", pa.string())])
    data = pa.RecordBatch.from_pydict({"x": [1], "s": ["a"]}, schema=strict)
    assert conform(data, SCHEMA, "left").to_pylist() == [{"x": 1, "s": "a"}]

"""Which types can be compared, in which domain, and how output columns are called."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import pyarrow as pa
import pytest

from thetastream.duration import Interval
from thetastream.errors import SchemaError
from thetastream.schema import (
    Domain,
    KeyKind,
    common_domain,
    kind_of,
    tick,
)

SECOND, DAY = 10**9, 86_400 * 10**9
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4)]
KINDS = [
    *((kind, KeyKind.INTEGER) for kind in INTEGERS),
    *((kind, KeyKind.FLOAT) for kind in FLOATS),
    *((kind, KeyKind.BYTES) for kind in [*TEXTS, *BINARIES]),
    (pa.uint64(), KeyKind.UNSIGNED),
    (pa.bool_(), KeyKind.BOOLEAN),
    (pa.decimal32(5, 2), KeyKind.DECIMAL),
    (pa.decimal64(12, 2), KeyKind.DECIMAL),
    (pa.decimal128(18, 2), KeyKind.DECIMAL),
    (pa.decimal256(40, 2), KeyKind.DECIMAL),
    (pa.date32(), KeyKind.DATE),
    (pa.date64(), KeyKind.DATE),
    (pa.time32("ms"), KeyKind.TIME),
    (pa.time64("ns"), KeyKind.TIME),
    (pa.timestamp("us"), KeyKind.NAIVE),
    (pa.timestamp("us", "Europe/Vienna"), KeyKind.ZONED),
    (pa.duration("s"), KeyKind.DURATION),
]
NO_KEYS = [
    pa.null(),
    pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
    pa.month_day_nano_interval(),
]


@pytest.mark.parametrize(("kind", "family"), KINDS, ids=str)
def test_the_family_of_a_type(kind: pa.DataType, family: KeyKind) -> None:
    assert kind_of(kind) is family
    assert kind_of(pa.dictionary(pa.int32(), kind)) is family


@pytest.mark.parametrize("kind", NO_KEYS, ids=str)
def test_types_that_cannot_be_keys(kind: pa.DataType) -> None:
    assert kind_of(kind) is None
    for pair in ((kind, pa.int64()), (pa.int64(), kind)):
        with pytest.raises(SchemaError, match=r"^l\.x = r\.x: values of type .* cast the column$"):
            common_domain(*pair, "l.x = r.x")


def test_numbers_meet() -> None:
    def domain(left: pa.DataType, right: pa.DataType) -> Domain:
        found = common_domain(left, right, "x")
        assert common_domain(right, left, "x") == found
        return found

    for a, b in product(INTEGERS, INTEGERS):
        assert domain(a, b) == Domain(KeyKind.INTEGER)
    assert domain(pa.uint64(), pa.int8()) == Domain(KeyKind.INTEGER)
    assert domain(pa.uint64(), pa.uint64()) == Domain(KeyKind.UNSIGNED)
    for a, b in product(FLOATS, [*FLOATS, pa.int64(), pa.uint64(), pa.decimal128(9, 2)]):
        assert domain(a, b) == Domain(KeyKind.FLOAT)
    assert domain(pa.decimal128(9, 2), pa.decimal64(9, 5)) == Domain(KeyKind.DECIMAL, scale=5)
    assert domain(pa.decimal128(9, 2), pa.int64()) == Domain(KeyKind.DECIMAL, scale=2)
    assert domain(pa.decimal128(9, -2), pa.int64()) == Domain(KeyKind.DECIMAL, scale=0)
    assert domain(pa.bool_(), pa.bool_()) == Domain(KeyKind.BOOLEAN)
    assert domain(pa.bool_(), pa.int8()) == Domain(KeyKind.INTEGER)
    assert domain(pa.float32(), pa.bool_()) == Domain(KeyKind.FLOAT)


def test_times_meet_in_the_finer_unit() -> None:
    def domain(left: pa.DataType, right: pa.DataType) -> Domain:
        return common_domain(left, right, "x")

    assert domain(pa.timestamp("s"), pa.timestamp("ms")) == Domain(KeyKind.NAIVE, tick=10**6)
    assert domain(pa.timestamp("ns", "UTC"), pa.timestamp("s", "Asia/Tokyo")) == Domain(
        KeyKind.ZONED, tick=1
    )
    assert domain(pa.date32(), pa.timestamp("s")) == Domain(KeyKind.NAIVE, tick=SECOND)
    assert domain(pa.date32(), pa.date64()) == Domain(KeyKind.DATE, tick=DAY)
    assert domain(pa.time32("s"), pa.time64("us")) == Domain(KeyKind.TIME, tick=1000)
    assert domain(pa.duration("ms"), pa.duration("ms")) == Domain(KeyKind.DURATION, tick=10**6)
    assert [tick(t) for t in (pa.date32(), pa.date64(), pa.time32("ms"))] == [DAY, DAY, 10**6]


def test_strings_and_binary_keep_to_themselves() -> None:
    for group in (TEXTS, BINARIES):
        for a, b in product(group, group):
            assert common_domain(a, b, "x") == Domain(KeyKind.BYTES)
    with pytest.raises(SchemaError, match="string cannot be compared with binary; cast one"):
        common_domain(pa.string(), pa.binary(), "x")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.string(), pa.int64()),
        (pa.bool_(), pa.date32()),
        (pa.timestamp("s"), pa.int64()),
        (pa.timestamp("s"), pa.time32("s")),
        (pa.date32(), pa.time32("s")),
        (pa.duration("s"), pa.timestamp("s")),
        (pa.dictionary(pa.int8(), pa.string()), pa.float32()),
    ],
    ids=str,
)
def test_types_that_do_not_meet(left: pa.DataType, right: pa.DataType) -> None:
    for pair in ((left, right), (right, left)):
        with pytest.raises(SchemaError, match="cannot be compared with .*; cast one of the col"):
            common_domain(*pair, "x")


@pytest.mark.parametrize("naive", [pa.timestamp("s"), pa.date32(), pa.date64()], ids=str)
def test_zones_are_never_dropped_silently(naive: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="time zone.* remove (it from both|its zone)$"):
        common_domain(naive, pa.timestamp("s", "UTC"), "x")


# --- Constants ----------------------------------------------------------------------------------


def test_constants_in_key_units() -> None:
    half = Decimal("0.5")
    assert Domain(KeyKind.INTEGER).constant(half) == Fraction(1, 2)
    assert Domain(KeyKind.FLOAT).constant(half) == Fraction(1, 2)
    assert Domain(KeyKind.DECIMAL, scale=3).constant(half) == 500
    assert Domain(KeyKind.DECIMAL, scale=0).constant(half) == half
    assert Domain(KeyKind.DATE, tick=DAY).constant(3) == 3
    assert Domain(KeyKind.DATE, tick=DAY).constant(Interval(DAY // 2)) == Fraction(1, 2)
    assert Domain(KeyKind.NAIVE, tick=10**6).constant(Interval(1)) == Fraction(1, 10**6)
    assert Domain(KeyKind.ZONED, tick=1).constant(Interval(SECOND)) == SECOND
    assert Domain(KeyKind.TIME, tick=SECOND).constant(0) == 0


def test_constants_without_a_meaning() -> None:
    for kind in (KeyKind.NAIVE, KeyKind.ZONED, KeyKind.TIME, KeyKind.DURATION):
        with pytest.raises(SchemaError, match=r"5 has no unit.*write INTERVAL '5 seconds'"):
            Domain(kind, tick=1).constant(5)
    for kind in (KeyKind.INTEGER, KeyKind.FLOAT, KeyKind.DECIMAL, KeyKind.BOOLEAN, KeyKind.BYTES):
        with pytest.raises(SchemaError, match="INTERVAL '1 second' cannot be .* a plain number$"):
            Domain(kind).constant(Interval(SECOND))


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        (Domain(KeyKind.INTEGER), "integer"),
        (Domain(KeyKind.DECIMAL, scale=2), "decimal of scale 2"),
        (Domain(KeyKind.NAIVE, tick=10**6), "timestamp without time zone in milliseconds"),
        (Domain(KeyKind.DATE, tick=DAY), "date in days"),
    ],
)
def test_domains_in_words(domain: Domain, text: str) -> None:
    assert str(domain) == text


def test_order_is_kept_but_for_byte_strings() -> None:
    assert [kind for kind in KeyKind if not kind.is_ordered] == [KeyKind.BYTES]

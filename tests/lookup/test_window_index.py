"""WindowIndex against a list of rows: any structure, order of arrival, moment and period."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import DataError, RegistryError, SchemaError, StateError, WindowError

from ..scale import scaled

SCHEMA = pa.schema(
    [("t", pa.int64()), ("seg", pa.int8()), ("vid", pa.int32()), ("speed", pa.int32()),
     ("fuel", pa.float64()), ("plate", pa.string())]
)  # fmt: skip
PLAIN = pa.schema([("k", pa.int64()), ("v", pa.int64())])
KEY = {"seg": (0, 3), "vid": (0, 7)}
INDEXES = ["auto", "ptwi/sorted-runs", "ptwi/b+tree", "ptwi/nested-loop", "sorted-runs", "b-tree"]
AGGREGATES = {
    "n": "count",
    "known": ("speed", "count"),
    "sum": ("speed", "sum"),
    "avg": ("speed", "mean"),
    "lo": ("fuel", "min"),
    "hi": ("fuel", "max"),
    "when": ("t", "max"),
}
ROW = st.tuples(
    st.one_of(st.none(), st.integers(0, 24)),
    st.one_of(st.none(), st.integers(0, 3)),
    st.integers(0, 7),
    st.one_of(st.none(), st.integers(-9, 9)),
)
BATCHES = st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=6)
RANGE = st.tuples(st.tuples(st.integers(-1, 4), st.integers(-1, 8)), st.tuples(st.integers(-1, 4)))


def table(rows: list[Any]) -> pa.RecordBatch:
    filled = [
        {"t": t, "seg": seg, "vid": vid, "speed": speed,
         "fuel": None if speed is None else speed / 4, "plate": f"P{vid}"}
        for t, seg, vid, speed in rows
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(filled, SCHEMA)


class Model:
    """The rule in plain Python."""

    def __init__(self, size: int, slide: int | None, lateness: int) -> None:
        self.size, self.slide, self.lateness = size, slide, lateness
        self.rows: list[tuple[Any, ...]] = []
        self.now: int | None = None
        self.late = self.null_times = self.null_keys = 0

    def sees(self, t: int, at: int, last: int) -> bool:
        if self.slide is None:
            return at - last <= t <= at
        return t // self.slide > at // self.slide - last // self.slide and t <= at

    def kept(self, t: int) -> bool:
        if self.now is None:
            return True
        if self.slide is None:
            return t >= self.now - self.lateness - self.size
        return t // self.slide > (self.now - self.lateness) // self.slide - self.size // self.slide

    def insert(self, rows: list[Any]) -> None:
        fresh = []
        for row in rows:
            if row[0] is None:
                self.null_times += 1
            elif not self.kept(row[0]):
                self.late += 1
            else:
                self.null_keys += row[1] is None
                fresh.append(row)
        self.rows += fresh
        times = [row[0] for row in fresh]
        if times:
            self.now = max([*times] if self.now is None else [*times, self.now])

    def found(self, at: int, last: int) -> list[tuple[Any, ...]]:
        return [r for r in self.rows if r[1] is not None and self.sees(r[0], at, last)]

    def lookup(self, key: tuple[int, int], at: int, last: int) -> Any:
        own = [(r[0], i) for i, r in enumerate(self.found(at, last)) if r[1:3] == key]
        return self.found(at, last)[max(own)[1]] if own else None

    def aggregate(self, low: Any, high: Any, at: int, last: int) -> dict[str, Any]:
        inside = [
            r for r in self.found(at, last)
            if low <= r[1 : 1 + len(low)] and r[1 : 1 + len(high)] <= high
        ]  # fmt: skip
        speeds = [r[3] for r in inside if r[3] is not None]
        return {
            "n": len(inside),
            "known": len(speeds),
            "sum": sum(speeds) if speeds else None,
            "avg": math.fsum(speeds) / len(speeds) if speeds else None,
            "lo": min((s / 4 for s in speeds), default=None),
            "hi": max((s / 4 for s in speeds), default=None),
            "when": max((r[0] for r in inside), default=None),
        }


def made(index: str, size: int = 12, slide: int | None = None, **more: Any) -> ts.WindowIndex:
    lateness = more.pop("lateness", 0)
    window = ts.TimeWindow(size, time="t", slide=slide, lateness=lateness)
    return ts.WindowIndex(KEY, window, index, **more)


def holding(rows: list[Any], index: str, *shape: int, **more: Any) -> ts.WindowIndex:
    """A window over these rows."""
    window = made(index, *shape, **more)
    window.insert(table(rows))
    return window


@pytest.mark.parametrize("slide", [None, 3])
@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=scaled(40))
@given(
    batches=BATCHES,
    lateness=st.sampled_from([0, 2, 6]),
    ranges=st.lists(RANGE, max_size=3),
    back=st.integers(0, 6),
    last=st.sampled_from([None, 3, 6, 9]),
)
def test_any_rows_in_any_order(
    index: str, slide: int | None, batches: Any, lateness: int, ranges: Any, back: int, last: Any
) -> None:
    lateness -= lateness % (slide or 1)
    window, model = made(index, 12, slide, lateness=lateness), Model(12, slide, lateness)
    for batch in batches:
        window.insert(table(batch))
        model.insert(batch)
        window.check()
        if model.now is None:
            continue
        at = model.now - min(back, lateness)
        span = last or 12
        keys = [(seg, vid) for seg in range(-1, 5) for vid in (0, 1, 5, 8)]
        rows = window.lookup(keys, at=at, last=last, columns=["t", "seg", "vid", "speed", "plate"])
        expected = [model.lookup(key, at, span) for key in keys]
        assert [tuple(row.values())[:4] for row in rows.to_pylist()] == [
            row or (None,) * 4 for row in expected
        ]
        lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
        if ranges:
            found = window.aggregate(lows, highs, AGGREGATES, at=at, last=last).to_pylist()
            assert found == [model.aggregate(*edges, at, span) for edges in ranges]
        everything = window.rows((0,), (3,), at=at, last=last, columns=["t", "seg", "vid"])
        got = sorted(tuple(row.values()) for part in everything for row in part.to_pylist())
        assert got == sorted(row[:3] for row in model.found(at, span))
    counted = window.metrics()
    assert (counted.late, counted.null_times, counted.null_keys) == (
        model.late, model.null_times, model.null_keys
    )  # fmt: skip
    assert counted.rows == sum(map(len, batches))


@pytest.mark.parametrize("slide", [None, 2])
@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=scaled(30))
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=5)),
    last=st.sampled_from([None, 2, 4]),
)
def test_count_windows(index: str, slide: int | None, batches: Any, last: int | None) -> None:
    window = ts.WindowIndex("k", ts.CountWindow(6, slide=slide), index, schema=PLAIN)
    rows: list[tuple[int, int]] = []
    for batch in batches:
        columns = {"k": [k for k, _ in batch], "v": [v for _, v in batch]}
        window.insert(pa.table(columns, schema=PLAIN))
        rows += batch
        window.check()
        oldest = ts.CountWindow(last or 6, slide=slide).oldest(len(rows), ts.Side.LEFT)
        seen = rows[max(0, oldest) :]
        found = window.lookup([0, 1, 2, 3], last=last).column("v").to_pylist()
        assert found == [next((v for k, v in reversed(seen) if k == key), None) for key in range(4)]
        total = window.aggregate([0, 2], [1, 9], {"s": ("v", "sum"), "n": "count"}, last=last)
        for at, (low, high) in enumerate([(0, 1), (2, 9)]):
            inside = [v for k, v in seen if low <= k <= high]
            assert total.to_pylist()[at] == {"s": sum(inside) if inside else None, "n": len(inside)}


# --- Time and zones -----------------------------------------------------------------------------


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps(zone: str | None) -> None:
    kind = pa.timestamp("us", tz=zone)
    window = ts.WindowIndex(
        "vid", ts.TimeWindow("5 minutes", time="t", slide="1 minute", lateness="2 minutes")
    )
    start = datetime(2026, 3, 29, 0, 58, tzinfo=None if zone is None else UTC)
    for minute in range(8):
        times = pa.array([start + timedelta(minutes=minute, seconds=s) for s in (0, 30)], kind)
        window.insert(pa.table({"t": times, "vid": [1, 2], "speed": [minute, 10 * minute]}))
    assert window.lookup([1, 2, 3]).column("speed").to_pylist() == [7, 70, None]
    at = start + timedelta(minutes=6)
    assert window.lookup([1, 2], at=at).column("speed").to_pylist() == [6, 50]
    found = window.aggregate([0], [9], {"n": "count", "avg": ("speed", "mean")}, last="2 minutes")
    assert found.to_pylist() == [{"n": 4, "avg": (6 + 60 + 7 + 70) / 4}]
    with pytest.raises(DataError, match="have left the window.*last 2 minutes"):
        window.lookup([1], at=start + timedelta(minutes=4))


# --- What it does -------------------------------------------------------------------------------


def minutes(index: str = "ptwi/b+tree") -> ts.WindowIndex:
    window = made(index, 5, 1)
    for minute in range(1, 8):
        window.insert(table([(minute, seg, vid, minute) for seg in range(4) for vid in range(3)]))
    return window


def test_a_look_up_touches_one_subwindow() -> None:
    window = minutes()
    before = window.metrics().index["slots_touched"]
    window.lookup([(0, 0), (3, 2)])
    assert window.metrics().index["slots_touched"] == before + 1
    window.aggregate([(0,)], [(0,)], {"n": "count"}, last=3)
    assert window.metrics().index["slots_touched"] == before + 4


@pytest.mark.parametrize("first", [30, 60, 0, -30, -90])
def test_subwindows_lie_on_the_grid_of_the_slide(first: int) -> None:
    window, least = made("ptwi/sorted-runs", 300, 60), {"least": ("t", "min")}
    for t in range(first, first + 900, 10):
        window.insert(table([(t, 0, t % 8, t)]))
        assert window.metrics().index["runs"] <= 5
        before = window.metrics().index["slots_touched"]
        (found,) = window.aggregate([(0,)], [(0,)], least, last=120).to_pylist()
        assert found["least"] == max(first, (t // 60 - 1) * 60)
        assert window.metrics().index["slots_touched"] - before <= 2


def test_whole_subwindows_are_dropped() -> None:
    window = minutes()
    assert window.metrics().index["slots_dropped"] == 2
    assert len(window) == 5 * 12
    assert "circular array: ['@6', '@7', '@3', '@4', '@5']" in window.explain()


def test_explain_says_what_and_why() -> None:
    text = minutes("auto").explain()
    assert "⟨seg, vid⟩ packed into 5 bits (seg 2 bits, vid 3 bits)" in text
    assert "subwindows of 1" in text
    assert "dropped whole" in text
    assert "index='ptwi/b+tree' was asked for" in minutes().explain()


def test_memory_is_given_back() -> None:
    window = made("auto", 100, 20)
    sizes = []
    for t in range(600):
        window.insert(table([(t, v % 4, v % 8, 1) for v in range(8)]))
        sizes.append(window.metrics().nbytes)
    assert max(sizes[300:]) <= 1.5 * max(sizes[:200])
    assert len(window) <= 8 * 120


def test_a_column_that_is_asked_for_late_is_whole() -> None:
    window = holding([(1, 0, 0, 5), (2, 0, 1, None)], "auto")
    assert window.aggregate([(0,)], [(0,)], {"s": ("speed", "sum")}).to_pylist() == [{"s": 5}]
    window.insert(table([(3, 0, 2, 7)]))
    both = {"s": ("speed", "sum"), "f": ("fuel", "max"), "p": ("plate", "count")}
    found = window.aggregate([(0,)], [(0,)], both).to_pylist()
    assert found == [{"s": 12, "f": 1.75, "p": 3}]
    window.check()


def test_empty_windows() -> None:
    window = ts.WindowIndex(KEY, ts.TimeWindow(5, time="t"), schema=SCHEMA)
    assert window.lookup([(0, 0)]).to_pylist() == [dict.fromkeys(SCHEMA.names)]
    assert window.aggregate([(0,)], [(3,)], {"n": "count"}).to_pylist() == [{"n": 0}]
    assert list(window.rows((0,), (3,))) == []
    window.insert(table([]))
    assert window.lookup([]).num_rows == 0
    assert window.aggregate([], [], {"n": "count"}).num_rows == 0


# --- Bad input ----------------------------------------------------------------------------------


def test_questions_before_rows() -> None:
    with pytest.raises(StateError, match="insert a batch first, or pass schema="):
        made("auto").lookup([(0, 0)])


def test_subwindows_must_divide_the_window() -> None:
    with pytest.raises(WindowError, match=r"12 cannot be cut into 5 .*into 1, 2, 3, 4, 6, 12"):
        made("auto", subwindows=5).insert(table([(1, 0, 0, 1)]))
    made("auto", subwindows=4).insert(table([(1, 0, 0, 1)]))


def test_parameters_reach_the_structure() -> None:
    for window in (
        made("b-tree(node_bytes=256)"),
        made("b-tree", node_bytes=256),
        made(ts.Tactic("b-tree", node_bytes=256)),
    ):
        window.insert(table([(1, 0, 0, 5)]))
        assert structure_of(window).parameters["node_bytes"] == 256
        assert "index='b-tree(node_bytes=256)' was asked for" in window.explain()
        assert window.lookup([(0, 0)])["speed"].to_pylist() == [5]
    cut = holding(
        [(1, 0, 0, 5)], "ptwi/b-tree(subwindows=4, background=false, options.node_bytes=256)"
    )
    held = structure_of(cut).parameters
    assert (held["subwindows"], held["stride"], held["background"]) == (4, 3, False)
    assert held["options"] == {"node_bytes": 256}
    plain = holding([(1, 0, 0, 5)], "auto(background=false)")
    assert structure_of(plain).parameters["background"] is False
    chain = holding([(1, 0, 0, 5)], "bi-sort(subwindows=3)")
    assert structure_of(chain).parameters["subwindows"] == 3


def structure_of(window: ts.WindowIndex) -> Any:
    state: Any = window._state
    return state.parts.index


@pytest.mark.parametrize(
    ("index", "more", "message"),
    [
        ("b-tre(node_bytes=256)", {}, r"no index 'b-tre'.*Did you mean 'b-tree'\?"),
        ("b-tree(nodes=256)", {}, "no parameter 'nodes'; it has node_bytes: int = 512"),
        ("b-tree(node_bytes=x)", {}, "must be of type int; got 'x' .str.. Parameters of b-tree"),
        ("b-tree", {"node_bytes": 1}, "at least 192; got 1. Parameters of b-tree: node_bytes: int"),
        ("b-tree(node_bytes=256)", {"node_bytes": 256}, "node_bytes was given twice"),
        ("ptwi(subwindows=4)", {"subwindows": 4}, "subwindows was given twice"),
        ("ptwi(subwindows=x)", {}, "subwindows must be of type int"),
        ("ptwi(stride=3)", {}, "takes the stride of ptwi from its window"),
        ("b-tree(", {}, "the text ends there"),
        (None, {}, "a tactic is text"),
    ],
)
def test_wrong_parameters(index: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        made(index, **more)


def test_rows_beyond_the_packed_range_are_refused_and_nothing_is_lost() -> None:
    window = holding([(1, 0, 0, 5)], "auto")
    with pytest.raises(DataError, match=r"'vid' holds 8 at row 1, outside its range \(0, 7\)"):
        window.insert(table([(2, 0, 1, 5), (2, 0, 8, 5)]))
    window.check()
    assert (len(window), window.metrics().rows) == (1, 1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"last": 13}, "at most the window of 12; got 13"),
        ({"last": 0}, "above 0"),
        ({"last": "5 minutes"}, "holds whole numbers, so last must be one too"),
        ({"at": "noon"}, "at must be a moment of the time column, which is int64"),
        ({"at": -50}, "have left the window"),
    ],
)
def test_moments_that_make_no_sense(asked: dict[str, Any], message: str) -> None:
    window = holding([(100, 0, 0, 5)], "auto")
    with pytest.raises(DataError, match=message):
        window.lookup([(0, 0)], **asked)
    with pytest.raises(DataError, match=message):
        window.aggregate([(0,)], [(0,)], {"n": "count"}, **asked)


def test_last_must_suit_the_slide() -> None:
    window = holding([(100, 0, 0, 5)], "auto", 12, 3)
    with pytest.raises(DataError, match="every 3, so last must be a multiple"):
        window.lookup([(0, 0)], last=4)


@pytest.mark.parametrize(
    ("aggregates", "message"),
    [
        ({"x": ("plate", "mean")}, "mean cannot be taken of column 'plate'"),
        ({"x": ("nothing", "mean")}, "no column 'nothing'"),
        ({"x": ("speed", "median")}, "one of count, sum, min, max, mean; got 'median'"),
        ({}, "given by name"),
    ],
)
def test_aggregates_that_make_no_sense(aggregates: Any, message: str) -> None:
    window = holding([(1, 0, 0, 5)], "auto")
    with pytest.raises(SchemaError, match=message):
        window.aggregate([(0,)], [(0,)], aggregates)


def test_other_bad_input() -> None:
    with pytest.raises(RegistryError, match="no index 'radix'"):
        made("radix")
    with pytest.raises(SchemaError, match="no time column 't'"):
        ts.WindowIndex("k", ts.TimeWindow(5, time="t"), schema=pa.schema([("k", pa.int64())]))
    with pytest.raises(WindowError, match="TimeWindow or a CountWindow"):
        ts.WindowIndex("k", "5 minutes", schema=pa.schema([("k", pa.int64())]))  # type: ignore[arg-type]
    with pytest.raises(WindowError, match="one size and one time column"):
        ts.WindowIndex("vid", ts.TimeWindow((5, 6), time="t"), schema=SCHEMA)
    window = holding([(1, 0, 0, 5)], "auto")
    with pytest.raises(SchemaError, match="no column 'sped'"):
        window.lookup([(0, 0)], columns=["sped"])
    with pytest.raises(SchemaError, match="missing on the indexed side"):
        window.insert(pa.table({"t": [1]}))


def test_a_sum_that_does_not_fit() -> None:
    window = ts.WindowIndex("k", ts.CountWindow(9))
    window.insert(pa.table({"k": [1, 2], "v": [2**62, 2**62]}))
    with pytest.raises(DataError, match="9223372036854775808, which does not fit"):
        window.aggregate([0], [9], {"s": ("v", "sum")})
    assert window.aggregate([0], [9], {"m": ("v", "mean")}).to_pylist() == [{"m": 2.0**62}]


def test_it_shows_itself_and_its_metrics() -> None:
    window = ts.WindowIndex("x", ts.CountWindow(10))
    assert "WindowIndex on x" in repr(window)
    window.insert({"x": [1, 2]})
    assert "rows stored  2" in repr(window)
    assert "ptwi/radix-trie" in window._repr_html_()
    assert "rows " in repr(window.metrics())
    assert window.metrics().as_dict()["stored"] == 2

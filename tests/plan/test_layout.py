"""Layouts: keys there and back, boxes that hold every match exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.boxes.binding import Binding, bind
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.condition.predicate import Predicate
from thetastream.plan.choice import sample
from thetastream.plan.layout import Layout, Ordered
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactic import Tactic
from thetastream.plan.tactics.cells import CellLayout, Quantizer
from thetastream.plan.tactics.family import Options
from thetastream.plan.tactics.hash import HashLayout
from thetastream.plan.tactics.ibwj import Indexed
from thetastream.plan.tactics.nested_loop import Scan
from thetastream.side import Side
from thetastream.truth import oracle
from thetastream.window import CountWindow, TimeWindow, Window

from ..keys import HIGH, LOW
from ..scale import scaled

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("y", pa.int64()),
        ("f", pa.float64()),
        ("k", pa.int32()),
        ("t", pa.int64()),
    ]
)
COUNT, TIME = CountWindow(100), TimeWindow(3, time="t")


def bound(text: str, window: Window = COUNT) -> Binding:
    return bind(Predicate.parse(text), window, dict.fromkeys(Side, SCHEMA))


def layouts(binding: Binding, stored: Side, sample: Keys | None = None) -> list[Layout]:
    """Every layout of every tactic."""
    fields = binding.fields(stored)
    return [layout for name in ts.tactics() for layout in offered(fields, name, sample)]


def offered(fields: Sequence[Field], tactic: str, sample: Keys | None = None) -> list[Layout]:
    asked = Tactic(tactic)
    options = Options(asked.structures, asked.parameters, named=asked.index is not None)
    return asked.family.layouts(Selectivity(tuple(fields), sample, None), options)


def keys_of(layout: Layout, fresh: Keys) -> dict[Field, Any]:
    return {field: field.keys(fresh) for field in layout.fields}


TINY = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
ROW = st.fixed_dictionaries(
    {
        "x": st.one_of(st.none(), TINY),
        "y": TINY,
        "f": st.sampled_from(
            [
                -1.5,
                -0.0,
                0.0,
                0.1,
                0.2,
                0.30000000000000004,
                1e300,
                *map(float, ("inf", "-inf", "nan")),
            ]
        ),
        "k": st.integers(0, 2),
        "t": st.integers(0, 9),
    }
)
BATCH = st.lists(ROW, max_size=8).map(lambda rows: pa.RecordBatch.from_pylist(rows, SCHEMA))
QUERIES = [
    ("l.x = r.x", COUNT),
    ("l.x = r.x AND l.k = r.k", COUNT),
    ("l.k = r.k AND abs(l.x - r.x) <= 2", COUNT),
    ("abs(l.x - r.x) <= 2 AND abs(l.y - r.y) <= 1", COUNT),
    ("abs(l.f - r.f) <= 0.1 AND l.y < r.y AND l.k = r.k", COUNT),
    ("l.x - r.x BETWEEN 0 AND 1 OR l.x - r.x BETWEEN 1 AND 3", COUNT),
    ("l.x != r.x AND l.y != r.y", COUNT),
    ("l.x >= r.x AND l.x <= r.y", COUNT),
    ("l.x < r.x AND l.y > r.y", TIME),
    ("abs(l.x - r.x) <= 1", TIME),
    ("l.f = r.f + 0.1", COUNT),
]


def found(layout: Layout, stored: Keys, fresh: Keys) -> Counter:
    """Pairs (fresh row, stored row) that lie inside a box, as often as they do."""
    places, kept = layout.arranged(stored)
    matrix = layout.matrix(keys_of(layout, kept), places.size)
    assert matrix.shape == (layout.columns, places.size)
    askers, asking = layout.arranged(fresh)
    boxes = layout.boxes(asking)
    assert boxes.lows.shape == boxes.highs.shape == (layout.columns, len(boxes))
    inside = (boxes.lows[:, :, None] <= matrix[:, None, :]) & (
        matrix[:, None, :] <= boxes.highs[:, :, None]
    )
    hits = zip(*np.nonzero(np.all(inside, axis=0)), strict=True)
    return Counter((int(askers[boxes.owners[box]]), int(places[row])) for box, row in hits)


@pytest.mark.parametrize(("text", "window"), QUERIES, ids=str)
@settings(max_examples=scaled(20))
@given(left=BATCH, right=BATCH)
def test_boxes_hold_every_match_once(
    text: str, window: Window, left: pa.RecordBatch, right: pa.RecordBatch
) -> None:
    binding = bound(text, window)
    wanted = oracle.join([(left, right)], text, window).pairs
    rows = {Side.LEFT: binding.keys(Side.LEFT, left), Side.RIGHT: binding.keys(Side.RIGHT, right)}
    for side in Side:
        stored, fresh = rows[side], rows[side.other]
        sampled = sample(stored)
        expected = Counter((a, b) if side is Side.RIGHT else (b, a) for a, b in wanted)
        for layout in layouts(binding, side, sampled if sampled.count else None):
            assert found(layout, stored, fresh) == expected, layout.as_dict()


@pytest.mark.parametrize(("text", "window"), QUERIES, ids=str)
@settings(max_examples=scaled(20))
@given(batch=BATCH)
def test_keys_come_back_from_the_matrix(text: str, window: Window, batch: pa.RecordBatch) -> None:
    binding = bound(text, window)
    for side in Side:
        at, stored = binding.keys(side, batch).able()
        for layout in layouts(binding, side):
            keys = keys_of(layout, stored)
            back = layout.field_keys(layout.matrix(keys, at.size))
            assert set(back) == set(keys)
            for field, key in keys.items():
                assert back[field].tolist() == key.tolist(), (layout.describe(), str(field))


def test_rows_that_cannot_match_are_left_out() -> None:
    binding = bound("abs(l.x - r.x) <= 2", TIME)
    batch = pa.RecordBatch.from_pylist(
        [{"x": x, "y": 0, "f": 0.0, "k": 0, "t": 1} for x in (3, None, 1, 2)], SCHEMA
    )
    stored, fields = binding.keys(Side.LEFT, batch), binding.fields(Side.LEFT)
    by_x, by_time = (Ordered(fields, field) for field in fields)
    for layout, order in ((by_x, [2, 3, 0]), (by_time, [0, 2, 3]), (Scan(fields), [0, 2, 3])):
        at, rows = layout.arranged(stored)
        assert at.tolist() == order
        assert rows.keys[0].tolist() == [(3, None, 1, 2)[i] for i in order]
    assert (by_x.ordered, by_time.ordered) == (True, False)


# --- What layouts say about themselves ----------------------------------------------------------


def test_a_single_equality_is_not_checked_twice() -> None:
    fields = bound("l.x = r.x AND l.y < r.y").fields(Side.LEFT)
    assert HashLayout(fields, fields[:1]).checks == fields[1:]
    both = bound("l.x = r.x AND l.k = r.k").fields(Side.LEFT)
    assert HashLayout(both, both).checks == both, "two hashes may collide"


def test_layouts_in_words() -> None:
    fields = bound("abs(l.x - r.x) <= 2 AND l.k = r.k").fields(Side.LEFT)
    band, point = fields
    assert Ordered(fields, band).as_dict() == {
        "tactic": "ordered",
        "index": "sorted-runs",
        "first column": f"order of {band}",
        "checked on candidates": ["l.k = r.k"],
    }
    assert Indexed(fields, band, "im-tree").as_dict() == {
        "tactic": "ibwj",
        "index": "im-tree",
        "first column": f"order of {band}",
        "checked on candidates": ["l.k = r.k"],
    }
    shown = Ordered(fields, band, "rap-table", {"domain": (0, 9)}).as_dict()
    assert shown["parameters"] == {"domain": [0, 9]}, "plain values"
    assert HashLayout(fields, [point]).describe() == "hash of l.k = r.k"
    cells = CellLayout(fields, [point], None, 1, band, Quantizer(0, 0))
    assert cells.describe() == f"(l.k = r.k), then order of {band}"
    wide = CellLayout(fields, [], band, 2, point, Quantizer(0, 0))
    assert wide.describe() == f"(cell of 8 of {band}), then order of l.k = r.k"
    assert Scan(fields).index == "nested-loop"
    assert "nested loop" in Scan(fields).describe()

"""Arrow columns in pandas frames: what Spark's stateful operator takes them for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from thetastream.spark.frames import METRICS, as_frame, report_frame

ARRAYS = [
    pa.array([1, None, 3], pa.int8()),
    pa.array([0.5, float("nan"), None]),
    pa.array(["a", None, ""]),
    pa.array([b"\0", None, b""]),
    pa.array([True, None, False]),
    pa.array([datetime(2024, 1, 1, tzinfo=UTC), None, None], pa.timestamp("us", tz="UTC")),
    pa.array([[1, None], None, []], pa.list_(pa.int64())),
    pa.array([{"a": [{"b": 1}]}, None, {"a": None}]),
    pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
]


def test_columns_come_back_as_they_went_in() -> None:
    """NULL stays NULL beside NaN, integers stay integers, nested values are not touched."""
    batch = pa.RecordBatch.from_arrays(ARRAYS, names=[f"c{i}" for i in range(len(ARRAYS))])
    frame = as_frame(batch)
    assert list(frame.columns) == [*batch.schema.names, METRICS]
    for name, array in zip(batch.schema.names, ARRAYS, strict=True):
        back = pa.array(frame[name].array)
        assert back.type == array.type
        assert repr(back.to_pylist()) == repr(array.to_pylist())
        mapped = frame[name].map(lambda value: pytest.fail("a value was touched"))
        assert repr(pa.array(mapped.array).to_pylist()) == repr(array.to_pylist())
    assert frame[METRICS].isna().all()


def test_slices_and_empty_batches() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(range(10))], names=["x"])
    assert pa.array(as_frame(batch.slice(3, 4))["x"].array).to_pylist() == [3, 4, 5, 6]
    assert len(as_frame(batch.slice(0, 0))) == 0


def test_a_report_is_one_row() -> None:
    schema = pa.schema([("x", pa.int64()), ("et", pa.timestamp("us", tz="UTC"))])
    moment: Any = datetime(2024, 1, 1, tzinfo=UTC)
    frame = report_frame(schema, "text", {"et": moment})
    assert len(frame) == 1
    assert pa.array(frame["x"].array).to_pylist() == [None]
    assert pa.array(frame["et"].array).to_pylist() == [moment]
    assert pa.array(frame[METRICS].array).to_pylist() == ["text"]

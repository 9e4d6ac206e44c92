"""What an engine is told: largest event times, and the frontier that follows from them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from thetastream.boxes.binding import bind
from thetastream.boxes.fresh import Fresh
from thetastream.condition.predicate import Predicate
from thetastream.engine.outside import Tops
from thetastream.side import Side
from thetastream.window import CountWindow, TimeWindow, Window

SCHEMA = pa.schema([("x", pa.int64()), ("t", pa.int64())])


def bound(window: Window) -> Any:
    return bind(Predicate.parse("l.x < r.x"), window, dict.fromkeys(Side, SCHEMA))


def fresh(binding: Any, side: Side, times: list[int | None]) -> Fresh:
    batch = pa.record_batch({"x": [0] * len(times), "t": times}, schema=SCHEMA)
    return Fresh(side, batch, {side: binding.keys(side, batch)})


def test_the_frontier_follows_the_slower_side() -> None:
    binding = bound(TimeWindow(5, time="t", lateness=2))
    tops = Tops(Side, binding.bound)
    tops.note(fresh(binding, Side.LEFT, []))
    tops.note(fresh(binding, Side.LEFT, [None]))
    assert tops.largest[Side.LEFT] is None
    tops.note(fresh(binding, Side.LEFT, [5, None]))
    tops.note(fresh(binding, Side.LEFT, [3]))
    assert tops.largest[Side.LEFT] == 5
    assert tops.frontier is None, "nothing is known of the right side"
    tops.note(fresh(binding, Side.RIGHT, [-7]))
    assert tops.frontier == -9
    tops.note(fresh(binding, Side.RIGHT, [90]))
    assert tops.frontier == 3


def test_windows_without_event_time_have_no_frontier() -> None:
    binding = bound(CountWindow(5))
    tops = Tops(Side, binding.bound)
    for side in Side:
        tops.note(fresh(binding, side, [1]))
    assert tops.frontier is None

"""Window options: what was typed becomes a window, or a message that names the option."""

from __future__ import annotations

import pytest
import typer

import thetastream as ts
from thetastream.cli.windows import WindowOptions
from thetastream.side import Side


@pytest.mark.parametrize(
    ("options", "window"),
    [
        ({"count": "1000"}, ts.CountWindow(1000)),
        ({"count": "1_000, 500", "order": "n"}, ts.CountWindow((1000, 500), order="n")),
        ({"count": "60", "slide": "10"}, ts.CountWindow(60, slide=10)),
        ({"window": "10 minutes", "time": "t"}, ts.TimeWindow("10 minutes", time="t")),
        (
            {"window": "1 h,5 min", "time": "t,u", "lateness": "5 s", "slide": "1 min"},
            ts.TimeWindow(("1 h", "5 min"), time=("t", "u"), lateness="5 s", slide="1 min"),
        ),
        ({"window": "600", "time": "t", "lateness": "5"}, ts.TimeWindow(600, time="t", lateness=5)),
    ],
)
def test_options_make_a_window(options: dict[str, str], window: ts.CountWindow) -> None:
    assert WindowOptions(**options).build() == window


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of --window and --count"),
        ({"window": "1 s", "time": "t", "count": "5"}, "one of --window and --count"),
        ({"window": "1 s"}, "needs --time"),
        ({"window": "1 s", "time": "t", "order": "n"}, "--order belongs to --count"),
        ({"count": "5", "time": "t"}, "--time belongs to --window"),
        ({"count": "5", "lateness": "1 s"}, "--lateness belongs to --window"),
        ({"count": "many"}, "whole number; got 'many'"),
        ({"count": "1,2,3"}, "one value or LEFT,RIGHT"),
        ({"window": "1 s,", "time": "t"}, "one value or LEFT,RIGHT"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, str], message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        WindowOptions(**options).build()


def test_columns_per_side() -> None:
    assert WindowOptions.per_side("t") == {Side.LEFT: "t", Side.RIGHT: "t"}
    assert WindowOptions.per_side("a, b") == {Side.LEFT: "a", Side.RIGHT: "b"}

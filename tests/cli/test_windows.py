"""Window options: what was typed becomes a window, or a message that names the option."""

from __future__ import annotations

from typing import Any

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
        ({"session": "30 s", "time": "t"}, ts.SessionWindow("30 s", time="t")),
        (
            {"session": "5", "time": "t,u", "by": "k", "lateness": "2"},
            ts.SessionWindow(5, time=("t", "u"), by="k", lateness=2),
        ),
        ({"unbounded": True}, ts.Unbounded()),
    ],
)
def test_options_make_a_window(options: dict[str, Any], window: Any) -> None:
    assert WindowOptions(**options).build() == window


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of --window, --count, --session"),
        ({"window": "1 s", "time": "t", "count": "5"}, "one of --window, --count, --session"),
        ({"window": "1 s"}, "needs --time"),
        ({"window": "1 s", "time": "t", "order": "n"}, "--order belongs to --count"),
        ({"count": "5", "time": "t"}, "--time belongs to --window"),
        ({"count": "5", "lateness": "1 s"}, "--lateness belongs to --window"),
        ({"session": "5"}, "--session needs --time"),
        ({"session": "5", "time": "t", "slide": "1"}, "--slide belongs to --window and --count"),
        ({"window": "5", "time": "t", "by": "k"}, "--by belongs to --session, not to --window"),
        ({"unbounded": True, "time": "t"}, "--time belongs to --window and --session"),
        ({"count": "many"}, "whole number; got 'many'"),
        ({"count": "1,2,3"}, "one value or LEFT,RIGHT"),
        ({"window": "1 s,", "time": "t"}, "one value or LEFT,RIGHT"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        WindowOptions(**options).build()


def test_columns_per_side() -> None:
    assert WindowOptions.per_side("t") == {Side.LEFT: "t", Side.RIGHT: "t"}
    assert WindowOptions.per_side("a, b") == {Side.LEFT: "a", Side.RIGHT: "b"}

"""The window options that ``join`` and ``explain`` share, and the window they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from thetastream.side import Side

if TYPE_CHECKING:
    from thetastream import CountWindow, TimeWindow

__all__ = ["WindowOptions"]


@dataclass(frozen=True)
class WindowOptions:
    """The options as typed; a comma separates the values of the two sides."""

    window: str | None = None
    time: str | None = None
    lateness: str | None = None
    count: str | None = None
    order: str | None = None
    slide: str | None = None

    def build(self) -> CountWindow | TimeWindow:
        """Make the window; typer's own error names an option that is missing or does not fit."""
        import thetastream as ts

        if (self.window is None) == (self.count is None):
            raise typer.BadParameter("pass one of --window and --count")
        if self.window is not None:
            if self.order is not None:
                raise typer.BadParameter("--order belongs to --count, not to --window")
            if self.time is None:
                raise typer.BadParameter("--window needs --time, the event time column")
            sizes = [_length(part) for part in _parts("--window", self.window)]
            return ts.TimeWindow(
                sizes[0] if len(sizes) == 1 else (sizes[0], sizes[1]),
                time=_one_or_pair("--time", self.time),
                lateness=0 if self.lateness is None else _length(self.lateness),
                slide=None if self.slide is None else _length(self.slide),
            )
        for name, value in (("--time", self.time), ("--lateness", self.lateness)):
            if value is not None:
                raise typer.BadParameter(f"{name} belongs to --window, not to --count")
        assert self.count is not None
        counts = [_whole("--count", part) for part in _parts("--count", self.count)]
        return ts.CountWindow(
            counts[0] if len(counts) == 1 else (counts[0], counts[1]),
            order=None if self.order is None else _one_or_pair("--order", self.order),
            slide=None if self.slide is None else _whole("--slide", self.slide),
        )

    @staticmethod
    def per_side(text: str) -> dict[Side, str]:
        """The column of each side, of ``t`` or ``left_t,right_t``."""
        parts = [part.strip() for part in text.split(",")]
        return {Side.LEFT: parts[0], Side.RIGHT: parts[-1]}


def _parts(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(parts):
        raise typer.BadParameter(f"{option} takes one value or LEFT,RIGHT; got {text!r}")
    return parts


def _one_or_pair(option: str, text: str) -> str | tuple[str, str]:
    parts = _parts(option, text)
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _length(text: str) -> str | int:
    """A duration, or a plain number for integer time columns."""
    return int(text) if text.strip().isdigit() else text


def _whole(option: str, text: str) -> int:
    try:
        return int(text.replace("_", ""))
    except ValueError:
        raise typer.BadParameter(f"{option} takes a whole number; got {text!r}") from None

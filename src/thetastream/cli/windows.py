"""The window options of ``join`` and ``explain``, and the window they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from thetastream.side import Side

if TYPE_CHECKING:
    from thetastream import CountWindow
    from thetastream.window import Window


@dataclass(frozen=True)
class WindowOptions:
    """The options as typed; a comma separates the values of the two sides."""

    window: str | None = None
    time: str | None = None
    lateness: str | None = None
    count: str | None = None
    order: str | None = None
    slide: str | None = None
    session: str | None = None
    by: str | None = None
    unbounded: bool = False

    @property
    def none(self) -> bool:
        """Whether no window was given, so that files are finite tables."""
        kinds = (self.window, self.count, self.session)
        if self.unbounded or any(kind is not None for kind in kinds):
            return False
        rest = {"--time": self.time, "--lateness": self.lateness, "--order": self.order}
        rest |= {"--slide": self.slide, "--by": self.by}
        for option, value in rest.items():
            if value is not None:
                raise typer.BadParameter(
                    f"{option} belongs to a window: pass --window, --count or --session too"
                )
        return True

    def build(self) -> Window:
        """Build the window; a typer error names an option that is missing or does not fit."""
        import thetastream as ts

        kinds = {
            "--window": self.window is not None,
            "--count": self.count is not None,
            "--session": self.session is not None,
            "--unbounded": self.unbounded,
        }
        kind = [option for option, is_set in kinds.items() if is_set]
        if len(kind) != 1:
            raise typer.BadParameter("pass one of --window, --count, --session and --unbounded")
        self._check(kind[0])
        if self.unbounded:
            return ts.Unbounded()
        if self.count is not None:
            return self._count_window(self.count)
        assert self.time is not None
        time = _one_or_pair("--time", self.time)
        lateness = 0 if self.lateness is None else _length(self.lateness)
        if self.session is not None:
            by = None if self.by is None else _one_or_pair("--by", self.by)
            return ts.SessionWindow(_length(self.session), time=time, by=by, lateness=lateness)
        assert self.window is not None
        sizes = [_length(part) for part in _parts("--window", self.window)]
        return ts.TimeWindow(
            sizes[0] if len(sizes) == 1 else (sizes[0], sizes[1]),
            time=time,
            lateness=lateness,
            slide=None if self.slide is None else _length(self.slide),
        )

    def _check(self, kind: str) -> None:
        """Refuse options of other windows, and a missing ``--time``."""
        options = {
            "--time": (self.time, ("--window", "--session")),
            "--lateness": (self.lateness, ("--window", "--session")),
            "--order": (self.order, ("--count",)),
            "--slide": (self.slide, ("--window", "--count")),
            "--by": (self.by, ("--session",)),
        }
        for option, (value, owners) in options.items():
            if value is not None and kind not in owners:
                raise typer.BadParameter(
                    f"{option} belongs to {' and '.join(owners)}, not to {kind}"
                )
        if kind in options["--time"][1] and self.time is None:
            raise typer.BadParameter(f"{kind} needs --time, the event time column")

    def _count_window(self, count: str) -> CountWindow:
        import thetastream as ts

        counts = [_whole("--count", part) for part in _parts("--count", count)]
        return ts.CountWindow(
            counts[0] if len(counts) == 1 else (counts[0], counts[1]),
            order=None if self.order is None else _one_or_pair("--order", self.order),
            slide=None if self.slide is None else _whole("--slide", self.slide),
        )

    @staticmethod
    def per_side(text: str) -> dict[Side, str]:
        """The column of each side, from ``t`` or ``left_t,right_t``."""
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

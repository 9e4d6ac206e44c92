"""Progress of work: one live line on a terminal, a plain line every two seconds elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

if TYPE_CHECKING:
    from thetastream import Metrics


PLAIN_SECONDS = 2.0


def count(number: float) -> str:
    """A count in at most five characters.

    >>> count(987), count(12_345), count(2_000_000), count(3.4e9)
    ('987', '12.3k', '2.00M', '3.40G')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{unit}"
    return f"{number:.0f}"


class Stopwatch:
    """The time inside a ``with`` block, during which a display is shown, if there is one."""

    def __init__(self, display: Live | Progress | None) -> None:
        self._display = display
        self._started = self._printed = time.monotonic()
        self._ended: float | None = None

    def __enter__(self) -> Self:
        self._started = self._printed = time.monotonic()
        if self._display is not None:
            self._display.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended = time.monotonic()
        if self._display is not None:
            self._display.stop()

    @property
    def seconds(self) -> float:
        """Time since the start, or from start to end."""
        return (time.monotonic() if self._ended is None else self._ended) - self._started

    @property
    def is_line_due(self) -> bool:
        """Whether the last plain line is old enough for another."""
        return time.monotonic() - self._printed >= PLAIN_SECONDS


class WorkLine(Stopwatch):
    """One line that says what is being done and how much of it is finished.

    On a terminal it redraws itself, and a ``transient`` one vanishes at the end.
    """

    def __init__(self, console: Console, *, transient: bool = True) -> None:
        self._console = console
        self._live: Progress | None = None
        self._task = TaskID(0)
        if console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                BarColumn(bar_width=24),
                TextColumn("{task.description}", markup=False),
                console=console,
                transient=transient,
            )
            self._task = self._live.add_task("starting", total=None)
        super().__init__(self._live)

    def show(
        self, text: str, done: float = 0, total: float | None = None, *, always: bool = False
    ) -> None:
        """Update the line; without ``total`` the bar only moves. ``always`` prints a plain line."""
        if self._live is not None:
            self._live.update(self._task, description=text, completed=done, total=total)
        elif always or self.is_line_due:
            self._printed = time.monotonic()
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class ProgressLine(WorkLine):
    """Shows rows, matches, rows per second and window size while a join runs.

    ``total`` is the number of rows to come, None if unknown.
    """

    def __init__(self, console: Console, total: int | None) -> None:
        super().__init__(console, transient=False)
        self._total = total
        self._window_rows = self.most_window_rows = 0

    def follow(self, metrics: Metrics) -> None:
        """Update the line; print a plain one if the last is old enough."""
        self._window_rows = metrics.window_rows
        self.most_window_rows = max(self.most_window_rows, metrics.window_rows)
        self.show(self._text(metrics), metrics.rows, self._total)

    def end(self, metrics: Metrics) -> None:
        """Show the final counts, with the window as it was before the streams ended."""
        self.show(self._text(metrics), metrics.rows, self._total, always=True)

    def _text(self, metrics: Metrics) -> str:
        speed = metrics.rows / max(self.seconds, 1e-9)
        done = count(metrics.rows) + (f" of {count(self._total)}" if self._total else "")
        return (
            f"{done} rows · {count(metrics.matches)} matches · {count(speed)} rows/s · "
            f"window {count(self._window_rows)} rows"
        )

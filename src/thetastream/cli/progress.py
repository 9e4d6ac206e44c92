"""How far a running join is: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

if TYPE_CHECKING:
    from thetastream import Metrics


PLAIN_SECONDS = 2.0
T = TypeVar("T")


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


class ProgressLine:
    """Shows rows, matches, rows per second and window size while a join runs.

    On a terminal the line redraws itself; without one a new line is printed every two seconds.
    ``total`` is the number of rows that will come, None when nobody knows.
    """

    def __init__(self, console: Console, total: int | None) -> None:
        self._console = console
        self._total = total
        self._started = self._printed = time.monotonic()
        self._ended: float | None = None
        self._live: Progress | None = None
        self._task = TaskID(0)
        self._window_rows = self.most_window_rows = 0
        if console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                BarColumn(bar_width=24),
                TextColumn("{task.description}"),
                console=console,
            )

    def __enter__(self) -> ProgressLine:
        self._started = self._printed = time.monotonic()
        if self._live is not None:
            self._live.start()
            self._task = self._live.add_task("starting", total=self._total)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = time.monotonic()
        if self._live is not None:
            self._live.stop()

    @property
    def seconds(self) -> float:
        """Time since the start, or from start to end."""
        return (time.monotonic() if self._ended is None else self._ended) - self._started

    def show(self, metrics: Metrics) -> None:
        """Bring the line up to date; a plain line is printed when the last one is old enough."""
        self._window_rows = metrics.window_rows
        self.most_window_rows = max(self.most_window_rows, metrics.window_rows)
        if self._live is not None:
            self._live.update(self._task, completed=metrics.rows, description=self._text(metrics))
        elif time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._print(metrics)

    def end(self, metrics: Metrics) -> None:
        """Show the final counts, with the window as it was before the streams ended."""
        if self._live is not None:
            self._live.update(self._task, completed=metrics.rows, description=self._text(metrics))
        else:
            self._print(metrics)

    def _print(self, metrics: Metrics) -> None:
        self._printed = time.monotonic()
        self._console.print(self._text(metrics), highlight=False, soft_wrap=True)

    def _text(self, metrics: Metrics) -> str:
        speed = metrics.rows / max(self.seconds, 1e-9)
        done = count(metrics.rows) + (f" of {count(self._total)}" if self._total else "")
        return (
            f"{done} rows · {count(metrics.matches)} matches · {count(speed)} rows/s · "
            f"window {count(self._window_rows)} rows"
        )


def counted(
    console: Console, total: int, work: Callable[[Callable[[str], None]], Iterable[T]]
) -> Iterator[T]:
    """Go through what ``work`` gives, ``total`` things, with a live line on how far it is.

    ``work`` is given a function to say what it is about.
    """
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as live:
        task = live.add_task("making the input", total=total)
        for done in work(lambda what: live.update(task, description=what)):
            live.advance(task)
            yield done

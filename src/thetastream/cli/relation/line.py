"""How far a build or a join with a relation is: a live line, or a plain one every two seconds."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

PLAIN_SECONDS = 2.0


class WorkLine:
    """One line that says what is being done and how much of it is.

    On a terminal it redraws itself and vanishes at the end; elsewhere a new line is printed at most
    every two seconds. As a context manager; ``seconds`` is the time inside it.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Progress | None = None
        self._task = TaskID(0)
        self._started = self._printed = time.monotonic()
        self._ended: float | None = None

    def __enter__(self) -> WorkLine:
        self._started = self._printed = time.monotonic()
        if self._console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                BarColumn(bar_width=24),
                TextColumn("{task.description}", markup=False),
                console=self._console,
                transient=True,
            )
            self._live.start()
            self._task = self._live.add_task("starting", total=None)
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

    def show(self, text: str, done: float = 0, total: float | None = None) -> None:
        """Bring the line up to date; the bar is ``done`` of ``total``, or moves if nobody knows."""
        if self._live is not None:
            self._live.update(self._task, description=text, completed=done, total=total)
        elif time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._printed = time.monotonic()
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

"""A progress bar for long work, on a terminal only."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears


class ProgressBar:
    """Shows how many rows are done, once the work has taken a while. Writes to standard error.

    ``shown`` is None for the default: on a terminal only.
    """

    def __init__(self, total: int | None, shown: bool | None = None) -> None:
        self._wanted = sys.stderr.isatty() if shown is None else shown
        self._total = total
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def update(self, done: int, matches: int) -> None:
        """Say how many rows are done, and how many pairs were found."""
        if not self._wanted or time.monotonic() - self._started < PATIENCE:
            return
        if self._bar is None:
            self._begin()
        self._bar.update(self._task, completed=done, description=f"{matches:,} matches")

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn(_TEXT))
        self._bar = Progress(
            *columns, console=Console(stderr=True, force_terminal=True), transient=True
        )
        self._task = self._bar.add_task("", total=self._total)
        self._bar.start()

    def end(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


_TEXT = "{task.description}"

"""A live line for runs of a known number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")


def counted(
    console: Console, total: int, work: Callable[[Callable[[str], None]], Iterable[T]]
) -> Iterator[T]:
    """Yield the ``total`` results of ``work`` under a live line.

    ``work`` receives a function that shows what it is doing.
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

"""``thetastream demo``: two streams arrive as files, and Spark joins them by price band."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from thetastream.cli.progress import Stopwatch, count
from thetastream.cli.tables import bytes_text, facts_table, phases_text, preview
from thetastream.errors import StateError

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream.spark.demo.query import Demo, Totals
    from thetastream.spark.demo.tempo import Tempo


ROWS = 400_000
SHOWN_ROWS = 5
LOG_LINES = 25
_NEEDED = ("pyspark", "pandas", "google.protobuf")


def run_on_spark(rows: int, seed: int, folder: Path | None, compare: bool = False) -> bool:
    """Join the streams in a separate Spark session; return whether the oracle agrees.

    ``compare`` joins them a second time, on hand-made buckets, which must return as many rows.
    """
    _check_packages()
    from thetastream._jit.compiling import warm
    from thetastream.spark.daemon import ROOMS
    from thetastream.spark.demo.query import ON, WINDOW, Demo
    from thetastream.spark.demo.session import Interrupt, session
    from thetastream.spark.demo.streams import Streams

    console = Console()
    console.print("[bold]trades l × quotes r, on Spark[/bold]")
    console.print(f"  where {ON}\n  in a {WINDOW}", highlight=False, soft_wrap=True)
    with _room(folder) as place, _log_shown(console, place / "spark.log"):
        streams = Streams.generated(rows, seed)
        # Here, so that the compilation of a first run is visible.
        warm(*ROOMS)
        _say(console, "starting Spark …")
        with Interrupt() as interrupt, session(place) as spark:
            demo = Demo(spark, place, streams)
            _describe(console, demo)
            with Board(console, demo) as board, closing(demo.run()) as run:
                for totals in run:
                    interrupt.check()
                    board.show(totals)
                board.show(demo.totals)
            console.print()
            console.print(_summary(demo, board))
            console.print()
            shown = demo.result().limit(SHOWN_ROWS).toArrow()
            console.print(preview(_short(shown), title="some result rows"))
            agrees = _verdict(console, demo)
            return _compared(console, demo) and agrees if compare else agrees


def _check_packages() -> None:
    for name in _NEEDED:
        try:
            import_module(name)
        except ImportError:
            raise StateError(
                f"the demo on Spark needs the package {name.replace('google.', '')}, which is not "
                "installed; pip install 'thetastream[spark]' (and Java 17 or later), or run the "
                "demo without Spark: thetastream demo --embedded"
            ) from None


@contextmanager
def _room(folder: Path | None) -> Iterator[Path]:
    """The named folder, which must be new or empty, or a temporary one."""
    if folder is None:
        with TemporaryDirectory(prefix="thetastream-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StateError(f"{folder} exists already; name a new folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder.resolve()


@contextmanager
def _log_shown(console: Console, log: Path) -> Iterator[None]:
    """On failure, show the end of Spark's log."""
    try:
        yield
    except (StateError, KeyboardInterrupt):
        raise
    except Exception:
        if log.exists():
            text = log.read_text(encoding="utf-8", errors="replace")
            lines = [line for line in text.splitlines() if not line.startswith("\tat ")]
            console.rule("the end of spark.log")
            shown = "\n".join(lines[-LOG_LINES:])
            console.print(shown, markup=False, highlight=False, soft_wrap=True)
            console.rule()
        raise


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _describe(console: Console, demo: Demo) -> None:
    plan: dict[str, Any] = demo.plan.as_dict()["partitioning"]
    places = ", ".join(
        f"a {side} row {number:g}" for side, number in plan["places of a row, expected"].items()
    )
    _say(console, f"  {plan['partitions']} partitions by {plan['by']}; places: {places}")


class Board(Stopwatch):
    """Progress of the query: a live table on a terminal, a plain line now and then elsewhere."""

    def __init__(self, console: Console, demo: Demo) -> None:
        self._console, self._demo = console, demo
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._batches = 0
        super().__init__(self._live)

    def show(self, totals: Totals) -> None:
        """Update the board; without a terminal, print a line if the last is old enough."""
        if self._live is not None:
            self._live.update(self._table(totals), refresh=True)
            return
        done = totals.rows >= self._demo.streams.rows
        if totals.batches > self._batches and (done or self.is_line_due):
            self._printed, self._batches = time.monotonic(), totals.batches
            _say(
                self._console, " · ".join(f"{value} {name}" for name, value in self._facts(totals))
            )

    def _facts(self, totals: Totals) -> list[tuple[str, str]]:
        total = self._demo.streams.rows
        return [
            ("rows in", f"{count(totals.rows)} of {count(total)}"),
            ("matches", count(totals.matches)),
            ("rows/s", count(totals.rows / max(self.seconds, 1e-9))),
            ("micro-batches", str(totals.batches)),
            ("watermark", _clock(totals.watermark)),
            ("rows stored", count(totals.stored)),
            ("skew", f"{totals.skew:.2f}"),
            ("hits/catch-ups", f"{totals.hits}/{totals.catch_ups}"),
            ("attaches/rebuilds", f"{totals.attaches}/{totals.rebuilds}"),
        ]

    def _table(self, totals: Totals) -> Table:
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(min_width=18)
        total, pairs = self._demo.streams.rows, self._demo.streams.pairs
        table.add_row("", ProgressBar(total=total, completed=totals.rows, width=24))
        table.add_row("files landed", f"{self._demo.landed} of {pairs} pairs")
        for name, value in self._facts(totals):
            table.add_row(name, value)
        return table


def _clock(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "no"
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%H:%M:%S.%f}"[:-3]


def _summary(demo: Demo, board: Board) -> Table:
    totals, seconds = demo.totals, board.seconds
    parts = sorted(totals.per_partition.items())
    rows = [
        ("rows in", f"{totals.rows:,}", f"in {totals.batches} micro-batches"),
        ("matches", f"{totals.matches:,}", f"fan-out {totals.matches / max(totals.rows, 1):.2f}"),
        ("late rows", f"{totals.late:,}", "dropped: older than the lateness allows"),
        ("time", f"{seconds:.1f} s", "with the start-up and the pauses between files"),
        ("rows/s", f"{totals.tempo.rows_per_second:,.0f}", "without the start-up and the pauses"),
        ("micro-batch", *_parts(totals.tempo)),
        ("stored", f"{totals.most_stored:,}", "rows at most"),
        ("state", bytes_text(totals.state_bytes), f"{bytes_text(totals.written_bytes)} written"),
        ("compactions", f"{totals.compactions:,}", "merges of small runs"),
        ("partitions", f"{len(parts)}", ", ".join(f"{rows:,}" for _, rows in parts) + " rows"),
        ("skew", f"{totals.skew:.2f}", "fullest partition divided by the mean"),
        ("hits", f"{totals.hits}", "found alive in its worker"),
        ("catch-ups", f"{totals.catch_ups}", "alive, and some micro-batches behind"),
        ("attaches", f"{totals.attaches}", "mapped from run files of this host"),
        ("rebuilds", f"{totals.rebuilds}", "read back because files were missing"),
        ("engine", f"{sum(totals.seconds.values()):.2f} s", phases_text(totals.seconds.items())),
    ]
    return facts_table(rows)


def _parts(tempo: Tempo) -> tuple[str, str]:
    """The median time of a micro-batch, and where it goes: Spark's parts, and ours."""
    if not (parts := tempo.parts):
        return "–", ""
    spark = ", ".join(f"{name} {parts[name]:.2f} s" for name in ("planning", "logs", "tasks"))
    ours = f"; the join's engine {parts['engine']:.2f} s of the tasks" if parts["engine"] else ""
    return f"{parts['all']:.2f} s", f"Spark: {spark}{ours}"


def _compared(console: Console, demo: Demo) -> bool:
    """Run the join on buckets and say how fast it was; returns whether it has as many rows."""
    with console.status("on hand-made buckets …") if console.is_terminal else nullcontext():
        buckets = demo.compare()
    speed, ours = buckets.tempo.rows_per_second, demo.totals.tempo.rows_per_second
    time, parts = _parts(buckets.tempo)
    times = ours / max(speed, 1e-9)
    _say(
        console,
        f"hand-made buckets, same files: {speed:,.0f} rows/s ({time} per micro-batch, {parts}); "
        f"theta_join is {times:.1f} times as fast",
    )
    if buckets.rows != demo.totals.matches:
        _say(console, f"[bold red]the buckets returned {buckets.rows:,} rows[/bold red]")
        return False
    return True


def _short(rows: pa.Table) -> pa.Table:
    """The rows without their ids, times of day to the millisecond."""
    import pyarrow as pa

    return pa.table(
        {
            name: [f"{moment:%H:%M:%S.%f}"[:-3] for moment in column.to_pylist()]
            if pa.types.is_timestamp(column.type)
            else column
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
            if not name.startswith("id")
        }
    )


def _verdict(console: Console, demo: Demo) -> bool:
    with console.status("asking the oracle …") if console.is_terminal else nullcontext():
        difference = demo.difference()
    sample = f"{difference.wanted.total():,} matches of {difference.trades:,} sampled trades"
    rows, matches = difference.rows, demo.totals.matches
    text = f"the oracle agrees on {sample}; the sink holds {rows:,} rows"
    if difference:
        wrong = f"{difference.missing:,} missing, {difference.extra:,} extra"
        text = f"[bold red]the oracle disagrees[/bold red] on {sample}: {wrong}"
    elif rows != matches:
        counted = f"but the join has counted {matches:,} matches"
        text = f"[bold red]the sink holds {rows:,} rows[/bold red], {counted}"
    _say(console, text)
    return not difference and rows == matches

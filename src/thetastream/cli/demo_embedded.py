"""``thetastream demo --embedded``: trades × quotes in the embedded engine, checked by the oracle.

Each trade matches the quotes of its symbol whose ask is within five cents, whose size suffices, and
whose time is within five seconds. Rows arrive up to a second out of order, which is the lateness,
so none is dropped. The oracle, a plain nested loop, joins all rows of a few symbols again.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console

from thetastream.cli.progress import ProgressLine
from thetastream.cli.tables import preview, summary

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream import TimeWindow


ON = "l.symbol = r.symbol AND abs(l.price - r.ask) <= 0.05 AND l.size <= r.ask_size"
COLUMNS = ["symbol", "t", "price", "size", "t_right", "ask", "ask_size", "id", "id_right"]
ROWS = 2_000_000
SYMBOLS = tuple(f"S{number:04}" for number in range(2000))
DISORDER = timedelta(seconds=1)
TRADE_SHARE = 5  # one row in five is a trade
PUSH_ROWS = (1 << 12, 1 << 14)  # about two seconds of trades, two seconds of quotes
ORACLE_PAIRS = 1_000_000  # a nested loop of this size takes some seconds
SHOWN_ROWS = 5


def run_embedded(rows: int, threads: int, seed: int) -> bool:
    """Join the streams in this process; return whether the oracle agrees."""
    import thetastream as ts
    from thetastream.cli.feed import in_step
    from thetastream.cli.join import run
    from thetastream.datasets import cut, trades_quotes
    from thetastream.side import Side

    console = Console()
    window = ts.TimeWindow("5 s", time="t", lateness=DISORDER)
    console.print("[bold]trades l × quotes r[/bold]")
    console.print(f"  where {ON}\n  in a {window}", highlight=False, soft_wrap=True)
    count = rows // TRADE_SHARE
    trades, quotes = trades_quotes(
        count, rows - count, seed=seed, symbols=SYMBOLS, disorder=DISORDER
    )
    join = ts.StreamJoin(
        ON, window=window, threads=threads, columns=COLUMNS, schemas=(trades.schema, quotes.schema)
    )
    check = OracleCheck(trades, quotes, window)
    shown: list[pa.RecordBatch] = []
    streams = {
        side: cut(table, push_rows)
        for side, table, push_rows in zip(Side, (trades, quotes), PUSH_ROWS, strict=True)
    }
    with ProgressLine(console, rows) as line:
        for batch in run(join, in_step(streams, dict.fromkeys(Side, "t")), line):
            check.see(batch)
            if not shown:
                shown.append(batch.slice(0, SHOWN_ROWS))
    console.print()
    console.print(summary(join.metrics(), line))
    for batch in shown:
        console.print()
        console.print(preview(_short(batch), title="the first result rows"))
    agrees = check.agrees()
    verdict = "the oracle agrees" if agrees else "[bold red]the oracle disagrees[/bold red]"
    console.print(f"{verdict} on {check}", soft_wrap=True)
    return agrees


def _short(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without their ids, times without their date."""
    import pyarrow as pa

    batch = batch.drop_columns(["id", "id_right"])
    return pa.record_batch(
        {
            name: values.cast(pa.time64("us")) if pa.types.is_timestamp(values.type) else values
            for name, values in zip(batch.schema.names, batch.columns, strict=True)
        }
    )


class OracleCheck:
    """Compares the engine's answer for a few symbols with the oracle's."""

    def __init__(self, trades: pa.Table, quotes: pa.Table, window: TimeWindow) -> None:
        share = math.sqrt(ORACLE_PAIRS / max(trades.num_rows * quotes.num_rows, 1))
        self._symbols = SYMBOLS[: max(1, math.floor(len(SYMBOLS) * share))]
        self._trades, self._quotes = self._of_symbols(trades), self._of_symbols(quotes)
        self._window = window
        self._pairs: Counter[tuple[int, int]] = Counter()

    def see(self, batch: pa.RecordBatch) -> None:
        """Record the pairs of the chosen symbols in a batch of output."""
        chosen = self._of_symbols(batch)
        if chosen.num_rows:
            self._pairs.update(
                zip(chosen["id"].to_pylist(), chosen["id_right"].to_pylist(), strict=True)
            )

    def agrees(self) -> bool:
        """Whether the oracle returns the same multiset of pairs."""
        from thetastream.truth import oracle

        answer = oracle.join([(self._trades, self._quotes)], ON, self._window)
        trades, quotes = self._trades["id"].to_pylist(), self._quotes["id"].to_pylist()
        wanted = Counter(
            (trades[left], quotes[right])
            for left, right in answer.pairs
            if left is not None and right is not None
        )
        return wanted == self._pairs

    def _of_symbols(self, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        return rows.filter(pc.is_in(rows["symbol"], value_set=pa.array(self._symbols)))

    def __str__(self) -> str:
        return (
            f"{self._pairs.total():,} matches of {self._trades.num_rows:,} trades and "
            f"{self._quotes.num_rows:,} quotes ({len(self._symbols)} of {len(SYMBOLS)} symbols)"
        )

"""The progress line: plain where there is no terminal, live where there is one."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

import thetastream as ts
from thetastream import Metrics
from thetastream.cli import progress
from thetastream.cli.progress import ProgressLine, count
from thetastream.cli.tables import bytes_text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (987, "987"), (1000, "1.00k"), (12_345, "12.3k"), (123_456, "123k"), (2e6, "2.00M")],
)
def test_counts_are_short(number: float, text: str) -> None:
    assert count(number) == text


def test_bytes() -> None:
    texts = [bytes_text(size) for size in (0, 1500, 2e6, 7.25e9)]
    assert texts == ["0 B", "1.5 kB", "2.0 MB", "7.2 GB"]


def metrics(rows: int, matches: int, window_rows: int) -> Metrics:
    empty = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(1)).metrics()
    return replace(empty, rows=rows, matches=matches, window_rows=window_rows)


def test_plain_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    out = io.StringIO()
    with ProgressLine(Console(file=out, width=120), 100) as line:
        for rows in range(10, 60, 10):
            now += progress.PLAIN_SECONDS * 0.6
            line.follow(metrics(rows, rows * 2, 7))
    assert out.getvalue().splitlines() == [
        "20 of 100 rows · 40 matches · 8 rows/s · window 7 rows",
        "40 of 100 rows · 80 matches · 8 rows/s · window 7 rows",
    ]


def test_the_end_is_always_printed_with_the_last_window() -> None:
    out = io.StringIO()
    with ProgressLine(Console(file=out, width=120), None) as line:
        line.follow(metrics(1, 2, 33))
        line.follow(metrics(2, 3, 30))
        line.end(metrics(4000, 5, 0))
    assert out.getvalue().startswith("4.00k rows · 5 matches · ")
    assert out.getvalue().endswith(" · window 30 rows\n")
    assert out.getvalue().count("\n") == 1
    assert line.most_window_rows == 33


def test_a_terminal_gets_one_line_that_redraws() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with ProgressLine(console, 10) as line:
        line.follow(metrics(5, 1, 2))
        line.end(metrics(10, 3, 0))
    assert "10 of 10 rows · 3 matches" in out.getvalue()
    assert out.getvalue().endswith("\x1b[?25h")  # the cursor is shown again

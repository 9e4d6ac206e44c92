"""Scores on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rich.table import Table

from thetabench.score import Score


def score_table(title: str, scores: Iterable[Score], *, units: bool = True) -> Table:
    """Measures beside what they must reach; ``units``: limits are shown with theirs."""
    table = Table(title=title, title_justify="left")
    table.add_column("measure")
    for name in ("measured", "must", "aim"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    table.add_column("remark", overflow="fold")
    for score in scores:
        limit = score if units else replace(score, unit="")
        table.add_row(
            score.measure,
            score.text(score.value),
            limit.text(score.must),
            limit.text(score.aim),
            score.verdict,
            score.remark,
        )
    return table

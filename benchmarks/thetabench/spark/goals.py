"""What the operator must reach, what it aims at, and what was measured.

A part that was not run has no scores. Options after a contestant's name do not matter; if it is
measured twice in a cell, the first line counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from thetabench.figure import Lines
from thetabench.line import Line
from thetabench.score import Score
from thetabench.spark.plan import BLOCKS, COMPARED, EMPTY, FILES, HOME, KEPT, LOST, REJOIN, STORES

Cell = dict[str, Line]
"""Lines of the same input by contestant, without its options."""

_RATIOS: tuple[tuple[str, str, tuple[str, ...], str, float | None, float | None], ...] = (
    ("bucketed", "against hand-made buckets", STORES, "×", 10, 25),
    ("empty", "against an empty joiner", EMPTY[:1], "", 0.6, 0.9),
    ("empty", "… that returns as many rows", EMPTY[1:], "", None, None),
    ("w2", "W2 against foreachBatch", (REJOIN,), "×", 20, 50),
    ("w2", "… that joins by hand-made blocks", (BLOCKS,), "×", None, None),
)
"""Ratios to the fastest of some contestants: their part, the measure, unit and limits."""
_RESTARTS: dict[str, tuple[float | None, float | None]] = {LOST: (10.0, 3.0), KEPT: (None, None)}


def scores(lines: Lines) -> list[Score]:
    """The score table of a result file."""
    return [*_joins(lines), *_w2(lines), *_restarts(lines)]


def _joins(lines: Lines) -> Iterator[Score]:
    """W1, by size of micro-batches: ratios of both forms of the join, and what it writes."""
    parts = {line.figure for line in lines} & set(COMPARED)
    for batch, cell in _cells(lines, "join", COMPARED):
        where = f"micro-batches of {batch:,}"
        yield from _ratios(cell, parts, HOME, where)
        if FILES in cell:
            yield from _ratios(cell, parts, FILES, f"{where}, runs in files")
        if HOME in cell:
            yield _state(cell[HOME], where)


def _w2(lines: Lines) -> Iterator[Score]:
    """Two inequalities. Only the first size of micro-batches has limits."""
    for place, (batch, cell) in enumerate(_cells(lines, "w2", ("w2",))):
        for score in _ratios(cell, {"w2"}, HOME, f"micro-batches of {batch:,}"):
            yield replace(score, must=None, aim=None) if place else score


def _ratios(cell: Cell, parts: set[str], home: str, where: str) -> Iterator[Score]:
    """Ratios of the join to others; to none that ran, it is not measured."""
    for part, measure, others, unit, must, aim in _RATIOS:
        if part in parts:
            ran = [cell[name] for name in others if name in cell]
            best = max(ran, key=lambda line: line.tuples_per_s, default=None)
            value = cell[home].tuples_per_s / best.tuples_per_s if best and home in cell else None
            remark = best.contestant if best and len(others) > 1 else ""
            yield Score(f"{measure}, {where}", value, unit, must, aim, remark=remark)


def _state(home: Line, where: str) -> Score:
    remark = (
        f"{home.written_bytes:.1f} of {home.packed_bytes:.1f} bytes per row; "
        f"{home.store_bytes:.1f} in the checkpoint's files"
    )
    ratio = home.written_bytes / home.packed_bytes
    return Score(f"state bytes written, {where}", ratio, "× packed", 3, 1.5, False, remark)


def _restarts(lines: Lines) -> Iterator[Score]:
    asked = {line.contestant for line in lines}
    ran = {line.contestant: line for line in lines if line.ran}
    for name, (must, aim) in _RESTARTS.items():
        if name in asked:
            line, remark = ran.get(name), ""
            if line is not None:
                remark = (
                    f"first {line.first_s:.1f} s, normal {line.normal_s:.1f} s, a cold start "
                    f"without state {line.cold_s:.1f} s; {line.stored_rows:,} rows stored"
                )
            value = line.slower_s if line is not None else None
            yield Score(f"{name}: slower by", value, "s", must, aim, False, remark)


def _cells(lines: Lines, main: str, parts: Collection[str]) -> Iterator[tuple[int, Cell]]:
    """Sizes of micro-batches of a part, and what ran with them in some parts."""
    for batch in dict.fromkeys(line.batch for line in lines if line.figure == main):
        own = [line for line in lines if line.figure in parts and line.batch == batch and line.ran]
        yield batch, {line.contestant.partition(":")[0]: line for line in reversed(own)}

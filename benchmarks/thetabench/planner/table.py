"""The tables of ``planner.csv``, written into a page: ``python -m thetabench.planner.table``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetabench.figure import power
from thetabench.line import BUSY
from thetabench.planner.result import Choice, PlannerResult, choices, read
from thetabench.planner.score import scores
from thetabench.tables import insert, marks
from thetastream.errors import DataError

PARTS = ("scores", "cells")
"""What stands between marks of the page."""


def filled(page: str, results: Sequence[PlannerResult]) -> str:
    """Give the page with the tables between their marks."""
    if not choices(results):
        raise DataError("there are no results to make tables of.")
    for part, table in zip(PARTS, (_scored(results), _cells(results)), strict=True):
        page = insert(page, table, *marks("planner", part))
    return page


def _scored(results: Sequence[PlannerResult]) -> str:
    lines = [_row(["measure", "measured", "must", "aim", "", ""]), "|---|--:|--:|--:|---|---|"]
    for score in scores(results):
        values = [score.text(value) for value in (score.value, score.must, score.aim)]
        lines.append(_row([score.measure, *values, score.verdict, score.remark]))
    first, ran = results[-1], [result for result in results if result.ran]
    busy = sum(result.cpu_share < BUSY for result in ran)
    note = (
        f"{len(choices(results))} cells, {len(ran)} measurements; during {busy} of them "
        "the machine was busy with other work. "
        f"Answers verified. Machine: {first.cpu}, {first.cores} cores, "
        f"{first.memory_bytes / 2**30:.0f} GiB, {first.system}, Python {first.python}, "
        f"{first.versions}; {first.date}."
    )
    return "\n".join([*lines, "", note])


def _cells(results: Sequence[PlannerResult]) -> str:
    head = ["workload", "window", "batch", "best tactic", "", "auto", "", "best / auto"]
    head += ["auto: estimated ns", "measured ns"]
    lines = [_row(head), "|---|--:|--:|---|--:|---|--:|--:|--:|--:|"]
    lines += [_row(_cell(choice)) for choice in choices(results)]
    note = "Million rows per second. **Bold**: another layout than the best."
    return "\n".join([*lines, "", note])


def _cell(choice: Choice) -> list[str]:
    auto, best = choice.auto, choice.best
    ratio = f"{choice.ratio:.2f}"
    return [
        auto.workload,
        power(auto.window),
        power(auto.batch),
        best.contestant,
        f"{best.tuples_per_s / 1e6:.3g}",
        _layouts(auto),
        f"{auto.tuples_per_s / 1e6:.3g}",
        ratio if choice.same else f"**{ratio}**",
        f"{auto.estimate_ns:.0f}",
        f"{auto.measured_ns:.0f}",
    ]


def _layouts(result: PlannerResult) -> str:
    """The structures of both sides, once if they are the same."""
    names = dict.fromkeys(layout.partition(":")[0] for layout in result.layouts)
    return ", ".join(names)


def _row(values: Sequence[str]) -> str:
    return "| " + " | ".join(values) + " |"


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/planner.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the tables into.")] = Path(
        "docs/planner-benchmarks.md"
    ),
) -> None:
    """Write the tables of a result file into a page, between their marks."""
    if not page.exists():
        raise DataError(f"no page {page}.")
    page.write_text(filled(page.read_text("utf-8"), read(file)), "utf-8")
    typer.echo(f"wrote the tables of {file} into {page}")


if __name__ == "__main__":
    typer.run(main)

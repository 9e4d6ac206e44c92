"""The table of the conditions: seconds, and the rate beside that of the plain condition.

python -m thetabench.conditions.report benchmarks/results/conditions.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetabench.conditions.contests import CONTESTS
from thetabench.conditions.course import ConditionLine, read
from thetabench.line import BUSY
from thetabench.records import machine_of
from thetabench.tables import insert, row

BEGIN, END = "<!-- conditions:begin -->", "<!-- conditions:end -->"


def table(lines: Sequence[ConditionLine]) -> list[str]:
    """Markdown: one row per contest. A ratio below 1 means that the other one is faster."""
    rows = [
        row(["condition", "pairs", "seconds", "compared with", "seconds", "rate"]),
        row(["---", "--:", "--:", "---", "--:", "--:"]),
    ]
    for name in dict.fromkeys(line.contest for line in lines):
        first, *others = [line for line in lines if line.contest == name]
        best = min(others, key=lambda line: line.seconds)
        about = [CONTESTS[name].about, f"{first.pairs:,}", f"{first.seconds:.3f}"]
        ratio = f"**{best.seconds / first.seconds:.2f} ×**"
        rows.append(row([*about, f"`{best.contestant}`", f"{best.seconds:.3f}", ratio]))
        for other in others:
            if other is not best:
                ratio = f"{other.seconds / first.seconds:.2f} ×"
                rows.append(
                    row(["", "", "", f"`{other.contestant}`", f"{other.seconds:.3f}", ratio])
                )
    return rows


def markdown(file: Path) -> str:
    """The table of a result file, and the machine."""
    lines = read(file)
    turns = min((line.turns for line in lines), default=0)
    where = f"Processor seconds of one thread; median of {turns} turns. {machine_of(file)}"
    if min(line.cpu_share for line in lines) < BUSY:
        where += " The machine was busy with other work."
    return "\n".join([*table(lines), "", where])


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/conditions.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the table into.")] = Path(
        "docs/condition-benchmarks.md"
    ),
) -> None:
    """Write the table of a result file into a page, between its marks."""
    page.write_text(insert(page.read_text("utf-8"), markdown(file), BEGIN, END), "utf-8")
    typer.echo(f"wrote the table of {file} into {page}")


if __name__ == "__main__":
    typer.run(main)

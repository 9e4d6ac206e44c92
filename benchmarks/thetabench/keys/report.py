"""The table of keys: what was measured, beside the first contestant of each trial.

python -m thetabench.keys.report benchmarks/results/keys.csv --page docs/relation-benchmarks.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetabench.keys.course import RESULTS, KeyLine, read
from thetabench.keys.trials import EXPERIMENTS
from thetabench.records import machine_of
from thetabench.tables import insert, row
from thetastream.errors import DataError

BEGIN, END = "<!-- keys:begin -->", "<!-- keys:end -->"


def table(lines: Sequence[KeyLine]) -> list[str]:
    """Markdown: a row per contestant; the first of a trial is what others are compared with."""
    rows = [
        row(["what", "rows", "key", "measured", "ratio", "must", ""]),
        "| --- | --: | --- | --: | --: | --: | --- |",
    ]
    before = ""
    for line in lines:
        trial = EXPERIMENTS[line.experiment]
        first, before = line.experiment != before, line.experiment
        limit = f"{'at least' if trial.more else 'at most'} {trial.must:g}"
        ratio = ["", "", ""] if first else [f"{line.ratio:.2f} ×", limit, _verdict(line)]
        sizes = f"{line.rows:,}"
        if line.operations < line.rows and trial.unit == "s":
            sizes = f"{line.operations:,} of {sizes}"
        about = [trial.about, sizes] if first else ["", ""]
        rows.append(row([*about, line.contestant, _value(line), *ratio]))
    return rows


def _verdict(line: KeyLine) -> str:
    return "reached" if line.reached else "**missed**"


def _value(line: KeyLine) -> str:
    unit = EXPERIMENTS[line.experiment].unit
    if unit == "blocks":
        return f"{line.blocks / line.operations:.2f} blocks"
    if unit == "s":
        return f"{line.seconds:.3f} s"
    return f"{line.operations / line.seconds / 1e6:.2f} M rows/s"


def markdown(file: Path) -> str:
    """The table of a result file, how it was made, and the machine."""
    lines = read(file)
    sizes = ", ".join(f"{scale:g}" for scale in sorted({line.scale for line in lines}))
    load, rounds = max(line.load for line in lines), min(line.repeat for line in lines)
    note = (
        f"Scale {sizes} (1 is the full size), medians of {rounds} rounds. "
        f"Up to {load:.0f} processes wanted to run when a trial began: "
        "where that is more than one per processor, look at ratios only, and run it again on an "
        "idle machine. Blocks are counted, whatever else runs. Answers verified."
    )
    return "\n\n".join(["\n".join(table(lines)), note, machine_of(file)])


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        f"benchmarks/results/{RESULTS}"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the table into.")] = Path(
        "docs/relation-benchmarks.md"
    ),
) -> None:
    """Write the table of a result file into a page, between its marks."""
    if not page.exists():
        raise DataError(f"no page {page}.")
    page.write_text(insert(page.read_text("utf-8"), markdown(file), BEGIN, END), "utf-8")
    typer.echo(f"wrote the table of {file} into {page}")


if __name__ == "__main__":
    typer.run(main)

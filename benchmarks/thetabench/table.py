"""The tables of a result file, in Markdown: ``python -m thetabench.table``.

The whole goes into the page of the laboratory, a few lines of it into the README. They are written
between two marks of a page, so that the page never holds a number that somebody typed. Losses are
shown like wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetabench.peers import HOME
from thetabench.result import Result, best_peer, cells, read
from thetabench.tables import insert
from thetastream.errors import DataError

SHORT = {
    "W1": "one band",
    "W2": "two inequalities",
    "W3": "two bands, self-join",
}
SHOWN = [
    ("W1", 1 << 16, 1 << 13), ("W1", 1 << 20, 1 << 10), ("W1", 1 << 20, 1 << 15),
    ("W2", 50_000, 1 << 15), ("W2", 500_000, 1 << 10), ("W2", 500_000, 1 << 13),
    ("W3", 100_000, 1 << 15), ("W3", 1_000_000, 1 << 13),
]  # fmt: skip
"""Cells of the README: the extremes and the middle of each workload."""


def markdown(results: Sequence[Result]) -> str:
    """Give the table: million rows per second of everyone, and the ratio to the best peer."""
    if not results:
        raise DataError("there are no results to make a table of.")
    peers = [name for name in dict.fromkeys(r.contestant for r in results) if name != HOME]
    head = ["workload", "window", "batch", HOME, "best peer", "ratio", *peers]
    lines = [_row(head), _row(["---", *["--:"] * 3, "---", *["--:"] * (len(peers) + 1)])]
    for (workload, window, batch), found in cells(results).items():
        by_name = {result.contestant: result for result in found}
        best = best_peer(found, HOME)
        home = by_name.get(HOME)
        lines.append(
            _row(
                [
                    workload,
                    f"{window:,}",
                    f"{batch:,}",
                    speed_text(home),
                    best.contestant if best else "–",
                    ratio_text(home, best),
                    *(speed_text(by_name.get(name)) for name in peers),
                ]
            )
        )
    return "\n".join([*lines, "", _footnote(results)])


def summary(results: Sequence[Result]) -> str:
    """Give the README's table: thetastream and its best peer in some cells."""
    known = cells(results)
    head = ["join", "window", "batch", HOME, "best peer", "", "ratio"]
    lines = [_row(head), _row(["---", "--:", "--:", "--:", "---", "--:", "--:"])]
    for cell in SHOWN:
        found = known[cell]
        home = next(result for result in found if result.contestant == HOME)
        best = best_peer(found, HOME)
        name = "–" if best is None else f"`{best.contestant}`"
        sizes = [f"{size:,}" for size in cell[1:]]
        row = [SHORT[cell[0]], *sizes, speed_text(home), name, speed_text(best)]
        lines.append(_row([*row, ratio_text(home, best)]))
    first = known[SHOWN[0]][0]
    lines += [
        "",
        f"Million rows per second, Arrow in, Arrow out, one thread; {first.cpu}, {first.date}.",
    ]
    return "\n".join(lines)


def speed_text(result: Result | None) -> str:
    """Give million rows per second, or a dash when there is no number."""
    if result is None or not result.ran:
        return "–"
    speed = result.tuples_per_s / 1e6
    return f"{speed:.1f}" if speed >= 9.95 else f"{speed:.2g}" if speed < 0.1 else f"{speed:.2f}"


def ratio_text(home: Result | None, best: Result | None) -> str:
    """Give the ratio to the best peer; a loss is said in words."""
    if home is None or best is None or not home.ran:
        return "–"
    ratio = home.tuples_per_s / best.tuples_per_s
    if ratio < 1:
        return f"{ratio:.2f} × (slower)"
    return f"**{ratio:.1f} ×**"


def _row(values: Sequence[str]) -> str:
    return "| " + " | ".join(values) + " |"


def _footnote(results: Sequence[Result]) -> str:
    first = results[0]
    packages = sorted(
        {item for r in results if r.versions for item in r.versions.split("; ")}, key=str.lower
    )
    notes = [
        "Million rows per second, Arrow in, Arrow out, one thread. Every number belongs to an "
        "answer that was compared with a reference, push by push; – means that it was not run.",
        f"Machine: {first.cpu}, {first.cores} cores, {first.memory_bytes / 2**30:.0f} GiB, "
        f"{first.system}, Python {first.python}; {', '.join(packages)}; {_dates(results)}.",
    ]
    reasons = dict.fromkeys(
        f"{r.contestant} {r.workload} {r.window:,}/{r.batch:,}: {r.reason}"
        for r in results
        if not r.ran and r.reason != "no form for this predicate"
    )
    if reasons:
        notes.append(f"Not run: {'; '.join(reasons)}.")
    return "\n\n".join(notes)


def _dates(results: Sequence[Result]) -> str:
    """When and on which processor; cells of other days than most are named."""
    days: dict[str, list[str]] = {}
    for (workload, window, _), found in cells(results).items():
        day = f"{found[0].date} ({found[0].cpu})"
        days.setdefault(day, []).append(f"{workload} with a window of {window:,}")
    last = max(days, key=lambda day: len(days[day]))
    others = [f"{', '.join(dict.fromkeys(days[day]))} on {day}" for day in days if day != last]
    return "; ".join([last, *others])


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/foundation.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page of the whole table.")] = Path(
        "docs/benchmarks.md"
    ),
    readme: Annotated[Path, typer.Option(help="The page of the short one.")] = Path("README.md"),
) -> None:
    """Write the tables of a result file into pages, between their marks."""
    results = read(file)
    for target, table in ((page, markdown), (readme, summary)):
        if not target.exists():
            raise DataError(f"no page {target}.")
        target.write_text(insert(target.read_text("utf-8"), table(results)), "utf-8")
        typer.echo(f"wrote the table of {file} into {target}")


if __name__ == "__main__":
    typer.run(main)

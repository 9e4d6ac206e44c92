"""The tables and the plot of finite joins: seconds, memory, and the ratio to the best peer.

python -m thetabench.finite.report benchmarks/results/finite.csv --page docs/finite-benchmarks.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetabench.finite.course import OURS, FiniteLine, machine_of, read
from thetabench.finite.workloads import WORKLOADS
from thetabench.tables import insert
from thetastream.errors import DataError

BEGIN, END = "<!-- finite:begin -->", "<!-- finite:end -->"


def cells(lines: Sequence[FiniteLine]) -> list[tuple[str, int]]:
    """Workloads and thread counts, in the order of the lines."""
    return list(dict.fromkeys((line.workload, line.threads) for line in lines))


def best_peer(lines: Sequence[FiniteLine], workload: str, threads: int) -> FiniteLine | None:
    """The fastest peer of a cell."""
    found = [line for line in _of(lines, workload, threads) if line.contestant != OURS]
    return min(found, key=lambda line: line.seconds, default=None)


def ours(lines: Sequence[FiniteLine], workload: str, threads: int) -> FiniteLine | None:
    """Our line of a cell."""
    found = [line for line in _of(lines, workload, threads) if line.contestant == OURS]
    return found[0] if found else None


def _of(lines: Sequence[FiniteLine], workload: str, threads: int) -> list[FiniteLine]:
    where = (workload, threads)
    return [x for x in lines if (x.workload, x.threads) == where and x.status == "ok"]


def table(lines: Sequence[FiniteLine]) -> list[str]:
    """Markdown: one row per cell. A ratio below 1 means that the peer is faster."""
    rows = [
        "| join | threads | pairs | thetastream | memory | best peer |  | memory | ratio |",
        "| --- | --: | --: | --: | --: | --- | --: | --: | --: |",
    ]
    for workload, threads in cells(lines):
        mine, peer = ours(lines, workload, threads), best_peer(lines, workload, threads)
        if mine is None:
            continue
        about = WORKLOADS[workload].label(mine.scale)
        row = f"| {about} | {threads} | {mine.pairs:,} "
        row += f"| {mine.seconds:.2f} s | {mine.peak_mb:,.0f} MB"
        if peer is None:
            rows.append(f"{row} | none |  |  |  |")
            continue
        rows.append(
            f"{row} | `{peer.contestant}` | {peer.seconds:.2f} s | {peer.peak_mb:,.0f} MB "
            f"| **{peer.seconds / max(mine.seconds, 1e-9):.1f} ×** |"
        )
    return rows


def details(lines: Sequence[FiniteLine]) -> list[str]:
    """Markdown: seconds of every contestant, and why one was left out."""
    names = list(dict.fromkeys(line.contestant for line in lines))
    rows = [
        "| join | threads | " + " | ".join(f"`{name}`" for name in names) + " |",
        "| --- | --: | " + " | ".join("--:" for _ in names) + " |",
    ]
    for workload, threads in cells(lines):
        known = {x.contestant: x for x in lines if (x.workload, x.threads) == (workload, threads)}
        shown = [_seconds(known.get(name)) for name in names]
        rows.append(f"| {workload} | {threads} | " + " | ".join(shown) + " |")
    return rows


def _seconds(line: FiniteLine | None) -> str:
    if line is None:
        return ""
    return f"{line.seconds:.2f}" if line.status == "ok" else line.status


def plot(lines: Sequence[FiniteLine], path: Path) -> None:
    """Bars of seconds, one group per workload and thread count."""
    from matplotlib import pyplot

    where = cells(lines)
    names = [n for n in dict.fromkeys(x.contestant for x in lines) if _ran(lines, n)]
    figure, axes = pyplot.subplots(figsize=(11, 4.5))
    width = 0.8 / max(1, len(names))
    for at, name in enumerate(names):
        known = {(x.workload, x.threads): x.seconds for x in lines if _shows(x, name)}
        places = [i + at * width for i, cell in enumerate(where) if cell in known]
        axes.bar(places, [known[cell] for cell in where if cell in known], width, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("seconds")
    labels = [f"{workload}\n{threads} threads" for workload, threads in where]
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(where))], labels)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _shows(line: FiniteLine, name: str) -> bool:
    return line.contestant == name and line.status == "ok"


def _ran(lines: Sequence[FiniteLine], name: str) -> bool:
    return any(_shows(line, name) for line in lines)


def markdown(file: Path) -> str:
    """Both tables of a result file, why contestants were skipped, and the machine."""
    lines = read(file)
    skipped = {x.contestant: x.reason for x in lines if x.status != "ok"}
    missing = [f"`{name}`: {reason}" for name, reason in skipped.items()]
    parts = ["\n".join(table(lines)), "Seconds of all contestants:", "\n".join(details(lines))]
    parts += [f"Not run somewhere: {'; '.join(missing)}."] if missing else []
    return "\n\n".join([*parts, machine_of(file)])


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/finite.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the tables into.")] = Path(
        "docs/finite-benchmarks.md"
    ),
) -> None:
    """Write the tables of a result file into a page, between its marks."""
    if not page.exists():
        raise DataError(f"no page {page}.")
    page.write_text(insert(page.read_text("utf-8"), markdown(file), BEGIN, END), "utf-8")
    typer.echo(f"wrote the tables of {file} into {page}")


if __name__ == "__main__":
    typer.run(main)

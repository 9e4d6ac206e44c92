"""The tables, scores and plot of finite joins: seconds, memory, and the ratio to the best peer.

python -m thetabench.finite.report      writes them into the page and the README
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetabench import records
from thetabench.finite.course import OURS, FiniteLine, machine_of, read
from thetabench.finite.workloads import WORKLOADS
from thetabench.score import Score
from thetabench.tables import insert
from thetastream.errors import DataError

BEGIN, END = "<!-- finite:begin -->", "<!-- finite:end -->"
SUMMARY = "<!-- finite:summary:begin -->", "<!-- finite:summary:end -->"
MUST, AIM = 1.5, 3.0


def cells(lines: Sequence[FiniteLine]) -> list[tuple[str, int]]:
    """Workloads and thread counts, in the order of the workloads."""
    found = {(line.workload, line.threads) for line in lines}
    return [cell for name in WORKLOADS for cell in sorted(found) if cell[0] == name]


def best_peer(lines: Sequence[FiniteLine], workload: str, threads: int) -> FiniteLine | None:
    """The fastest peer of a cell."""
    found = [line for line in _of(lines, workload, threads) if line.contestant != OURS]
    return min(found, key=lambda line: line.seconds, default=None)


def ours(lines: Sequence[FiniteLine], workload: str, threads: int) -> FiniteLine | None:
    """Our line of a cell."""
    found = [line for line in _of(lines, workload, threads) if line.contestant == OURS]
    return found[0] if found else None


def ratio(lines: Sequence[FiniteLine], workload: str, threads: int) -> float | None:
    """How many times as long the best peer takes."""
    mine, peer = ours(lines, workload, threads), best_peer(lines, workload, threads)
    return None if mine is None or peer is None else peer.seconds / max(mine.seconds, 1e-9)


def scores(lines: Sequence[FiniteLine]) -> list[Score]:
    """The ratio of every cell beside what it must reach."""
    found = []
    for workload, threads in cells(lines):
        peer = best_peer(lines, workload, threads)
        measure = f"{workload}, {threads} threads, over the best peer"
        value, name = ratio(lines, workload, threads), "" if peer is None else peer.contestant
        found.append(Score(measure, value, "×", MUST, AIM, remark=name))
    return found


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
            f"| {_times(ratio(lines, workload, threads))} |"
        )
    return rows


def _times(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f} × (slower)" if value < 1 else f"**{value:.1f} ×**"


def summary(lines: Sequence[FiniteLine]) -> list[str]:
    """Markdown: one row per workload, for the README."""
    counts = sorted({line.threads for line in lines})
    heads = [f"{n} thread{'s' * (n > 1)} | best peer | " for n in counts]
    rows = [f"| join | {'| '.join(heads)}|", "| --- " + "| --: | --- | --: " * len(counts) + "|"]
    for workload in dict.fromkeys(name for name, _ in cells(lines)):
        parts = []
        for threads in counts:
            mine, peer = ours(lines, workload, threads), best_peer(lines, workload, threads)
            shown = "–" if peer is None else f"`{peer.contestant}` {peer.seconds:.2f} s"
            parts.append("–" if mine is None else f"{mine.seconds:.2f} s")
            parts += [shown, _times(ratio(lines, workload, threads))]
        scale = next(line.scale for line in lines if line.workload == workload)
        rows.append(f"| {WORKLOADS[workload].label(scale)} | {' | '.join(parts)} |")
    return rows


def details(lines: Sequence[FiniteLine]) -> list[str]:
    """Markdown: seconds and megabytes of every contestant, or why there are none."""
    names = list(dict.fromkeys(line.contestant for line in lines))
    rows = [
        "| join | threads | " + " | ".join(f"`{name}`" for name in names) + " |",
        "| --- | --: | " + " | ".join("--:" for _ in names) + " |",
    ]
    for workload, threads in cells(lines):
        known = {x.contestant: x for x in lines if (x.workload, x.threads) == (workload, threads)}
        shown = [_cost(known.get(name)) for name in names]
        rows.append(f"| {workload} | {threads} | " + " | ".join(shown) + " |")
    return rows


def _cost(line: FiniteLine | None) -> str:
    if line is None:
        return ""
    return f"{line.seconds:.2f} / {line.peak_mb:,.0f}" if line.status == "ok" else line.status


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


def picture(file: Path, page: Path) -> str:
    """A link from a page to the plot of a result file; "" if it was not drawn."""
    plot = file.with_suffix(".png")
    place = Path(os.path.relpath(plot, page.parent)).as_posix()
    return f"![Seconds of joins of two tables, by contestant]({place})" if plot.exists() else ""


def markdown(file: Path) -> str:
    """The tables of a result file, why contestants were skipped, and the machine."""
    lines = read(file)
    skipped = {x.contestant: x.reason for x in lines if x.status != "ok"}
    missing = [f"`{name}`: {reason}" for name, reason in skipped.items()]
    parts = [
        "\n".join(table(lines)),
        "Seconds / peak memory in MB of all contestants:",
        "\n".join(details(lines)),
    ]
    parts += ["What must be reached:", "\n".join(_scored(lines))]
    parts += [f"Not run somewhere: {'; '.join(missing)}."] if missing else []
    return "\n\n".join([*parts, machine_of(file)])


def _scored(lines: Sequence[FiniteLine]) -> list[str]:
    rows = ["| ratio | measured | must | aim | | best peer |", "|---|--:|--:|--:|---|---|"]
    for one in scores(lines):
        limits = " | ".join(one.text(value) for value in (one.value, one.must, one.aim))
        rows.append(f"| {one.measure} | {limits} | {one.verdict} | {one.remark} |")
    return rows


def brief(file: Path) -> str:
    """The summary of a result file, and where it was measured."""
    first = next(iter(records.rows(file)))
    where = f"{first['cpu']}, {first['date']}"
    note = f"Two finite tables, `ts.join`: seconds, and the best of six libraries; {where}."
    return "\n".join([*summary(read(file)), "", note])


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/finite.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the tables into.")] = Path(
        "docs/finite-benchmarks.md"
    ),
    readme: Annotated[Path, typer.Option(help="The page to write the short table into.")] = Path(
        "README.md"
    ),
) -> None:
    """Write the tables of a result file into its page and the README, between their marks."""
    long = filter(None, [markdown(file), picture(file, page)])
    short = filter(None, [brief(file), picture(file, readme)])
    for place, text, marks in (
        (page, "\n\n".join(long), (BEGIN, END)),
        (readme, "\n".join(short), SUMMARY),
    ):
        if not place.exists():
            raise DataError(f"no page {place}.")
        place.write_text(insert(place.read_text("utf-8"), text, *marks), "utf-8")
        typer.echo(f"wrote the tables of {file} into {place}")


if __name__ == "__main__":
    typer.run(main)

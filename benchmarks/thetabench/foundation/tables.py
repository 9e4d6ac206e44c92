"""The tables of the foundation benchmark: all of it for its page, a few lines for the README.

Losses are shown like wins.
"""

from __future__ import annotations

from thetabench.figure import Lines
from thetabench.grid import by_cell, cell_label
from thetabench.line import Line
from thetabench.peers import HOME
from thetabench.tables import row

SHORT = {
    "W1": "one band",
    "W2": "two inequalities",
    "W3": "two bands, self-join",
}
SHOWN = [
    ("W1", 1 << 20, 1 << 10), ("W1", 1 << 20, 1 << 15),
    ("W2", 50_000, 1 << 15), ("W2", 500_000, 1 << 10),
    ("W3", 100_000, 1 << 15), ("W3", 1_000_000, 1 << 13),
]  # fmt: skip
"""Cells of the README: the extremes of each workload."""


def cell_table(lines: Lines) -> str:
    """Million rows per second of everyone, and the ratio to the best peer."""
    peers = [name for name in dict.fromkeys(line.contestant for line in lines) if name != HOME]
    rows = [
        row(["workload", "window", "batch", HOME, "best peer", "ratio", *peers]),
        row(["---", *["--:"] * 3, "---", *["--:"] * (len(peers) + 1)]),
    ]
    for (workload, window, batch), own in by_cell(lines).items():
        by_name = {line.contestant: line for line in own}
        home, best = by_name.get(HOME), best_peer(own)
        name = best.contestant if best else "–"
        ours = [f"{window:,}", f"{batch:,}", speed_text(home), name, ratio_text(home, best)]
        rows.append(row([workload, *ours, *(speed_text(by_name.get(peer)) for peer in peers)]))
    return "\n".join([*rows, "", _footnote(lines)])


def short_table(lines: Lines) -> str:
    """The README's table: thetastream and its best peer in some cells; "" if they are not there."""
    known = by_cell(lines)
    if not set(SHOWN) <= set(known):
        return ""
    rows = [
        row(["join", "window", "batch", HOME, "best peer", "", "ratio"]),
        row(["---", "--:", "--:", "--:", "---", "--:", "--:"]),
    ]
    for workload, window, batch in SHOWN:
        own = known[workload, window, batch]
        home, best = _home(own), best_peer(own)
        name = "–" if best is None else f"`{best.contestant}`"
        shown = [f"{window:,}", f"{batch:,}", speed_text(home), name, speed_text(best)]
        rows.append(row([SHORT[workload], *shown, ratio_text(home, best)]))
    first = known[SHOWN[0]][0]
    note = f"Million rows per second, Arrow in, Arrow out, one thread; {first.cpu}, {first.date}."
    return "\n".join([*rows, "", note])


def told(lines: Lines) -> str:
    """A cell in a line: thetastream against the best of the others, and all, fastest first."""
    (cell,) = by_cell(lines)
    ratio = ratio_text(_home(lines), best_peer(lines)).replace("*", "")
    ranked = sorted(lines, key=lambda line: -line.tuples_per_s)
    speeds = ", ".join(f"{line.contestant} {speed_text(line)}" for line in ranked)
    return f"{cell_label(*cell)}: {ratio} the best peer; M rows/s: {speeds}; all answers verified"


def best_peer(lines: Lines) -> Line | None:
    """The fastest of all but thetastream and its variants, or None."""
    others = [one for one in lines if one.ran and one.contestant.partition(":")[0] != HOME]
    return max(others, key=lambda line: line.tuples_per_s, default=None)


def speed_text(line: Line | None) -> str:
    """Million rows per second, or a dash when there is no number."""
    if line is None or not line.ran:
        return "–"
    speed = line.tuples_per_s / 1e6
    return f"{speed:.1f}" if speed >= 9.95 else f"{speed:.2g}" if speed < 0.1 else f"{speed:.2f}"


def ratio_text(home: Line | None, best: Line | None) -> str:
    """The ratio to the best peer; a loss is said in words."""
    if home is None or best is None or not home.ran:
        return "–"
    ratio = home.tuples_per_s / best.tuples_per_s
    return f"{ratio:.2f} × (slower)" if ratio < 1 else f"**{ratio:.1f} ×**"


def _home(lines: Lines) -> Line | None:
    return next((line for line in lines if line.contestant == HOME), None)


def _footnote(lines: Lines) -> str:
    first = lines[0]
    packages = {item for line in lines if line.ran for item in line.versions.split("; ")}
    notes = [
        "Million rows per second, Arrow in, Arrow out, one thread. Every number belongs to an "
        "answer that was compared with a reference, push by push; – means that it was not run.",
        f"Machine: {first.cpu}, {first.cores} cores, {first.memory_bytes / 2**30:.0f} GiB, "
        f"{first.system}, Python {first.python}; {', '.join(sorted(packages, key=str.lower))}; "
        f"{_dates(lines)}.",
    ]
    reasons = dict.fromkeys(
        f"{line.contestant} {line.figure} {line.window:,}/{line.place:,.0f}: {line.reason}"
        for line in lines
        if not line.ran and line.reason != "no form for this predicate"
    )
    if reasons:
        notes.append(f"Not run: {'; '.join(reasons)}.")
    return "\n\n".join(notes)


def _dates(lines: Lines) -> str:
    """When and on which processor; cells of other days than most are named."""
    days: dict[str, list[str]] = {}
    for (workload, window, _), own in by_cell(lines).items():
        day = f"{own[0].date} ({own[0].cpu})"
        days.setdefault(day, []).append(f"{workload} with a window of {window:,}")
    last = max(days, key=lambda day: len(days[day]))
    others = [f"{', '.join(dict.fromkeys(days[day]))} on {day}" for day in days if day != last]
    return "; ".join([last, *others])

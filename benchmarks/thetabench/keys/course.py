"""Runs the trials, and keeps the result file."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from thetabench.keys.trials import EXPERIMENTS
from thetabench.machine import provenance

RESULTS = "keys.csv"


@dataclass(frozen=True)
class KeyLine:
    """One line of the result file. ``ratio`` compares with the first contestant of a trial."""

    experiment: str
    contestant: str
    rows: int
    operations: int
    seconds: float
    blocks: int
    ratio: float
    must: float
    reached: bool
    scale: float
    repeat: int
    load: float
    """Processes that wanted to run when the trial began."""


def measurements(names: Sequence[str], scale: float, repeat: int) -> Iterator[KeyLine]:
    """Run trials in folders of their own; a wrong answer is an error."""
    for name in names:
        trial, load = EXPERIMENTS[name], os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="thetastream-keys-") as folder:
            found = trial.run(Path(folder), scale, repeat)
        for own in found:
            ratio = trial.ratio(own, found[0])
            yield KeyLine(
                name,
                own.contestant,
                own.rows,
                own.operations,
                round(own.seconds, 6),
                own.blocks,
                round(ratio, 4),
                trial.must,
                trial.reached(ratio),
                scale,
                repeat,
                round(load, 2),
            )


def write(path: Path, lines: Sequence[KeyLine]) -> None:
    """Write the result file, with machine and versions; lines of other trials stay."""
    fresh = {line.experiment for line in lines}
    where = provenance(["thetastream", "numpy", "numba", "pyarrow"])
    rows: list[dict[str, Any]] = [{**asdict(line), **where} for line in lines]
    rows += [row for row in _rows(path) if row["experiment"] not in fresh]
    rows.sort(key=lambda row: list(EXPERIMENTS).index(row["experiment"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        names = [*(field.name for field in fields(KeyLine)), *where]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read(path: Path) -> list[KeyLine]:
    """Read a result file."""
    kinds: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float}
    kinds["bool"] = "True".__eq__
    return [
        KeyLine(
            **{field.name: kinds[str(field.type)](row[field.name]) for field in fields(KeyLine)}
        )
        for row in _rows(path)
    ]


def machine_of(path: Path) -> str:
    """Where the lines of a result file come from, in words."""
    first = _rows(path)[0]
    return (
        f"Machine: {first['cpu']}, {first['cores']} cores, "
        f"{int(first['memory_bytes']) / 2**30:.0f} GiB, Python {first['python']}, "
        f"{first['versions']}; {first['date']}."
    )

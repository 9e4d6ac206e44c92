"""Runs the trials, and keeps the result file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from thetabench import records
from thetabench.keys.trials import EXPERIMENTS

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
    """Write the result file; lines of other trials stay."""
    fresh = {line.experiment for line in lines}
    columns = records.with_origin(lines, ["thetastream", "numpy", "numba", "pyarrow"])
    columns += [row for row in records.rows(path) if row["experiment"] not in fresh]
    columns.sort(key=lambda row: list(EXPERIMENTS).index(row["experiment"]))
    records.write(path, KeyLine, columns)


def read(path: Path) -> list[KeyLine]:
    """Read a result file."""
    return records.read(path, KeyLine)

"""All contests: contestants take turns, their pairs are compared, lines are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from thetabench import records
from thetabench.conditions.contests import CONTESTS
from thetabench.digest import Digest, VerificationError
from thetabench.machine import hold_to_one_thread

_PACKAGES = ("thetastream", "duckdb", "numpy", "numba", "pyarrow")


@dataclass(frozen=True)
class ConditionLine:
    """One line of the result file: the median of some turns. Seconds are the processor's."""

    contest: str
    contestant: str
    seconds: float
    least_seconds: float
    most_seconds: float
    turns: int
    pairs: int
    checksum: str
    scale: float
    cpu_share: float
    """Processor seconds per second; well below 1, the machine was busy with other work."""


def measurements(
    names: Sequence[str], scale: float, turns: int, say: Callable[[str], None]
) -> Iterator[ConditionLine]:
    """Measure contests; VerificationError if contestants differ in their pairs.

    The first turn, which may compile, is not counted.
    """
    hold_to_one_thread()
    for name in names:
        runs = CONTESTS[name].make(scale)
        seconds: dict[str, list[float]] = {who: [] for who in runs}
        wall, cpu = dict.fromkeys(runs, 0.0), dict.fromkeys(runs, 0.0)
        found: dict[str, Digest] = {}
        for turn in range(turns + 1):
            for who, run in runs.items():
                say(f"{name}, turn {turn} of {turns}: {who}")
                started, working = perf_counter(), process_time()
                spent, pairs = run()
                wall[who] += perf_counter() - started
                cpu[who] += process_time() - working
                first = found.setdefault("pairs", pairs)
                if pairs != first:
                    raise VerificationError(
                        f"{who} found {pairs.matches:,} pairs in {name} with another digest than "
                        f"the {first.matches:,} of {next(iter(runs))}"
                    )
                if turn:
                    seconds[who].append(spent)
        for who, spent_all in seconds.items():
            yield ConditionLine(
                name,
                who,
                round(median(spent_all), 4),
                round(min(spent_all), 4),
                round(max(spent_all), 4),
                len(spent_all),
                found["pairs"].matches,
                str(found["pairs"].checksum),
                scale,
                round(cpu[who] / wall[who], 3),
            )


def write(path: Path, lines: Sequence[ConditionLine]) -> None:
    """Write the result file, with machine and versions."""
    records.write(path, ConditionLine, records.with_origin(lines, _PACKAGES))


def read(path: Path) -> list[ConditionLine]:
    """Read a result file."""
    return records.read(path, ConditionLine)

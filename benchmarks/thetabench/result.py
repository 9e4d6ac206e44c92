"""One line of a result file, and the file itself.

A file holds one run: every line has the machine, the versions and the date of that run. A
contestant that was not run has a line too, with the reason.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from thetastream.errors import DataError

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """What one contestant did in one cell.

    ``tuples_per_s`` is rows divided by the total time of all timed pushes: this is what ratios are
    made of. ``p50_s``, ``p99_s`` and ``max_s`` are seconds per push.
    """

    experiment: str
    workload: str
    predicate: str
    window: int
    batch: int
    contestant: str
    status: str
    """``ok``, ``not run`` (for the reason given), or ``failed`` (its process ended in an error)."""
    reason: str = ""
    tuples_per_s: float = 0.0
    tuples_per_s_low: float = 0.0
    """The slowest repetition."""
    tuples_per_s_high: float = 0.0
    """The fastest repetition."""
    repetitions: int = 0
    ns_per_tuple: float = 0.0
    ns_keys: float = 0.0
    ns_sort: float = 0.0
    ns_probe: float = 0.0
    ns_insert: float = 0.0
    ns_merge: float = 0.0
    ns_expire: float = 0.0
    ns_gather: float = 0.0
    ns_other: float = 0.0
    """What the contestant does not tell apart."""
    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0
    peak_bytes: int = 0
    """Growth of the resident memory of its process, window included, input excluded."""
    rss_bytes: int = 0
    """Highest resident memory of its process."""
    index_bytes: int = 0
    pushes: int = 0
    """Timed pushes."""
    rows: int = 0
    """Rows of the timed pushes."""
    seconds: float = 0.0
    cpu_share: float = 0.0
    """Processor seconds per second: 1 means one busy thread."""
    checked_pushes: int = 0
    """Pushes whose answer was compared with the reference, untimed ones included."""
    matches: int = 0
    """Matches of the checked pushes."""
    checksum: str = ""
    verified: bool = False
    versions: str = ""
    cpu: str = ""
    cores: int = 0
    memory_bytes: int = 0
    system: str = ""
    python: str = ""
    date: str = ""

    @property
    def ran(self) -> bool:
        """Whether there are numbers."""
        return self.status == "ok"

    @property
    def cell(self) -> tuple[str, int, int]:
        """What makes results comparable: workload, window, batch."""
        return self.workload, self.window, self.batch


def write(path: Path, results: Iterable[Result]) -> None:
    """Write a result file; an older one of the same name is replaced."""
    write_lines(path, Result, results)


def read(path: Path) -> list[Result]:
    """Read a result file."""
    return read_lines(path, Result, "thetastream bench", "a result file")


def write_lines(path: Path, kind: type[T], lines: Iterable[T]) -> None:
    """Write a file of lines, dataclasses of one kind; an older one of the same name is replaced."""
    text = io.StringIO()
    names = list(get_type_hints(kind))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow({name: _text(getattr(line, name)) for name in names})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue(), encoding="utf-8")


def read_lines(path: Path, kind: type[T], maker: str, what: str) -> list[T]:
    """Read such a file; ``maker`` is the command that writes it, ``what`` a file of its kind."""
    if not path.exists():
        raise DataError(f"no result file {path}. Run `{maker}` first.")
    types = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = set(types) - set(reader.fieldnames or ())
        if missing:
            raise DataError(f"{path} is not {what}; columns {sorted(missing)} are missing.")
        return [kind(**{n: _value(types[n], row[n]) for n in types}) for row in reader]


def cells(results: Sequence[Result]) -> dict[tuple[str, int, int], list[Result]]:
    """Group results by cell, in the order of the file."""
    grouped: dict[tuple[str, int, int], list[Result]] = {}
    for result in results:
        grouped.setdefault(result.cell, []).append(result)
    return grouped


def best_peer(results: Sequence[Result], home: str) -> Result | None:
    """Give the fastest result of anyone but ``home`` and its variants, or None."""
    others = [r for r in results if r.ran and r.contestant.partition(":")[0] != home]
    return max(others, key=lambda result: result.tuples_per_s, default=None)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _value(kind: Any, text: str) -> Any:
    return text == "yes" if kind is bool else kind(text)

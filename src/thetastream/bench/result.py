"""One line of a result file, and the file itself.

A file holds one run: every line has the machine, the versions and the date of that run. A
contestant that was not run has a line too, with the reason.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from thetastream.errors import DataError

__all__ = ["Result", "best_peer", "cells", "read", "write"]


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


_TYPES = get_type_hints(Result)


def write(path: Path, results: Iterable[Result]) -> None:
    """Write a result file; an older one of the same name is replaced."""
    text = io.StringIO()
    names = [field.name for field in fields(Result)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for result in results:
        writer.writerow({name: _text(getattr(result, name)) for name in names})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue(), encoding="utf-8")


def read(path: Path) -> list[Result]:
    """Read a result file."""
    if not path.exists():
        raise DataError(f"no result file {path}. Run `thetastream bench` first.")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = {field.name for field in fields(Result)} - set(reader.fieldnames or ())
        if missing:
            raise DataError(f"{path} is not a result file; columns {sorted(missing)} are missing.")
        return [Result(**{name: _value(name, row[name]) for name in _TYPES}) for row in reader]


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


def _value(name: str, text: str) -> Any:
    kind = _TYPES[name]
    if kind is bool:
        return text == "yes"
    return kind(text)

"""Result files of benchmarks that reproduce no paper: a dataclass per line, in a CSV file.

Beside its fields, a line has the machine and the versions of the run that wrote it, so a file may
hold lines of several runs. Papers have :class:`~thetabench.line.Line` instead.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from thetabench.machine import provenance
from thetastream.errors import DataError

L = TypeVar("L")
_READERS: dict[type, Callable[[str], Any]] = {bool: "True".__eq__}  # others read themselves


def rows(path: Path) -> list[dict[str, str]]:
    """The lines of a file as text, by column; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def with_origin(lines: Iterable[Any], packages: Sequence[str]) -> list[dict[str, Any]]:
    """Lines as columns, with this machine and the versions of some packages."""
    where = provenance(packages)
    return [{**asdict(line), **where} for line in lines]


def write(path: Path, kind: type, columns: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of lines of a kind, with their origin; replaces an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        names = [*(field.name for field in fields(kind)), *provenance(())]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(columns)


def read(path: Path, kind: type[L]) -> list[L]:
    """The lines of a file."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return [
        kind(**{name: _READERS.get(hints[name], hints[name])(row[name]) for name in names})
        for row in rows(path)
    ]


def machine_of(path: Path, *others: str) -> str:
    """Where the first line of a file was measured, in words; with other versions."""
    first = next(iter(rows(path)), None)
    if first is None:
        raise DataError(f"there are no results in {path}; run the benchmark first")
    versions = "; ".join([first["versions"], *others])
    return (
        f"Machine: {first['cpu']}, {first['cores']} cores, "
        f"{int(first['memory_bytes']) / 2**30:.0f} GiB, Python {first['python']}, "
        f"{versions}; {first['date']}."
    )

"""Lines of the Spark benchmark's file, and the file itself."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from thetastream.errors import DataError

T = TypeVar("T")


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


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _value(kind: Any, text: str) -> Any:
    return text == "yes" if kind is bool else kind(text)

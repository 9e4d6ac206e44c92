"""One line of a result file, the same for every paper, and the file itself.

A line has a dozen columns that mean the same in every file, the origin of its numbers, and a
mapping for the rest, which differs from paper to paper. All of them are read as attributes::

    line.tuples_per_s, line.cpu, line.window

A contestant that was not run has a line too, with the reason. A file may hold figures of several
runs: those that are measured again replace their own lines and leave the others.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from thetastream.errors import DataError

BUSY = 0.9
"""Processor seconds per second below which one thread had to wait."""
_KINDS: dict[str, type] = {"text": str, "int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class Origin:
    """Where the numbers of a line come from."""

    versions: str = ""
    cpu: str = ""
    cores: int = 0
    memory_bytes: int = 0
    system: str = ""
    python: str = ""
    date: str = ""


@dataclass(frozen=True)
class Line:
    """What one contestant did in one cell."""

    figure: str
    contestant: str
    axis: str = ""
    place: float = 0.0
    """Its place on the axis."""
    status: str = "ok"
    """``ok``, ``not run`` (for the reason given), or ``failed``. A wrong answer ends the run."""
    reason: str = ""
    tuples: int = 0
    """Timed tuples."""
    seconds: float = 0.0
    tuples_per_s: float = 0.0
    cpu_share: float = 0.0
    """Processor seconds per second: 1 means one busy thread."""
    verified: bool = False
    scale: float = 1.0
    origin: Origin = field(default_factory=Origin)
    more: Mapping[str, Any] = field(default_factory=dict)
    """The columns of the paper; see :class:`Columns`."""

    def __getattr__(self, name: str) -> Any:
        """A column of the paper or of the origin."""
        more, origin = self.__dict__.get("more", {}), self.__dict__.get("origin")
        if name in more:
            return more[name]
        if name in _ORIGIN and origin is not None:
            return getattr(origin, name)
        raise AttributeError(f"no column {name!r} in a line of figure {self.figure}")

    @property
    def ran(self) -> bool:
        """Whether there are numbers."""
        return self.status == "ok"

    @property
    def busy(self) -> bool:
        """Whether the machine had other work while a single thread was timed."""
        alone = not self.more.get("threads")
        return alone and self.seconds > 0 and 0 < self.cpu_share < BUSY

    def but(self, **columns: Any) -> Line:
        """The same line with other values in some columns, shared or not.

        >>> line = Line("9c", "im-tree", more={"window": 8})
        >>> line.but(place=2.0, window=16).window
        16
        """
        shared = {name: columns.pop(name) for name in tuple(columns) if name in _SHARED}
        return replace(self, **shared, more={**self.more, **columns})


_ORIGIN: dict[str, type] = get_type_hints(Origin)
_SHARED: dict[str, type] = {
    own.name: get_type_hints(Line)[own.name]
    for own in fields(Line)
    if own.name not in ("origin", "more")
}


class Columns:
    """The columns of a paper's result file that are not shared: a name, a kind, a meaning each.

    They are declared as text, one per row. ``renamed`` maps a shared column to the name that it has
    in the file.

    >>> columns = Columns("window  int  rows of the window", renamed={"figure": "workload"})
    >>> columns.line(figure="W1", contestant="numpy", window=8).window
    8
    """

    def __init__(self, text: str, renamed: Mapping[str, str] | None = None) -> None:
        rows = [row.split(maxsplit=2) for row in text.strip().splitlines()]
        self.kinds: dict[str, type] = {row[0]: _KINDS[row[1]] for row in rows}
        self._renamed = dict(renamed or {})

    def called(self, name: str) -> str:
        """What a column is called in the file."""
        return self._renamed.get(name, name)

    def line(self, **values: Any) -> Line:
        """A line with these values; declared columns without a value are 0, "" or False."""
        shared = {name: values.pop(name) for name in tuple(values) if name in _SHARED}
        origin = Origin(**{name: values.pop(name) for name in tuple(values) if name in _ORIGIN})
        unknown = [name for name in values if name not in self.kinds]
        assert not unknown, f"columns {unknown} are not declared"
        empty = {name: kind() for name, kind in self.kinds.items()}
        return Line(**shared, origin=origin, more={**empty, **values})

    def write(self, path: Path, lines: Iterable[Line]) -> None:
        """Write a file: shared columns, those of the paper, the origin; replaces an older one."""
        names = [*_SHARED, *self.kinds, *_ORIGIN]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(self.called, names))
        writer.writerows([_text(getattr(line, name)) for name in names] for line in lines)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.getvalue(), encoding="utf-8")

    def read(self, path: Path, maker: str, what: str = "a result file") -> list[Line]:
        """Read a file; columns may stand in any order, and undeclared ones are left out.

        ``maker`` is the command that writes it, ``what`` says what kind of file it is.
        """
        if not path.exists():
            raise DataError(f"no result file {path}. Run `{maker}` first.")
        kinds = {**_SHARED, **self.kinds, **_ORIGIN}
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            there = reader.fieldnames or ()
            known = {name: self.called(name) for name in kinds if self.called(name) in there}
            missing = [name for name in ("figure", "contestant", "status") if name not in known]
            if missing:
                raise DataError(f"{path} is not {what}; columns {missing} are missing.")
            return [
                self.line(**{own: _value(kinds[own], row[name]) for own, name in known.items()})
                for row in reader
            ]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _value(kind: type, text: str) -> Any:
    return text == "yes" if kind is bool else kind(text)

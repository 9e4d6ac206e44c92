"""Papers whose results are still dataclasses of their own, read and written as such."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetabench.figure import Sizes
from thetabench.line import BUSY, Columns
from thetabench.paper import Paper
from thetabench.result import read_lines, write_lines
from thetabench.score import Score


def no_course(sizes: Sizes) -> Any:
    """Such papers have runners of their own."""
    raise NotImplementedError


NO_COLUMNS = Columns("")


@dataclass(frozen=True)
class OldPaper(Paper):
    """A paper with a result class, a function for scores and a runner of its own."""

    kind: type[Any] = object
    judge: Callable[[Sequence[Any]], list[Score]] = lambda results: []
    runner: Callable[..., Iterator[list[Any]]] = no_course
    maker: Callable[[Sequence[str], Sizes], list[Any]] = lambda names, sizes: []

    def cells(self, names: Sequence[str], sizes: Sizes) -> list[Any]:
        """The cells as the paper's own function makes them."""
        return self.maker(names, sizes)

    def run(self, cells: Sequence[Any], sizes: Sizes, say: Any = lambda step: None) -> Any:
        """Let the paper's own runner run."""
        return self.runner(cells, sizes, progress=say)

    def scores(self, lines: Sequence[Any]) -> list[Score]:
        """Let the paper's own function judge."""
        return self.judge(lines)

    def write(self, path: Path, lines: Iterable[Any]) -> None:
        """Write a result file."""
        write_lines(path, self.kind, lines)

    def read(self, path: Path) -> list[Any]:
        """Read a result file."""
        what = f"of the {self.title} benchmark"
        return read_lines(path, self.kind, f"thetastream bench {self.name}", what)

    def busy(self, line: Any) -> bool:
        """Whether the machine had other work while a single thread was timed."""
        return line.seconds > 0 and 0 < getattr(line, "cpu_share", 0) < BUSY

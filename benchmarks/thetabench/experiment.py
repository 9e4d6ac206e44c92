"""Which measurements belong to a named experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thetabench.peers import PEERS, contestant_class
from thetabench.query import Query
from thetastream.datasets.workloads import WORKLOADS
from thetastream.errors import RegistryError, suggest

_SLOWEST_PUSH = 10.0


@dataclass(frozen=True)
class Cell:
    """One workload at one window and one batch size: what all contestants are compared on."""

    workload: str
    window: int
    batch: int
    rows: int
    """Rows after the window is full; per side, or in total for a self-join."""
    seed: int = 0

    @property
    def label(self) -> str:
        """Give a short name for progress lines and messages."""
        return f"{self.workload} window {self.window:,} batch {self.batch:,}"

    def skip(self, spec: str, query: Query) -> str | None:
        """Give the reason why a contestant is not run here, or None."""
        kind = contestant_class(spec)
        if not kind.supports(query):
            return "no form for this predicate"
        seconds = kind.push_seconds(query, self.batch)
        if seconds > _SLOWEST_PUSH:
            return f"one push would take about {seconds:,.0f} s"
        return None


@dataclass(frozen=True)
class Experiment:
    """A list of cells, who competes in them, and for how long."""

    name: str
    about: str
    cells: tuple[Cell, ...]
    contestants: tuple[str, ...] = tuple(PEERS)
    seconds: float = 3.0
    """Timed seconds per contestant and cell."""
    limit: float = 240.0
    """Seconds after which a contestant's process is stopped, start and prefill included."""

    def narrowed(
        self,
        *,
        workloads: Sequence[str] = (),
        windows: Sequence[int] = (),
        batches: Sequence[int] = (),
        contestants: Sequence[str] = (),
        seconds: float | None = None,
    ) -> Experiment:
        """Keep only what was asked for.

        A workload, window or batch size that the experiment does not hold makes new cells.
        """
        for spec in contestants:
            contestant_class(spec)
        for name in workloads:
            if name not in WORKLOADS:
                known = ", ".join(WORKLOADS)
                raise RegistryError(
                    f"workload must be one of {known}; got {name!r}.{suggest(name, WORKLOADS)}"
                )
        names = list(workloads) or list(dict.fromkeys(cell.workload for cell in self.cells))
        cells = []
        for name in names:
            own = [cell for cell in self.cells if cell.workload == name] or list(self.cells)
            for window in windows or dict.fromkeys(cell.window for cell in own):
                for batch in batches or dict.fromkeys(cell.batch for cell in own):
                    cells.append(_cell(name, window, batch, self.cells))
        return Experiment(
            self.name,
            self.about,
            tuple(cells),
            tuple(contestants) or self.contestants,
            self.seconds if seconds is None else seconds,
            self.limit if seconds is None else max(self.limit, 10 * seconds),
        )


def _cell(workload: str, window: int, batch: int, known: Sequence[Cell]) -> Cell:
    for cell in known:
        if (cell.workload, cell.window, cell.batch) == (workload, window, batch):
            return cell
    return Cell(workload, window, batch, _timed_rows(workload, window, batch))


def _timed_rows(workload: str, window: int, batch: int) -> int:
    """Give enough rows to turn the whole window over, and at least four million in all."""
    streams = 1 if workload == "W3" else 2
    rows = max(window, (1 << 22) // streams, 8 * batch)
    return -(-rows // batch) * batch


def _cells(workload: str, windows: Sequence[int], batches: Sequence[int]) -> tuple[Cell, ...]:
    return tuple(
        Cell(workload, window, batch, _timed_rows(workload, window, batch))
        for window in windows
        for batch in batches
    )


_BATCHES = (1 << 10, 1 << 13, 1 << 15)

EXPERIMENTS: dict[str, Experiment] = {
    found.name: found
    for found in (
        Experiment(
            "foundation",
            "W1, W2 and W3 at all window and batch sizes, all contestants (about 25 minutes)",
            (
                *_cells("W1", (1 << 16, 1 << 20, 1 << 23), _BATCHES),
                *_cells("W2", (50_000, 500_000), _BATCHES),
                *_cells("W3", (100_000, 1_000_000), _BATCHES),
            ),
        ),
        Experiment(
            "quick",
            "a smoke run: small windows, most contestants (under 20 s)",
            tuple(Cell(workload, 1 << 11, 1 << 9, 1 << 12) for workload in ("W1", "W2", "W3")),
            ("thetastream", "duckdb-bucket", "polars-where", "btrees", "numpy"),
            seconds=0.05,
        ),
    )
}
"""Every named experiment."""


def experiment(name: str) -> Experiment:
    """Give an experiment by name."""
    if name not in EXPERIMENTS:
        raise RegistryError(
            f"experiment must be one of {', '.join(EXPERIMENTS)}; got {name!r}."
            f"{suggest(name, EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]

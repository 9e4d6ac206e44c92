"""Runs cells: structures filled, contestants in turn, answers compared.

All contestants of a cell take turns, a third of their time each, so that a slow moment of the
machine hits everyone. A contestant that needs longer than that for one batch has just that one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from thetabench.figure import Sizes
from thetabench.machine import provenance
from thetabench.panjoin.figures import FIGURES
from thetabench.panjoin.joins import Joining, feed_of, truths
from thetabench.panjoin.phases import Changing, Story, lines
from thetabench.panjoin.plan import Cell, Contestant, Work
from thetabench.panjoin.result import PanResult
from thetabench.panjoin.slide import Sliding
from thetabench.panjoin.splitters import WORST, adjusted
from thetabench.panjoin.stock import Stock
from thetabench.panjoin.structures import BTREES, Maker, Unavailable, make
from thetabench.panjoin.trial import Insertion, Probing, Trial
from thetabench.trial import take_turns
from thetastream._jit.compiling import warm

__all__ = ["run"]

Progress = Callable[[str], None]

_LARGE = 1 << 18  # rows that are worth looking for after a cell
_PACKAGES = ("thetastream", "numpy", "numba")
_EXTRA = {BTREES: ("BTrees",), "bi-sort-opencl": ("pyopencl",)}
_TRIALS: dict[Work, type[Insertion] | type[Probing] | type[Sliding]] = {
    Work.INSERT: Insertion,
    Work.EQUI: Probing,
    Work.BAND: Probing,
    Work.SLIDE: Sliding,
}


def run(
    cells: Sequence[Cell],
    sizes: Sizes,
    *,
    progress: Progress = lambda step: None,
    make: Maker = make,
) -> Iterator[list[PanResult]]:
    """Yield the results of one cell after the other. ``progress`` hears of every step."""
    progress("compiling")
    warm("data", "index", "index.runs", "index.trees", "index.subwindows")
    stock = Stock(make)
    for cell in cells:
        progress(cell.label)
        yield _Race(cell, sizes, progress, stock).results()
        if max(who.rows for who in cell.contestants) >= _LARGE:
            gc.collect()


class _Race:
    """All contestants of a cell."""

    def __init__(self, cell: Cell, sizes: Sizes, progress: Progress, stock: Stock) -> None:
        self._cell = cell
        self._sizes = sizes
        self._seconds = sizes.seconds * cell.weight
        self._progress = progress
        self._stock = stock

    def results(self) -> list[PanResult]:
        """Run, verify, and only then say what was measured."""
        work = self._cell.contestants[0].work
        if work is Work.SPLITTERS:
            return [line for who in self._cell.contestants for line in self._adjusted(who)]
        if work is Work.PHASES:
            return self._phased()
        if work is Work.JOIN:
            self._stock.clear()  # joins need the room
            feed = feed_of(self._cell.contestants[0], self._sizes.seed)
            enter: Callable[[Contestant], Trial] = lambda who: Joining(  # noqa: E731
                who, self._cell.label, feed
            )
        else:
            enter = self._structure
        entered = [self._entered(who, enter) for who in self._cell.contestants]
        trials = [trial for trial in entered if isinstance(trial, Trial)]
        take_turns(
            trials,
            self._seconds,
            lambda trial, turn: self._progress(f"{trial.name}: turn {turn}"),
        )
        self._progress(f"{self._cell.label}: checking answers")
        for trial in trials:
            trial.finish()
        self._verify([trial for trial in trials if isinstance(trial, Joining)])
        return _shared(
            [
                self._line(found) if isinstance(found, Trial) else self._absent(who, str(found))
                for who, found in zip(self._cell.contestants, entered, strict=True)
            ]
        )

    def _entered(
        self, who: Contestant, enter: Callable[[Contestant], Trial]
    ) -> Trial | Unavailable:
        self._progress(f"{self._cell.label}: filling {who.label}")
        try:
            return enter(who)
        except Unavailable as error:
            return error

    def _structure(self, who: Contestant) -> Trial:
        return _TRIALS[who.work](who, self._cell.label, self._stock, self._sizes.seed)

    def _verify(self, trials: Sequence[Joining]) -> None:
        """Compare the answers of joins, all of which had the same input."""
        for output in dict.fromkeys(trial.who.output for trial in trials):
            own = [trial for trial in trials if trial.who.output == output]
            pushes = max(len(trial.digests) for trial in own)
            right = truths(own[0].feed, pushes, output, own[0].who.matches)
            for trial in own:
                trial.verify(right)

    # --- Numbers --------------------------------------------------------------------------------

    def _line(self, trial: Trial) -> PanResult:
        seconds = max(trial.seconds, 1e-9)
        return PanResult(
            **self._about(trial.who),
            status="ok",
            tuples=trial.tuples,
            batches=trial.steps,
            seconds=trial.seconds,
            tuples_per_s=trial.tuples / seconds,
            ns_per_tuple=1e9 * trial.seconds / max(trial.tuples, 1),
            cpu_share=trial.cpu / seconds,
            pairs=trial.pairs,
            checked_tuples=trial.checked,
            verified=True,
            index_bytes=trial.nbytes,
            bytes_per_row=trial.nbytes / trial.who.rows,
        )

    def _absent(self, who: Contestant, reason: str) -> PanResult:
        return PanResult(**self._about(who), status="not run", reason=reason)

    def _adjusted(self, who: Contestant) -> list[PanResult]:
        """A line per iteration; of the worst case one with the number of iterations."""
        try:
            found = adjusted(who, self._stock.make, self._sizes.seed)
        except Unavailable as error:
            return [self._absent(who, str(error))]
        lines = [
            PanResult(**{**self._about(who), "place": float(n)}, status="ok", verified=True, **line)
            for n, line in enumerate(found)
        ]
        if who.distribution == WORST:
            return [replace(lines[-1], place=float(dict(who.parameters)["partitions"]))]
        return lines

    def _phased(self) -> list[PanResult]:
        """A line per phase and contestant, and one for all phases."""
        story = Story(self._cell.contestants[0].rows, self._sizes.seed)
        label, stock = self._cell.label, self._stock
        trials = [Changing(who, label, stock, story) for who in self._cell.contestants]
        found = []
        for trial, line in lines(trials, story):
            self._progress(f"{trial.name}: {line['distribution']}")
            held = {
                "index_bytes": trial.nbytes,
                "bytes_per_row": trial.nbytes / trial.who.rows,
            }
            about = {**self._about(trial.who), **line, **held}
            found.append(PanResult(**about, status="ok", verified=True))
        return found

    def _about(self, who: Contestant) -> dict[str, Any]:
        return {
            "figure": self._cell.figure,
            "contestant": who.label,
            "axis": FIGURES[self._cell.figure].axis,
            "place": float(who.place),
            "work": who.work.value,
            "structure": who.structure,
            "parameters": who.settings,
            "rows": who.rows,
            "batch": who.batch,
            "matches": float(who.matches),
            "output": who.output,
            "distribution": who.distribution,
            "scale": self._sizes.scale,
            **provenance((*_PACKAGES, *_EXTRA.get(who.structure, ()))),
        }


def _shared(lines: list[PanResult]) -> list[PanResult]:
    """Add the share of the time that giving rows takes, where both were measured."""
    counts = {
        line.structure: line.ns_per_tuple for line in lines if line.output == "count" and line.ran
    }
    return [
        replace(line, result_share=max(0.0, 1 - counts[line.structure] / line.ns_per_tuple))
        if line.output == "rows" and line.ran and line.structure in counts
        else line
        for line in lines
    ]

"""Runs cells: structures filled, contestants in turn, answers compared."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from thetabench.contestant import Unavailable
from thetabench.feed import Feed
from thetabench.figure import Sizes
from thetabench.machine import provenance, thread_settings
from thetabench.peers import contestant_class
from thetabench.spo.figures import FIGURES
from thetabench.spo.joins import Joining, feed_of, truths
from thetabench.spo.moving import Inserting, Merging, Sliding
from thetabench.spo.plan import Cell, Contestant, Work
from thetabench.spo.result import SpoResult
from thetabench.spo.stock import Maker, Stock, make
from thetabench.spo.trial import Growing, Probing, Trial, Weighing
from thetabench.trial import take_turns
from thetastream._jit.compiling import warm

__all__ = ["run"]

Progress = Callable[[str], None]

_LARGE = 1 << 18  # rows that are worth looking for after a cell
_PACKAGES = ("thetastream", "numpy", "numba")
_TRIALS: dict[Work, Callable[[Contestant, str, Stock, float], Trial]] = {
    Work.PROBE: Probing,
    Work.GROW: Growing,
    Work.SLIDE: Sliding,
    Work.INSERT: Inserting,
    Work.MEMORY: Weighing,
    Work.MERGE: Merging,
}


def run(
    cells: Sequence[Cell],
    sizes: Sizes,
    *,
    progress: Progress = lambda step: None,
    make: Maker = make,
) -> Iterator[list[SpoResult]]:
    """Yield the results of one cell after the other. ``progress`` hears of every step.

    Peers have one thread each; Polars takes that from the environment, when it is imported.
    """
    progress("compiling")
    for name, value in thread_settings(1).items():
        os.environ.setdefault(name, value)
    pa.set_cpu_count(1)
    warm("data", "index", "index.runs", "index.trees", "index.permuted")
    stock, figure = Stock(make), ""
    for cell in cells:
        if cell.figure != figure:
            stock.tidy()
            figure = cell.figure
        progress(cell.label)
        yield _Race(cell, sizes, progress, stock).results()
        if max(who.window for who in cell.contestants) >= _LARGE:
            gc.collect()


class _Race:
    """All contestants of a cell."""

    def __init__(self, cell: Cell, sizes: Sizes, progress: Progress, stock: Stock) -> None:
        self._cell = cell
        self._sizes = sizes
        self._seconds = sizes.seconds * cell.weight
        self._progress = progress
        self._stock = stock

    def results(self) -> list[SpoResult]:
        """Run, verify, and only then say what was measured."""
        entered = [self._entered(who) for who in self._cell.contestants]
        trials = [trial for trial in entered if isinstance(trial, Trial)]
        take_turns(
            trials, self._seconds, lambda trial, turn: self._progress(f"{trial.name}: turn {turn}")
        )
        self._progress(f"{self._cell.label}: checking answers")
        for trial in trials:
            trial.finish()
        self._verify([trial for trial in trials if isinstance(trial, Joining)])
        return [
            self._line(found) if isinstance(found, Trial) else self._absent(who, str(found))
            for who, found in zip(self._cell.contestants, entered, strict=True)
        ]

    def _entered(self, who: Contestant) -> Trial | Unavailable:
        self._progress(f"{self._cell.label}: filling {who.label}")
        try:
            if who.work is not Work.JOIN:
                return _TRIALS[who.work](who, self._cell.label, self._stock, self._seconds)
            return Joining(who, self._cell.label, self._stock, self._seconds, self._feed(who))
        except Unavailable as error:
            return error

    def _feed(self, who: Contestant) -> Feed:
        return self._stock.feed((who.rows, who.batch), lambda: feed_of(who))

    def _verify(self, trials: Sequence[Joining]) -> None:
        """Compare the answers of joins; those with the same input share the reference."""
        for feed in {id(trial.feed): trial.feed for trial in trials}.values():
            own = [trial for trial in trials if trial.feed is feed]
            pushes = max(len(trial.digests) for trial in own)
            right = self._stock.pushes(feed, pushes, truths)
            for trial in own:
                trial.verify(right)

    # --- Numbers --------------------------------------------------------------------------------

    def _line(self, trial: Trial) -> SpoResult:
        seconds = max(trial.seconds, 1e-9)
        tuples = max(trial.tuples, 1)
        return SpoResult(
            **{**self._about(trial.who), "asked": trial.asked},
            status="ok",
            tuples=trial.tuples,
            batches=trial.steps,
            seconds=trial.seconds,
            tuples_per_s=trial.tuples / seconds,
            ns_per_tuple=1e9 * trial.seconds / tuples,
            cpu_share=trial.cpu / seconds,
            pairs=trial.pairs,
            pairs_per_tuple=trial.pairs / tuples,
            checked_tuples=trial.checked,
            verified=True,
            index_bytes=trial.nbytes,
            bytes_per_row=trial.nbytes / trial.who.window,
            **trial.details,
        )

    def _absent(self, who: Contestant, reason: str) -> SpoResult:
        return SpoResult(**self._about(who), status="not run", reason=reason)

    def _about(self, who: Contestant) -> dict[str, Any]:
        packages: tuple[str, ...] = _PACKAGES
        if who.work is Work.JOIN:
            packages = (*packages, *contestant_class(who.structure).packages)
        return {
            "figure": self._cell.figure,
            "contestant": who.label,
            "axis": FIGURES[self._cell.figure].axis,
            "place": float(who.place),
            "work": who.work.value,
            "structure": who.structure,
            "parameters": who.settings,
            "query": who.rows.query,
            "window": who.window,
            "slide": who.step,
            "batch": who.batch,
            "asked": who.batch,
            "rate": float(who.rows.rate),
            "output": who.output,
            "distribution": who.rows.source,
            "scale": self._sizes.scale,
            **provenance(dict.fromkeys(packages)),
        }

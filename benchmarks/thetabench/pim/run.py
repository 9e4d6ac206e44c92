"""Runs cells: windows filled, contestants in turn, answers compared.

A contestant joins some tuples untimed, which shows its speed; from that follows how many it does in
the time there is, rounded up to whole cycles of merges. These it does in slices, and all
contestants of a cell take turns, so that a slow moment of the machine hits everyone.

Every pair counts: number and checksum of all pairs, from the first tuple after the fill on, must be
those of the reference. A difference ends the run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from thetabench.machine import provenance
from thetabench.pim.contestant import Contestant, Indexed, Joiner, Unavailable, make
from thetabench.pim.figures import FIGURES
from thetabench.pim.inserts import shares, spread
from thetabench.pim.latency import latencies, overlapping
from thetabench.pim.plan import Cell, Sizes
from thetabench.pim.prediction import predicted
from thetabench.pim.reference import truths
from thetabench.pim.result import PimResult
from thetabench.pim.stream import Shape, Stream
from thetabench.pim.trial import MOST_PAIRS, Lap, Trial
from thetabench.runner import VerificationError, verify

__all__ = ["run"]

Maker = Callable[[Contestant, Shape], Joiner]
Progress = Callable[[str], None]

_TURNS = 3
_WARM = 0.1  # part of the timed seconds that shows the speed
_ENOUGH = 0.8  # part of them that must be reached; some joins gain speed with more tuples at a time
_PACKAGES = ("thetastream", "numpy", "numba")
_PEERS = {"btrees": "BTrees", "sortedcontainers": "sortedcontainers"}


def run(
    cells: Sequence[Cell],
    sizes: Sizes,
    *,
    progress: Progress = lambda step: None,
    make: Maker = make,
) -> Iterator[list[PimResult]]:
    """Yield the results of one cell after the other. ``progress`` hears of every step."""
    for cell in cells:
        progress(cell.label)
        yield _results(cell, sizes, progress, make)
        gc.collect()


def _results(cell: Cell, sizes: Sizes, progress: Progress, make: Maker) -> list[PimResult]:
    if cell.figure == "13a":
        return _spread(cell, sizes)
    results = _Race(cell, sizes, progress, make).results()
    return predicted(results, cell) if cell.figure == "cost" else results


def _spread(cell: Cell, sizes: Sizes) -> list[PimResult]:
    """Count inserts per subindex; see :mod:`inserts`."""
    stream = Stream(cell.shape)
    found = []
    for who in cell.contestants:
        counts = spread(stream, who)
        top, idle = shares(counts)
        numbers: dict[str, Any] = {
            "tuples": int(counts.sum()),
            "top_share": top,
            "idle_share": idle,
        }
        found.append(PimResult(**_about(cell, who, sizes), status="ok", **numbers))
    return found


class _Race:
    """All contestants of a cell over one stream."""

    def __init__(self, cell: Cell, sizes: Sizes, progress: Progress, make: Maker) -> None:
        self._cell = cell
        self._sizes = sizes
        self._seconds = sizes.seconds * cell.weight
        self._progress = progress
        self._make = make
        self._stream = Stream(cell.shape)

    def results(self) -> list[PimResult]:
        """Run, verify, and only then say what was measured."""
        entered = [self._entered(who) for who in self._cell.contestants]
        trials = [trial for trial in entered if isinstance(trial, Trial)]
        if self._cell.shape.legs:
            self._phases(trials)
        else:
            self._turns(trials)
        self._verify(trials)
        found = []
        for who, trial in zip(self._cell.contestants, entered, strict=True):
            if isinstance(trial, Trial):
                found += self._lines(trial)
            else:
                found.append(_absent(self._cell, who, self._sizes, str(trial)))
        return found

    def _entered(self, who: Contestant) -> Trial | Unavailable:
        self._progress(f"{self._cell.label}: filling {who.label}")
        try:
            joiner = self._make(who, self._cell.shape)
        except Unavailable as error:
            return error
        trial = Trial(who, joiner, self._stream)
        legs = self._cell.shape.legs
        trial.warm_up(self._seconds * _WARM, legs[0] / 4 if legs else float("inf"))
        return trial

    # --- Time -----------------------------------------------------------------------------------

    def _turns(self, trials: Sequence[Trial]) -> None:
        """One lap each, in slices."""
        plans = [(trial, trial.at, trial.wanted(self._seconds)) for trial in trials]
        for turn in range(_TURNS):
            self._progress(f"{self._cell.label}: turn {turn + 1} of {_TURNS}")
            for trial, start, wanted in plans:
                lap = trial.advance(start + wanted * (turn + 1) // _TURNS)
                if turn:
                    trial.laps[0].extend(lap)
                else:
                    trial.laps.append(lap)
        for trial in trials:
            lap = trial.laps[0]
            if lap.seconds < _ENOUGH * self._seconds and lap.answer.matches < MOST_PAIRS:
                lap.extend(trial.advance(trial.at + trial.wanted(self._seconds - lap.seconds)))

    def _phases(self, trials: Sequence[Trial]) -> None:
        """A lap per phase of a drifting stream, less what was joined to warm up."""
        for number, end in enumerate(self._cell.shape.legs, 1):
            self._progress(f"{self._cell.label}: phase {number}")
            for trial in trials:
                trial.laps.append(trial.advance(end))

    # --- Answers --------------------------------------------------------------------------------

    def _verify(self, trials: Sequence[Trial]) -> None:
        """Compare every answer with the reference; wrong ones have no result."""
        if not trials:
            return
        self._progress(f"{self._cell.label}: checking answers")
        right = truths(self._stream, {trial.at for trial in trials})
        for trial in trials:
            who = f"{trial.who.label} ({self._cell.label})"
            verify(who, [trial.answer], [right[trial.at]])

    # --- Numbers --------------------------------------------------------------------------------

    def _lines(self, trial: Trial) -> list[PimResult]:
        facts = {
            "fill_s": trial.fill_seconds,
            "checked_tuples": trial.at,
            "checksum": f"{trial.answer.checksum:016x}",
            "verified": True,
            **self._index(trial),
            **self._steps(trial),
            **self._tasks(trial),
        }
        about = _about(self._cell, trial.who, self._sizes)
        lines = [PimResult(**about, status="ok", **_times(lap), **facts) for lap in trial.laps]
        if self._cell.shape.legs:
            lines = [replace(line, place=number) for number, line in enumerate(lines, 1)]
        return lines

    def _index(self, trial: Trial) -> dict[str, Any]:
        if not isinstance(trial.joiner, Indexed):
            return {}
        size = trial.joiner.join.index_bytes
        return {"index_bytes": size, "bytes_per_row": size / self._cell.shape.rows}

    def _steps(self, trial: Trial) -> dict[str, Any]:
        """Costs by step; then the same again with empty boxes, to tell searching from scanning."""
        if not trial.who.steps:
            return {}
        lap = trial.laps[0]
        merges = trial.who.merges(self._stream, lap.start, lap.stop)
        found = {f"ns_{step}": spent / lap.tuples for step, spent in lap.steps.items()}
        bare = trial.advance(trial.at + lap.tuples // _TURNS, empty=True)
        if bare.answer.matches:
            raise VerificationError(
                f"{trial.who.label} ({self._cell.label}) found {bare.answer.matches} pairs in "
                "boxes that hold no key."
            )
        down = min(bare.steps["search"] / bare.tuples, found["ns_search"])
        return {
            **found,
            "ns_descend": down,
            "ns_scan": found["ns_search"] - down,
            "merges": merges,
            "merge_ms": lap.steps["merge"] / 1e6 / merges if merges else 0.0,
        }

    def _tasks(self, trial: Trial) -> dict[str, Any]:
        """Latencies: of all tasks, or of those during a merge where that is the question."""
        if not isinstance(trial.joiner, Indexed) or trial.joiner.join.crew is None:
            return {}
        crew = trial.joiner.join.crew
        starts, ends = crew.tasks["start"], crew.tasks["end"]
        found: dict[str, Any] = {"merges": len(crew.merges)}
        if self._cell.figure == "merge":
            during = overlapping(starts, ends, crew.merges)
            starts, ends = starts[during], ends[during]
        return {**found, **latencies(starts, ends)}


def _times(lap: Lap) -> dict[str, Any]:
    return {
        "tuples": lap.tuples,
        "seconds": lap.seconds,
        "tuples_per_s": lap.speed,
        "ns_per_tuple": lap.seconds * 1e9 / lap.tuples,
        "cpu_share": lap.cpu / lap.seconds,
        "pairs": lap.answer.matches,
    }


def _absent(cell: Cell, who: Contestant, sizes: Sizes, reason: str) -> PimResult:
    return PimResult(**_about(cell, who, sizes), status="not run", reason=reason)


def _about(cell: Cell, who: Contestant, sizes: Sizes) -> dict[str, Any]:
    shape = cell.shape
    packages = [*_PACKAGES, *filter(None, [_PEERS.get(who.structure)])]
    return {
        "figure": cell.figure,
        "contestant": who.label,
        "axis": FIGURES[cell.figure].axis,
        "place": who.place,
        "structure": who.structure,
        "window": shape.window,
        "window_right": shape.windows[1],
        "self_join": shape.self_join,
        "threads": who.threads,
        "task_size": who.task_size,
        "merge": who.merge,
        "parameters": who.settings,
        "distribution": "gaussian" if shape.drift is not None else shape.distribution,
        "match_rate": shape.match_rate,
        "share": shape.share,
        "scale": sizes.scale,
        **provenance(packages),
    }

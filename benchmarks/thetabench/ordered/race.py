"""Contestants of a cell that take turns, and the columns of their lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thetabench.contestant import Unavailable
from thetabench.ordered.plan import Cell, Contestant, Measured
from thetabench.trial import Clocked, take_turns

__all__ = ["Columns", "Say", "Trial", "raced"]

Columns = dict[str, Any]
Say = Callable[[str], None]


class Trial(Clocked):
    """What one contestant does in a cell: ``tuples`` operations that meet ``pairs`` rows."""

    def __init__(self, who: Contestant, cell: Cell) -> None:
        super().__init__(f"{who.label} ({cell.label})")
        self.who = who

    @property
    def columns(self) -> Columns:
        """Columns of its line."""
        return {
            "operations": self.tuples,
            "seconds": self.seconds,
            "cpu_share": self.cpu / max(self.seconds, 1e-9),
            "matches": self.pairs,
            "checked": self.checked,
        }


def raced(
    cell: Cell, enter: Callable[[Contestant], Trial], seconds: float, say: Say
) -> list[Measured]:
    """Let all contestants enter, then take turns; who cannot run says why."""
    entered: list[Trial | Unavailable] = []
    for who in cell.contestants:
        say(f"{cell.label}: filling {who.label}")
        try:
            entered.append(enter(who))
        except Unavailable as error:
            entered.append(error)
    trials = [trial for trial in entered if isinstance(trial, Trial)]
    take_turns(trials, seconds, lambda trial, turn: say(f"{trial.name}: turn {turn}"))
    for trial in trials:
        trial.finish()
    return [
        Measured(figure, who, found.columns)
        if isinstance(found, Trial)
        else Measured(figure, who, {}, str(found))
        for figure in cell.figures
        for who, found in zip(cell.contestants, entered, strict=True)
    ]

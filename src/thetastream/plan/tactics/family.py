"""What every tactic is: a named family of layouts that knows its structures and their costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from thetastream.index.base import Index
from thetastream.index.registry import parameters
from thetastream.plan.estimate import Estimate, Traffic, estimate
from thetastream.plan.layout import Layout
from thetastream.plan.selectivity import Selectivity


@dataclass(frozen=True, slots=True)
class Options:
    """What a tactic is told besides the terms.

    ``structures`` may serve, with these ``parameters``; ``named`` says that the user chose the
    structure. ``slide`` rows leave the window at a time, 0 if they leave one by one. The other side
    of the join compares ``opposite`` fields. ``pairless``: only counts, ranges or aggregates are
    wanted, and one key column decides them. ``traffic`` is what passes through, if known.
    """

    structures: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    named: bool = False
    slide: int = 0
    opposite: int = 0
    pairless: bool = False
    traffic: Traffic | None = None

    def of(self, structure: str) -> Mapping[str, Any]:
        """Parameters for a structure: those that were given, and the slide if it has one."""
        if self.slide and "slide" in parameters(structure):
            return {"slide": self.slide, **self.parameters}
        return self.parameters


class Family(ABC):
    """A tactic. See ``tactics/__init__`` for the list of them."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[str] = ""
    """Why a condition cannot be served, when ``layouts`` returns none."""
    takes_structure: ClassVar[bool] = False
    """Whether a structure can be named, as in ``ordered/b+tree``."""
    keeps_order: ClassVar[bool] = False
    """Whether rows lie in the order of one key, so that structures can answer with ranges."""
    wins_ties: ClassVar[bool] = False
    """Whether ``auto`` prefers it to others of equal cost."""

    @abstractmethod
    def structures(self) -> Sequence[str]:
        """The structures that serve when none is named, the preferred one first."""

    @abstractmethod
    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        """The layouts for these fields; none if they cannot be served."""

    def suits(self, structure: type[Index]) -> bool:
        """Whether a structure that is named without a tactic means this one."""
        return False

    def competes(self, known: Selectivity) -> bool:
        """Whether ``auto`` considers it for these fields."""
        return True

    def estimate(
        self, layout: Layout, known: Selectivity, traffic: Traffic, lost: float = 0.0
    ) -> Estimate:
        """What a layout costs per fresh row.

        A share ``lost`` of the rows cannot be told apart by the layout.
        """
        return estimate(layout, known, traffic, lost)

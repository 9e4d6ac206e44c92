"""The interface of tactics: named families of layouts, with their structures and costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from thetastream.index.base import Index
from thetastream.index.registry import parameters
from thetastream.plan.estimate import Estimate, Traffic, estimate
from thetastream.plan.layout import Layout, Ordered
from thetastream.plan.selectivity import Selectivity


@dataclass(frozen=True, slots=True)
class Options:
    """The input of a tactic besides the terms.

    ``structures`` may be used, with these ``parameters``; ``named`` says that the user chose the
    structure. ``slide`` rows leave the window at a time, 0 if they leave one by one. The other side
    of the join compares ``opposite`` fields. ``pairless``: the output is counts, ranges or
    aggregates, and one key column decides them. ``traffic`` is the expected traffic, if known.
    """

    structures: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    named: bool = False
    slide: int = 0
    opposite: int = 0
    pairless: bool = False
    traffic: Traffic | None = None

    def of(self, structure: str) -> Mapping[str, Any]:
        """Parameters for a structure: the given ones, and the slide if it has one."""
        if self.slide and "slide" in parameters(structure):
            return {"slide": self.slide, **self.parameters}
        return self.parameters


class Family(ABC):
    """A tactic. ``tactics/__init__`` lists them."""

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
        """Whether a structure named without a tactic means this tactic."""
        return False

    def competes(self, known: Selectivity) -> bool:
        """Whether ``auto`` considers it for these fields."""
        return True

    def estimate(
        self, layout: Layout, known: Selectivity, traffic: Traffic, lost: float = 0.0
    ) -> Estimate:
        """What a layout costs per fresh row, if it cannot distinguish a share ``lost`` of rows."""
        return estimate(layout, known, traffic, lost)


class DriverFamily(Family):
    """A tactic whose layouts keep the order of one field: any field, over any structure."""

    needs: ClassVar[str] = "it has no term that can be indexed"
    takes_structure: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True
    layout: ClassVar[type[Ordered]] = Ordered

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        return [
            self.layout(known.fields, driver, index, options.of(index))
            for index in options.structures
            for driver in known.fields
        ]

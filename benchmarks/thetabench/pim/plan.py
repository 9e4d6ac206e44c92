"""A cell of the PIM-Tree experiments: one stream of tuples and the contestants that join it."""

from __future__ import annotations

from dataclasses import dataclass

from thetabench.figure import Sizes, power
from thetabench.pim.contestant import Contestant
from thetabench.pim.stream import Shape

__all__ = ["Cell", "Sizes"]


@dataclass(frozen=True)
class Cell:
    """Contestants that take turns over the same tuples."""

    figure: str
    shape: Shape
    contestants: tuple[Contestant, ...]
    weight: float = 1.0
    """Share of the timed seconds: less for points of a series, more for rare events."""

    @property
    def label(self) -> str:
        """Give a short name for progress lines and messages."""
        kind = "self-join" if self.shape.self_join else "join"
        windows = " and ".join(power(window) for window in dict.fromkeys(self.shape.windows))
        return f"{self.figure}: {kind}, window {windows}"

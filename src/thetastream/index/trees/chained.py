"""Chained index: one subindex per interval of arrival, dropped whole when it has expired.

    arrival  ────────────────────────────────────────►
             ┌ · · · · ┬─────────┬─────────┬────┐
             · expired │ archived│ archived│ active ◄─ inserts
             └ · · · · ┴─────────┴─────────┴────┘     a search visits all that are left

PIM-Tree, Section 2.2.2 (after Lin et al. and Ya-xin et al.). With chain length L an archived
subindex holds ``w / (L - 1)`` rows, so that L - 1 archived ones cover a window of ``w``. In a
**B-chain** all subindexes are B⁺-trees; in an **IB-chain** (``immutable=True``, the default) the
active one becomes an immutable B⁺-tree when it is archived.

Invariants: those of trees and runs; an archived subindex with no live row is gone. When rows expire
later than ``capacity`` suggests, the active subindex keeps growing until the oldest has expired.

Cost: no row is deleted; insert ``log(w / L)`` nodes; search ``L`` descents, and expired rows of the
oldest subindex are read and skipped. Bytes: 16 per row, over the fill of the leaves
for a B-chain; up to ``1 / (L - 1)`` more for expired rows.
"""

from __future__ import annotations

from typing import ClassVar

from thetastream.index.registry import checked
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class Chained(TreeIndex):
    """A chain of ``length`` subindexes; archived ones are immutable or B⁺-trees."""

    name: ClassVar[str] = "chained"
    summary: ClassVar[str] = "a subindex per interval of arrival, dropped whole when expired"

    @classmethod
    def recipe(
        cls,
        window: int,
        length: int = 2,
        immutable: bool = True,
        slots: int = 32,
        fanout: int = 32,
        leaf: int = 32,
        run_fanout: int = 32,
    ) -> Recipe:
        checked(
            cls.name, length=(length, 2), slots=(slots, 2), fanout=(fanout, 3), leaf=(leaf, 1),
            run_fanout=(run_fanout, 2),
        )  # fmt: skip
        rows = -(-window // (length - 1))
        return Recipe(
            layout.CHAIN, trees=1 if immutable else length, tree_rows=rows, limit=rows,
            runs=length if immutable else 0, run_rows=rows if immutable else 0,
            immutable=immutable, slots=slots, fanout=fanout, run_leaf=leaf, run_fanout=run_fanout,
        )  # fmt: skip

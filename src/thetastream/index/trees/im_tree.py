"""In-memory merge tree (IM-Tree): a small B⁺-tree for inserts beside a large immutable one.

    inserts ──► ┌─────┐   every m · w inserts    ┌──────────────────────────────┐
                │ T_I │ ───────────────────────► │ T_S: sorted run + directory  │
                └─────┘      merge, drop expired └──────────────────────────────┘
                          a search visits both

PIM-Tree, Section 3.2. Merge ratio ``m``: T_I is merged when it holds ``m · capacity`` rows. Expired
rows stay in T_S until the next merge and are skipped while reading. As ids are arrival numbers,
that is a comparison; the paper looks up a flag in the window.

The merge works in place: live rows of T_S move to the end of their array, then both are merged to
its front. So it needs no second array and no fresh memory.

Invariants: those of a B⁺-tree and of a run; T_I holds fewer than ``m · capacity`` rows.

Cost: insert ``log(m · w)`` nodes and 1 / m merge steps; search a descent each of T_S and T_I, up to
``m`` of what it reads has expired. Bytes: 16 · (1 + m) per row for T_S, 16 · m over the fill of the
leaves for T_I.
"""

from __future__ import annotations

from typing import ClassVar

from thetastream.index.registry import checked
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Recipe
from thetastream.index.trees.tree_index import TreeIndex


class ImTree(TreeIndex):
    """T_I and T_S, merged every ``merge_ratio · capacity`` inserts."""

    name: ClassVar[str] = "im-tree"
    summary: ClassVar[str] = "a B⁺-tree for inserts, merged now and then into an immutable one"
    tunable: ClassVar[tuple[str, ...]] = ("merge_ratio",)

    @classmethod
    def recipe(
        cls,
        window: int,
        merge_ratio: float = 1 / 16,
        slots: int = 32,
        fanout: int = 32,
        leaf: int = 32,
        run_fanout: int = 16,
    ) -> Recipe:
        shape = (slots, fanout, leaf, run_fanout)
        return merged_recipe(cls.name, layout.SINGLE, window, merge_ratio, -1, shape)


def merged_recipe(
    name: str, mode: int, window: int, merge_ratio: float, depth: int, shape: tuple[int, ...]
) -> Recipe:
    """The recipe of T_I and T_S; ``shape`` is rows per leaf and fan-out of either."""
    slots, fanout, leaf, run_fanout = shape
    checked(
        name, slots=(slots, 2), fanout=(fanout, 3), leaf=(leaf, 1), run_fanout=(run_fanout, 2),
        merge_ratio=(merge_ratio, 2.0**-20), depth=(depth, -1),
    )  # fmt: skip
    limit = max(1, round(merge_ratio * window))
    return Recipe(
        mode, trees=1, tree_rows=limit, shared=True, runs=1,
        run_rows=window + min(limit, window // 16 + 64), limit=limit, share=merge_ratio,
        depth=depth, slots=slots, fanout=fanout, run_leaf=leaf, run_fanout=run_fanout,
    )  # fmt: skip

"""Figure 13a: how inserts spread over the subindexes of a PIM-Tree while the keys drift.

No join is run. A merge leaves T_S as the sorted window; a subindex belongs to the keys between the
last keys of two neighbouring nodes at the insertion depth. So where the inserts up to the next
merge go follows from the keys alone. The tests compare this with the subindexes of a real tree.
"""

from __future__ import annotations

import numpy as np

from thetabench.arrays import Array
from thetabench.pim.contestant import Contestant
from thetabench.pim.stream import Stream
from thetabench.race import Values
from thetastream.index.trees.pim_tree import PimTree

_IDLE = 0.01


def landed(window: Array, fresh: Array) -> Array:
    """Inserts per subindex: for the window at the last merge, and the keys since then."""
    recipe = PimTree.recipe(window.size)
    span = recipe.run_leaf * recipe.run_fanout  # rows of T_S below a node of the lowest level
    ranked = np.sort(window)
    bounds = ranked[span - 1 : ranked.size - 1 : span]
    return np.bincount(np.searchsorted(bounds, fresh, side="left"), minlength=bounds.size + 1)


def spread(stream: Stream, who: Contestant) -> Array:
    """Inserts per subindex over the phase in which a self-join's keys move, all merges together."""
    shape = stream.shape
    limit = who.limit(shape.window)
    begin, end = shape.legs[:2]
    keys = np.concatenate([stream.fill()[1], stream.tuples(0, end)[1]])
    merges = range(shape.window + begin, shape.window + end, limit)
    counts = [landed(keys[at - shape.window : at], keys[at : at + limit]) for at in merges]
    return np.asarray(np.sum(counts, axis=0), np.int64)


def counted(stream: Stream, who: Contestant) -> Values:
    """The columns of a line: inserts, and how they spread."""
    counts = spread(stream, who)
    top, idle = shares(counts)
    return {"tuples": int(counts.sum()), "top_share": top, "idle_share": idle}


def shares(counts: Array) -> tuple[float, float]:
    """The busiest subindex's part of all inserts; the part of subindexes with next to none.

    >>> shares(np.array([97, 1, 1, 1, 0]))
    (0.97, 0.2)
    """
    idle = counts < _IDLE * counts.mean()
    return float(counts.max() / counts.sum()), float(idle.mean())

"""Plans to read a set of blocks (SSIJ, Section IV-D): what they cost, and what planning costs.

The dynamic programme and the shortest path must agree, and no other plan may be cheaper: that is
checked here, on every set of blocks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from thetabench.arrays import Array
from thetabench.contestant import Unavailable
from thetabench.digest import VerificationError
from thetabench.race import Values
from thetabench.ssij.trial import AtOnce
from thetastream.relation.disk.clock import PROFILES
from thetastream.relation.disk.readplan import PLANS, ReadPlan

OPTIMAL, GREEDY, SHORTEST, SINGLE = "optimal", "greedy", "shortest path", "single"
WAYS = (OPTIMAL, GREEDY, SHORTEST, SINGLE)
MAX_SCAN = 200
_SETS = 5
_SEARCHED = 1 << 12  # blocks of a set above which the shortest path takes too long
_CLOSE = 1e-9


def wanted(blocks: int, share: float, rng: np.random.Generator) -> Array:
    """A set of blocks: half of it anywhere, half of it in clusters, as skewed streams ask for."""
    count = max(2, int(blocks * share))
    anywhere = rng.integers(0, blocks, count // 2)
    centres = rng.integers(0, blocks, max(1, count // 32))
    near = rng.choice(centres, count - count // 2) + rng.geometric(0.05, count - count // 2)
    return np.unique(np.concatenate([anywhere, near % blocks]))


class Planning(AtOnce):
    """A way to plan that is asked for the same sets of blocks as the others."""

    def work(self) -> Values:
        """Plan every set."""
        cell, way = self.cell, self.who.structure
        sets = [
            wanted(cell.table.rows, cell.memory, np.random.default_rng([self.stock.seed, n]))
            for n in range(_SETS)
        ]
        if way == SHORTEST and max(own.size for own in sets) > _SEARCHED:
            raise Unavailable("sets of this size take too long")
        costs, plan = PROFILES[cell.device.value], PLANS[way.replace(" ", "-")]
        plan(sets[0][:2], None, costs.seek, costs.transfer, MAX_SCAN)  # compiled, if need be
        cost = spent = 0.0
        for own in sets:
            start = time.process_time()
            made = plan(own, None, costs.seek, costs.transfer, MAX_SCAN)
            spent += time.process_time() - start
            _covers(way, own, made)
            cost += len(made) * costs.seek + made.blocks_read * costs.transfer
        blocks = sum(own.size for own in sets)
        return {
            "plan_cost_ms": cost / len(sets) * 1e3,
            "plan_ms": spent / len(sets) * 1e3,
            "plan_share": spent / max(spent + cost, 1e-12),
            "blocks_read": blocks,
            "tuples": blocks,
        }


def _covers(name: str, own: Array, made: ReadPlan) -> None:
    """Every wanted block is read once, and no sequence is too long."""
    starts, counts = made.starts, made.counts
    which = np.searchsorted(starts, own, side="right") - 1
    inside = (which >= 0) & (own < starts[which] + counts[which])
    apart = np.all(starts[1:] >= starts[:-1] + counts[:-1])
    if not (inside.all() and apart and counts.max() <= MAX_SCAN):
        raise VerificationError(f"the read plan {name} does not read every block once")


def compare(plans: Sequence[Planning]) -> None:
    """No plan is cheaper than the optimal one, and the shortest path is as cheap."""
    costs = {own.who.structure: own.values["plan_cost_ms"] for own in plans}
    for own in plans:
        over = costs[own.who.structure] / costs[OPTIMAL] - 1
        if over < -_CLOSE:
            raise VerificationError(f"{own.name} is cheaper than the optimal plan")
        if own.who.structure == SHORTEST and over > _CLOSE:
            raise VerificationError(f"{own.name} is not as cheap as the optimum")

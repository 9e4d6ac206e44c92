"""Plans to read a set of blocks (SSIJ, Section IV-D): what they cost, and what planning costs.

The dynamic programme and the shortest path must agree, and no other plan may be cheaper: that is
checked here, on every set of blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetabench.digest import VerificationError
from thetabench.ssij.plan import Cell, Contestant, Measured
from thetastream.relation.disk.clock import PROFILES, Costs

__all__ = ["WAYS", "planned", "wanted"]

Array = NDArray[np.int64]
Planner = Callable[..., Any]

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


def planned(cell: Cell, blocks: int, seed: int) -> list[Measured]:
    """Let every way plan the same sets of blocks."""
    costs = PROFILES[cell.device.value]
    sets = [wanted(blocks, cell.memory, np.random.default_rng([seed, n])) for n in range(_SETS)]
    found = {}
    for who in cell.contestants:
        found[who.method] = _tried(who, sets, costs)
    _check(cell, found)
    return [
        Measured(who, columns) if columns else Measured(who, {}, "sets of this size take too long")
        for who, columns in ((who, found[who.method]) for who in cell.contestants)
    ]


def _tried(who: Contestant, sets: list[Array], costs: Costs) -> dict[str, Any]:
    if who.method == SHORTEST and max(own.size for own in sets) > _SEARCHED:
        return {}
    plan = _planner(who.method)
    plan(sets[0][:2], None, costs.seek, costs.transfer, MAX_SCAN)  # compiled, if need be
    cost = spent = 0.0
    for own in sets:
        start = time.process_time()
        made = plan(own, None, costs.seek, costs.transfer, MAX_SCAN)
        spent += time.process_time() - start
        _covers(who.method, own, made)
        cost += len(made.starts) * costs.seek + int(np.sum(made.counts)) * costs.transfer
    return {
        "plan_cost_ms": cost / len(sets) * 1e3,
        "plan_ms": spent / len(sets) * 1e3,
        "plan_share": spent / max(spent + cost, 1e-12),
        "blocks_read": sum(own.size for own in sets),
        "checked": sum(own.size for own in sets),
    }


def _covers(name: str, own: Array, made: Any) -> None:
    """Every wanted block is read once, and no sequence is too long."""
    starts, counts = np.asarray(made.starts), np.asarray(made.counts)
    which = np.searchsorted(starts, own, side="right") - 1
    inside = (which >= 0) & (own < starts[which] + counts[which])
    apart = np.all(starts[1:] >= starts[:-1] + counts[:-1])
    if not (inside.all() and apart and counts.max() <= MAX_SCAN):
        raise VerificationError(f"the read plan {name} does not read every block once")


def _check(cell: Cell, found: dict[str, dict[str, Any]]) -> None:
    best = found[OPTIMAL]["plan_cost_ms"]
    for name, columns in found.items():
        if columns and columns["plan_cost_ms"] < best * (1 - _CLOSE):
            raise VerificationError(f"{cell.label}: {name} is cheaper than the optimal plan")
    if found.get(SHORTEST) and abs(found[SHORTEST]["plan_cost_ms"] / best - 1) > _CLOSE:
        raise VerificationError(f"{cell.label}: the shortest path is not as cheap as the optimum")


def _planner(name: str) -> Planner:
    from thetastream.relation.disk import readplan

    found: dict[str, Planner] = {
        OPTIMAL: readplan.plan,
        GREEDY: readplan.greedy_plan,
        SHORTEST: readplan.shortest_path_plan,
        SINGLE: readplan.single_plan,
    }
    return found[name]

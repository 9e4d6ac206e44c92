"""Read plans: which blocks are read together (SSIJ, Section IV-D).

A join phase knows the leaves it wants. Reading a sequence of ``n`` blocks costs ``S + n × T``, so
two nearby leaves are better read as one sequence, with the unwanted blocks between them. ``plan``
finds the cheapest plan; ``greedy_plan`` and ``single_plan`` are baselines; ``shortest_path_plan``
and ``recurrence_plan`` find plans of the same cost as ``plan`` in more time.

>>> wanted = np.array([2, 3, 5, 12, 14, 15])
>>> chosen = plan(wanted, None, seek=3.0, transfer=1.0, max_scan=8)
>>> chosen.starts.tolist(), chosen.counts.tolist(), chosen.firsts.tolist()
([2, 12], [4, 4], [0, 3])
>>> chosen.cost(3.0, 1.0), chosen.wasted
(14.0, 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.errors import RelationError
from thetastream.relation.disk.kernels import readplan as kernels

_UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Sequences of blocks, one I/O each, and the wanted leaves in them.

    Sequence ``i`` has the blocks ``[starts[i], starts[i] + counts[i])`` and the wanted leaves from
    ``firsts[i]`` to the first of the next sequence. Sequences ascend without overlap, and begin
    and end with a wanted block.
    """

    starts: Array
    counts: Array
    firsts: Array
    """Index in ``blocks`` of the first wanted leaf of each sequence."""
    blocks: Array
    """First block of each wanted leaf, ascending."""
    spans: Array | None
    """Blocks of each wanted leaf; None: one each."""

    def __len__(self) -> int:
        return self.starts.size

    @property
    def blocks_read(self) -> int:
        """Blocks of all sequences."""
        return int(self.counts.sum())

    @property
    def wasted(self) -> int:
        """Blocks read but not wanted."""
        wanted = self.blocks.size if self.spans is None else int(self.spans.sum())
        return self.blocks_read - wanted

    def cost(self, seek: float, transfer: float) -> float:
        """Seconds to read everything: S per sequence and T per block."""
        return len(self) * seek + self.blocks_read * transfer


Planner = Callable[[Array, Array | None, float, float, int | None], ReadPlan]


def plan(
    blocks: Array, spans: Array | None, seek: float, transfer: float, max_scan: int | None
) -> ReadPlan:
    """The cheapest plan. O(|P|), some 20 ns per leaf, and at most 56 bytes per leaf.

    ``blocks`` ascend; leaf ``i`` has ``spans[i]`` blocks, or one if that is None. No sequence of
    several leaves is longer than ``max_scan`` blocks (None: no bound).
    """
    return _dynamic(kernels.optimal, blocks, spans, seek, transfer, max_scan)


def recurrence_plan(
    blocks: Array, spans: Array | None, seek: float, transfer: float, max_scan: int | None
) -> ReadPlan:
    """The cheapest plan by the paper's recurrence, unchanged. O(|P| × max_scan)."""
    return _dynamic(kernels.recurrence, blocks, spans, seek, transfer, max_scan)


def shortest_path_plan(
    blocks: Array, spans: Array | None, seek: float, transfer: float, max_scan: int | None
) -> ReadPlan:
    """The cheapest plan as a shortest path (Seeger et al.). O(|P| × max_scan × log |P|)."""
    ends, bound = _checked(blocks, spans, seek, transfer, max_scan)
    leaves = blocks.size
    heap, places, before = (np.empty(leaves + 1, np.int64) for _ in range(3))
    lasts, firsts = np.empty(leaves, np.int64), np.empty(leaves, np.int64)
    count = kernels.shortest_path(
        _writable(blocks), ends, seek, transfer, bound,
        np.empty(leaves + 1), heap, places, before, lasts, firsts,
    )  # fmt: skip
    return _plan(blocks, spans, ends, firsts[:count])


def greedy_plan(
    blocks: Array, spans: Array | None, seek: float, transfer: float, max_scan: int | None
) -> ReadPlan:
    """The longest allowed sequences with gaps that are cheaper than a seek (Seeger et al.).

    O(|P|); the cost is not bounded.
    """
    ends, bound = _checked(blocks, spans, seek, transfer, max_scan)
    unwanted = _UNBOUNDED if seek >= transfer * _UNBOUNDED else math.ceil(seek / transfer) - 1
    firsts = np.empty(blocks.size, np.int64)
    count = kernels.greedy(_writable(blocks), ends, max(unwanted, 0), bound, firsts)
    return _plan(blocks, spans, ends, firsts[:count])


def single_plan(
    blocks: Array, spans: Array | None, seek: float, transfer: float, max_scan: int | None
) -> ReadPlan:
    """One sequence per leaf: nothing is wasted, but every leaf costs a seek."""
    ends, _ = _checked(blocks, spans, seek, transfer, max_scan)
    return _plan(blocks, spans, ends, np.arange(blocks.size))


PLANS: dict[str, Planner] = {
    "optimal": plan,
    "greedy": greedy_plan,
    "single": single_plan,
    "shortest-path": shortest_path_plan,
    "recurrence": recurrence_plan,
}


def _dynamic(
    kernel: Callable[..., Any],
    blocks: Array,
    spans: Array | None,
    seek: float,
    transfer: float,
    max_scan: int | None,
) -> ReadPlan:
    ends, bound = _checked(blocks, spans, seek, transfer, max_scan)
    leaves = blocks.size
    lasts, firsts = np.empty(leaves, np.int64), np.empty(leaves, np.int64)
    count = kernel(
        _writable(blocks), ends, seek, transfer, bound, np.empty(leaves + 1), lasts, firsts
    )
    return _plan(blocks, spans, ends, firsts[:count])


def _checked(
    blocks: Array, spans: Array | None, seek: float, transfer: float, max_scan: int | None
) -> tuple[Array, int]:
    """The end of each leaf, and the longest sequence; invalid costs are refused."""
    if not (0 <= seek < math.inf and 0 <= transfer < math.inf):
        raise RelationError(
            f"expected seek and transfer costs in seconds, 0 or more; got {seek!r} and "
            f"{transfer!r}: measure them with 'thetastream relation calibrate'"
        )
    assert max_scan is None or max_scan >= 1, "max_scan of at least 1 block"
    prepare(kernels)
    ends = blocks + (1 if spans is None else spans)
    assert bool((ends[:-1] <= blocks[1:]).all()), "wanted leaves ascend and do not overlap"
    return ends, _UNBOUNDED if max_scan is None else max_scan


def _writable(blocks: Array) -> Array:
    """The numbers as a contiguous, writable array, as kernels need."""
    return np.require(blocks, np.int64, ["C", "W"])


def _plan(blocks: Array, spans: Array | None, ends: Array, firsts: Array) -> ReadPlan:
    """A plan from the first leaf of each of its sequences."""
    starts = blocks[firsts]
    stops = ends[np.append(firsts[1:], blocks.size) - 1] if firsts.size else starts
    return ReadPlan(starts, stops - starts, firsts.copy(), blocks, spans)

"""Which side of a finite join is stored, and how: the cheaper way round.

Storing costs a sort of that side, streaming a probe per row of the other. With few intervals and
many points, say, it is cheaper to store the intervals, unless their boxes meet too many of them:

    stored      rows        a stored row costs        a streamed row costs
    left        100,000     prepare + sort            prepare + search + candidates
    right    10,000,000     prepare + sort            the same, over 100 times as many rows

The prices are those of the planner of streams. There, rows arrive in batches that are merged again
and again; here, all stored rows arrive at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from thetastream.boxes.binding import Binding
from thetastream.boxes.keys import Keys
from thetastream.plan.choice import Choice, choose
from thetastream.plan.estimate import Estimate
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactic import Tactic
from thetastream.side import Side

CHUNK = 1 << 19  # rows that are streamed at a time, at most: more share what they fetch
LEAST_CHUNK = 1 << 14
_PIECES = 6  # chunks of a side, at least, if they are large enough: work for several threads
_PAIRS = 1 << 22  # pairs of a chunk, about
_WHOLE_PIECE = 1 << 20  # pairs whose columns lie in huge pages, which cost much less to make


@dataclass(frozen=True)
class FiniteWay:
    """One way to run a join: the stored side, its layout, the chunks of the other, the cost."""

    choice: Choice
    chunk: int
    matches: float
    seconds: float

    @property
    def stored(self) -> Side:
        """The side that is stored; the other one is streamed past it."""
        return self.choice.stored

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "stored": self.stored.value,
            "expected seconds, one thread": float(f"{self.seconds:.3g}"),
            "rows streamed at a time": self.chunk,
            "expected matches of a streamed row": float(f"{self.matches:.3g}"),
        }


def ways(
    binding: Binding,
    tactic: Tactic,
    rows: Mapping[Side, float],
    samples: Mapping[Side, Keys],
    stored: Iterable[Side] = tuple(Side),
    *,
    pairless: bool = False,
) -> list[FiniteWay]:
    """The best way for each side that may be stored, the cheapest first."""
    both = [_way(binding, tactic, side, rows, samples, pairless) for side in stored]
    return sorted(both, key=lambda way: way.seconds)


def _way(
    binding: Binding,
    tactic: Tactic,
    stored: Side,
    rows: Mapping[Side, float],
    samples: Mapping[Side, Keys],
    pairless: bool,
) -> FiniteWay:
    here, there = max(rows[stored], 1.0), max(rows[stored.other], 1.0)
    known = Selectivity.of(binding.fields(stored), samples[stored], samples[stored.other])
    matches = here * known.joint
    chunk = chunk_of(there, matches)
    pair = samples[stored], samples[stored.other]
    probing = choose(binding, stored, tactic, here, *pair, batch=float(chunk), pairless=pairless)
    storing = choose(binding, stored, tactic, here, *pair, batch=here, pairless=pairless)
    built = [storing.best, *storing.others]

    def nanoseconds(estimate: Estimate) -> float:
        twin = next((e for e in built if e.layout.same(estimate.layout)), estimate)
        once = estimate.constants.batches.of({estimate.layout.prepared: 1.0})
        probe = max(estimate.nanoseconds - estimate.insert, 0.0)
        return there * probe + here * (once + twin.insert)

    best, *others = sorted([probing.best, *probing.others], key=nanoseconds)
    choice = replace(probing, best=best, others=tuple(others))
    return FiniteWay(choice, chunk, matches, nanoseconds(best) / 1e9)


def chunk_of(streamed: float, matches: float) -> int:
    """Rows to stream at a time: a bounded number of pairs, and enough pieces for threads.

    Chunks are not so small that the columns of their pairs miss huge pages. They are equal, and
    their number is even, so that two threads end together.
    """
    most, whole = _PAIRS / max(matches, 1e-9), _WHOLE_PIECE / max(matches, 1e-9)
    wanted = max(streamed / _PIECES, min(whole, streamed / 2))
    chunks = streamed / min(CHUNK, max(LEAST_CHUNK, min(most, wanted)))
    return math.ceil(streamed / (2 * math.ceil(chunks / 2) if chunks > 1 else 1))

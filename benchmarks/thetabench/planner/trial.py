"""One tactic in one cell: a `StreamJoin` that is filled, pushed to and read, with the clock.

What is timed is a user's push: keys, sorting, probing, inserting, merging, expiring, and reading
the answer as rows. Rows carry their keys and an id, and only the two ids come out, so that the
index decides and not the payload; with ``output="count"`` some tactics would make no pairs at all.

The window is filled by pushes of the same size whose answers nobody reads, which costs little, as
pairs are found when they are read. So the planner has seen as many pushes as in a running join.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

import thetastream as ts
from thetabench.digest import Digest, digest
from thetabench.feed import Feed
from thetabench.trial import Clocked
from thetastream.side import Side

WARM = 2
"""Pushes of each side that are read before the clock starts."""
WORK = ("sort", "probe", "insert", "merge")
"""Phases of a push that the planner's estimates are about."""


class Trial(Clocked):
    """A tactic at work. A tactic that cannot serve the predicate raises `PredicateError`.

    Of every push the digest of its answer is kept, of untimed ones too. A turn with a limit of
    processor seconds ends early when it is passed.
    """

    def __init__(self, tactic: str, feed: Feed, label: str) -> None:
        super().__init__(f"{tactic} in {label}")
        self.tactic = tactic
        self.digests: list[Digest] = []
        self.times: list[float] = []
        self.rates: list[float] = []
        self.warming = 0.0
        """Processor seconds of the pushes before the clock started."""
        self._limit = math.inf
        self._feed = feed
        self._join = ts.StreamJoin(
            feed.query.predicate,
            window=ts.CountWindow(feed.query.window),
            tactic=tactic,
            columns=["id", "id_right"],
            schemas=(feed.left.schema, feed.table(Side.RIGHT).schema),
        )
        self._before = self._join.metrics()

    def fill(self, limit: float) -> bool:
        """Fill the window, and do a few pushes before the clock starts; False past the limit."""
        feed = self._feed
        for start in range(0, feed.filled, feed.batch):
            stop = min(start + feed.batch, feed.filled)
            for side in Side:
                self._join.push(**{side.value: feed.table(side).slice(start, stop - start)})
        done = self.turn(WARM * len(Side), limit)
        self.warming = self.cpu
        self.restart()
        self.times.clear()
        self.rates.clear()
        self.tuples = self.pairs = 0
        self._before = self._join.metrics()
        return done

    def turn(self, pushes: int, limit: float = math.inf) -> bool:
        """Do some pushes, the same as all others in this turn; False past a limit of seconds."""
        tuples, cpu = self.tuples, self.cpu
        self._limit = cpu + limit
        done = all(self.step() for _ in range(pushes))
        self.rates.append((self.tuples - tuples) / max(self.cpu - cpu, 1e-9))
        return done

    def step(self) -> bool:
        """Push a batch and read its answer."""
        push, feed = len(self.digests), self._feed
        side, rows, before = feed.side(push), feed.rows(push), self.seconds
        answer = self.timed(lambda: self._join.push(**{side.value: rows}))
        found = Digest(0, 0)
        while (batch := self.timed(lambda: next(answer, None))) is not None:
            found += digest(pa.Table.from_batches([batch]))
            if self.cpu > self._limit:
                return False
        self.digests.append(found)
        self.times.append(self.seconds - before)
        self.tuples += rows.num_rows
        self.pairs += found.matches
        return self.cpu <= self._limit

    # --- What the join says of itself ------------------------------------------------------------

    def phase(self, name: str) -> float:
        """Nanoseconds per row of a phase since the clock started; 0 where the join does not tell.

        The join looks at the clock on the wall, so this is scaled to processor time.
        """
        column = f"{name}_seconds"
        spent = getattr(self._join.metrics(), column, 0.0) - getattr(self._before, column, 0.0)
        return float(spent) * 1e9 / self.tuples * self.cpu / self.seconds

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes of both windows."""
        return int(self._join.metrics().index_bytes)

    def plan(self) -> dict[str, Any]:
        """The columns of a result about the plan as it is now."""
        facts = self._join.explain().as_dict()
        plans = {plan["stored side"]: plan["chosen"] for plan in facts["plan"]}
        return {
            **{f"{side.value}_layout": _layout(plans[side.value]) for side in Side},
            "replans": self._join.metrics().replans,
            "estimate_ns": _mean(plans, "estimated ns per row"),
            "estimate_candidates": _mean(plans, "candidates per row"),
        }


def _layout(chosen: dict[str, Any]) -> str:
    return f"{chosen['tactic']}/{chosen['index']}: {chosen['first column']}"


def _mean(plans: dict[str, Any], fact: str) -> float:
    return float(sum(chosen[fact] for chosen in plans.values()) / len(plans))

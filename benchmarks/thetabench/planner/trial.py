"""One tactic in one cell: a `StreamJoin` that is filled, pushed to and read, with the clock.

What is timed is a user's push: keys, sorting, probing, inserting, merging, expiring, and reading
the answer as rows. Rows carry their keys and an id, and only the two ids come out, so that the
index decides and not the payload; with ``output="count"`` some tactics would make no pairs at all.

The window is filled by pushes of the same size whose answers are not read, which costs little, as
pairs are found when they are read. So the planner has seen as many pushes as in a running join.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NoReturn

import pyarrow as pa

import thetastream as ts
from thetabench.contestant import PHASES, Unavailable
from thetabench.digest import Digest, digest
from thetabench.feed import Feed
from thetabench.figure import Contestant
from thetabench.grid import pushed
from thetabench.race import Trial, Values
from thetastream.side import Side

AUTO = "auto"
WARM = 2
"""Pushes of each side that are read before the clock starts."""
WORK = ("sort", "probe", "insert", "merge")
"""Phases of a push that the planner's estimates are about."""
SLOW = 4.0
SLOW_NOW = f"more than {SLOW:g} times slower than the fastest"
SLOW_BEFORE = f"{SLOW_NOW} in a smaller window"
_GRACE = 0.25  # seconds by which everyone may be slower


@dataclass
class Field:
    """The tactics of a cell that are still in the race, over the same pushes."""

    label: str
    feed: Feed
    pushes: int
    """Timed pushes of one side in one turn."""
    slow: set[str]
    """Those that were too slow, in smaller windows too."""
    trials: list[Pushing] = field(default_factory=list)

    def drop(self, trial: Pushing) -> NoReturn:
        """Take a tactic out of the race."""
        self.trials.remove(trial)
        self.slow.add(trial.who.label)
        raise Unavailable(SLOW_NOW)


def _limit(seconds: Iterable[float]) -> float:
    """How long a tactic may take, given how long others took."""
    return SLOW * min(seconds, default=math.inf) + _GRACE


class Pushing(Trial[Contestant]):
    """A tactic at work. A tactic that cannot serve the predicate raises `PredicateError`.

    Of every push the digest of its answer is kept, of untimed ones too. A turn with a limit of
    processor seconds ends early when it is passed.
    """

    def __init__(self, who: Contestant, field: Field) -> None:
        super().__init__(who, field.label)
        self.name = f"{who.label} in {field.label}"
        self.digests: list[Digest] = []
        self.times: list[float] = []
        self.rates: list[float] = []
        self.warming = 0.0
        """Processor seconds of the pushes before the clock started."""
        self._field = field
        self._feed = feed = field.feed
        self._join = ts.StreamJoin(
            feed.query.predicate,
            window=ts.CountWindow(feed.query.window),
            tactic=who.structure,
            columns=["id", "id_right"],
            schemas=(feed.left.schema, feed.table(Side.RIGHT).schema),
        )
        self._before = self._join.metrics()

    def fill(self) -> None:
        """Fill the window, and do a few pushes before the clock starts; raise if it is slow."""
        feed, field = self._feed, self._field
        limit = _limit(other.warming for other in field.trials)
        field.trials.append(self)
        for start in range(0, feed.filled, feed.batch):
            stop = min(start + feed.batch, feed.filled)
            for side in Side:
                self._join.push(**{side.value: feed.table(side).slice(start, stop - start)})
        self._push(WARM, limit)
        self.warming = self.cpu
        self.restart()
        self.times.clear()
        self.rates.clear()
        self._before = self._join.metrics()

    def turn(self, number: int, seconds: float) -> None:
        """Do as many pushes as all others; raise if it is slow in the first turn."""
        field, limit = self._field, math.inf
        if number == 1:
            limit = _limit(other.cpu for other in field.trials if other.rates)
        elif self.who.label != AUTO:
            fastest = max(other.rates[0] for other in field.trials)
            if self.rates[0] < fastest / SLOW:
                field.drop(self)
        self._push(field.pushes, limit)

    def _push(self, pushes: int, limit: float) -> None:
        """Do some pushes of each side within a limit of seconds."""
        tuples, cpu = self.tuples, self.cpu
        for _ in range(pushes * len(Side)):
            if not self._pushed(cpu + limit):
                self._field.drop(self)
        self.rates.append((self.tuples - tuples) / max(self.cpu - cpu, 1e-9))

    def _pushed(self, limit: float) -> bool:
        """Push a batch and read its answer."""
        push, feed = len(self.digests), self._feed
        side, rows, before = feed.side(push), feed.rows(push), self.seconds
        answer = self.timed(lambda: self._join.push(**{side.value: rows}))
        total = Digest(0, 0)
        while (batch := self.timed(lambda: next(answer, None))) is not None:
            total += digest(pa.Table.from_batches([batch]))
            if self.cpu > limit:
                return False
        self.digests.append(total)
        self.times.append(self.seconds - before)
        self.tuples += rows.num_rows
        return self.cpu <= limit

    # --- Numbers ---------------------------------------------------------------------------------

    @property
    def columns(self) -> Values:
        """By processor time: one thread does all the work, and others then disturb less."""
        per_tuple = 1e9 * self.cpu / self.tuples
        phases = {name: self._phase(name) for name in (*PHASES, "plan")}
        return {
            **super().columns,
            **pushed(self.times, self.rates, self.digests, per_tuple, phases),
            **self._plan(),
            "tuples_per_s": median(self.rates),
            "index_bytes": self._join.metrics().index_bytes,
            "measured_ns": sum(phases[name] for name in WORK),
            "plan_share": phases["plan"] / per_tuple,
        }

    def _phase(self, name: str) -> float:
        """Nanoseconds per row of a phase since the clock started; 0 where the join does not tell.

        The join looks at the clock on the wall, so this is scaled to processor time.
        """
        column = f"{name}_seconds"
        spent = getattr(self._join.metrics(), column, 0.0) - getattr(self._before, column, 0.0)
        return float(spent) * 1e9 / self.tuples * self.cpu / self.seconds

    def _plan(self) -> Values:
        """The columns about the plan as it is now."""
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

"""The traffic of Linear Road: vehicles that enter an expressway, travel, crash and leave.

Time goes in rounds of 30 seconds. Every vehicle on the road reports once per round, always at the
same second of it, so a round is one step of the whole fleet, in NumPy::

    round 0            round 1            round 2            …
    enters at 0:17     0:47               1:17
    lane 0, 10 mph     lane 0, 38 mph     lane 2, 61 mph     …  lane 4, 10 mph, gone

Distances are counted in feet from where the vehicle's direction begins (``at``); direction 1 runs
towards position 0. Invariants of one trip:

- between two reports a vehicle moves by ``22 × (speed before + speed now)`` feet, which is 30 s at
  the mean of both speeds. Only the report of a crash differs, by at most ``22 × speed before``;
- the first reports, one to six, are in lane 0, the last one in lane 4, the others in 1, 2 and 3;
- speed 0 means accident: two vehicles of one direction stand at one place, in one lane.

A vehicle aims for its own cruising speed, less in a crowded segment, and much less in the segment
of an accident and the four before it. Every round has its own generator, seeded by
``(seed, round)``, so a longer simulation begins with the shorter one. Memory: O(vehicles on the
road); cost: about 0.1 µs per report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from thetastream.errors import DataError

FEET = 5_280
"""Length of a segment."""
SEGMENTS = 100
"""Segments of an expressway."""
ROUND = 30
"""Seconds from one report of a vehicle to its next."""
VIDS = 1 << 20
"""Vehicle numbers of one expressway; when they run out, they start again from 0."""

Column: TypeAlias = NDArray[Any]

_ENTRY, _EXIT = 0, 4
_SLOW = 10  # mph on entry and on exit
_RAMP = 40.0  # mph in the entry lane
_CRUISE = (67.0, 4.5)  # mph, mean and deviation
_HALF = ROUND // 2 * FEET // 3_600  # feet of 15 seconds at 1 mph
_CROWD = (50, 220.0)  # vehicles of a segment and direction: up to 50 none slows down, 220 more
_CROWDED = 0.6  # would stop, but this share of the speed is left: traffic never jams for good
_CAP = (20.0, 28.0, 36.0, 44.0, 52.0)  # mph in the segment of an accident, and before it


@dataclass(frozen=True)
class Reports:
    """The reports of one round, in order of time, of one second in order of entry.

    ``first`` marks the first report of a trip in its segment.
    """

    time: Column
    vid: Column
    speed: Column
    xway: Column
    lane: Column
    dir: Column
    pos: Column
    first: NDArray[np.bool_]

    def until(self, second: int) -> Reports:
        """Leave out the reports at ``second`` and later."""
        stop = int(np.searchsorted(self.time, second))
        return Reports(*(getattr(self, name)[:stop] for name in self.__dataclass_fields__))


@dataclass
class _Fleet:
    """The vehicles on the road, in order of entry: one array per field."""

    second: Column  # of the round, at which it reports
    xway: Column
    dir: Column
    number: Column  # how many entered this expressway before it
    at: Column
    goal: Column  # where its exit segment begins
    cruise: Column
    speed: Column
    lane: Column
    ramp: Column  # reports to come in the entry lane
    stopped: Column  # rounds to come at the place of an accident
    first: Column

    def chosen(self, rows: Column) -> _Fleet:
        return _Fleet(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def followed_by(self, other: _Fleet) -> _Fleet:
        names = self.__dataclass_fields__
        return _Fleet(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))


@dataclass(frozen=True)
class _Accident:
    """Two vehicles (rows of the fleet when it happened) that stand at one place for some rounds."""

    way: int  # 2 × expressway + direction
    place: int
    start: int  # the round of their first report there
    stop: int  # and the one in which they go on
    pair: NDArray[np.int64]


@dataclass(frozen=True)
class TrafficSimulation:
    """What is simulated; :meth:`rounds` does it.

    ``rate`` vehicles enter each expressway in the first minute; ``growth`` is the part of it that
    is added per hour. ``accidents`` happen per expressway and hour, evenly spaced.
    """

    expressways: int = 1
    rate: float = 1_300.0
    growth: float = 0.9
    accidents: float = 3.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.expressways <= 16:
            raise DataError(
                f"Linear Road has 1 to 16 expressways (four bits of the key); "
                f"got expressways={self.expressways}."
            )
        if not 0 < self.rate <= 100_000 or not 0 <= self.growth <= 100:
            raise DataError(
                "The traffic needs a rate above 0, at most 100,000 vehicles per minute, and a "
                f"growth from 0 to 100; got rate={self.rate}, growth={self.growth}."
            )
        if not 0 <= self.accidents <= 3_600 // ROUND:
            raise DataError(
                f"accidents is a number per expressway and hour, 0 to {3_600 // ROUND}; "
                f"got {self.accidents}."
            )
        if self.seed < 0:
            raise DataError(f"seed must not be negative; got {self.seed}.")

    def entered(self, second: int) -> int:
        """How many vehicles enter one expressway before ``second``. O(1)."""
        minutes = second / 60
        return int(self.rate * minutes * (1 + self.growth * minutes / 120))

    def rounds(self) -> Iterator[Reports]:
        """Simulate, without end: one item per round."""
        number = 0
        fleet = self._entering(number, np.random.default_rng((self.seed, number)))
        active: list[_Accident] = []
        happened = np.zeros(self.expressways, dtype=np.int64)
        while True:
            yield _reports(fleet, number)
            number += 1
            rng = np.random.default_rng((self.seed, number))
            fleet = fleet.chosen(fleet.lane != _EXIT)
            active = [accident for accident in active if accident.stop > number]
            for xway in np.flatnonzero(happened < self._due(number)).tolist():
                accident = _crash(fleet, xway, number, rng)
                if accident is not None:  # else in a later round
                    active.append(accident)
                    happened[xway] += 1
            self._move(fleet, active, number, rng)
            fleet = fleet.followed_by(self._entering(number, rng))
            if fleet.number.size and np.ptp(fleet.number) >= VIDS:
                raise DataError(
                    f"The {VIDS:,} vehicle numbers do not last for one trip; take a smaller rate "
                    f"(now {self.rate:g} per minute) or growth ({self.growth:g} per hour)."
                )

    def _due(self, number: int) -> NDArray[np.float64]:
        """How many accidents should have happened on each expressway: evenly spaced in time."""
        phases = np.random.default_rng(self.seed).random(self.expressways)
        return np.floor(number * self.accidents * ROUND / 3_600 + phases)

    def _entering(self, number: int, rng: np.random.Generator) -> _Fleet:
        """Make the vehicles that enter in one round, all expressways alike in number."""
        before, after = self.entered(number * ROUND), self.entered((number + 1) * ROUND)
        each = after - before
        rows = each * self.expressways
        second = np.sort(rng.integers(0, ROUND, (self.expressways, each)), axis=1)
        vehicle = np.tile(np.arange(before, after), self.expressways)
        # entries of one second are in order of the expressway, as every later report of them
        order = np.argsort(second.ravel(), kind="stable")
        segment = rng.integers(0, SEGMENTS - 2, rows)
        goal = segment + 2 + (rng.random(rows) * (SEGMENTS - 2 - segment)).astype(np.int64)
        fleet = _Fleet(
            second=second.ravel(),
            xway=np.repeat(np.arange(self.expressways), each),
            dir=rng.integers(0, 2, rows),
            number=vehicle,
            at=segment * FEET,
            goal=goal * FEET,
            cruise=rng.normal(*_CRUISE, rows).astype(np.float32),
            speed=np.full(rows, _SLOW),
            lane=np.full(rows, _ENTRY, dtype=np.int8),
            ramp=rng.integers(1, 6, rows, dtype=np.int8),
            stopped=np.zeros(rows, dtype=np.int16),
            first=np.ones(rows, dtype=np.bool_),
        )
        return fleet.chosen(order)

    def _move(
        self, fleet: _Fleet, active: list[_Accident], number: int, rng: np.random.Generator
    ) -> None:
        """Take every vehicle 30 seconds on, in place."""
        segment = fleet.at // FEET
        before = fleet.speed
        noise = rng.standard_normal(before.size, dtype=np.float32) * np.float32(2.5)
        wanted = self._wanted(fleet, segment, active)
        drawn = np.rint(before + np.float32(0.6) * (wanted - before) + noise)
        speed = np.clip(drawn, 5, 99).astype(np.int64)
        halted = fleet.stopped > 0
        leaving = ~halted & _leaving(fleet)
        speed[halted] = 0
        speed[leaving] = _SLOW
        fleet.at += _HALF * (before + speed)
        fleet.lane = _lanes(fleet, halted, leaving, rng)
        fleet.ramp -= fleet.ramp > 0
        fleet.stopped -= halted
        fleet.speed = speed
        for accident in active:
            if accident.start == number:
                fleet.at[accident.pair] = accident.place
                fleet.speed[accident.pair] = 0
                fleet.lane[accident.pair] = fleet.lane[accident.pair[0]]
                fleet.stopped[accident.pair] = accident.stop - number - 1
        fleet.first = fleet.at // FEET != segment

    def _wanted(self, fleet: _Fleet, segment: Column, active: list[_Accident]) -> Column:
        """The speed each vehicle would like to have, given the crowd and the accidents."""
        cell = (fleet.xway * 2 + fleet.dir) * SEGMENTS + segment
        crowd = np.bincount(cell, minlength=self.expressways * 2 * SEGMENTS)
        pace = np.clip(1 - (crowd - _CROWD[0]) / _CROWD[1], _CROWDED, 1).astype(np.float32)
        cap = np.full((self.expressways * 2, SEGMENTS), 99, dtype=np.float32)
        for accident in active:
            for back, most in enumerate(_CAP):
                at = accident.place // FEET - back
                if at >= 0:
                    cap[accident.way, at] = min(cap[accident.way, at], most)
        wanted = np.where(fleet.ramp > 0, np.float32(_RAMP), fleet.cruise)
        limited: Column = np.minimum(wanted * pace[cell], cap.ravel()[cell])
        return limited


def _leaving(fleet: _Fleet) -> NDArray[np.bool_]:
    """Mark who is in the exit segment after 30 seconds of braking: at most 44 × 99 feet in it."""
    mask: NDArray[np.bool_] = fleet.at + _HALF * (fleet.speed + _SLOW) >= fleet.goal
    return mask


def _lanes(
    fleet: _Fleet,
    halted: NDArray[np.bool_],
    leaving: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Column:
    """Choose the lanes: one vehicle in two looks for the next one, between 1 and 3."""
    turn = rng.integers(0, 4, fleet.lane.size, dtype=np.int8)
    turned = fleet.lane + (turn == 0) - (turn == 1)
    lane: Column = np.clip(turned, 1, 3).astype(np.int8)
    lane[fleet.ramp > 0] = _ENTRY
    lane[halted] = fleet.lane[halted]
    lane[leaving] = _EXIT
    return lane


def _crash(fleet: _Fleet, xway: int, number: int, rng: np.random.Generator) -> _Accident | None:
    """Choose two vehicles whose braking ends nearly at one place, or none if there are no two.

    The one in front stops where braking evenly takes it, ``22 × speed`` feet on; the other one in
    the same place, which is at most ``44 × speed`` feet on.
    """
    direction = int(rng.integers(0, 2))
    able = (fleet.xway == xway) & (fleet.dir == direction) & (fleet.ramp == 0)
    able &= (fleet.stopped == 0) & (fleet.speed >= 20) & ~_leaving(fleet)
    rows = np.flatnonzero(able)
    places = fleet.at[rows] + _HALF * fleet.speed[rows]
    order = np.argsort(places, kind="stable")
    rows, places = rows[order], places[order]
    near = np.flatnonzero(np.diff(places) <= _HALF * fleet.speed[rows[:-1]])
    if near.size == 0:
        return None
    behind = int(rng.choice(near))
    return _Accident(
        way=2 * xway + direction,
        place=int(places[behind + 1]),
        start=number,
        stop=number + int(rng.integers(8, 21)),
        pair=rows[[behind + 1, behind]],
    )


def _reports(fleet: _Fleet, number: int) -> Reports:
    """What the fleet reports in one round, by second."""
    order = np.argsort(fleet.second.astype(np.int8), kind="stable")
    now = fleet.chosen(order)
    forth = now.dir == 0
    return Reports(
        time=number * ROUND + now.second,
        vid=now.number % VIDS,
        speed=now.speed,
        xway=now.xway,
        lane=now.lane,
        dir=now.dir,
        pos=np.where(forth, now.at, SEGMENTS * FEET - 1 - now.at),
        first=now.first,
    )

"""What is measured: the contestants of every figure, in full or small.

A *micro-batch* has rows of both sides; a window counts the rows of one. Every feed begins with a
micro-batch that fills the window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from thetabench.contestant import parse_spec
from thetabench.figure import Cell, Contestant, Figure, Sizes
from thetabench.spark.feed import FILES, Shape
from thetastream.errors import RegistryError, suggest

HOME = "theta_join"
STATE_FILES = "theta_join-files"
NOOPS = NOOP, NOOP_FILES = "noop", "noop-files"
"""Joiners that do nothing, in the plans of both forms of the join; …"""
DOUBLES = DOUBLE, DOUBLE_FILES = "empty-double", "empty-double-files"
"""… and those that return as many and as wide rows as the join's."""
BUCKETS = ("bucketed-memory", "bucketed-rocksdb")
EQUI = ("equi-memory", "equi-rocksdb")
REJOIN, BLOCKS = "foreachBatch", "foreachBatch-blocks"
LOST, KEPT = "restart, run files lost", "restart, run files kept"
HIT, ATTACH, REBUILD = "hit", "attach", "rebuild"
JOINS = (HOME, STATE_FILES)
PEERS = (*BUCKETS, *EQUI, REJOIN, BLOCKS)
"""What Spark users write today."""
CONTESTANTS = (*JOINS, *NOOPS, *DOUBLES, *PEERS)
_LEAST = 8  # rows of a micro-batch


class Work(Enum):
    """What the contestants of a cell do."""

    RACE = "race"
    """Micro-batches in turn, in one session."""
    RESTART = "restart"
    """A query that goes on in a new process."""
    ATTACH = "attach"
    """Steps of a partition, without Spark."""
    LATENCY = "latency"
    """Files that land at a steady pace, from the source folder to the sink."""


@dataclass(frozen=True)
class Entrant(Contestant):
    """A contestant with its feed. ``structure`` is its name without options."""

    workload: str = "W1"
    window: int = 0
    batch: int = 0
    timed: int = 1
    """Micro-batches whose time counts: the last ones."""
    untimed: int = 1
    """Micro-batches before them: the fill, and those in which compilers warm up."""
    partitions: int = 2
    files: int = FILES
    """Files per side and micro-batch."""

    @property
    def batches(self) -> int:
        """All micro-batches."""
        return self.untimed + self.timed

    def shape(self, seed: int) -> Shape:
        """The feed it needs."""
        return Shape(
            self.workload, self.window, self.batch, self.batches - 1, True, seed, self.files
        )

    def is_due(self, turn: int, turns: int) -> bool:
        """Whether it plays in a turn, the first of which is 1: slow ones skip most of them.

        >>> [Entrant("", "", 0, timed=2).is_due(turn, 6) for turn in range(1, 7)]
        [False, True, False, True, False, True]
        """
        return turn * self.batches // turns > (turn - 1) * self.batches // turns


@dataclass(frozen=True)
class SparkCell(Cell[Entrant]):
    """Contestants that share a session."""

    work: Work = Work.RACE
    cores: int = 2
    memory: str = "6g"
    """Memory of the JVM."""
    limit: float = 400.0
    """Seconds after which a session that does not answer is stopped."""


Turns = tuple[int, int]
"""Micro-batches: untimed, then timed."""


@dataclass(frozen=True)
class Plan:
    """How large a run is."""

    window: int = 500_000
    small: int = 40_000
    """Rows of a micro-batch, in figures of the same names."""
    join: int = 500_000
    large: int = 2_500_000
    turns: Turns = (31, 30)
    few: Turns = (5, 7)
    """The same for micro-batches of the largest size, and for points of a series."""
    slow: Turns = (3, 6)
    """The same for contestants that are slow …"""
    slowest: Turns = (2, 1)
    """… and where they are slowest."""
    w2_window: int = 50_000
    w2: int = 100_000
    w2_turns: Turns = (11, 20)
    windows: tuple[int, ...] = (50_000, 500_000, 2_000_000)
    partitions: tuple[int, ...] = (1, 2, 4)
    steps: int = 265_000
    """Rows of a step, where one is attached."""
    latencies: tuple[int, ...] = (1_000, 10_000, 40_000, 500_000)
    landed: Turns = (11, 50)
    memory: str = "6g"
    limit: float = 400.0

    def scaled(self, scale: float) -> Plan:
        """Windows and micro-batches of another size.

        >>> Plan().scaled(0.01).join, Plan().scaled(1e-6).windows
        (5000, (8, 8, 8))
        """
        if scale == 1:
            return self

        def rows(count: int) -> int:
            return max(_LEAST, 2 * round(count * scale / 2))

        sizes: dict[str, Any] = {
            name: rows(getattr(self, name))
            for name in ("window", "small", "join", "large", "w2_window", "w2", "steps")
        }
        windows, latencies = tuple(map(rows, self.windows)), tuple(map(rows, self.latencies))
        return replace(self, **sizes, windows=windows, latencies=latencies)


FULL = Plan()
QUICK = replace(
    FULL.scaled(0.02), turns=(3, 3), few=(2, 2), w2_turns=(2, 2), slow=(1, 1), slowest=(1, 1),
    windows=(1_000,), partitions=(1,), latencies=(200, 2_000), landed=(3, 6), memory="1g",
)  # fmt: skip
"""Everything, small. The numbers say nothing, the answers are checked all the same."""


def figures(plan: Plan) -> dict[str, Figure[SparkCell]]:
    """All figures of a plan."""
    times = ("tuples_per_s", "p50_s", "max_s", "map_s", "join_s", "planning_s", "bookkeeping_s")
    rows = "rows of a micro-batch"
    every = (
        Figure("small", "W1, small micro-batches: Spark's fixed cost counts", rows,
               _of(plan, _small), times),
        Figure("join", "W1, micro-batches of half a window", rows, _of(plan, _join), times),
        Figure("large", "W1, micro-batches of 2.5 windows", rows, _of(plan, _large), times),
        Figure("w2", "W2, two inequalities", rows, _of(plan, _w2), ("tuples_per_s", "p50_s")),
        Figure("restart", "the first micro-batch of a new process", rows,
               _of(plan, _restart, Work.RESTART), ("first_s", "normal_s", "cold_s", "slower_s")),
        Figure("attach", "a step of a partition with 2 windows of rows stored, without Spark",
               "rows of a step", _of(plan, _attach, Work.ATTACH), ("cpu_s",)),
        Figure("windows", "theta_join on W1 over window sizes", "rows per side in the window",
               _of(plan, _windows)),
        Figure("partitions", "theta_join on W1 over partitions", "partitions",
               _of(plan, _partitions)),
        Figure("latency", "from the source folder to the sink", rows,
               _of(plan, _latency, Work.LATENCY), ("latency_p50", "latency_p99")),
    )  # fmt: skip
    return {figure.name: figure for figure in every}


Entrants = Callable[[Plan], Iterator[Entrant]]


def _of(plan: Plan, make: Entrants, work: Work = Work.RACE) -> Callable[[Sizes], list[SparkCell]]:
    """The cells of a figure, named after the function of its contestants."""
    name = make.__name__.removeprefix("_")

    def cells(sizes: Sizes) -> list[SparkCell]:
        own = plan.scaled(sizes.scale)
        who = chosen(list(make(own)), sizes.asked.contestants)
        cell = SparkCell(name, tuple(who), work=work, memory=plan.memory, limit=plan.limit)
        return [cell] if who else []

    return cells


def chosen(every: Sequence[Entrant], asked: Collection[str]) -> list[Entrant]:
    """Those asked for, or all. ``theta_join`` may have a tactic: ``theta_join:tactic=ordered``."""
    if not asked:
        return list(every)
    found = []
    for spec in asked:
        name, options = parse_spec(spec)
        known = (*CONTESTANTS, LOST, KEPT, HIT, ATTACH, REBUILD)
        if name not in known or set(options) - ({"tactic"} if name in JOINS else set()):
            raise RegistryError(
                f"contestant must be one of {', '.join(known)}; theta_join may have a tactic, as "
                f"in theta_join:tactic=ordered; got {spec!r}.{suggest(name, known)}"
            )
        parameters = tuple(options.items())
        found += [
            replace(one, label=spec, parameters=parameters)
            for one in every
            if one.structure == name
        ]
    return found


def _entrants(first: Entrant, turns: dict[str, Turns]) -> Iterator[Entrant]:
    for name, (untimed, timed) in turns.items():
        yield replace(first, label=name, structure=name, untimed=untimed, timed=timed)


def _w1(plan: Plan, batch: int) -> Entrant:
    return Entrant(HOME, HOME, batch, window=plan.window, batch=batch)


def _small(plan: Plan) -> Iterator[Entrant]:
    names = (*JOINS, *NOOPS, DOUBLE, *EQUI)
    return _entrants(_w1(plan, plan.small), dict.fromkeys(names, plan.turns))


def _join(plan: Plan) -> Iterator[Entrant]:
    turns = dict.fromkeys((*JOINS, *DOUBLES), plan.turns)
    slow = dict(zip(BUCKETS, (plan.slow, plan.slowest), strict=True))
    return _entrants(_w1(plan, plan.join), turns | slow)


def _large(plan: Plan) -> Iterator[Entrant]:
    turns = dict.fromkeys((*JOINS, *DOUBLES), plan.few) | {BUCKETS[0]: plan.slowest}
    return _entrants(_w1(plan, plan.large), turns)


def _w2(plan: Plan) -> Iterator[Entrant]:
    first = Entrant(HOME, HOME, plan.w2, workload="W2", window=plan.w2_window, batch=plan.w2)
    turns = {HOME: plan.w2_turns, BLOCKS: plan.w2_turns, REJOIN: plan.slowest}
    return _entrants(first, turns)


def _restart(plan: Plan) -> Iterator[Entrant]:
    """A full window and some micro-batches; then, in a new process, two more."""
    return _entrants(_w1(plan, plan.join), dict.fromkeys((LOST, KEPT), (4, 2)))


def _attach(plan: Plan) -> Iterator[Entrant]:
    first = replace(_w1(plan, plan.steps), partitions=1)
    return _entrants(first, dict.fromkeys((HIT, ATTACH, REBUILD), plan.few))


def _windows(plan: Plan) -> Iterator[Entrant]:
    untimed, timed = plan.few
    first = replace(_w1(plan, plan.join), untimed=untimed, timed=timed)
    return (replace(first, place=window, window=window) for window in plan.windows)


def _partitions(plan: Plan) -> Iterator[Entrant]:
    untimed, timed = plan.few
    first = replace(_w1(plan, plan.join), untimed=untimed, timed=timed)
    return (replace(first, place=number, partitions=number) for number in plan.partitions)


def _latency(plan: Plan) -> Iterator[Entrant]:
    untimed, timed = plan.landed
    for batch in plan.latencies:
        yield replace(_w1(plan, batch), untimed=untimed, timed=timed, files=1)

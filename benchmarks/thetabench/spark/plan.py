"""What is measured: a list of measurements, in full or small.

Names of parts (``--only``):

``join``        ``theta_join`` on W1, micro-batches of both sizes, runs in state store or files
``bucketed``    the hand-bucketed equi-join, in memory and in RocksDB
``empty``       the pipeline with an empty joiner, rows given once and twice
``w2``          two inequalities: ``theta_join``, and ``foreachBatch`` in two forms
``restart``     from a checkpoint, with run files lost and kept
``windows``     ``theta_join`` over window sizes
``partitions``  ``theta_join`` over numbers of partitions
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from thetabench.spark.feed import Shape
from thetastream.errors import RegistryError, suggest

HOME = "theta_join"
FILES = "theta_join-files"
PARTS = ("join", "bucketed", "empty", "w2", "restart", "windows", "partitions")
COMPARED = ("join", "bucketed", "empty")
"""Parts whose contestants answer the same W1, side by side."""
STORES = ("bucketed-memory", "bucketed-rocksdb")
EMPTY = ("empty", "empty-double")
"""They return every row once, or twice."""
REJOIN = "foreachBatch"
BLOCKS = "foreachBatch-blocks"
LOST, KEPT = "restart, run files lost", "restart, run files kept"


@dataclass(frozen=True)
class Sizes:
    """How large a run is. Rows of a micro-batch count both sides, those of a window one."""

    window: int
    batches: tuple[int, ...]
    """Sizes of micro-batches, the most telling first."""
    rows: int
    """Timed rows of ``theta_join`` and of the empty joiner."""
    slow_rows: int
    """Timed rows of the hand-bucketed join."""
    w2_window: int
    w2_batches: tuple[int, ...]
    """Sizes of micro-batches of W2, the most telling first."""
    w2_rows: int
    w2_slow_rows: int
    """Timed rows of ``foreachBatch``; two micro-batches at most, as it is slow."""
    windows: tuple[int, ...]
    partitions: tuple[int, ...]
    memory: str
    """Memory of each JVM."""
    limit: float
    """Seconds after which a contestant's process is stopped."""
    cores: int = 2
    seed: int = 0

    def with_rows(self, rows: int) -> Sizes:
        """The sizes with another number of timed rows; slow contestants do at most as many."""
        return replace(
            self,
            rows=rows,
            slow_rows=min(rows, self.slow_rows),
            w2_rows=min(rows, self.w2_rows),
            w2_slow_rows=min(rows, self.w2_slow_rows),
        )


FULL = Sizes(
    window=500_000,
    batches=(500_000, 2_500_000),
    rows=5_000_000,
    slow_rows=1_000_000,
    w2_window=50_000,
    w2_batches=(100_000, 50_000),
    w2_rows=1_000_000,
    w2_slow_rows=200_000,
    windows=(50_000, 2_000_000),
    partitions=(1, 4),
    memory="6g",
    limit=400.0,
)
"""The workload of the issue."""

QUICK = Sizes(
    window=20_000,
    batches=(20_000,),
    rows=60_000,
    slow_rows=20_000,
    w2_window=2_000,
    w2_batches=(4_000, 2_000),
    w2_rows=8_000,
    w2_slow_rows=4_000,
    windows=(5_000,),
    partitions=(1,),
    memory="1g",
    limit=300.0,
)
"""Everything, small. The numbers say nothing, the answers are checked all the same."""


@dataclass(frozen=True)
class Measurement:
    """One contestant over one feed."""

    part: str
    contestant: str
    workload: str
    window: int
    batch: int
    timed: int
    """Micro-batches whose time counts: the last ones."""
    untimed: int
    """Micro-batches before them: the fill, and one in which compilers warm up."""
    partitions: int = 2
    fill: bool = True
    seed: int = 0
    skipped: str = ""
    """Why it is not run, if it is not."""

    @property
    def batches(self) -> int:
        """All micro-batches."""
        return self.untimed + self.timed

    @property
    def shape(self) -> Shape:
        """The feed it needs."""
        equal = self.batches - self.fill
        return Shape(self.workload, self.window, self.batch, equal, self.fill, self.seed)

    @property
    def label(self) -> str:
        """A short name for progress lines and messages."""
        return (
            f"{self.contestant}: {self.workload}, window {self.window:,}, "
            f"micro-batches of {self.batch:,}, {self.partitions} partitions"
        )


def measurements(
    sizes: Sizes, only: Sequence[str] = (), contestants: Sequence[str] = ()
) -> list[Measurement]:
    """What is measured; ratios need ``theta_join``, so it comes with ``bucketed`` and ``empty``.

    ``contestants``, if there are any: only these. Options may follow the name of one, as in
    ``theta_join:tactic=ordered``.

    >>> [one.contestant for one in measurements(QUICK, ["w2"])][:3]
    ['theta_join', 'foreachBatch', 'foreachBatch-blocks']
    """
    _check("a part of the Spark benchmark", only, PARTS)
    wanted = set(only or PARTS)
    if wanted & {"bucketed", "empty"}:
        wanted.add("join")
    every = [*_streams(sizes), *_w2(sizes), *_restart(sizes), *_series(sizes)]
    made = [replace(one, seed=sizes.seed) for one in every if one.part in wanted]
    if not contestants:
        return made
    names = {spec: spec.partition(":")[0] for spec in contestants}
    _check("a contestant here", names.values(), dict.fromkeys(one.contestant for one in made))
    return [
        replace(one, contestant=spec)
        for one in made
        for spec in contestants
        if names[spec] == one.contestant
    ]


def _check(what: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise RegistryError(
                f"{what} must be one of {', '.join(known)}; got {name!r}.{suggest(name, known)}"
            )


def _streams(sizes: Sizes) -> Iterator[Measurement]:
    """W1: the join, the empty joiner, the hand-bucketed joins."""
    for place, batch in enumerate(sizes.batches):
        timed = _count(sizes.rows, batch)
        home = Measurement("join", HOME, "W1", sizes.window, batch, timed, 2, sizes.cores)
        yield from (replace(home, contestant=name) for name in (HOME, FILES))
        yield from (replace(home, part="empty", contestant=name) for name in EMPTY)
        slow = replace(home, part="bucketed", timed=_count(sizes.slow_rows, batch), untimed=1)
        why = f"slow: measured at {sizes.batches[0]:,} only" if place else ""
        memory, rocksdb = (replace(slow, contestant=name) for name in STORES)
        yield from (memory, replace(rocksdb, skipped=why))


def _w2(sizes: Sizes) -> Iterator[Measurement]:
    """Two inequalities. Micro-batches are short, so Spark's own code takes many to be compiled."""
    for batch in sizes.w2_batches:
        timed = _count(sizes.w2_rows, batch)
        warm = 2 + timed // 2
        home = Measurement("w2", HOME, "W2", sizes.w2_window, batch, timed, warm, sizes.cores)
        slow = min(2, _count(sizes.w2_slow_rows, batch))
        yield home
        yield replace(home, contestant=REJOIN, timed=slow, untimed=1)
        yield replace(home, contestant=BLOCKS)


def _restart(sizes: Sizes) -> Iterator[Measurement]:
    """Enough micro-batches to fill the window; then, in a new process, two more."""
    window, batch = sizes.window, sizes.batches[0]
    filled = -(-2 * window // batch)
    for name in (LOST, KEPT):
        yield Measurement("restart", name, "W1", window, batch, 2, filled + 2, sizes.cores, False)


def _series(sizes: Sizes) -> Iterator[Measurement]:
    """Points beside those of ``join``: other windows, other numbers of partitions."""
    batch = sizes.batches[0]
    timed = max(2, _count(sizes.rows, batch) // 2)
    home = Measurement("windows", HOME, "W1", sizes.window, batch, timed, 2, sizes.cores)
    yield from (replace(home, window=window) for window in sizes.windows)
    for number in sizes.partitions:
        yield replace(home, part="partitions", partitions=number)


def _count(rows: int, batch: int) -> int:
    return max(1, -(-rows // batch))

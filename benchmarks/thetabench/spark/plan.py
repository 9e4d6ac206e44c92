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

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thetabench.spark.feed import Shape
from thetastream.errors import RegistryError, suggest

HOME = "theta_join"
FILES = "theta_join-files"
PARTS = ("join", "bucketed", "empty", "w2", "restart", "windows", "partitions")
STORES = ("bucketed-memory", "bucketed-rocksdb")
EMPTY = ("empty", "empty-double")
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
        """Give the sizes with another number of timed rows; slow contestants do at most as many."""
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
        """Give a short name for progress lines and messages."""
        return (
            f"{self.contestant}: {self.workload}, window {self.window:,}, "
            f"micro-batches of {self.batch:,}, {self.partitions} partitions"
        )


def measurements(
    sizes: Sizes, only: Sequence[str] = (), contestants: Sequence[str] = ()
) -> list[Measurement]:
    """Give what is measured; ratios need ``theta_join``, so it comes with ``bucketed``, ``empty``.

    ``contestants``, if there are any: only these. Options may follow the name of one, as in
    ``theta_join:tactic=ordered``.

    >>> [found.contestant for found in measurements(QUICK, ["w2"])][:3]
    ['theta_join', 'foreachBatch', 'foreachBatch-blocks']
    """
    for name in only:
        if name not in PARTS:
            raise RegistryError(
                f"a part of the Spark benchmark must be one of {', '.join(PARTS)}; got {name!r}."
                f"{suggest(name, PARTS)}"
            )
    wanted = set(only or PARTS)
    if wanted & {"bucketed", "empty"}:
        wanted.add("join")
    made = [*_streams(sizes), *_w2(sizes), *_restart(sizes), *_series(sizes)]
    found = [replace(one, seed=sizes.seed) for one in made if one.part in wanted]
    return _chosen(found, contestants) if contestants else found


def _chosen(found: Sequence[Measurement], contestants: Sequence[str]) -> list[Measurement]:
    """Measurements of the wanted contestants, with their options."""
    names = list(dict.fromkeys(one.contestant for one in found))
    for wanted in contestants:
        name = wanted.partition(":")[0]
        if name not in names:
            raise RegistryError(
                f"a contestant here must be one of {', '.join(names)}; got {name!r}."
                f"{suggest(name, names)}"
            )
    return [
        replace(one, contestant=wanted)
        for one in found
        for wanted in contestants
        if wanted.partition(":")[0] == one.contestant
    ]


def _streams(sizes: Sizes) -> list[Measurement]:
    """W1: the join, the empty joiner, the hand-bucketed joins."""
    found = []
    for place, batch in enumerate(sizes.batches):
        fast = _count(sizes.rows, batch)
        home = Measurement("join", HOME, "W1", sizes.window, batch, fast, 2, sizes.cores)
        found += [home, replace(home, contestant=FILES)]
        found += [replace(home, part="empty", contestant=name) for name in EMPTY]
        slow = replace(home, part="bucketed", timed=_count(sizes.slow_rows, batch), untimed=1)
        for name in STORES:
            why = f"slow: measured at {sizes.batches[0]:,} only" if place else ""
            skipped = why if name == "bucketed-rocksdb" else ""
            found.append(replace(slow, contestant=name, skipped=skipped))
    return found


def _w2(sizes: Sizes) -> list[Measurement]:
    """Two inequalities. Micro-batches are short, so Spark's own code takes many to be compiled."""
    found = []
    for batch in sizes.w2_batches:
        fast = _count(sizes.w2_rows, batch)
        warm = 2 + fast // 2
        home = Measurement("w2", HOME, "W2", sizes.w2_window, batch, fast, warm, sizes.cores)
        slow = min(2, _count(sizes.w2_slow_rows, batch))
        found += [
            home,
            replace(home, contestant=REJOIN, timed=slow, untimed=1),
            replace(home, contestant=BLOCKS),
        ]
    return found


def _restart(sizes: Sizes) -> list[Measurement]:
    """Enough micro-batches to fill the window; then, in a new process, two more."""
    batch = sizes.batches[0]
    filled = -(-2 * sizes.window // batch)
    return [
        Measurement("restart", name, "W1", sizes.window, batch, 2, filled + 2, sizes.cores, False)
        for name in (LOST, KEPT)
    ]


def _series(sizes: Sizes) -> list[Measurement]:
    """Points beside those of ``join``: other windows, other numbers of partitions."""
    batch = sizes.batches[0]
    timed = max(2, _count(sizes.rows, batch) // 2)
    windows = [
        Measurement("windows", HOME, "W1", window, batch, timed, 2, sizes.cores)
        for window in sizes.windows
    ]
    partitions = [
        Measurement("partitions", HOME, "W1", sizes.window, batch, timed, 2, number)
        for number in sizes.partitions
    ]
    return windows + partitions


def _count(rows: int, batch: int) -> int:
    return max(1, -(-rows // batch))

"""Worker threads of the parallel index-based window join (``kernels/crew.py`` is what they run).

A ``Crew`` runs feeds: it queues tuples, starts the threads, and yields pairs in arrival order.
Threads stop when the queue is empty, when they are dismissed, or when an array is too small. Then
all of them return, the ``Crew`` enlarges the array, and they resume.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.trees.kernels import forest
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Pool
from thetastream.options.checks import read_count
from thetastream.tuplewise.kernels import crew as shared
from thetastream.tuplewise.kernels.crew import Team, finish, work
from thetastream.tuplewise.kernels.ibwj import Feed

Pairs = tuple[Array, Array]
MOST_THREADS = 64
_OUT = 1 << 20
_BUFFER = 1 << 14
_LOG = 4096


class Merge(enum.Enum):
    """Whether other threads wait while one merges."""

    BLOCKING = "blocking"
    NON_BLOCKING = "non-blocking"


class Crew:
    """Threads that join one feed after another. Their number may change while they work."""

    def __init__(
        self,
        pool: Pool,
        sides: int,
        threads: int,
        task_size: int,
        merge: Merge,
        record: bool = False,
        perturb: int = 0,
    ) -> None:
        prepare(shared)
        self._pool = pool
        self._task = task_size
        self._blocking = merge is Merge.BLOCKING
        self._record = record
        self._perturb = perturb
        self._wanted = read_count("threads", threads, most=MOST_THREADS)
        self._guard = threading.Lock()
        self._edges = [0] * sides
        self._spare = len(pool.recipes) - 1  # its only run is the free one
        self._buffer, self._out = _BUFFER, _OUT
        self._kept = [np.zeros(0, np.int64)] * 5
        self._starts: list[Array] = []
        self._ends: list[Array] = []
        self._team: Team | None = None
        self._feed: Feed | None = None
        self._ring = np.zeros((1, 1), np.int64)
        self._running: dict[int, threading.Thread] = {}
        self._errors: list[BaseException] = []
        self.merges: list[tuple[int, int, int]] = []
        self.merge_count = 0

    @property
    def threads(self) -> int:
        """The number of threads. Any thread may set it at any time."""
        return self._wanted

    @threads.setter
    def threads(self, count: int) -> None:
        with self._guard:
            self._wanted = read_count("threads", count, most=MOST_THREADS)
            if self._team is not None and self._running:
                self._adjust(self._team)

    @property
    def tasks(self) -> dict[str, Array]:
        """When every recorded task was requested and when it was done, in nanoseconds."""
        none = np.empty(0, np.int64)
        parts = {"start": self._starts, "end": self._ends}
        return {name: np.concatenate([none, *arrays]) for name, arrays in parts.items()}

    def forget(self) -> None:
        """Drop the recorded times."""
        self._starts, self._ends, self.merges = [], [], []

    # --- A feed ---------------------------------------------------------------------------------

    def run(self, feed: Feed, ring: Array) -> Iterator[Pairs]:
        """Join the tuples of a feed; yields pairs in arrival order."""
        if not feed.sides.size:
            return
        self._feed, self._ring = feed, ring
        self._team = team = self._made(feed, ring)
        while True:
            self._work()
            status = finish(self._pool.store, ring, team)
            fill, team.control[shared.OUT_FILL] = int(team.control[shared.OUT_FILL]), 0
            if fill:
                yield team.out_positions[:fill].copy(), team.out_numbers[:fill].copy()
            if status == 0 and self._over(team, feed):
                break
            team.control[shared.STOP] = 0
            team = self._enlarged(team, int(status), int(team.control[shared.STOP_SIDE]))
        self._note(team, feed)
        self._team = self._feed = None

    def _over(self, team: Team, feed: Feed) -> bool:
        """Whether all results are out and no merge has work left."""
        mergers = team.control[shared.SIDES + shared.MERGER :: shared.SIDE_STEP]
        left = mergers[: len(self._edges)] != shared.IDLE
        return bool(team.control[shared.DONE_TO] == feed.sides.size and not left.any())

    def _made(self, feed: Feed, ring: Array) -> Team:
        count = feed.sides.size
        control = np.zeros(shared.CONTROL_SIZE, np.int64)
        for side in range(ring.shape[0]):
            at = shared.SIDES + side * shared.SIDE_STEP
            control[at + shared.EDGE] = self._edges[side]
            control[at + shared.DELETE_AT] = self._pool.side(side)[layout.DELETED]
        workers = np.zeros(MOST_THREADS * shared.WORKER_SIZE, np.int64)
        rows = workers.reshape(MOST_THREADS, shared.WORKER_SIZE)
        rows[:, shared.SEED] = np.arange(1, MOST_THREADS + 1) * 0x9E3779B97F4A7C1 + count
        rows[:, shared.LAST] = -1
        control[shared.SPARE] = self._spare
        tasks = self._tasks(count) if self._record else 0
        buffers = MOST_THREADS * self._buffer
        per_tuple = [np.zeros(count, np.int64) for _ in range(3)]
        recorded = [np.zeros(size, np.int64) for size in (2 * tasks, 3 * _LOG * self._record)]
        sizes = (buffers, buffers, self._out, self._out)
        held = [self._kept_array(at, size) for at, size in enumerate(sizes, 1)]
        # Flags name the numbers of their rows, so those of earlier feeds need not be cleared.
        return Team(control, workers, self._kept_array(0, ring.size), *per_tuple, *held, *recorded)

    def _kept_array(self, at: int, size: int) -> Array:
        """An array that is made once and serves all feeds, as long as its size stays the same."""
        if self._kept[at].size != size:
            self._kept[at] = np.zeros(size, np.int64)
        return self._kept[at]

    def _tasks(self, tuples: int) -> int:
        return -(-tuples // self._task)

    # --- Threads --------------------------------------------------------------------------------

    def _work(self) -> None:
        """Run the threads until all have returned."""
        team, feed = self._team, self._feed
        assert team is not None and feed is not None
        with self._guard:
            here = self._tasks(feed.sides.size) == 1 and not any(self._holders(team))
            if here:
                self._running[0] = threading.current_thread()
            self._adjust(team, most=1 if here else MOST_THREADS)
        if here:  # waking a thread would take longer
            self._one(0)
        while True:
            with self._guard:
                current = list(self._running.values())
            if not current:
                break
            for thread in current:
                thread.join()
        if self._errors:
            raise self._errors.pop()

    @staticmethod
    def _holders(team: Team) -> list[int]:
        """The threads that hold a task, which they must finish, wanted or not."""
        rows = team.workers.reshape(MOST_THREADS, shared.WORKER_SIZE)
        return list(np.flatnonzero(rows[:, shared.TASK_AT] < rows[:, shared.TASK_END]).tolist())

    def _adjust(self, team: Team, most: int = MOST_THREADS) -> None:
        """Start or dismiss threads until as many work as are wanted and needed. Under the guard."""
        assert self._feed is not None
        # Set before any thread starts: inserts leave nodes for this many.
        team.control[shared.THREADS] = max(int(team.control[shared.THREADS]), self._wanted)
        rows = team.workers.reshape(MOST_THREADS, shared.WORKER_SIZE)
        rows[:, shared.LEAVE] = np.arange(MOST_THREADS) >= self._wanted
        left = self._tasks(self._feed.sides.size - int(team.control[shared.HEAD]))
        for me in sorted({*self._holders(team), *range(min(self._wanted, most, max(1, left)))}):
            if me not in self._running:
                thread = threading.Thread(target=self._one, args=(me,), daemon=True)
                thread.name = f"thetastream-worker-{me}"
                self._running[me] = thread
                thread.start()

    def _one(self, me: int) -> None:
        path, spot = np.zeros(2 * forest.MOST_LEVELS, np.int64), np.zeros(3, np.int64)
        feed, team = self._feed, self._team
        assert feed is not None and team is not None
        try:
            work(
                self._pool.store, feed, self._ring, team, me, self._task, path, spot,
                int(self._blocking), self._perturb,
            )  # fmt: skip
        except BaseException as error:
            self._errors.append(error)
        finally:
            with self._guard:
                self._running.pop(me, None)

    # --- Between two rounds ---------------------------------------------------------------------

    def _enlarged(self, team: Team, status: int, side: int) -> Team:
        """Enlarge what was too small; returns the team to resume with."""
        pool, threads = self._pool, int(team.control[shared.THREADS]) + 1
        if status in (layout.NO_NODES, layout.NO_ROOM):
            pool.enlarge(side, status, threads)
        elif status == shared.BUFFER_SMALL:
            team = self._wider(team)
        elif status == layout.FULL:
            ahead = int(team.counts[team.control[shared.DONE_TO]])
            if ahead > self._out:
                self._out = 2 * ahead
                self._kept[3:] = [np.empty(self._out, np.int64) for _ in range(2)]
                team = team._replace(out_positions=self._kept[3], out_numbers=self._kept[4])
        for number in range(len(self._edges)):
            merger = shared.SIDES + number * shared.SIDE_STEP + shared.MERGER
            if team.control[merger] == shared.RESET:
                pool.enlarge(number, layout.NO_HEADS, threads)
                team.control[merger] = shared.IDLE if self._blocking else shared.PENDING
                team.control[shared.GATE] = 0
        self._team = team
        return team

    def _wider(self, team: Team) -> Team:
        """Double every thread's buffer; results not yet emitted are copied."""
        old, self._buffer = self._buffer, 2 * self._buffer
        narrow = [team.held_positions, team.held_numbers]
        wide = [np.empty(MOST_THREADS * self._buffer, np.int64) for _ in narrow]
        for new, was in zip(wide, narrow, strict=True):
            new.reshape(MOST_THREADS, -1)[:, :old] = was.reshape(MOST_THREADS, -1)
        self._kept[1:3] = wide
        owner, within = np.divmod(team.where, old)
        return team._replace(
            held_positions=wide[0], held_numbers=wide[1], where=owner * self._buffer + within
        )

    def _note(self, team: Team, feed: Feed) -> None:
        """After a feed: check that every row is indexed, and keep the recorded times."""
        for side in range(len(self._edges)):
            at = shared.SIDES + side * shared.SIDE_STEP
            numbers = feed.own[feed.sides == side]
            self._edges[side] = int(team.control[at + shared.EDGE])
            if self._pool.side(side)[layout.DELETED] >= 0:
                self._pool.side(side)[layout.DELETED] = team.control[at + shared.DELETE_AT]
            assert not numbers.size or self._edges[side] == numbers[-1] + 1, "all rows are indexed"
        self._spare = int(team.control[shared.SPARE])
        logged = int(team.control[shared.LOGGED])
        self.merge_count += logged
        if self._record:
            tasks = team.times.size // 2
            self._starts.append(team.times[:tasks])
            self._ends.append(team.times[tasks:])
            log = team.log.reshape(-1, 3)[: min(logged, _LOG)]
            self.merges += [(int(side), int(start), int(end)) for side, start, end in log]

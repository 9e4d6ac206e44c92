"""The index-based window join over plain arrays: tuple by tuple, in one thread or in several.

    join = IndexJoin("pim-tree", windows=(1 << 20, 1 << 20), threads=2)
    for positions, numbers in join.run(sides, keys, lows, highs):
        …      tuple positions[j] of this run matches row numbers[j] of the side it probes

``threads=0`` runs without concurrency control and serves every structure. With threads, workers
take tasks from a shared queue (PIM-Tree, Section 4; ``crew.py``). The round-robin index and the
nested loop divide the window among threads instead, like the low-latency handshake join (Section
2.2.3): every thread sees every tuple and looks it up in its share of the window.

Pairs come in arrival order for any number of threads; the structure decides the order among the
pairs of one tuple. Keys and boxes are order-preserving int64 keys, as everywhere below
``StreamJoin``. ``ParallelJoin`` (``parallel.py``) joins Arrow batches on top of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.errors import DataError, OptionError, RegistryError, suggest
from thetastream.index.registry import check_parameters, names
from thetastream.index.registry import structure as kind_of
from thetastream.index.trees.bplus_tree import BPlusTree
from thetastream.index.trees.kernels import rows_in_trees
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Pool, Recipe
from thetastream.index.trees.tree_index import TreeIndex
from thetastream.options.checks import read_choice, read_count
from thetastream.tuplewise.crew import MOST_THREADS, Crew, Merge
from thetastream.tuplewise.kernels import ibwj as kernels
from thetastream.tuplewise.kernels.ibwj import Feed, join_alone

__all__ = ["STEPS", "IndexJoin", "joinable"]

Pairs = tuple[Array, Array]
_STEP = 1 << 20  # tuples queued at a time
_CHUNK = 1 << 16
STEPS = ("search", "delete", "insert", "merge")


def joinable() -> list[str]:
    """Names of the structures that this join can use: all that take rows one by one."""
    return [*(name for name in names() if kind_of(name).per_tuple), "nested-loop"]


class IndexJoin:
    """Joins tuples in arrival order, each with the rows of the other side's window in its box.

    ``windows`` are the sizes of the two windows in rows. ``parameters`` go to the structure.
    ``merge`` says whether other threads continue while one merges. ``record`` keeps the times of
    tasks, ``steps`` those of the steps of each tuple (one thread). ``perturb`` makes threads yield
    at random, once in ``perturb`` chances, to provoke rare interleavings.
    """

    def __init__(
        self,
        structure: str = "pim-tree",
        windows: tuple[int, int] = (1 << 20, 1 << 20),
        *,
        self_join: bool = False,
        threads: int = 0,
        task_size: int = 8,
        merge: str = "non-blocking",
        parameters: Mapping[str, Any] | None = None,
        record: bool = False,
        steps: bool = False,
        perturb: int = 0,
    ) -> None:
        if structure not in joinable():
            raise RegistryError(
                f"structure must be one of {', '.join(joinable())}; got {structure!r}."
                f"{suggest(structure, joinable())}"
            )
        for size in windows:
            read_count("each size in windows", size)
        read_count("threads", threads, least=0)
        read_count("task_size", task_size)
        read_count("perturb", perturb, least=0)
        kind = kind_of(structure)
        if threads > 0 and not getattr(kind, "concurrent", structure == "nested-loop"):
            able = [name for name in joinable() if getattr(kind_of(name), "concurrent", True)]
            raise RegistryError(
                f"{structure} serves one thread: threads must be 0; got {threads}. With several "
                f"threads use {', '.join(able)}"
            )
        check_parameters(structure, parameters or {})
        prepare(rows_in_trees, kernels)
        self.structure = structure
        self.windows = windows
        self.self_join = self_join
        self.threads = threads
        self._divides = structure in ("round-robin", "nested-loop")
        self._deletes = getattr(kind, "deletes", False)
        merging = read_choice(Merge, "merge", merge)
        crew = threads > 0 and not self._divides
        sides = windows[:1] if self_join else windows
        settings = dict(parameters or {})
        spare = crew and merging is Merge.NON_BLOCKING
        shares = max(1, threads) if self._divides else 1
        self._pools = [_pool(structure, sides, settings, shares, spare) for _ in range(shares)]
        self._pool = self._pools[0]
        self._ring = np.zeros((len(sides), 1), np.int64)
        self._next = [0] * len(sides)
        self._costs = np.zeros(len(STEPS) if steps else 0, np.int64)
        self._tuples = 0
        self._executor: ThreadPoolExecutor | None = None
        self._crew: Crew | None = None
        if crew:
            self._crew = Crew(self._pool, len(sides), threads, task_size, merging, record, perturb)

    # --- Tuples in ------------------------------------------------------------------------------

    def run(self, sides: Array, keys: Array, lows: Array, highs: Array) -> Iterator[Pairs]:
        """Join the next tuples; read the pairs to the end before the next run.

        ``sides`` holds 0 or 1 per tuple, ``keys`` the stored key, ``lows`` and ``highs`` the
        inclusive interval on the other side.
        """
        arrays = [np.ascontiguousarray(part, np.int64) for part in (sides, keys, lows, highs)]
        if len({part.shape for part in arrays}) > 1 or arrays[0].ndim != 1:
            raise DataError(f"arrays of one length expected; got {[a.shape for a in arrays]}")
        if not self.self_join and not np.isin(arrays[0], (0, 1)).all():
            raise DataError("sides must be 0 or 1 for every tuple")
        for start in range(0, arrays[0].size, _STEP):
            feed = self.feed(*(array[start : start + _STEP] for array in arrays))
            for positions, numbers in self.join(feed):
                yield positions + start, numbers

    def feed(self, sides: Array, keys: Array, lows: Array, highs: Array) -> Feed:
        """Queue tuples of count windows: number them, and find which rows each may match."""
        boxes = (keys, lows, highs)
        if self.self_join:
            own = self._next[0] + np.arange(sides.size)
            floors = np.maximum(own - self.windows[0], 0).reshape(1, -1)
            return Feed(np.zeros_like(sides), *boxes, own, own, floors, np.zeros(1, np.int64))
        right = sides == 1
        before = np.cumsum(right) - right
        counts = np.stack([self._next[0] + np.arange(sides.size) - before, self._next[1] + before])
        own = np.where(right, counts[1], counts[0])
        until = np.where(right, counts[0], counts[1])
        floors = np.maximum(counts - np.array(self.windows)[:, None], 0)
        return Feed(sides, *boxes, own, until, floors, np.array([1, 0]))

    def join(self, feed: Feed) -> Iterator[Pairs]:
        """Join queued tuples; the numbers of each side must continue those of the last feed."""
        self._remember(feed)
        self._tuples += feed.sides.size
        if self._crew is not None:
            yield from self._crew.run(feed, self._ring)
        elif self._divides and self.threads > 1:
            yield from self._shared(feed)
        else:
            yield from self._alone(feed, self._pool, 0, 1)

    def _remember(self, feed: Feed) -> None:
        """Put keys into the ring by number; they stay while any tuple may read them."""
        for side, first in enumerate(self._next):
            here = feed.sides == side
            numbers = feed.own[here]
            low = int(feed.floors[side].min(initial=first))
            if self._deletes:  # rows are deleted some time after they left the window
                low = min(low, *(int(pool.side(side)[layout.DELETED]) for pool in self._pools))
            span = first - low + numbers.size
            if span > self._ring.shape[1]:
                self._widen(span)
            self._ring[side, numbers & (self._ring.shape[1] - 1)] = feed.keys[here]
            self._next[side] = first + numbers.size

    def _widen(self, span: int) -> None:
        old, mask = self._ring, self._ring.shape[1] - 1
        ring = np.zeros((len(old), 1 << (span + span // 4).bit_length()), np.int64)
        for side, end in enumerate(self._next):
            numbers = np.arange(max(0, end - old.shape[1]), end)
            ring[side, numbers & (ring.shape[1] - 1)] = old[side, numbers & mask]
        self._ring = ring

    # --- Pairs out ------------------------------------------------------------------------------

    def _alone(self, feed: Feed, pool: Pool, share: int, shares: int) -> Iterator[Pairs]:
        cursor, room = np.zeros(6, np.int64), _CHUNK
        status = layout.FULL
        while status != layout.DONE:
            positions, numbers = np.empty(room, np.int64), np.empty(room, np.int64)
            status = join_alone(
                pool.store, feed, self._ring, cursor, pool.path, positions, numbers,
                share, shares, self._costs,
            )  # fmt: skip
            filled, cursor[1] = int(cursor[1]), 0
            if filled:
                yield positions[:filled], numbers[:filled]
            elif status == layout.FULL:
                room *= 2  # one tuple alone has more pairs
            if status not in (layout.DONE, layout.FULL):
                pool.enlarge(int(cursor[2]), status)

    def _shared(self, feed: Feed) -> Iterator[Pairs]:
        """Every thread does its share of every tuple; pairs are then sorted by arrival."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.threads, "thetastream-share")

        def work(share: int) -> list[Pairs]:
            return list(self._alone(feed, self._pools[share], share, self.threads))

        shares = self._executor.map(work, range(self.threads))
        chunks = [chunk for share in shares for chunk in share]
        if chunks:
            positions, numbers = (np.concatenate(part) for part in zip(*chunks, strict=True))
            order = np.argsort(positions, kind="stable")
            yield positions[order], numbers[order]

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def index_bytes(self) -> int:
        """Bytes of the indexes of both sides, and of the keys that wait for them."""
        return sum(pool.nbytes for pool in self._pools) + self._ring.nbytes

    def merged(self, side: int) -> tuple[int, int]:
        """How often the index of a side was merged, and how many rows that wrote."""
        facts = [pool.side(side) for pool in self._pools]
        merges, rows = (sum(int(one[at]) for one in facts) for at in (layout.MERGES, layout.MERGED))
        return merges, rows

    def resize(self, threads: int) -> None:
        """Change the number of threads, also while they work; OptionError where it is fixed."""
        if self._crew is not None:
            self._crew.threads = threads
            self.threads = self._crew.threads
        elif read_count("threads", threads, least=0, most=MOST_THREADS) != self.threads:
            why = "was made for one thread without concurrency control"
            if self._divides and self.threads > 0:
                why = f"divided the window among {self.threads} threads when it was made"
            raise OptionError(
                f"this join by {self.structure!r} {why}, so threads={threads} is not possible; "
                "make a new one, or use 'pim-tree', whose threads may change at any time"
            )

    @property
    def costs(self) -> dict[str, float]:
        """Nanoseconds per tuple and step, including the clock's own; with ``steps=True``."""
        costs = self._costs / max(1, self._tuples)
        return dict(zip(STEPS, costs.tolist(), strict=False))

    @property
    def crew(self) -> Crew | None:
        """The worker threads, if any."""
        return self._crew

    def check(self) -> None:
        """Assert every invariant of the indexes. For tests."""
        from thetastream.index.trees.invariants import check_pool

        for side in range(len(self._next)):
            for pool in self._pools if self.structure != "nested-loop" else []:
                check_pool(pool, side)


def _pool(
    name: str, windows: Sequence[int], settings: Mapping[str, Any], shares: int, spare: bool
) -> Pool:
    """An empty store for both sides; for a divided window, one thread's share.

    ``spare`` adds a run into which either side is merged. Runs swap places, so all have one size.
    One spare run is enough, because one side is merged at a time.
    """
    kind = kind_of(name)
    if not issubclass(kind, TreeIndex):
        return Pool([Recipe(layout.SCAN) for _ in windows])
    if shares > 1:
        kind, settings = BPlusTree, {k: v for k, v in settings.items() if k != "partitions"}
    recipe: Callable[..., Recipe] = kind.recipe
    recipes = [recipe(-(-window // shares), **settings) for window in windows]
    if spare and recipes[0].runs:
        rows = max(recipe.run_rows for recipe in recipes)
        recipes = [replace(recipe, run_rows=rows) for recipe in recipes]
        recipes.append(replace(recipes[0], mode=layout.SCAN, trees=0))
    pool = Pool(recipes)
    for side in range(len(windows)):
        pool.side(side)[layout.DELETED] = 0 if kind.deletes else -1
    return pool

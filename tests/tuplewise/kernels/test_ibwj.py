"""The join loop of one thread by its contract: cursors, shares, costs, the ring of the scan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.index.trees.invariants import check_pool
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Pool, Recipe
from thetastream.tuplewise.kernels.ibwj import (
    DELETING,
    INSERTING,
    MERGING,
    SEARCHING,
    Feed,
    join_alone,
)

from ...index.trees.small_pools import chain, merged, small
from ...keys import HIGH, LOW, Array, Pair

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def recipe(name: str, window: int) -> Recipe:
    """A side that begins with too few nodes, for a window of so many rows."""
    depth = int(name.partition(" ")[2] or -1)
    recipes = {
        "b+tree": small(layout.SINGLE),
        "optimistic-tree": small(layout.OPTIMISTIC, fanout=4),
        "round-robin": small(layout.ROBIN, trees=3),
        "im-tree": merged(layout.SINGLE, rows=window + 3, limit=3),
        "pim-tree": merged(layout.PARTED, rows=window + 3, limit=3, depth=depth),
        "nested-loop": Recipe(layout.SCAN),
        "IB-chain": chain(3, immutable=True, limit=-(-window // 2)),
        "B-chain": chain(3, immutable=False, limit=-(-window // 2)),
    }
    return recipes[name.partition(" ")[0]]


NAMES = [
    *("b+tree", "round-robin", "im-tree", "pim-tree", "pim-tree 0", "pim-tree 2", "pim-tree 9"),
    *("IB-chain", "B-chain", "optimistic-tree", "nested-loop"),
]
DELETES = ("b+tree", "round-robin", "optimistic-tree")


def feed_of(tuples: list[tuple[int, int, int, int]], windows: tuple[int, int]) -> Feed:
    """Tuples (side, key, low, high) of two count windows, numbered one by one."""
    counts, own, until, floors = [0, 0], [], [], []
    for side, *_ in tuples:
        own.append(counts[side])
        until.append(counts[1 - side])
        floors.append(
            [max(0, count - window) for count, window in zip(counts, windows, strict=True)]
        )
        counts[side] += 1
    columns = np.array(tuples, np.int64).reshape(-1, 4).T
    return Feed(
        *(np.ascontiguousarray(column) for column in columns),
        np.array(own, np.int64),
        np.array(until, np.int64),
        np.ascontiguousarray(np.array(floors, np.int64).reshape(-1, 2).T),
        np.array([1, 0]),
    )


def ring_of(feed: Feed, size: int) -> Array:
    """All keys by number; as large as the stream, so nothing is overwritten."""
    ring = np.zeros((2, size), np.int64)
    ring[feed.sides, feed.own & (size - 1)] = feed.keys
    return ring


def expected(feed: Feed) -> list[Pair]:
    stored: list[dict[int, int]] = [{}, {}]
    pairs = []
    for i, side in enumerate(feed.sides.tolist()):
        other = 1 - side
        pairs += [
            (i, number)
            for number, key in stored[other].items()
            if feed.floors[other, i] <= number < feed.until[i]
            and feed.lows[i] <= key <= feed.highs[i]
        ]
        stored[side][int(feed.own[i])] = int(feed.keys[i])
    return sorted(pairs)


class Run:
    """A join under way: the pool of both sides, its cursor, the pairs so far."""

    def __init__(self, name: str, feed: Feed, windows: tuple[int, int], shares: int = 1) -> None:
        self.pool = Pool([recipe(name, window) for window in windows])
        self.feed, self.shares = feed, shares
        for side in range(2):
            self.pool.side(side)[layout.DELETED] = 0 if name in DELETES else -1
        self.ring = ring_of(feed, 256)
        self.cursor = np.zeros(6, np.int64)
        self.pairs: list[Pair] = []
        self.statuses: list[int] = []

    def step(self, room: int, share: int = 0, costs: Array | None = None) -> int:
        positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
        status = join_alone(
            self.pool.store, self.feed, self.ring, self.cursor, self.pool.path, positions, rows,
            share, self.shares, np.empty(0, np.int64) if costs is None else costs,
        )  # fmt: skip
        filled = int(self.cursor[1])
        self.pairs += zip(positions[:filled].tolist(), rows[:filled].tolist(), strict=True)
        self.cursor[1] = 0
        self.statuses.append(int(status))
        side = int(self.cursor[2])
        if status == layout.NO_NODES:
            self.pool.grow_nodes(side)
        elif status == layout.NO_ROOM:
            self.pool.grow_run(side, self.pool.recipes[side].run_rows + 5)
        elif status == layout.NO_SLOT:
            self.pool.side(side)[layout.LIMIT] += 1
        return int(status)

    def finish(self, room: int, share: int = 0) -> list[Pair]:
        while (status := self.step(room, share)) != layout.DONE:
            assert status != layout.FULL or self.cursor[0] < self.feed.sides.size
        for side in range(2):
            if self.pool.recipes[side].mode != layout.SCAN:
                check_pool(self.pool, side)
        return self.pairs


KEYS = st.one_of(st.integers(-2, 2), st.sampled_from([LOW, HIGH]))
TUPLES = st.lists(st.tuples(st.integers(0, 1), KEYS, KEYS, KEYS), max_size=40)


@pytest.mark.parametrize("name", NAMES)
@given(tuples=TUPLES, windows=st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_pairs_and_their_order(
    name: str, tuples: list[tuple[int, int, int, int]], windows: tuple[int, int]
) -> None:
    feed = feed_of(tuples, windows)
    found = Run(name, feed, windows).finish(64)
    assert sorted(found) == expected(feed)
    assert [i for i, _ in found] == sorted(i for i, _ in found)


def many(name: str, count: int = 200, span: int = 9) -> tuple[Feed, tuple[int, int]]:
    random = np.random.default_rng(len(name))
    sides, keys = random.integers(0, 2, count), random.integers(0, span, count)
    windows = (20, 31)
    return feed_of(
        [(s, k, k - 1, k + 1) for s, k in zip(sides, keys, strict=True)], windows
    ), windows


@pytest.mark.parametrize("name", NAMES)
def test_a_tuple_whose_pairs_do_not_fit_is_done_again(name: str) -> None:
    feed, windows = many(name)
    assert max(np.bincount([i for i, _ in expected(feed)])) < 20
    for room in (64, 70, 10_000):
        run = Run(name, feed, windows)
        assert sorted(run.finish(room)) == expected(feed)
        assert (layout.FULL in run.statuses) == (room < 10_000)
    run = Run(name, feed, windows)
    while run.cursor[0] < 150:
        run.step(64)
    at = int(run.cursor[0])
    assert run.step(0) == layout.FULL
    assert at <= run.cursor[0] <= at + 5, "only tuples without a pair are passed"
    assert sorted(run.finish(64)) == expected(feed)


@pytest.mark.parametrize("name", NAMES)
def test_costs_are_noted_by_step(name: str) -> None:
    feed, windows = many(name)
    run, costs = Run(name, feed, windows), np.zeros(4, np.int64)
    while run.step(10_000, costs=costs) != layout.DONE:
        pass
    assert sorted(run.pairs) == expected(feed)
    assert (layout.NO_NODES in run.statuses) == (name in (*DELETES, "IB-chain", "B-chain"))
    assert costs[SEARCHING] > 0
    assert costs[INSERTING] > 0
    assert (costs[DELETING] > 0) == (name in DELETES)
    assert (costs[MERGING] > 0) == name.startswith(("im", "pim", "IB", "B-"))


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("b+tree", layout.NO_NODES), ("im-tree", layout.NO_ROOM), ("IB-chain", layout.NO_SLOT),
     ("B-chain", layout.NO_SLOT), ("optimistic-tree", layout.NO_NODES)],
)  # fmt: skip
def test_what_is_too_small_is_told_and_the_tuple_done_again(name: str, lacks: int) -> None:
    feed, windows = many(name)
    feed = feed._replace(floors=np.zeros_like(feed.floors))  # nothing ever leaves
    run = Run(name, feed, windows)
    found = run.finish(10_000)
    assert lacks in run.statuses
    assert sorted(found) == expected(feed)


@pytest.mark.parametrize("name", ["b+tree", "nested-loop"])
@pytest.mark.parametrize("shares", [1, 2, 3, 5])
def test_shares_make_up_the_whole(name: str, shares: int) -> None:
    feed, windows = many(name)
    runs = [Run(name, feed, windows, shares) for _ in range(shares)]
    parts = [run.finish(80, share) for share, run in enumerate(runs)]
    assert sorted(pair for part in parts for pair in part) == expected(feed)
    assert all(part for part in parts), "every share has something to do"
    if name == "b+tree":
        for share, part in enumerate(parts):
            assert {number % shares for _, number in part} == {share}


def test_rows_are_deleted_when_their_own_side_goes_on() -> None:
    feed, windows = many("b+tree")
    run = Run("b+tree", feed, windows)
    run.finish(10_000)
    last = {side: int(np.flatnonzero(feed.sides == side)[-1]) for side in range(2)}
    for side, i in last.items():
        assert run.pool.side(side)[layout.DELETED] == feed.floors[side, i]
        assert run.pool.side(side)[layout.YOUNG] == np.count_nonzero(feed.sides == side)


# --- The scan -----------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [0, 1, 63, 64, 100, 200, 255])
@pytest.mark.parametrize("hits", [[0], [63], [64], [65, 66], [127, 128, 199], list(range(200))])
def test_the_ring_is_read_across_its_end_and_block_by_block(turn: int, hits: list[int]) -> None:
    # 200 rows of side 0 whose numbers begin at ``turn``, then one tuple of side 1 that asks.
    keys = np.zeros(201, np.int64)
    keys[hits] = HIGH
    own = np.arange(turn, turn + 201)
    own[200] = 0
    sides = np.zeros(201, np.int64)
    sides[200] = 1
    lows, highs = np.full(201, 1), np.zeros(201, np.int64)
    lows[200] = highs[200] = HIGH
    until = np.zeros(201, np.int64)
    until[200] = turn + 200
    floors = np.zeros((2, 201), np.int64)
    floors[0] = turn
    feed = Feed(sides, keys, lows, highs, own, until, floors, np.array([1, 0]))
    run = Run("nested-loop", feed, (200, 200))
    run.ring[0, own[:200] & 255] = keys[:200]
    assert run.finish(300) == [(200, turn + hit) for hit in hits]

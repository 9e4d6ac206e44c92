"""Makes, enlarges and inspects the arrays of a ``Store`` (``kernels/store.py``).

A *recipe* describes the parts of a side; the pool lays out the parts of all sides in common arrays.
Loops stop with NO_NODES, NO_ROOM or NO_SLOT when a part is too small; the pool then enlarges it and
the loop continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.trees.kernels import css, forest
from thetastream.index.trees.kernels import rows_in_trees as loops
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.store import Store

_SPARE = 8  # nodes beyond what is expected


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of a side: the number and size of its trees and runs."""

    mode: int
    trees: int = 0
    tree_rows: int = 0  # rows per arena
    shared: bool = False  # all trees in one arena
    runs: int = 0
    run_rows: int = 0
    limit: int = 2**62
    share: float = 0.0  # the limit of a run that has outgrown its window, as a share of its rows
    depth: int = -1
    immutable: bool = False
    slots: int = 32  # rows of a tree's leaf
    fanout: int = 32
    run_leaf: int = 32
    run_fanout: int = 16
    fill: float = 0.68  # how full leaves are expected to be: less where rows are deleted

    @property
    def arenas(self) -> int:
        """How many arenas the trees need."""
        return min(1, self.trees) if self.shared else self.trees

    @property
    def run_room(self) -> int:
        """Places that a run takes."""
        return css.room_of(self.run_rows, self.run_leaf)

    @property
    def parts(self) -> int:
        """Subindexes that a PIM-Tree of this size can have, at any depth."""
        return -(-max(self.run_rows, 1) // self.run_leaf) + 1

    @property
    def tree_slots(self) -> int:
        """Rows of the table of trees."""
        return self.parts if self.mode == layout.PARTED else self.trees

    @property
    def locks(self) -> int:
        """Locks that its trees need."""
        return self.tree_slots if self.mode in (layout.PARTED, layout.OPTIMISTIC) else 0

    def leaves(self) -> int:
        """Leaves of an arena."""
        heads = self.heads if self.mode == layout.PARTED else 0
        return heads + int(self.tree_rows / (self.fill * self.slots)) + _SPARE

    @property
    def heads(self) -> int:
        """Leaves that are the first of a subindex, at the default depth."""
        if self.depth >= 0:
            return min(self.parts, int(self.run_fanout**self.depth))
        return -(-self.parts // self.run_fanout)

    def inners(self) -> int:
        """Inner nodes of an arena."""
        return int(self.leaves() / (0.5 * self.fanout)) + _SPARE


class Pool:
    """The arrays of one or two sides, made by recipes."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self.recipes = list(recipes)
        self.path = np.zeros(2 * forest.MOST_LEVELS, np.int64)
        self.store = self._made()
        for side in range(len(recipes)):
            self._begin(side)

    # --- Making ---------------------------------------------------------------------------------

    def _made(self) -> Store:
        kinds = self.recipes
        leaves = sum(kind.arenas * kind.leaves() for kind in kinds)
        inners = sum(kind.arenas * kind.inners() for kind in kinds)
        trees = sum(kind.tree_slots for kind in kinds)
        arenas = sum(kind.arenas for kind in kinds)
        first = kinds[0]
        woods = new_forest(
            leaves, inners, (first.slots, first.fanout), trees, arenas,
            locked=first.mode == layout.OPTIMISTIC,
        )  # fmt: skip
        facts = np.zeros(sum(kind.runs for kind in kinds) * css.RUN_SIZE, np.int64)
        shape = [first.run_fanout, first.run_leaf, css.stride_of(first.run_fanout)]
        chain = max(max(kind.trees, kind.runs) for kind in kinds)
        return Store(
            woods,
            self._new_runs(facts, np.array(shape, np.int64)),
            np.zeros(len(kinds) * layout.SIDE_SIZE, np.int64),
            np.zeros(2 * chain, np.int64),
            np.zeros(sum(kind.locks for kind in kinds), np.int64),
        )

    def _new_runs(self, facts: Array, shape: Array) -> css.Runs:
        """Runs of all sides, whose rows and directories are still empty."""
        rows = sum(kind.runs * kind.run_room for kind in self.recipes)
        slots = sum(kind.runs * self._directory(kind) for kind in self.recipes)
        keys, ids, directory = (np.empty(size, np.int64) for size in (rows, rows, slots))
        return css.Runs(keys, ids, directory, facts, shape)

    @staticmethod
    def _directory(kind: Recipe) -> int:
        return css.directory_slots(kind.run_rows, kind.run_fanout, kind.run_leaf)

    def _begin(self, side: int) -> None:
        """Fill in the tables of a side and make it empty."""
        st, kind = self.store, self.recipes[side]
        before = self.recipes[:side]
        trees = sum(k.tree_slots for k in before)
        arena = sum(k.arenas for k in before)
        leaf = sum(k.arenas * k.leaves() for k in before)
        inner = sum(k.arenas * k.inners() for k in before)
        for number in range(kind.arenas):
            row = self.arena(arena + number)
            row[forest.LEAF_FIRST] = row[forest.LEAF_TOP] = leaf + number * kind.leaves()
            row[forest.LEAF_END] = leaf + (number + 1) * kind.leaves()
            row[forest.INNER_FIRST] = row[forest.INNER_TOP] = inner + number * kind.inners()
            row[forest.INNER_END] = inner + (number + 1) * kind.inners()
            row[forest.LEAF_FREE] = row[forest.INNER_FREE] = -1
        for number in range(kind.tree_slots):
            tree = st.forest.trees[(trees + number) * forest.TREE_SIZE :]
            tree[forest.ARENA] = arena if kind.shared else arena + number
        rows, slots = sum(k.runs * k.run_room for k in before), self._directory(kind)
        first_run = sum(k.runs for k in before)
        start = sum(k.runs * self._directory(k) for k in before)
        for number in range(kind.runs):
            run = self.run(first_run + number)
            run[css.START] = rows + number * kind.run_room
            run[css.ROOM] = kind.run_rows
            run[css.DIRECTORY] = start + number * slots
            loops.build_run(st, first_run + number)
        facts = self.side(side)
        facts[layout.MODE] = kind.mode
        facts[layout.TREES_FIRST] = trees
        facts[layout.TREES_SLOTS] = kind.tree_slots
        facts[layout.RUNS_FIRST] = first_run
        facts[layout.RUNS_SLOTS] = kind.runs
        facts[layout.LIMIT] = facts[layout.PLAIN_LIMIT] = kind.limit
        facts[layout.SHARE] = round(kind.share * layout.WHOLE)
        facts[layout.ASKED_DEPTH] = kind.depth
        facts[layout.IMMUTABLE] = kind.immutable
        facts[layout.LOCKS_FIRST] = sum(k.locks for k in before)
        chain = kind.mode == layout.CHAIN
        # The leaf chain of a PIM-Tree's first subindex leads through all of them.
        facts[layout.TREES_HIGH] = min(kind.trees, 1) if chain else kind.trees
        facts[layout.DELETED] = -1
        facts[layout.RUNS_HIGH] = 0 if chain else min(kind.runs, 1)
        if kind.mode == layout.PARTED:
            assert loops.empty_trees(st, side) == layout.DONE
        else:
            for number in range(kind.trees):
                loops.plant_tree(st, trees + number)

    # --- Tables ---------------------------------------------------------------------------------

    def side(self, side: int) -> Array:
        """The facts of a side, to read and to write."""
        at = side * layout.SIDE_SIZE
        return self.store.sides[at : at + layout.SIDE_SIZE]

    def arena(self, arena: int) -> Array:
        """The facts of an arena."""
        at = arena * forest.ARENA_SIZE
        return self.store.forest.arenas[at : at + forest.ARENA_SIZE]

    def run(self, run: int) -> Array:
        """The facts of a run."""
        at = run * css.RUN_SIZE
        return self.store.runs.facts[at : at + css.RUN_SIZE]

    def arenas_of(self, side: int) -> range:
        """The arenas of a side."""
        first = sum(kind.arenas for kind in self.recipes[:side])
        return range(first, first + self.recipes[side].arenas)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, room to grow included."""
        st = self.store
        parts = [*st.forest, *st.runs, st.sides, st.lasts, st.locks]
        return sum(part.nbytes for part in parts)

    # --- Growing --------------------------------------------------------------------------------

    def enlarge(self, side: int, status: int, threads: int = 1) -> None:
        """Enlarge what a loop of a side that stopped was short of."""
        facts = self.side(side)
        young = int(facts[layout.YOUNG])
        if status == layout.NO_NODES:
            self.grow_nodes(side, threads)
        elif status == layout.NO_ROOM:
            self.grow_run(side, max(self.recipes[side].run_rows * 5 // 4, young) + young + 64)
        elif status == layout.NO_HEADS:
            while loops.empty_trees(self.store, side) != layout.DONE:
                self.grow_nodes(side, threads)
        else:
            assert status == layout.NO_SLOT, status
            facts[layout.LIMIT] = young + max(1, self.recipes[side].limit // 8)

    def grow_nodes(self, side: int, threads: int = 1) -> None:
        """Add an eighth more nodes to every arena of a side that has few left.

        An optimistic tree never joins leaves: if they are mostly empty it is rebuilt first.
        """
        if self.recipes[side].mode == layout.OPTIMISTIC:
            self._rebuild(side)
        for arena in self.arenas_of(side):
            facts = self.arena(arena)
            leaves = int(facts[forest.LEAF_END] - facts[forest.LEAF_FIRST])
            inners = int(facts[forest.INNER_END] - facts[forest.INNER_FIRST])
            need = threads * (int(facts[forest.TALLEST]) + 3)
            no_leaves = facts[forest.LEAF_END] - facts[forest.LEAF_TOP] < need + leaves // 16
            no_inners = facts[forest.INNER_END] - facts[forest.INNER_TOP] < need + inners // 16
            self._widen(
                arena,
                leaves // 8 + need + _SPARE if no_leaves else 0,
                inners // 8 + need + _SPARE if no_inners else 0,
            )

    def _rebuild(self, side: int) -> None:
        """Rebuild an optimistic tree if its leaves are less than a quarter full."""
        st, facts = self.store, self.arena(self.arenas_of(side)[0])
        nothing = np.empty(0, np.int64)
        count = int(loops.dump_rows(st, side, nothing, nothing))
        leaves = int(facts[forest.LEAF_TOP] - facts[forest.LEAF_FIRST])
        if 4 * count >= leaves * self.recipes[side].slots:
            return
        keys, ids = np.empty(count, np.int64), np.empty(count, np.int64)
        loops.dump_rows(st, side, keys, ids)
        order = np.argsort(keys, kind="stable")
        loops.plant_tree(st, int(self.side(side)[layout.TREES_FIRST]))
        loops.insert_rows(st, side, keys[order], ids[order], np.zeros(1, np.int64), self.path)

    def _widen(self, arena: int, leaves: int, inners: int) -> None:
        """Insert room after an arena's nodes; all that lies after it moves up."""
        old, facts = self.store.forest, self.arena(arena).copy()
        arrays = list(old)
        leaf_end, inner_end = int(facts[forest.LEAF_END]), int(facts[forest.INNER_END])
        if leaves:
            for at in range(4):
                arrays[at] = _gap(arrays[at], leaf_end, leaves)
        if inners:
            for at in range(4, 8):
                arrays[at] = _gap(arrays[at], inner_end, inners)
        moved = forest.Forest(*arrays)
        if old.leaf_locks.size:  # no lock is held now, so all may restart at 0
            sizes = moved.sizes.size, moved.widths.size
            moved = moved._replace(
                leaf_locks=np.zeros(sizes[0], np.int64), inner_locks=np.zeros(sizes[1], np.int64)
            )
        self.store = self.store._replace(forest=moved)
        for number in range(moved.arenas.size // forest.ARENA_SIZE):
            if number > arena:
                self._shift(number, leaves, inners)
        row = self.arena(arena)
        row[forest.LEAF_END] += leaves
        row[forest.INNER_END] += inners

    def _shift(self, arena: int, leaves: int, inners: int) -> None:
        """Update all references to the nodes of an arena, which have moved up."""
        f, row = self.store.forest, self.arena(arena)
        for field in (forest.LEAF_FIRST, forest.LEAF_TOP, forest.LEAF_END):
            row[field] += leaves
        for field in (forest.INNER_FIRST, forest.INNER_TOP, forest.INNER_END):
            row[field] += inners
        for field, by in ((forest.LEAF_FREE, leaves), (forest.INNER_FREE, inners)):
            row[field] += by if row[field] >= 0 else 0
        nexts = f.nexts[row[forest.LEAF_FIRST] : row[forest.LEAF_TOP]]
        nexts[nexts >= 0] += leaves
        used = slice(int(row[forest.INNER_FIRST]), int(row[forest.INNER_TOP]))
        above_leaves = f.ranks[used] == 0
        f.children[used] += np.where(above_leaves, leaves, inners)[:, None]
        freed = f.children[used][:, 0]
        ends = (f.ranks[used] < 0) & (freed == inners - 1)
        freed[ends] = -1  # the list of freed nodes ends here
        trees = f.trees.reshape(-1, forest.TREE_SIZE)
        own = trees[:, forest.ARENA] == arena
        height = trees[own, forest.HEIGHT]
        trees[own, forest.ROOT] += np.where(height == 0, leaves, inners)

    def grow_run(self, side: int, rows: int) -> None:
        """Enlarge the runs of a side to ``rows`` each, at least; they keep their rows.

        The limits of sides follow the rows of their own runs, with the next merge.
        """
        old, kinds = self.store.runs, list(self.recipes)
        spare = kinds[-1].mode == layout.SCAN and kinds[-1].runs > 0
        for number in range(len(kinds)) if spare else [side]:  # with a spare one, all change places
            kinds[number] = replace(kinds[number], run_rows=rows)
        facts = [self.run(number) for number in range(sum(kind.runs for kind in kinds))]
        slices = [slice(int(run[css.START]), int(run[css.START] + run[css.COUNT])) for run in facts]
        self.recipes = kinds
        fresh = self._new_runs(old.facts, old.shape)
        self.store = self.store._replace(runs=fresh)
        for one in range(len(kinds)):
            self._widen_tables(one)
        number = start = slot = 0
        for kind in kinds:
            for _ in range(kind.runs):
                run, rows_then = self.run(number), slices[number]
                run[css.START], run[css.ROOM], run[css.DIRECTORY] = start, kind.run_rows, slot
                rows_now = slice(start, start + int(run[css.COUNT]))
                fresh.keys[rows_now], fresh.ids[rows_now] = old.keys[rows_then], old.ids[rows_then]
                loops.build_run(self.store, number)
                number, start = number + 1, start + kind.run_room
                slot += self._directory(kind)

    def _widen_tables(self, side: int) -> None:
        """Add trees and locks: a PIM-Tree over a longer run has more subindexes."""
        kind, facts = self.recipes[side], self.side(side)
        if kind.mode != layout.PARTED or kind.tree_slots <= facts[layout.TREES_SLOTS]:
            return
        more = kind.tree_slots - int(facts[layout.TREES_SLOTS])
        end = int(facts[layout.TREES_FIRST] + facts[layout.TREES_SLOTS])
        trees = _gap(self.store.forest.trees, end * forest.TREE_SIZE, more * forest.TREE_SIZE)
        table = trees.reshape(-1, forest.TREE_SIZE)
        table[end : end + more] = 0
        table[end : end + more, forest.ARENA] = self.arenas_of(side)[0]
        lock_end = int(facts[layout.LOCKS_FIRST] + facts[layout.TREES_SLOTS])
        locks = _gap(self.store.locks, lock_end, more)
        locks[:] = 0
        self.store = self.store._replace(
            forest=self.store.forest._replace(trees=trees), locks=locks
        )
        facts[layout.TREES_SLOTS] = kind.tree_slots
        for later in range(side + 1, len(self.recipes)):
            self.side(later)[layout.TREES_FIRST] += more
            self.side(later)[layout.LOCKS_FIRST] += more


def new_forest(
    leaves: int, inners: int, shape: tuple[int, int], trees: int, arenas: int, locked: bool = False
) -> forest.Forest:
    """An empty pool of nodes; ``shape`` is rows per leaf, children per inner node."""
    slots, fanout = map(css.stride_of, shape)
    return forest.Forest(
        np.empty((leaves, slots), np.int64), np.empty((leaves, slots), np.int64),
        np.empty(leaves, np.int64), np.empty(leaves, np.int64),
        np.empty((inners, fanout), np.int64), np.empty((inners, fanout), np.int64),
        np.empty(inners, np.int64), np.empty(inners, np.int64),
        np.zeros(trees * forest.TREE_SIZE, np.int64),
        np.zeros(arenas * forest.ARENA_SIZE, np.int64),
        np.zeros(leaves * locked, np.int64), np.zeros(inners * locked, np.int64),
        np.array(shape, np.int64),
    )  # fmt: skip


def _gap(array: Array, at: int, size: int) -> Array:
    """A copy with ``size`` entries of any value inserted at a place."""
    wider = np.empty((array.shape[0] + size, *array.shape[1:]), np.int64)
    wider[:at] = array[:at]
    wider[at + size :] = array[at:]
    return wider

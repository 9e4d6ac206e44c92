"""The parallel index-based window join: the loop that every worker thread runs.

PIM-Tree, Section 4. Tuples lie in a shared queue (the feed) in arrival order. A worker

1. takes the next ``task`` tuples (task acquisition);
2. finds the pairs of a tuple: probes the index for rows *before the edge tuple*, the first row of a
   side that is not known to be indexed, and scans the window from there on (result generation);
3. inserts the tuple into the index of its side, and advances the edge unless another thread is
   doing so (index update, test-and-set);
4. emits finished results in arrival order, unless another thread is doing so (result propagation).

              expired   t_e                    edge            t_l
    window  · · · · · · ├─── probe the index ───┼── scan ───────┤ later tuples · · ·

Why it is exact: all rows below the edge are in the index before the edge passes them, and the edge
is read before the index is probed. A row at or after the edge may or may not be in the index; it is
dropped from the index's answer and found by the scan. So each row of ``[t_e, t_l)`` is found
exactly once. t_e and t_l of a tuple follow from arrival order alone, so they are fixed when tuples
are queued. (Section 4.1 swaps the names t_e and t_l in one sentence; see the errata.)

Merging (Section 4.2). One thread merges at a time. It closes the *gate*, so that no thread takes a
tuple until it opens again, and waits for running tasks. The blocking merge rebuilds the index
behind the closed gate. The non-blocking one closes it twice, briefly: first to stop index updates
of that side (rows are marked as pending), then to swap in the new tree, which is built aside;
pending rows are inserted while other threads continue.

A thread that is stuck (no room for results, no nodes left) sets STOP and keeps its task; all
threads return, Python makes room, and they resume. Threads may leave after any task and join at any
time. They stop at the end of a tuple, where they hold no lock.
"""

from __future__ import annotations

from typing import NamedTuple

from thetastream._jit import atomics
from thetastream._jit.arrays import Array, i64, u64
from thetastream._jit.atomics import add, compare_swap, give_way, load, now, try_lock, unlock
from thetastream._jit.compiling import M, N, V, inlined, kernel, named
from thetastream.index.trees.kernels import store
from thetastream.index.trees.kernels.store import STORE, Store
from thetastream.tuplewise.kernels.ibwj import FEED, Feed, scan_ring

BUFFER_SMALL = -11
CLAIMED = 8  # rows that a thread deletes at a time

# ``control``: one cache line of eight words per group, to avoid false sharing.
HEAD = 0  # the next tuple to take
GATE = 8  # 1: no tuple may be taken
ACTIVE = 16  # threads with a running task
STOP, STOP_SIDE = 24, 25  # why all threads must return, and for which side
OUT_LOCK = 32
DONE_TO, OUT_FILL = 40, 41  # results of tuples below were emitted; pairs in the output
MERGING, SPARE = 48, 49  # lock of the merging thread; the free run
THREADS = 50  # upper bound on threads of this feed; nodes are kept for an insert by each
LOGGED = 56  # merges in the log
SIDES = 64
# Per side, from ``SIDES + side * SIDE_STEP``:
EDGE, EDGE_LOCK, PHASE, MERGER = 0, 8, 16, 24
PENDING_AT, PENDING_END = 32, 33
DELETE_AT = 40
SIDE_STEP = 48
CONTROL_SIZE = SIDES + 2 * SIDE_STEP
# PHASE: 1 while rows of a side are marked instead of indexed. MERGER: what a merge has left to do.
IDLE, PENDING, RESET = 0, 2, 3

# A row of ``workers``: the current task, the pairs in its buffer, the last tuple it completed.
TASK_AT, TASK_END, FILL, LAST, SEED, LEAVE, STARTED = 0, 1, 2, 3, 4, 5, 6
INSERTED = 8  # and 9: rows inserted into each side, not yet counted in YOUNG
WORKER_SIZE = 16


class Team(NamedTuple):
    """What the threads share besides the store and the feed."""

    control: Array
    workers: Array
    flags: Array  # side × ring, flat: number + 1 of a row that is indexed, -(number + 1) if pending
    where: Array  # per tuple: where its pairs start in the buffers
    counts: Array  # per tuple: number of pairs
    finished: Array  # per tuple: 1 when all pairs are there
    held_positions: Array  # thread × buffer, flat
    held_numbers: Array
    out_positions: Array
    out_numbers: Array
    times: Array  # start of every task, then end of every task
    log: Array  # merges: side, start, end


TEAM = named(Team, *[V] * 12)


# --- Small steps ---------------------------------------------------------------------------------


@inlined
def perturbed(t: Team, me: int, perturb: int) -> None:
    """Yield to other threads at random, to provoke rare interleavings."""
    if perturb > 0:
        at = me * WORKER_SIZE + SEED
        seed = u64(t.workers[at])
        seed ^= seed << u64(13)
        seed ^= seed >> u64(7)
        seed ^= seed << u64(17)
        t.workers[at] = i64(seed)
        if seed % u64(perturb) == 0:
            give_way()


@inlined
def stop(t: Team, why: int, side: int) -> None:
    """Make all threads return."""
    if compare_swap(t.control, STOP, 0, why):
        atomics.store(t.control, STOP_SIDE, side)


@inlined
def move_edge(t: Team, ring_size: int, side: int) -> None:
    """Advance the edge of a side over indexed rows, unless another thread is doing so."""
    at = SIDES + side * SIDE_STEP
    if try_lock(t.control, at + EDGE_LOCK):
        begun = edge = load(t.control, at + EDGE)
        while load(t.flags, side * ring_size + (edge & (ring_size - 1))) == edge + 1:
            edge += 1
        if edge != begun:
            atomics.publish(t.control, at + EDGE, edge)
        unlock(t.control, at + EDGE_LOCK)


@inlined
def propagate(t: Team) -> None:
    """Emit the results of finished tuples in arrival order, unless another thread is doing so."""
    if not try_lock(t.control, OUT_LOCK):
        return
    at, fill = t.control[DONE_TO], t.control[OUT_FILL]
    while at < t.finished.size and load(t.finished, at) == 1:
        count, begin = t.counts[at], t.where[at]
        if fill + count > t.out_positions.size:
            stop(t, store.FULL, 0)
            break
        for j in range(count):
            t.out_positions[fill + j] = t.held_positions[begin + j]
            t.out_numbers[fill + j] = t.held_numbers[begin + j]
        fill += count
        at += 1
    t.control[OUT_FILL] = fill
    atomics.publish(t.control, DONE_TO, at)
    unlock(t.control, OUT_LOCK)


@inlined
def make_space(t: Team, me: int) -> bool:
    """Wait until all results in the buffer are emitted; False if the thread must step back first.

    No deadlock: the thread of the first unfinished tuple has older results only, so it never waits
    here. After a stop it may wait with its task at a closed gate, so a thread that waits here steps
    back when the gate closes: the merging thread waits for all running tasks.
    """
    at = me * WORKER_SIZE
    while load(t.control, STOP) == 0 and load(t.control, GATE) == 0:
        propagate(t)
        if load(t.control, DONE_TO) > t.workers[at + LAST]:
            t.workers[at + FILL] = 0
            return True
        give_way()
    return False


# --- One tuple -----------------------------------------------------------------------------------


@inlined
def search(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, i: int, spot: Array, perturb: int
) -> int:
    """Write the pairs of a tuple to the thread's buffer; returns the new fill, or FULL."""
    room = t.held_positions.size // (t.workers.size // WORKER_SIZE)
    base = me * room
    other = feed.others[feed.sides[i]]
    edge = load(t.control, SIDES + other * SIDE_STEP + EDGE)
    perturbed(t, me, perturb)
    first, last = feed.floors[other, i], feed.until[i]
    low, high = feed.lows[i], feed.highs[i]
    filled = t.workers[me * WORKER_SIZE + FILL]
    positions = t.held_positions[base : base + room]
    numbers = t.held_numbers[base : base + room]
    indexed = min(edge, last)
    if low <= high and indexed > first:
        spot[0], spot[1], spot[2] = 0, -1, 0
        filled = store.collect(
            st, other, low, high, first, indexed, spot, i, filled, positions, numbers, True
        )
        if filled < 0:
            return store.FULL
    perturbed(t, me, perturb)
    return scan_ring(
        ring, other, low, high, max(first, indexed), last, i, filled, positions, numbers
    )


@inlined
def index(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, i: int, path: Array, perturb: int
) -> None:
    """Insert a tuple into the index of its side, or mark it while that side is merged."""
    side, number, size = feed.sides[i], feed.own[i], ring.shape[1]
    flag = side * size + (number & (size - 1))
    if load(t.control, SIDES + side * SIDE_STEP + PHASE) == 1:
        atomics.publish(t.flags, flag, -(number + 1))
        return
    store.put(st, side, feed.keys[i], number, path, True)
    perturbed(t, me, perturb)
    atomics.publish(t.flags, flag, number + 1)
    t.workers[me * WORKER_SIZE + INSERTED + side] += 1


@inlined
def report(st: Store, ring: Array, t: Team, me: int) -> None:
    """After a task: count its inserts and advance the edges.

    The paper advances the edge after every tuple; then every search waits for that cache line.
    """
    for side in range(ring.shape[0]):
        at = me * WORKER_SIZE + INSERTED + side
        if t.workers[at]:
            add(st.sides, side * store.SIDE_SIZE + store.YOUNG, t.workers[at])
            t.workers[at] = 0
            move_edge(t, ring.shape[1], side)


@inlined
def do_task(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, path: Array, spot: Array,
    perturb: int,
) -> bool:  # fmt: skip
    """Work on the current task; False if it could not be finished."""
    at = me * WORKER_SIZE
    while t.workers[at + TASK_AT] < t.workers[at + TASK_END]:
        if load(t.control, STOP) != 0:
            return False
        i = t.workers[at + TASK_AT]
        side = feed.sides[i]
        if not store.ready(st, side, feed.own[i], load(t.control, THREADS) + 1):
            stop(t, store.NO_NODES, side)
            return False
        begin = t.workers[at + FILL]
        filled = search(st, feed, ring, t, me, i, spot, perturb)
        if filled < 0:
            if not make_space(t, me):
                return False
            begin = 0
            filled = search(st, feed, ring, t, me, i, spot, perturb)
            if filled < 0:
                stop(t, BUFFER_SMALL, side)
                return False
        room = t.held_positions.size // (t.workers.size // WORKER_SIZE)
        t.where[i] = me * room + begin
        t.counts[i] = filled - begin
        t.workers[at + FILL] = filled
        t.workers[at + LAST] = i
        perturbed(t, me, perturb)
        index(st, feed, ring, t, me, i, path, perturb)
        atomics.publish(t.finished, i, 1)
        t.workers[at + TASK_AT] = i + 1
    return True


@inlined
def delete_expired(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, path: Array, perturb: int
) -> None:
    """Delete indexed rows that no unfinished tuple can match; each thread claims a few numbers."""
    size = ring.shape[1]
    done = min(load(t.control, DONE_TO), feed.sides.size - 1)
    for side in range(ring.shape[0]):
        control = SIDES + side * SIDE_STEP
        bound = min(feed.floors[side, done], load(t.control, control + EDGE))
        at = load(t.control, control + DELETE_AT)
        while at < bound:
            end = min(at + CLAIMED, bound)
            if compare_swap(t.control, control + DELETE_AT, at, end):
                perturbed(t, me, perturb)
                for number in range(at, end):
                    store.remove(st, side, ring[side, number & (size - 1)], number, path)
            at = load(t.control, control + DELETE_AT)


# --- Merging -------------------------------------------------------------------------------------


@inlined
def close_gate(t: Team) -> None:
    """Block new tasks, and wait until running ones have stopped."""
    atomics.store(t.control, GATE, 1)
    while load(t.control, ACTIVE) != 0:
        give_way()


@inlined
def first_open(feed: Feed, t: Team) -> int:
    """The first unprocessed tuple, behind the closed gate."""
    first = load(t.control, HEAD)
    for worker in range(t.workers.size // WORKER_SIZE):
        at = worker * WORKER_SIZE
        if t.workers[at + TASK_AT] < t.workers[at + TASK_END]:
            first = min(first, t.workers[at + TASK_AT])
    return min(first, feed.sides.size - 1)


@inlined
def taken_until(feed: Feed, t: Team, side: int) -> int:
    """Rows of a side below this number were taken by a thread."""
    head = load(t.control, HEAD)
    at = min(head, feed.sides.size - 1)
    return feed.own[at] + (head > at) if feed.sides[at] == side else feed.until[at]


@inlined
def insert_pending(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, side: int, path: Array,
    perturb: int,
) -> None:  # fmt: skip
    """The second phase: insert the rows that arrived while the new tree was built."""
    control, size = SIDES + side * SIDE_STEP, ring.shape[1]
    while t.control[control + PENDING_AT] < t.control[control + PENDING_END]:
        number = t.control[control + PENDING_AT]
        slot = number & (size - 1)
        if load(t.flags, side * size + slot) == -(number + 1):
            if not store.ready(st, side, number, load(t.control, THREADS) + 1):
                stop(t, store.NO_NODES, side)
                atomics.store(t.control, control + MERGER, PENDING)
                return
            store.put_parted(st, side, ring[side, slot], number, path, True)
            perturbed(t, me, perturb)
            atomics.publish(t.flags, side * size + slot, number + 1)
            add(st.sides, side * store.SIDE_SIZE + store.YOUNG, 1)
            move_edge(t, size, side)
        t.control[control + PENDING_AT] = number + 1
    atomics.store(t.control, control + MERGER, IDLE)


@inlined
def merge(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, side: int, path: Array,
    blocking: bool, perturb: int,
) -> None:  # fmt: skip
    """Merge the index of a side. The caller holds MERGING and runs no task."""
    control, at, begun = SIDES + side * SIDE_STEP, side * store.SIDE_SIZE, now()
    run = st.sides[at + store.RUNS_FIRST]
    close_gate(t)
    st.sides[at + store.BEFORE] = feed.floors[side, first_open(feed, t)]
    if blocking:
        status = store.merge_rows(st, side, run, run)
    else:
        atomics.store(t.control, control + PHASE, 1)
        atomics.store(t.control, GATE, 0)
        spare = t.control[SPARE]
        status = store.merge_rows(st, side, run, spare)
        close_gate(t)
        atomics.store(t.control, control + PHASE, 0)
        if status == store.DONE:
            st.sides[at + store.RUNS_FIRST] = spare
            t.control[SPARE] = run
        t.control[control + PENDING_AT] = load(t.control, control + EDGE)
        t.control[control + PENDING_END] = taken_until(feed, t, side)
        atomics.store(t.control, control + MERGER, PENDING)
    if status == store.DONE:
        status = store.reset_young(st, side)
        if status != store.DONE:
            # Python finds the gate closed and the trees not empty; it makes room and resets.
            atomics.store(t.control, control + MERGER, RESET)
            stop(t, status, side)
            return
    elif status == store.NO_ROOM:
        stop(t, store.NO_ROOM, side)
    atomics.store(t.control, GATE, 0)
    if not blocking:
        insert_pending(st, feed, ring, t, me, side, path, perturb)
    entry = t.control[LOGGED]
    t.control[LOGGED] = entry + 1
    if 3 * entry + 2 < t.log.size:
        t.log[3 * entry], t.log[3 * entry + 1], t.log[3 * entry + 2] = side, begun, now()


@inlined
def is_due(st: Store, side: int) -> bool:
    """Whether it is time to merge a side."""
    at = side * store.SIDE_SIZE
    return bool(load(st.sides, at + store.YOUNG) >= st.sides[at + store.LIMIT])


@inlined
def maintain(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, path: Array,
    blocking: bool, perturb: int,
) -> None:  # fmt: skip
    """Merge an index that is due, or insert its pending rows."""
    for side in range(ring.shape[0]):
        control = SIDES + side * SIDE_STEP
        pending = load(t.control, control + MERGER) == PENDING
        if (pending or is_due(st, side)) and try_lock(t.control, MERGING):
            if load(t.control, STOP) == 0:
                if load(t.control, control + MERGER) == PENDING:
                    insert_pending(st, feed, ring, t, me, side, path, perturb)
                elif is_due(st, side):
                    merge(st, feed, ring, t, me, side, path, blocking, perturb)
            unlock(t.control, MERGING)


# --- The loop ------------------------------------------------------------------------------------


@kernel((STORE, FEED, M, TEAM, N, N, V, V, N, N))
def work(
    st: Store, feed: Feed, ring: Array, t: Team, me: int, task: int, path: Array,
    spot: Array, blocking: int, perturb: int,
) -> int:  # fmt: skip
    """Work until the queue is empty, this thread is dismissed, or all must return."""
    at, tasks, waiting = me * WORKER_SIZE, t.times.size // 2, -1
    timed = tasks > 0
    while load(t.control, STOP) == 0:
        held = t.workers[at + TASK_AT] < t.workers[at + TASK_END]
        if not held and load(t.workers, at + LEAVE) != 0:
            break
        if not held and load(t.control, HEAD) >= feed.sides.size:
            # An interrupted merge may have left rows to insert.
            maintain(st, feed, ring, t, me, path, blocking != 0, perturb)
            break
        if timed and waiting < 0:
            waiting = now()
        add(t.control, ACTIVE, 1)
        if load(t.control, GATE) != 0:
            add(t.control, ACTIVE, -1)
            give_way()
            continue
        if not held:
            begin = add(t.control, HEAD, task)
            if begin < feed.sides.size:
                t.workers[at + TASK_END] = min(begin + task, feed.sides.size)
                t.workers[at + TASK_AT] = begin
                t.workers[at + STARTED] = waiting
        perturbed(t, me, perturb)
        done = do_task(st, feed, ring, t, me, path, spot, perturb)
        report(st, ring, t, me)
        add(t.control, ACTIVE, -1)
        if not done:
            continue  # stopped, or waiting for space: keep the task, and pass the gate again
        if timed and t.workers[at + TASK_END] > 0:
            number = (t.workers[at + TASK_END] - 1) // task
            t.times[number] = t.workers[at + STARTED]
            t.times[tasks + number] = now()
            waiting = -1
        perturbed(t, me, perturb)
        propagate(t)
        if st.sides[store.DELETED] >= 0:
            delete_expired(st, feed, ring, t, me, path, perturb)
        maintain(st, feed, ring, t, me, path, blocking != 0, perturb)
    return load(t.control, STOP)


@kernel((STORE, M, TEAM))
def finish(st: Store, ring: Array, t: Team) -> int:
    """After all threads have returned: emit finished results and advance the edges."""
    propagate(t)
    for side in range(ring.shape[0]):
        move_edge(t, ring.shape[1], side)
    return load(t.control, STOP)

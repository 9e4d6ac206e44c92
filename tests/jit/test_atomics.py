"""Atomic operations, called from compiled loops and, where there is a compiler, from threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from thetastream._jit.atomics import (
    add,
    compare_swap,
    fence,
    give_way,
    load,
    lock,
    now,
    publish,
    store,
    swap,
    try_lock,
    unlock,
)
from thetastream._jit.compiling import ENABLED, device

from ..keys import HIGH, LOW

THREADS = 4 if ENABLED else 1  # without the compiler they serve one thread only
TURNS = 20_000 if ENABLED else 50


# Compiled code alone can call the intrinsics: these stand for its loops.


@device
def every_one(array: Any, out: Any) -> None:
    out[0] = load(array, 0)
    store(array, 0, 11)
    out[1] = load(array, 0)
    out[2] = swap(array, 1, 22)
    out[3] = add(array, 1, -2)
    fence()
    out[4] = compare_swap(array, 2, 7, 8)
    out[5] = compare_swap(array, 2, 8, 9)
    give_way()
    publish(array, 3, out[0])


@device
def add_many(array: Any, turns: int) -> None:
    for _ in range(turns):
        add(array, 3, 1)


@device
def swap_many(array: Any, turns: int) -> int:
    """Put own values in, sum up what was there: nothing is lost, nothing comes twice."""
    total = 0
    for turn in range(turns):
        total += swap(array, 0, turn)
    return total


@device
def raise_many(array: Any, turns: int) -> None:
    for _ in range(turns):
        while True:
            old = load(array, 0)
            if compare_swap(array, 0, old, old + 1):
                break


@device
def count_locked(locks: Any, count: Any, turns: int) -> None:
    """A plain count, right only if the lock keeps others out."""
    for _ in range(turns):
        lock(locks, 1)
        count[0] = count[0] + 1
        unlock(locks, 1)


@device
def send_and_wait(flags: Any, data: Any, me: int, turns: int) -> int:
    """Two threads in turn: data written before a flag is seen behind it."""
    wrong = 0
    for turn in range(1, turns + 1):
        data[me * 64] = turn
        if me:
            store(flags, me * 64, turn)
        else:
            publish(flags, me * 64, turn)
        while load(flags, (1 - me) * 64) < turn:
            give_way()
        wrong += data[(1 - me) * 64] < turn
    return wrong


@device
def tried(locks: Any, out: Any) -> None:
    out[0] = try_lock(locks, 0)
    out[1] = try_lock(locks, 0)
    unlock(locks, 0)
    out[2] = try_lock(locks, 0)


@device
def clock(out: Any) -> None:
    for i in range(out.size):
        out[i] = now()


def together(work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


def test_what_each_gives_and_leaves() -> None:
    array, out = np.array([HIGH, LOW, 7, -1]), np.zeros(6, np.int64)
    every_one(array, out)
    assert out.tolist() == [HIGH, 11, LOW, 22, True, True]
    assert array.tolist() == [11, 20, 9, HIGH]
    every_one(array, out)
    assert out.tolist() == [11, 11, 20, 22, False, False]
    assert array.tolist() == [11, 20, 9, 11]


def test_sums_wrap_around() -> None:
    array = np.array([0, 0, 0, HIGH - 2 if ENABLED else 0])
    add_many(array, 3)
    assert array[3] == (LOW if ENABLED else 3)


def test_no_sum_is_lost() -> None:
    array = np.zeros(4, np.int64)
    together(lambda _: add_many(array, TURNS))
    assert array.tolist() == [0, 0, 0, THREADS * TURNS]


def test_no_value_is_lost_in_a_swap() -> None:
    array = np.zeros(1, np.int64)
    taken = sum(together(lambda _: swap_many(array, TURNS)))
    assert taken + array[0] == THREADS * sum(range(TURNS))


def test_compare_and_swap_takes_one_at_a_time() -> None:
    array = np.zeros(1, np.int64)
    together(lambda _: raise_many(array, TURNS))
    assert array[0] == THREADS * TURNS


def test_a_lock_keeps_others_out() -> None:
    locks, count = np.zeros(3, np.int64), np.zeros(1, np.int64)
    together(lambda _: count_locked(locks, count, TURNS))
    assert count[0] == THREADS * TURNS
    assert not locks.any()


def test_trying_does_not_wait() -> None:
    locks, out = np.zeros(2, np.int64), np.zeros(3, np.int64)
    tried(locks, out)
    assert out.tolist() == [True, False, True]
    assert locks.tolist() == [1, 0]


@pytest.mark.skipif(not ENABLED, reason="two threads need the compiler's atomics")
def test_what_was_written_before_is_seen_after() -> None:
    flags, data = np.zeros(128, np.int64), np.zeros(128, np.int64)
    with ThreadPoolExecutor(2) as pool:
        wrong = list(pool.map(lambda me: send_and_wait(flags, data, me, 2000), range(2)))
    assert wrong == [0, 0]


@pytest.mark.skipif(not ENABLED, reason="one thread would wait for itself")
def test_a_held_lock_is_waited_for() -> None:
    locks, count = np.array([0, 1, 0]), np.zeros(1, np.int64)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(count_locked, locks, count, 1)
        time.sleep(0.02)
        assert not waiting.done()
        assert count[0] == 0
        unlock(locks, 1)
        waiting.result(timeout=60)
    assert count[0] == 1


def test_the_clock_never_goes_back() -> None:
    times = np.zeros(50, np.int64)
    before = time.monotonic_ns()
    clock(times)
    after = time.monotonic_ns()
    assert before <= times[0] <= times[-1] <= after
    assert np.all(np.diff(times) >= 0)

"""Atomic operations on int64 arrays, for compiled loops that run in several threads.

All of them are sequentially consistent, which is simple to reason about, but for ``publish``: a
store that others who ``load`` it see only together with all that was written before. That is enough
to give back a lock or to say that something is ready, and costs no barrier on x86. ``store`` is for
the rare places where a thread writes one word and then reads another that threads write while they
read the first. Without the compiler (coverage runs of the tests) all this is plain Python and
serves one thread only.
"""

from __future__ import annotations

import os
import time
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from thetastream._jit.compiling import ENABLED, inlined

_ORDER = "seq_cst"
_SPINS = 64


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Pointer to ``array[position]``."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


def _load(typing: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature, arguments), _ORDER, 8)

    return types.int64(array, types.int64), generate


def _store(typing: Any, array: Any, at: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, _ORDER, 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


def _publish(typing: Any, array: Any, at: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


def _swap(typing: Any, array: Any, at: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        return builder.atomic_rmw("xchg", place, arguments[2], _ORDER)

    return types.int64(array, types.int64, types.int64), generate


def _add(typing: Any, array: Any, at: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], _ORDER)

    return types.int64(array, types.int64, types.int64), generate


def _compare_swap(typing: Any, array: Any, at: Any, expected: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        pair = builder.cmpxchg(place, arguments[2], arguments[3], _ORDER, _ORDER)
        return builder.extract_value(pair, 1)

    return types.boolean(array, types.int64, types.int64, types.int64), generate


def _fence(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("acquire")
        return context.get_dummy_value()

    return types.void(), generate


def _give_way(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        insert: Any = cgutils.get_or_insert_function
        builder.call(insert(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


def _now(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, word = ir.IntType(32), ir.IntType(64)
        kind = ir.FunctionType(number, [number, word.as_pointer()])
        insert: Any = cgutils.get_or_insert_function
        clock = insert(builder.module, kind, "clock_gettime")
        reserve: Any = cgutils.alloca_once
        place = reserve(builder, word, size=2)
        builder.call(clock, [number(1), place])  # CLOCK_MONOTONIC
        seconds = builder.load(place)
        rest = builder.load(builder.gep(place, [word(1)]))
        return builder.add(builder.mul(seconds, word(1_000_000_000)), rest)

    return types.int64(), generate


if ENABLED:
    load: Any = intrinsic(_load)
    store: Any = intrinsic(_store)
    publish: Any = intrinsic(_publish)
    swap: Any = intrinsic(_swap)
    add: Any = intrinsic(_add)
    compare_swap: Any = intrinsic(_compare_swap)
    fence: Any = intrinsic(_fence)
    give_way: Any = intrinsic(_give_way)
    now: Any = intrinsic(_now)
else:

    def load(array: Any, at: int) -> int:
        """The value at a position."""
        return int(array[at])

    def store(array: Any, at: int, value: int) -> None:
        """Write a value."""
        array[at] = value

    publish = store

    def swap(array: Any, at: int, value: int) -> int:
        """Write a value; gives the one before."""
        before = int(array[at])
        array[at] = value
        return before

    def add(array: Any, at: int, value: int) -> int:
        """Add a value; gives the sum before."""
        before = int(array[at])
        array[at] = before + value
        return before

    def compare_swap(array: Any, at: int, expected: int, value: int) -> bool:
        """Write a value if the one there is as expected; whether it was."""
        if array[at] != expected:
            return False
        array[at] = value
        return True

    def fence() -> None:
        """Keep the reads before it before the reads after it."""

    def give_way() -> None:
        """Let another thread run."""
        os.sched_yield()

    def now() -> int:
        """Nanoseconds of a clock that never goes back."""
        return time.monotonic_ns()


@inlined
def try_lock(locks: Any, at: int) -> bool:
    """Test and set; whether the lock was free."""
    return bool(load(locks, at) == 0 and swap(locks, at, 1) == 0)


@inlined
def lock(locks: Any, at: int) -> None:
    """Wait for a lock: spin a little, then let others run (threads may outnumber processors)."""
    spins = 0
    while not try_lock(locks, at):
        spins += 1
        if spins >= _SPINS:
            give_way()
            spins = 0


@inlined
def unlock(locks: Any, at: int) -> None:
    """Give a lock back."""
    publish(locks, at, 0)

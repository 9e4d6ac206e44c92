"""Atomic operations on int64 arrays, for compiled loops that run in several threads.

All operations are sequentially consistent except ``publish``, a release store: a thread that
``load``s its value also sees everything written before it. That suffices to release a lock or to
signal that data is ready, and needs no barrier on x86. Use ``store`` in the rare places where a
thread writes one word and then reads another that other threads write while they read the first.
Without the compiler (coverage runs of the tests) all of this is plain Python for a single thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from thetastream._jit.compiling import ENABLED, inlined

_ORDER = "seq_cst"
_SPINS = 64


def _access(result: Any, array: Any, values: int, emit: Callable[..., Any]) -> Any:
    """Typing and code of an operation on ``array[at]`` that takes ``values`` further words."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        value = emit(builder, builder.gep(data, [arguments[1]]), *arguments[2:])
        return context.get_dummy_value() if result == types.void else value

    return result(array, types.int64, *([types.int64] * values)), generate


def _load(typing: Any, array: Any, at: Any) -> Any:
    return _access(types.int64, array, 0, lambda code, place: code.load_atomic(place, _ORDER, 8))


def _store(typing: Any, array: Any, at: Any, value: Any) -> Any:
    return _access(
        types.void, array, 1, lambda code, place, word: code.store_atomic(word, place, _ORDER, 8)
    )


def _publish(typing: Any, array: Any, at: Any, value: Any) -> Any:
    return _access(
        types.void, array, 1, lambda code, place, word: code.store_atomic(word, place, "release", 8)
    )


def _swap(typing: Any, array: Any, at: Any, value: Any) -> Any:
    return _access(
        types.int64,
        array,
        1,
        lambda code, place, word: code.atomic_rmw("xchg", place, word, _ORDER),
    )


def _add(typing: Any, array: Any, at: Any, value: Any) -> Any:
    return _access(
        types.int64, array, 1, lambda code, place, word: code.atomic_rmw("add", place, word, _ORDER)
    )


def _compare_swap(typing: Any, array: Any, at: Any, expected: Any, value: Any) -> Any:
    def emit(code: Any, place: Any, old: Any, new: Any) -> Any:
        return code.extract_value(code.cmpxchg(place, old, new, _ORDER, _ORDER), 1)

    return _access(types.boolean, array, 2, emit)


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
        """Return the value at a position."""
        return int(array[at])

    def store(array: Any, at: int, value: int) -> None:
        """Write a value."""
        array[at] = value

    publish = store

    def swap(array: Any, at: int, value: int) -> int:
        """Write a value and return the previous one."""
        before = int(array[at])
        array[at] = value
        return before

    def add(array: Any, at: int, value: int) -> int:
        """Add a value and return the previous sum."""
        before = int(array[at])
        array[at] = before + value
        return before

    def compare_swap(array: Any, at: int, expected: int, value: int) -> bool:
        """Write a value if the current one is as expected; return whether it was."""
        if array[at] != expected:
            return False
        array[at] = value
        return True

    def fence() -> None:
        """Keep earlier reads before later ones."""

    def give_way() -> None:
        """Let another thread run."""
        os.sched_yield()

    def now() -> int:
        """Nanoseconds of a monotonic clock."""
        return time.monotonic_ns()


@inlined
def try_lock(locks: Any, at: int) -> bool:
    """Take a lock if it is free; return whether it was."""
    return bool(load(locks, at) == 0 and swap(locks, at, 1) == 0)


@inlined
def lock(locks: Any, at: int) -> None:
    """Wait for a lock: spin briefly, then yield (threads may outnumber processors)."""
    spins = 0
    while not try_lock(locks, at):
        spins += 1
        if spins >= _SPINS:
            give_way()
            spins = 0


@inlined
def unlock(locks: Any, at: int) -> None:
    """Release a lock."""
    publish(locks, at, 0)

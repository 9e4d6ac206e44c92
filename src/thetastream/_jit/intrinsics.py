"""Instructions that numba does not expose: prefetches, bit counts, moves, words at addresses.

Each has a plain Python twin for runs without the compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from thetastream._jit.compiling import ENABLED

_BYTE = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64).as_pointer()


def _call(builder: Any, name: str, *arguments: Any) -> None:
    """Call a function of LLVM that returns nothing."""
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    insert: Any = cgutils.get_or_insert_function
    builder.call(insert(builder.module, kind, name), arguments)


def _typed(signature: Any, emit: Callable[..., Any]) -> Any:
    """Typing and code of an instruction on words."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = emit(builder, *arguments)
        return context.get_dummy_value() if signature.return_type == types.void else value

    return signature, generate


def _prefetch(typing: Any, array: Any, position: Any) -> Any:
    """Ask the processor to load ``array[position]`` into its cache, without waiting."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), _BYTE)
        number = ir.IntType(32)
        # For reading, to be kept in all cache levels, data and not code.
        _call(builder, "llvm.prefetch.p0", address, number(0), number(3), number(1))
        return context.get_dummy_value()

    return types.void(array, position), generate


def _no_prefetch(array: Any, position: Any) -> None:
    pass


def _lowest_bit(typing: Any, word: Any) -> Any:
    """Count the zeros below the lowest set bit; the word must not be 0."""
    signature = types.uint64(types.uint64)
    return _typed(signature, lambda code, word: code.cttz(word, ir.IntType(1)(1)))


def _lowest_bit_plain(word: Any) -> Any:
    number = int(word)
    return np.uint64((number & -number).bit_length() - 1)


def _count_bits(typing: Any, word: Any) -> Any:
    """Count the set bits."""
    return _typed(types.int64(types.uint64), lambda code, word: code.ctpop(word))


def _count_bits_plain(word: Any) -> int:
    return int(word).bit_count()


def _shift(typing: Any, array: Any, target: Any, source: Any, count: Any) -> Any:
    """Move ``count`` entries to another place in the same array; the two may overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        places = [builder.bitcast(builder.gep(data, [at]), _BYTE) for at in arguments[1:3]]
        width = context.get_abi_sizeof(context.get_value_type(signature.args[0].dtype))
        size = builder.mul(arguments[3], ir.IntType(64)(width))
        _call(builder, "llvm.memmove.p0.p0.i64", *places, size, ir.IntType(1)(0))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), generate


def _shift_plain(array: Any, target: int, source: int, count: int) -> None:
    array[target : target + count] = array[source : source + count].copy()


def _load_word(typing: Any, address: Any) -> Any:
    """Read the word at an address."""
    signature = types.int64(types.int64)
    return _typed(signature, lambda code, address: code.load(code.inttoptr(address, _WORD)))


def _load_plain(address: Any) -> int:
    return ctypes.c_int64.from_address(int(address)).value


def _store_word(typing: Any, address: Any, word: Any) -> Any:
    """Write the word at an address."""
    signature = types.void(types.int64, types.int64)
    return _typed(signature, lambda code, at, word: code.store(word, code.inttoptr(at, _WORD)))


def _store_plain(address: Any, word: Any) -> None:
    ctypes.c_int64.from_address(int(address)).value = int(word)


prefetch: Any = intrinsic(_prefetch) if ENABLED else _no_prefetch
lowest_bit: Any = intrinsic(_lowest_bit) if ENABLED else _lowest_bit_plain
count_bits: Any = intrinsic(_count_bits) if ENABLED else _count_bits_plain
shift: Any = intrinsic(_shift) if ENABLED else _shift_plain
load_word: Any = intrinsic(_load_word) if ENABLED else _load_plain
store_word: Any = intrinsic(_store_word) if ENABLED else _store_plain

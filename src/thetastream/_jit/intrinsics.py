"""Instructions that numba has no name for: prefetches, bits of a word, moves, words at addresses.

Each has a twin in plain Python, for runs without the compiler.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from thetastream._jit.compiling import ENABLED


def _prefetch(typing: Any, array: Any, position: Any) -> Any:
    """Code that asks the processor to load ``array[position]`` into its cache, without waiting."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        insert: Any = cgutils.get_or_insert_function
        call = insert(builder.module, kind, "llvm.prefetch.p0")
        # To be read, to be kept in all levels, data and not code.
        builder.call(call, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, position), generate


def _no_prefetch(array: Any, position: Any) -> None:
    """Without the compiler there is nothing to ask."""


prefetch: Any = intrinsic(_prefetch) if ENABLED else _no_prefetch


def _lowest_bit(typing: Any, word: Any) -> Any:
    """Code that counts the zeros below the lowest bit that is set; the word must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def _lowest_bit_plain(word: Any) -> Any:
    """The same without the compiler."""
    number = int(word)
    return np.uint64((number & -number).bit_length() - 1)


lowest_bit: Any = intrinsic(_lowest_bit) if ENABLED else _lowest_bit_plain


def _count_bits(typing: Any, word: Any) -> Any:
    """Code that counts the bits that are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _count_bits_plain(word: Any) -> int:
    """The same without the compiler."""
    return int(word).bit_count()


count_bits: Any = intrinsic(_count_bits) if ENABLED else _count_bits_plain


def _shift(typing: Any, array: Any, target: Any, source: Any, count: Any) -> Any:
    """Code that moves ``count`` entries of an array to another place in it; they may overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, flag, number = ir.IntType(8).as_pointer(), ir.IntType(1), ir.IntType(64)
        target, source = (
            builder.bitcast(builder.gep(data, [at]), byte) for at in (arguments[1], arguments[2])
        )
        width = context.get_abi_sizeof(context.get_value_type(signature.args[0].dtype))
        size = builder.mul(arguments[3], number(width))
        kind = ir.FunctionType(ir.VoidType(), [byte, byte, number, flag])
        insert: Any = cgutils.get_or_insert_function
        call = insert(builder.module, kind, "llvm.memmove.p0.p0.i64")
        builder.call(call, [target, source, size, flag(0)])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), generate


def _shift_plain(array: Any, target: int, source: int, count: int) -> None:
    """The same without the compiler."""
    array[target : target + count] = array[source : source + count].copy()


shift: Any = intrinsic(_shift) if ENABLED else _shift_plain


def _call_address(typing: Any, address: Any, a: Any, b: Any, c: Any) -> Any:
    """Code that calls the C function at an address with three words, and gives its word.

    A function of fewer arguments does not see the rest. The address is an argument and not part of
    the code, so the code can be kept on disk.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word, word])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(function, arguments[1:])

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


def _call_plain(address: Any, a: Any, b: Any, c: Any) -> int:
    """The same without the compiler."""
    word = ctypes.c_int64
    function = ctypes.CFUNCTYPE(word, word, word, word)(int(address))
    return int(function(int(a), int(b), int(c)))


def _load_word(typing: Any, address: Any) -> Any:
    """Code that reads the word at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), generate


def _load_plain(address: Any) -> int:
    """The same without the compiler."""
    return ctypes.c_int64.from_address(int(address)).value


def _store_word(typing: Any, address: Any, word: Any) -> Any:
    """Code that writes the word at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _store_plain(address: Any, word: Any) -> None:
    """The same without the compiler."""
    ctypes.c_int64.from_address(int(address)).value = int(word)


call_address: Any = intrinsic(_call_address) if ENABLED else _call_plain
load_word: Any = intrinsic(_load_word) if ENABLED else _load_plain
store_word: Any = intrinsic(_store_word) if ENABLED else _store_plain

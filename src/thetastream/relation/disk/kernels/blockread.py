"""Reads pieces of a file in several threads, without returning to Python between pieces.

Reading a block takes some microseconds if the system has it in memory. A thread that returned to
Python after each would wait much longer for the interpreter, which the joining thread holds, than
for the data. So a *lane*, one thread, takes the next piece from a shared counter until none is
left, and returns to Python at the end, or if a piece cannot be read.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from thetastream._jit.arrays import Array
from thetastream._jit.atomics import add
from thetastream._jit.compiling import ENABLED, kernel

PREAD = ctypes.cast(ctypes.CDLL(None).pread, ctypes.c_void_p).value or 0
"""Address of the system's function; an argument, since the kernel's code is cached on disk."""


def _pread(typing: Any, address: Any, file: Any, target: Any, size: Any, offset: Any) -> Any:
    """Code that calls ``pread`` by its address: bytes that were read, -1 for an error."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, number = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(word, [number, word, word, word])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(function, [builder.trunc(arguments[1], number), *arguments[2:]])

    word = types.int64
    return word(word, word, word, word, word), generate


def _pread_plain(address: Any, file: Any, target: Any, size: Any, offset: Any) -> int:
    """The same without the compiler."""
    word = ctypes.c_int64
    function = ctypes.CFUNCTYPE(word, ctypes.c_int, word, word, word)(int(address))
    return int(function(int(file), int(target), int(size), int(offset)))


pread: Any = intrinsic(_pread) if ENABLED else _pread_plain


@kernel("i8(i8, i8, i8[::1], i8[::1], i8[::1], i8[::1])")
def read_pieces(
    call: int, file: int, offsets: Array, sizes: Array, targets: Array, turn: Array
) -> int:
    """Read pieces until none is left; return a piece that cannot be read completely, or -1.

    Piece ``i`` is ``sizes[i]`` bytes at ``offsets[i]`` of the file, copied to the address
    ``targets[i]``. ``turn[0]`` is the next piece to take. Lanes run this concurrently.
    """
    while True:
        piece = add(turn, 0, 1)
        if piece >= offsets.size:
            return -1
        done = 0
        while done < sizes[piece]:
            got = pread(
                call, file, targets[piece] + done, sizes[piece] - done, offsets[piece] + done
            )
            if got <= 0:
                return piece
            done += got

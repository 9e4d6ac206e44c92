"""Calls of C functions by their addresses, from compiled loops and without the compiler."""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from thetastream._jit.compiling import ENABLED


def _call_address(typing: Any, address: Any, a: Any, b: Any, c: Any) -> Any:
    """Call the C function at an address with three words and return its word.

    A function of fewer arguments ignores the rest. The address is an argument and not part of the
    code, so the code can be cached on disk.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word, word])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(function, arguments[1:])

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


def _call_plain(address: Any, a: Any, b: Any, c: Any) -> int:
    word = ctypes.c_int64
    function = ctypes.CFUNCTYPE(word, word, word, word)(int(address))
    return int(function(int(a), int(b), int(c)))


call_address: Any = intrinsic(_call_address) if ENABLED else _call_plain

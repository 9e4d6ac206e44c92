"""Compile options, the compiled-code cache and warm-up: the only module that imports numba.

A kernel is declared with the types it serves::

    @kernel("i8(i8[::1], i8)")
    def count_below(keys, bound): ...

Nothing is compiled at import. ``prepare()`` compiles every declared kernel, or loads it from the
cache, and then forbids further compilation, so a call with other types is a loud error and not a
silent second compilation.

The cache lives in a folder named after the sources, versions and interpreter; any change gives a
new folder. numba's own cache is not safe when several processes fill it at once, so it is filled
under a file lock by one process while the others wait, and a marker says that it is complete.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core import config as _config
from numba.extending import intrinsic, overload

__all__ = [
    "COMPILE_ERROR", "ENABLED", "NUMBER", "by_type", "cache_folder", "call_address", "compiled",
    "count_bits", "device", "inlined", "kernel", "load_word", "lowest_bit", "named", "prefetch",
    "prepare", "shift", "store_word", "vector",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
# Without reference counts, where nothing is allocated: they are atomic, and cost two thirds of the
# time of a descent in a tree.
_BARE: dict[str, Any] = {**_OPTIONS, "_nrt": False}
_KERNELS: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {}
config: Any = _config
ENABLED = not config.DISABLE_JIT
COMPILE_ERROR: type[Exception] = numba.core.errors.NumbaError
_ready: set[str] = set()
_guard = threading.Lock()


def kernel(*signatures: Any, group: str = "base") -> Callable[[F], F]:
    """Declare a compiled function with the signatures it serves: text, or tuples of types.

    Kernels of a group are compiled together, when the group is first needed.
    """

    def declare(function: F) -> F:
        if not ENABLED:
            return function
        with _cache_in(cache_folder()):
            options = _OPTIONS if group == "base" else _BARE
            compiled = numba.njit(cache=True, **options)(function)
        _KERNELS.setdefault(group, []).append((compiled, signatures))
        return compiled

    return declare


def device(function: F) -> F:
    """Declare a function that only kernels call; it is compiled into them."""
    return numba.njit(**_OPTIONS)(function) if ENABLED else function


def compiled(function: F) -> F:
    """Compile a user's function, for the types it is called with; one that is compiled stays so."""
    if not ENABLED or isinstance(function, numba.core.dispatcher.Dispatcher):
        return function
    return cast(F, numba.njit(nogil=True)(function))


def inlined(function: F) -> F:
    """Declare a function that is always copied into its callers.

    For functions of many arrays: a call would pass seven words per array on the stack.
    """
    return numba.njit(**_BARE, forceinline=True)(function) if ENABLED else function


def by_type(integer: F, real: F) -> F:
    """A function for kernels: ``real`` when its last argument is of floats, else ``integer``.

    That argument is a number or an array. Chosen while compiling.
    """

    def plain(*arguments: Any) -> Any:
        kind = getattr(arguments[-1], "dtype", None) or np.dtype(type(arguments[-1]))
        return (real if kind.kind == "f" else integer)(*arguments)

    if ENABLED:
        options: Any = {**_BARE, "forceinline": True}

        @overload(plain, jit_options=options, strict=False)
        def chosen(*arguments: Any) -> Any:
            kind = getattr(arguments[-1], "dtype", arguments[-1])
            return real if isinstance(kind, types.Float) else integer

    return cast(F, plain)


_types: Any = types
NUMBER = types.int64


def vector(dimensions: int, bits: int = 64, kind: str = "int") -> Any:
    """The type of contiguous arrays, for signatures that text cannot say."""
    return types.Array(getattr(types, f"{kind}{bits}"), dimensions, "C")


def named(kind: Any, *parts: Any) -> Any:
    """The type of a named tuple of arrays."""
    if len(set(parts)) == 1:
        return _types.NamedUniTuple(parts[0], len(parts), kind)
    return _types.NamedTuple(parts, kind)


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


def prepare(group: str = "base") -> None:
    """Have the kernels of a group ready: from the cache, or compiled now. Idempotent."""
    if ENABLED and group not in _ready:
        with _guard:
            _prepare(group)


def _prepare(group: str) -> None:
    if group not in _ready:
        _declare_all()
        folder = cache_folder()
        complete = folder / f"complete-{group}"
        if complete.exists():
            _compile_all(group)
        else:
            with _locked(folder.parent / (folder.name + ".lock")):
                if not complete.exists():
                    which = "" if group == "base" else f" for {group}"
                    print(
                        f"thetastream: compiling kernels{which} (first run only) …",
                        file=sys.stderr,
                    )
                _compile_all(group)
                complete.touch()
        _ready.add(group)


def _declare_all() -> None:
    """Import every module of kernels."""
    for path in sorted(_ROOT.glob("**/kernels/**/*.py")):
        import_module(".".join(("thetastream", *path.relative_to(_ROOT).with_suffix("").parts)))


def _compile_all(group: str) -> None:
    for compiled, signatures in _KERNELS[group]:
        for signature in signatures:
            compiled.compile(signature)
        compiled.disable_compile()


_ROOT = Path(__file__).resolve().parent.parent
_folder: Path | None = None


def cache_folder() -> Path:
    """The folder of this version's compiled kernels (``THETASTREAM_CACHE`` sets its parent)."""
    global _folder
    if _folder is None:
        _folder = cache_root() / _fingerprint()
        _folder.mkdir(parents=True, exist_ok=True)
    return _folder


def cache_root() -> Path:
    """The folder that holds what is kept between runs (``THETASTREAM_CACHE`` sets it)."""
    chosen = os.environ.get("THETASTREAM_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "thetastream"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.gettempdir()) / f"thetastream-{os.getuid()}"


def _fingerprint() -> str:
    """Changes with any kernel source (content or time of change), version or interpreter."""
    digest = hashlib.sha256()
    versions = (sys.version, np.__version__, numba.__version__, llvmlite.__version__)
    digest.update(repr(versions).encode())
    for path in sorted([*_ROOT.glob("**/kernels/**/*.py"), *_ROOT.glob("_jit/*.py")]):
        digest.update(f"{path} {path.stat().st_mtime_ns}".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


@contextlib.contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Let numba put its cache into our folder, for the functions declared inside only."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the system releases it if the process dies."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

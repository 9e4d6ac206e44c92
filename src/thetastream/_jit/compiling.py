"""Declaring and compiling kernels: once, all kernels of a module together.

A kernel is declared with the types it takes::

    @kernel("i8(i8[::1], i8)")
    def count_below(keys, bound): ...

Nothing is compiled at import. The first call of a kernel compiles the kernels of its module, or
loads them from the cache, and then forbids further compilation: a call with other types raises an
error instead of silently compiling again. ``prepare`` does this ahead of the first call, so that
creating a join takes the time and not the first push.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import config as _config
from numba.extending import overload

from thetastream._jit.cache import cache_folder, locked, seal
from thetastream.host.private import FILE

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
# Without reference counts: they are atomic and take two thirds of the time of a tree descent.
_BARE: dict[str, Any] = {**_OPTIONS, "_nrt": False}
config: Any = _config
ENABLED = not config.DISABLE_JIT
COMPILE_ERROR: type[Exception] = numba.core.errors.NumbaError


class _Declared(NamedTuple):
    """A kernel and its signatures."""

    dispatcher: Any
    signatures: tuple[Any, ...]


_KERNELS: dict[str, list[_Declared]] = {}  # by module
_ready: set[str] = set()
_guard = threading.Lock()


def kernel(*signatures: Any, allocates: bool = False) -> Callable[[F], F]:
    """Declare a compiled function with its signatures: text, or tuples of types.

    Set ``allocates`` for a function that makes arrays or views of them.
    """

    def declare(function: F) -> F:
        if not ENABLED:
            return function
        module = function.__module__
        with _cache_in(_folder_of(module)):
            dispatcher = numba.njit(cache=True, **(_OPTIONS if allocates else _BARE))(function)

        def first_call(*_: Any) -> Any:
            _prepare([module])
            return dispatcher  # which numba then calls

        dispatcher._compile_for_args = first_call
        _KERNELS.setdefault(module, []).append(_Declared(dispatcher, signatures))
        return cast(F, dispatcher)

    return declare


def device(function: F) -> F:
    """Declare a function that only kernels call, and that is compiled into them."""
    return numba.njit(**_OPTIONS)(function) if ENABLED else function


def compiled(function: F) -> F:
    """Compile a user's function for the types it is called with, unless it already is compiled."""
    if not ENABLED or isinstance(function, numba.core.dispatcher.Dispatcher):
        return function
    return cast(F, numba.njit(nogil=True)(function))


def inlined(function: F) -> F:
    """Declare a function that is always inlined.

    Meant for functions of many arrays: a call would pass seven words per array on the stack.
    """
    return numba.njit(**_BARE, forceinline=True)(function) if ENABLED else function


def by_type(integer: F, real: F) -> F:
    """A function for kernels: ``real`` if its last argument is a float or an array of floats.

    Otherwise ``integer``. The choice is made at compile time.
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


def vector(dimensions: int, bits: int = 64, kind: str = "int") -> Any:
    """The type of contiguous arrays, for signatures that text cannot express."""
    return types.Array(getattr(types, f"{kind}{bits}"), dimensions, "C")


N, V, M, U = types.int64, vector(1), vector(2), vector(1, 64, "uint")
"""The types of a number, a vector and a matrix of numbers, and of a vector of words."""


def named(kind: Any, *parts: Any) -> Any:
    """The type of a named tuple of arrays."""
    if len(set(parts)) == 1:
        return _types.NamedUniTuple(parts[0], len(parts), kind)
    return _types.NamedTuple(parts, kind)


def prepare(*kernels: ModuleType) -> None:
    """Compile or load the kernels of modules, or of all modules of a package. Idempotent."""
    if ENABLED and any(module.__name__ not in _ready for module in kernels):
        _prepare([name for module in kernels for name in _modules(module)])
        _ready.update(module.__name__ for module in kernels)


def warm(*rooms: str) -> None:
    """``prepare`` the kernels of rooms, as in ``warm("data", "index.runs")``."""
    prepare(*(import_module(f"thetastream.{room}.kernels") for room in rooms))


def _modules(module: ModuleType) -> Iterator[str]:
    """Import the modules inside a package; yield their names and its own."""
    for inner in iter_modules(getattr(module, "__path__", ())):
        yield from _modules(import_module(f"{module.__name__}.{inner.name}"))
    yield module.__name__


def _prepare(modules: list[str]) -> None:
    with _guard:
        rooms: dict[str, list[str]] = {}
        for name in modules:
            if name in _KERNELS and name not in _ready:
                rooms.setdefault(name.rpartition(".")[0], []).append(name)
        for room, names in rooms.items():
            if all(_marker(name).exists() for name in names):
                _compile(names)
            else:
                # Kernels call only those of their own room, so two rooms may compile at once.
                folder = _folder_of(names[0])
                with locked(folder / f"{room}.lock"):
                    if not all(_marker(name).exists() for name in names):
                        _say(room)
                    _compile(names)
                    seal(folder)
                    for name in names:
                        _marker(name).touch(FILE)


def _compile(modules: list[str]) -> None:
    for module in modules:
        for dispatcher, signatures in _KERNELS[module]:
            for signature in signatures:
                dispatcher.compile(signature)
            del dispatcher._compile_for_args
            dispatcher.disable_compile()
        _ready.add(module)


def _say(package: str) -> None:
    """Print one line, as a first run takes a while."""
    room = package.partition(".")[2].partition(".kernels")[0].replace(".", "/")
    print(f"thetastream: compiling kernels (first run only): {room} …", file=sys.stderr)


def _folder_of(module: str) -> Path:
    """The cache of the package a module belongs to."""
    package = sys.modules[module.partition(".")[0]]
    return cache_folder(Path(cast(str, package.__file__)).resolve().parent)


def _marker(module: str) -> Path:
    return _folder_of(module) / f"complete-{module}"


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Make numba use our cache folder, but only for functions declared inside the block."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before

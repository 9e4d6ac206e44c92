"""Finding libJudy, the C library of Judy arrays, and the addresses of its functions.

It is a peer to compare with, and no part of this package: nothing else needs it. The only place
besides ``_jit`` that uses ctypes; loops call the functions by their addresses (``judy``).

``THETASTREAM_JUDY`` names the file of a library that the system does not find by itself.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from functools import cache

from thetastream.errors import RegistryError

VARIABLE = "THETASTREAM_JUDY"
_FILE = "libJudy.so.1"


_FUNCTIONS = (
    *("JudyLIns", "JudyLGet", "JudyLDel", "JudyLFirst", "JudyLNext"),
    *("JudyLFreeArray", "JudyLMemUsed"),
)


def load() -> tuple[int, ...]:
    """Addresses of the functions of JudyL arrays, which map words to words.

    They stand in the order of the constants of ``kernels.rows``. RegistryError when the library
    cannot be loaded.
    """
    return _open(os.environ.get(VARIABLE, ""))


@cache
def _open(path: str) -> tuple[int, ...]:
    tried = [path] if path else [ctypes.util.find_library("Judy") or _FILE, _FILE]
    reasons = []
    for name in dict.fromkeys(tried):
        try:
            library = ctypes.CDLL(name)
            functions = [getattr(library, word) for word in _FUNCTIONS]
            return tuple(ctypes.cast(one, ctypes.c_void_p).value or 0 for one in functions)
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
    raise RegistryError(
        f"index 'judy' needs the C library libJudy, which cannot be loaded ({'; '.join(reasons)}); "
        "install it with: apt-get install libjudydebian1 (Debian, Ubuntu), or name its file in "
        f"{VARIABLE}. It is a peer for comparison only: 'radix-trie' does the same without it"
    )

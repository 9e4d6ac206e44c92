"""The user's own mapping: ``function(key, value, state)``, compiled, applied to buffers of rows.

A mapping is the C function pointer of Ordered Indexing, Listing 1, with ``state`` for its
``void *xa``. It is compiled into its own loop, once per function and type of value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import compiled

Mapping = Callable[[Any, Any, Any], None]
_drivers: WeakKeyDictionary[Mapping, Any] = WeakKeyDictionary()


def driver(mapping: Mapping) -> Any:
    """A compiled loop that applies the mapping to rows; compiled once."""
    if mapping not in _drivers:
        body: Any = compiled(mapping)

        def drive(keys: Array, ids: Array, values: Any, first: int, valid: Any, state: Any) -> None:
            for i in range(ids.size):
                at = ids[i] - first
                if valid.size == 0 or valid[at]:
                    body(keys[i], values[at], state)

        _drivers[mapping] = compiled(drive)
    return _drivers[mapping]

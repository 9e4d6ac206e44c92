"""What every window index can do, and the list of those that exist.

An index stores rows as ``(keys, id)`` and answers boxes: one inclusive int64 interval per key
column. Ids are arrival numbers of one side, each inserted once, in any order within an insert and
above all ids inserted before; so expiry is an interval of ids.

    index = create("sorted-runs", capacity=1 << 20)
    index.insert(keys, ids)                       int64[n] or int64[k, n], int64[n]
    for positions, ids in index.probe(lows, highs):
        …                                         box positions[j] holds stored row ids[j]
    index.expire(before)                          rows with id < before are gone

Rules that all structures keep:

- An answer is a snapshot: rows inserted or expired while it is being read do not change it. It can
  be read again, and several of its readers can be open at a time.
- An answer comes in chunks of at most ``limit`` pairs, so a huge one needs no huge memory.
- An empty interval (low > high) matches nothing. Each matching pair is reported exactly once.
- ``probe`` may be called by several threads at once, as long as nobody inserts or expires.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from thetastream.errors import DataError, RegistryError, suggest

__all__ = [
    "CHUNK",
    "Answer",
    "Array",
    "Index",
    "check_parameters",
    "create",
    "defaults",
    "names",
    "register",
    "structure",
]

Array = NDArray[np.int64]
CHUNK = 65_536


class Answer:
    """What a probe gives: an iterator of chunks, computed as they are read.

    ``again()`` reads the same snapshot from its beginning, as often as you like.
    """

    __slots__ = ("__weakref__", "_chunks", "_read")

    def __init__(self, read: Callable[[], Iterator[tuple[Array, Array]]]) -> None:
        self._read = read
        self._chunks: Iterator[tuple[Array, Array]] | None = None

    def __iter__(self) -> Answer:
        return self

    def __next__(self) -> tuple[Array, Array]:
        if self._chunks is None:
            self._chunks = self._read()
        return next(self._chunks)

    def again(self) -> Iterator[tuple[Array, Array]]:
        """The chunks from the first on."""
        return self._read()


class Index(ABC):
    """A window index over ``columns`` key columns. See the module's text for the rules."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""

    def __init__(self, capacity: int, columns: int) -> None:
        if capacity < 1 or columns < 1:
            raise RegistryError(
                f"capacity and columns must be at least 1; got {capacity} and {columns}"
            )
        self.capacity = capacity
        self.columns = columns

    @abstractmethod
    def insert(self, keys: Array, ids: Array) -> None:
        """Store rows."""

    @abstractmethod
    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """Give ``(positions, ids)`` of the stored rows inside each box, ``limit`` at a time."""

    @abstractmethod
    def expire(self, before: int) -> None:
        """Forget all rows with an id below ``before``."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows are stored and not expired."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held, expired rows that are still in the arrays included."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant. For tests: may cost O(n log n)."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings this index was created with."""
        return {"capacity": self.capacity, "columns": self.columns}

    @property
    def statistics(self) -> dict[str, float]:
        """Counters of work done since creation, such as merges."""
        return {}

    @abstractmethod
    def dump(self) -> tuple[Array, Array]:
        """All stored rows as ``(keys[columns, n], ids[n])`` in ascending order of id."""

    def _matrix(self, keys: Array) -> Array:
        """Keys as a matrix of one row per column."""
        if (
            keys.ndim == 2
            and keys.shape[0] == self.columns
            and keys.dtype == np.int64
            and keys.flags.carray
        ):
            return keys
        matrix = np.require(np.atleast_2d(keys), np.int64, ("C_CONTIGUOUS", "WRITEABLE"))
        if matrix.ndim != 2 or matrix.shape[0] != self.columns:
            raise DataError(
                f"index {self.name!r} was created for {self.columns} key column(s); got an array "
                f"of shape {np.shape(keys)}"
            )
        return matrix


_STRUCTURES: dict[str, type[Index]] = {}
S = TypeVar("S", bound=type[Index])


def register(cls: S) -> S:
    """Add a structure to the registry: that is what makes it tested and benchmarked."""
    assert cls.name and cls.name not in _STRUCTURES, cls
    _STRUCTURES[cls.name] = cls
    return cls


def names() -> list[str]:
    """Names of all registered structures."""
    return sorted(_STRUCTURES)


def structure(name: str) -> type[Index]:
    """The class registered under a name."""
    if name not in _STRUCTURES:
        raise RegistryError(
            f"there is no index {name!r}; there are {', '.join(names())}.{suggest(name, names())}"
        )
    return _STRUCTURES[name]


def create(name: str, capacity: int = 1 << 20, **parameters: Any) -> Index:
    """Create an index by name.

    ``capacity`` is the expected number of rows in the window: a hint, not a limit.

    >>> create("sorted-runs", capacity=1 << 20).parameters["capacity"]
    1048576
    """
    make: Callable[..., Index] = structure(name)
    check_parameters(name, parameters)
    return make(capacity=capacity, **parameters)


def defaults(name: str) -> dict[str, Any]:
    """The parameters of a structure besides capacity and columns, as they are unless given."""
    known = inspect.signature(structure(name)).parameters
    return {w: p.default for w, p in known.items() if w not in ("capacity", "columns")}


def check_parameters(name: str, parameters: Iterable[str]) -> None:
    """Raise for words that are no parameters of a structure."""
    known = inspect.signature(structure(name)).parameters
    for word in parameters:
        if word not in known:
            raise RegistryError(
                f"index {name!r} has no parameter {word!r}; it has {', '.join(known)}."
                f"{suggest(word, known)}"
            )

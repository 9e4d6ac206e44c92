"""Databases that join a stream with a table on disk, one batch of stream rows at a time.

All are used in the same way. ``enter`` loads a Parquet file into a folder, with an index on its
key; ``join`` puts a batch into a temporary table, which is not timed, and asks one query::

    SELECT count(*), sum(<checksum of l.id and r.id>) FROM l JOIN r ON <condition>

So no row of the answer is handed over, which favours the databases: our join returns whole rows. It
favours a store by columns most, since it reads two columns and no others; ``duckdb-rows`` returns
whole rows, as Arrow.

The checksum of a pair is below 2^31 and the same in every SQL; sums of fewer than 2^32 pairs do not
overflow. It is a product, so that a pair swapped with another changes it.

Every database is configured to hold no more than ``budget`` bytes of the table, but the page cache
of the system is beyond its reach. ``forget`` empties that of a folder's files.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from thetabench.contestant import Unavailable
from thetastream.errors import RegistryError, suggest

STREAM_ID = "id"
"""The column of a batch whose integers say which stream row a pair has."""
_FIRST, _SECOND, _LAST = 1_000_003, 999_983, 2_147_483_647

Types = Mapping[str, tuple[Callable[[pa.DataType], bool], ...]]


class Answer(NamedTuple):
    """The answer to one batch, and the seconds of the query."""

    matches: int
    checksum: int
    seconds: float


class Peer(ABC):
    """A database with the table ``r`` in it, and a connection with the temporary table ``l``.

    ``table`` is a Parquet file, ``on`` the condition, if not equality of ``key``.
    """

    types: ClassVar[Types] = {}
    """Types in SQL, and what they hold."""

    def __init__(
        self, name: str, table: Path, key: str, budget: int, folder: Path, *,
        on: str | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.name = name
        self.key = key
        self.budget = budget
        self.on = condition(key, on)
        self.opened = ExitStack()
        """Processes, connections and files, to be closed from the last to the first."""
        try:
            self.folder = self.place(folder)
            self.ids = f"l.{quoted(STREAM_ID)}", f"r.{quoted(proof(pq.read_schema(table), key))}"
            self.question = self.load(table, **options)
        except BaseException:
            self.close()
            raise

    def place(self, folder: Path) -> Path:
        """Where its files are: below the folder given, unless its account cannot enter that."""
        place = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=folder))
        self.opened.callback(rmtree, place, ignore_errors=True)
        return place

    @abstractmethod
    def load(self, table: Path) -> str:
        """Load the table; returns the query, see :meth:`query`."""

    def query(self, stream: str = "l", join: str = "JOIN", wanted: str = "") -> str:
        """The query in SQL."""
        wanted = wanted or f"count(*), {checksum_sql(*self.ids)}"
        return f"SELECT {wanted} FROM {stream} {join} r ON {self.on}"

    def columns(self, schema: pa.Schema) -> str:
        """Columns in SQL; refuses one without a type in this database."""
        return ", ".join(f"{quoted(field.name)} {self._kind(field)}" for field in schema)

    def _kind(self, field: pa.Field) -> str:
        for kind, tests in self.types.items():
            if any(holds(field.type) for holds in tests):
                return kind
        raise Unavailable(
            f"column {field.name!r} of type {field.type} has no form in {self.name} here"
        )

    @abstractmethod
    def join(self, batch: pa.RecordBatch) -> Answer:
        """Join a batch; it has the columns that the condition reads, and ``id``."""

    def close(self) -> None:
        """Stop it and remove its files, however far it has come."""
        self.opened.close()


PEERS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "postgresql": ("postgres", "Postgres", {}),
    "postgresql-sorted": ("postgres", "Postgres", {"plan": "sorted"}),
    "postgresql-free": ("postgres", "Postgres", {"plan": "free"}),
    "sqlite": ("sqlite", "SQLite", {}),
    "duckdb": ("duckdb", "DuckDB", {}),
    "duckdb-rows": ("duckdb", "DuckDB", {"rows": True}),
}
"""Module, class and options of every database; modules are imported when they are asked for."""


def enter(name: str, table: Path, key: str, budget: int, folder: Path, **options: Any) -> Peer:
    """Load a table into a database.

    Raises ``Unavailable`` where the database is not installed or cannot hold the table.
    """
    if name not in PEERS:
        raise RegistryError(
            f"database must be one of {', '.join(PEERS)}; got {name!r}.{suggest(name, PEERS)}"
        )
    module, kind, own = PEERS[name]
    peer: type[Peer] = getattr(import_module(f"{__name__}.{module}"), kind)
    return peer(name, table, key, budget, folder, **{**own, **options})


# --- What all of them share ---------------------------------------------------------------------


def checksum_sql(left: str, right: str) -> str:
    """The checksum of an answer, in SQL over two integer columns."""
    one, two = (f"CAST({column} AS BIGINT)" for column in (left, right))
    return f"sum((({one} % {_FIRST} + 1) * ({two} % {_SECOND} + 1)) % {_LAST})"


def checksum(left: NDArray[Any], right: NDArray[Any]) -> int:
    """The checksum of pairs: the integers of the stream rows, and those of the table's rows.

    >>> checksum(np.array([1, 2]), np.array([3, 4])), checksum(np.array([1, 2]), np.array([4, 3]))
    (23, 22)
    """
    one = np.fmod(left.astype(np.int64), _FIRST) + 1
    two = np.fmod(right.astype(np.int64), _SECOND) + 1
    return int(np.fmod(one * two, _LAST).sum(dtype=np.int64))


def proof(schema: pa.Schema, key: str) -> str:
    """The column of the table that enters the checksum.

    An integer column beside the key, if there is one: then an index alone cannot answer.
    """
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    names = [STREAM_ID] if STREAM_ID in numbers and key != STREAM_ID else []
    names += [name for name in numbers if name != key] + numbers
    if not names:
        raise Unavailable(
            "the checksum needs an integer column in the table; got the columns "
            f"{', '.join(f'{field.name} {field.type}' for field in schema)}"
        )
    return names[0]


def quoted(name: str) -> str:
    """A column's name in SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def condition(key: str, on: str | None) -> str:
    """The condition of the join, in SQL over ``l`` and ``r``."""
    return f"l.{quoted(key)} = r.{quoted(key)}" if on is None else on


def forget(folder: Path) -> None:
    """Take the files of a folder out of the system's page cache, as far as they are written."""
    for path in folder.rglob("*"):
        with suppress(OSError), path.open("rb") as file:  # it may be a folder, or gone by now
            os.fsync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

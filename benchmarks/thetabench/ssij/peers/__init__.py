"""Databases that join a stream with a table on disk, one batch of stream rows at a time.

All are used in the same way. ``enter`` loads the table, with an index on its key, into a folder;
``join`` puts a batch into a temporary table, which is not timed, and asks one query, which is::

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
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from thetabench.contestant import Unavailable
from thetastream.errors import RegistryError, suggest

STREAM_ID = "id"
"""The column of a batch whose integers say which stream row a pair has."""
_FIRST, _SECOND, _LAST = 1_000_003, 999_983, 2_147_483_647
_ROWS = 1 << 18

Source: TypeAlias = "pa.Table | str | Path"
"""A table, or the path of a Parquet file or of a folder of them."""


class Answer(NamedTuple):
    """The answer to one batch, and the seconds of the query."""

    matches: int
    checksum: int
    seconds: float


class Peer(ABC):
    """A database with the table ``r`` in it, and a connection with the temporary table ``l``.

    ``on`` is its condition, if not equality of ``key``.
    """

    title = version = ""

    def __init__(
        self, name: str, table: Source, key: str, budget: int, folder: Path, *,
        on: str | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.name = name
        self.key = key
        self.budget = budget
        self.on = condition(key, on)
        try:
            self.folder = self.place(folder)
            schema = schema_of(table)
            self.ids = f"l.{quoted(STREAM_ID)}", f"r.{quoted(proof(schema, key))}"
            self.question = self.load(table, schema, **options)
        except BaseException:
            self.close()
            raise

    def place(self, folder: Path) -> Path:
        """Where its files are: below the folder given, unless its account cannot enter that."""
        return Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=folder))

    @abstractmethod
    def load(self, table: Source, schema: pa.Schema) -> str:
        """Load the table; returns the query, see :meth:`query`."""

    def query(self, stream: str = "l", join: str = "JOIN", wanted: str = "") -> str:
        """The query in SQL."""
        wanted = wanted or f"count(*), {checksum_sql(*self.ids)}"
        return f"SELECT {wanted} FROM {stream} {join} r ON {self.on}"

    def columns(self, schema: pa.Schema) -> str:
        """Columns in SQL; refuses one without a type in this database."""
        texts = []
        for field in schema:
            kind = self.kind(field.type)
            if not kind:
                raise Unavailable(
                    f"column {field.name!r} of type {field.type} has no form in {self.title} here"
                )
            texts.append(f"{quoted(field.name)} {kind}")
        return ", ".join(texts)

    def kind(self, kind: pa.DataType) -> str:
        """A type in SQL, "" if there is none."""
        raise NotImplementedError

    @property
    def memory(self) -> str:
        """How much memory it has."""
        return f"{self.budget >> 10} kB"

    @property
    def remark(self) -> str:
        """What a reader of its numbers must know: version and memory."""
        return f"{self.title} {self.version}, {self.memory}, page cache of the system beside it"

    @abstractmethod
    def join(self, batch: pa.RecordBatch) -> Answer:
        """Join a batch; it has the columns that the condition reads, and ``id``."""

    def close(self) -> None:
        """Stop it and remove its files, however far it has come."""
        connection, folder = (getattr(self, own, None) for own in ("_connection", "folder"))
        if connection is not None:
            connection.close()
        if folder is not None:
            rmtree(folder, ignore_errors=True)


PEERS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "postgresql": ("postgres", "Postgres", {}),
    "postgresql-sorted": ("postgres", "Postgres", {"plan": "sorted"}),
    "postgresql-free": ("postgres", "Postgres", {"plan": "free"}),
    "sqlite": ("sqlite", "SQLite", {}),
    "duckdb": ("duckdb", "DuckDB", {}),
    "duckdb-rows": ("duckdb", "DuckDB", {"rows": True}),
}
"""Module, class and options of every database; modules are imported when they are asked for."""


def enter(name: str, table: Source, key: str, budget: int, folder: Path, **options: Any) -> Peer:
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


def schema_of(table: Source) -> pa.Schema:
    """The columns of a table."""
    return table.schema if isinstance(table, pa.Table) else pq.ParquetDataset(table).schema


def batches(table: Source) -> Iterator[pa.RecordBatch]:
    """The rows of a table, some at a time."""
    if isinstance(table, pa.Table):
        yield from table.to_batches(max_chunksize=_ROWS)
        return
    for path in pq.ParquetDataset(table).files:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=_ROWS)


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
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError:
            continue  # a socket, or gone by now
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            continue
        finally:
            os.close(handle)

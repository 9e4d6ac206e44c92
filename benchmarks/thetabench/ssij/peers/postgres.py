"""PostgreSQL: the table clustered by a B⁺-tree on its key, the stream as a temporary table.

``shared_buffers`` is the budget. ``plan`` says what may be done:

``index``   no hash and no merge join, so every stream row asks the index (the paper's form)
``sorted``  the same, after the stream rows have been sorted by key, within the time
``free``    whatever the planner likes best

``choice`` tells what the planner takes when nothing is forbidden, ``used`` what was done.
"""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.csv

from thetabench.contestant import Unavailable
from thetabench.ssij.peers import (
    STREAM_ID,
    Answer,
    Source,
    batches,
    checksum_sql,
    condition,
    proof,
    quoted,
    schema_of,
)
from thetabench.ssij.peers.server import Server
from thetastream.errors import RegistryError

__all__ = ["Postgres", "enter"]

PLANS = ("index", "sorted", "free")
_JOINS = ("enable_hashjoin", "enable_mergejoin")
_LEAST = 128 << 10  # of shared_buffers
_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.uint8(): "smallint",
    pa.int16(): "smallint",
    pa.uint16(): "integer",
    pa.int32(): "integer",
    pa.uint32(): "bigint",
    pa.int64(): "bigint",
    pa.uint64(): "numeric(20)",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
}


def enter(
    table: Source,
    key: str,
    budget: int,
    folder: Path,
    *,
    on: str | None = None,
    plan: str = "index",
) -> Postgres:
    """Start a server and load a table."""
    if plan not in PLANS:
        raise RegistryError(f"plan must be one of {', '.join(PLANS)}; got {plan!r}")
    buffers = max(budget, _LEAST)
    server = Server(folder, {"shared_buffers": f"{buffers >> 10}kB", "jit": "off"})
    try:
        return Postgres(server, table, key, buffers, condition(key, on), plan)
    except BaseException:
        server.close()
        raise


class Postgres:
    """A server with the table ``r``, and a session that knows the temporary table ``l``."""

    def __init__(
        self, server: Server, table: Source, key: str, buffers: int, on: str, plan: str
    ) -> None:
        self.name = "postgresql" if plan == "index" else f"postgresql-{plan}"
        self.choice = self.used = ""
        self._server = server
        self._session = server.session()
        self._buffers = buffers
        self._plan = plan
        schema = schema_of(table)
        stream = f"(SELECT * FROM l ORDER BY {quoted(key)}) AS l" if plan == "sorted" else "l"
        total = checksum_sql(f"l.{quoted(STREAM_ID)}", f"r.{quoted(proof(schema, key))}")
        self._question = f"SELECT count(*), {total} FROM {stream} JOIN r ON {on}"
        try:
            self._version = self._session.ask("SHOW server_version;")[0].split()[0]
            self._load(table, schema, key)
        except BaseException:
            self._session.close()
            raise

    @property
    def remark(self) -> str:
        """Version, memory, and what was done."""
        text = (
            f"PostgreSQL {self._version}, shared_buffers {self._buffers >> 10} kB, page cache of "
            "the system beside it"
        )
        if self._server.moved:
            text += ", files in the system's folder for temporary ones"
        if self.used:
            text += f"; done by {self.used}; its planner prefers {self.choice}"
        return text

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._server.folder

    def join(self, batch: pa.RecordBatch) -> Answer:
        self._session.ask("DROP TABLE IF EXISTS pg_temp.l;")
        self._create("TEMPORARY TABLE l", batch.schema)
        self._copy("l", batch)
        self._session.ask("ANALYZE l;")
        if not self.used:
            self._explain()
        start = perf_counter()
        (line,) = self._session.ask(f"{self._question};")
        seconds = perf_counter() - start
        count, total = line.split("|")
        return Answer(int(count), int(total or 0), seconds)

    def close(self) -> None:
        self._session.close()
        self._server.close()

    # --- Loading --------------------------------------------------------------------------------

    def _load(self, table: Source, schema: pa.Schema, key: str) -> None:
        self._session.ask("SET maintenance_work_mem = '256MB';")
        self._create("TABLE r", schema)
        for batch in batches(table):
            self._copy("r", batch)
        for command in (
            f"CREATE INDEX r_key ON r ({quoted(key)})",
            "CLUSTER r USING r_key",
            "VACUUM ANALYZE r",
            "CHECKPOINT",
            "RESET maintenance_work_mem",
        ):
            self._session.ask(f"{command};")
        self._allow(free=self._plan == "free")

    def _create(self, what: str, schema: pa.Schema) -> None:
        columns = ", ".join(f"{quoted(field.name)} {_type(field)}" for field in schema)
        self._session.ask(f"CREATE {what} ({columns});")

    def _copy(self, name: str, batch: pa.RecordBatch) -> None:
        path = self._server.folder / "rows.csv"
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(_printable(batch), path, options)
        try:
            self._session.ask(f"\\copy {name} from '{path}' with (format csv)")
        finally:
            path.unlink()

    # --- Plans ----------------------------------------------------------------------------------

    def _allow(self, *, free: bool) -> None:
        for setting in _JOINS:
            self._session.ask(f"SET {setting} = {'on' if free else 'off'};")

    def _explain(self) -> None:
        self.used = self._nodes()
        self._allow(free=True)
        self.choice = self._nodes()
        self._allow(free=self._plan == "free")

    def _nodes(self) -> str:
        """The steps of the plan, from the top."""
        lines = self._session.ask(f"EXPLAIN (COSTS OFF) {self._question};")
        steps = [line.replace("->", "").strip() for line in lines if not re.search(r":\s", line)]
        return " > ".join(steps[1:])


def _type(field: pa.Field) -> str:
    kind = field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if _is_bytes(kind):
        return "bytea"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if kind not in _TYPES:
        raise Unavailable(f"column {field.name!r} of type {kind} has no form in PostgreSQL here")
    return _TYPES[kind]


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _printable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with byte strings in PostgreSQL's notation."""
    columns = [
        pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()])
        if _is_bytes(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

"""PostgreSQL: the table clustered by a B⁺-tree on its key, the stream as a temporary table.

``shared_buffers`` is the budget. ``plan`` says what may be done:

``index``   no hash and no merge join, so every stream row asks the index (the paper's form)
``sorted``  the same, after the stream rows have been sorted by key, within the time
``free``    whatever the planner likes best

``choice`` is what the planner takes when nothing is forbidden, ``used`` what was done.
"""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.types as kinds

from thetabench.ssij.peers import Answer, Peer, Source, batches, quoted
from thetabench.ssij.peers.server import Server
from thetastream.errors import RegistryError

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
    pa.string(): "text",
    pa.large_string(): "text",
}


class Postgres(Peer):
    """A server and a session."""

    title = "PostgreSQL"
    choice = used = ""

    def __init__(self, *given: Any, plan: str = "index", **options: Any) -> None:
        if plan not in PLANS:
            raise RegistryError(f"plan must be one of {', '.join(PLANS)}; got {plan!r}")
        self._plan = plan
        super().__init__(*given, **options)

    def place(self, folder: Path) -> Path:
        """Start a server; its files are where its account can enter."""
        self.budget = max(self.budget, _LEAST)
        settings = {"shared_buffers": f"{self.budget >> 10}kB", "jit": "off"}
        self._server = Server(folder, settings)
        return self._server.folder

    @property
    def memory(self) -> str:
        """Its buffers."""
        return f"shared_buffers {super().memory}"

    @property
    def remark(self) -> str:
        """Version, memory, and what was done."""
        moved = ", files in the system's folder for temporary ones" if self._server.moved else ""
        done = f"; done by {self.used}; its planner prefers {self.choice}" if self.used else ""
        return f"{super().remark}{moved}{done}"

    def join(self, batch: pa.RecordBatch) -> Answer:
        """Copy the rows, then ask."""
        self._ask("DROP TABLE IF EXISTS pg_temp.l")
        self._ask(f"CREATE TEMPORARY TABLE l ({self.columns(batch.schema)})")
        self._copy("l", batch)
        self._ask("ANALYZE l")
        if not self.used:
            self._explain()
        start = perf_counter()
        (line,) = self._ask(self.question)
        seconds = perf_counter() - start
        count, total = line.split("|")
        return Answer(int(count), int(total or 0), seconds)

    def close(self) -> None:
        """End the session, then the server, which removes the files."""
        if hasattr(self, "_connection"):
            self._connection.close()
        if hasattr(self, "_server"):
            self._server.close()

    # --- Loading --------------------------------------------------------------------------------

    def load(self, table: Source, schema: pa.Schema) -> str:
        """Copy the table, then cluster it."""
        self._connection = self._server.session()
        self.version = self._ask("SHOW server_version")[0].split()[0]
        self._ask("SET maintenance_work_mem = '256MB'")
        self._ask(f"CREATE TABLE r ({self.columns(schema)})")
        for batch in batches(table):
            self._copy("r", batch)
        for command in (
            f"CREATE INDEX r_key ON r ({quoted(self.key)})",
            "CLUSTER r USING r_key",
            "VACUUM ANALYZE r",
            "CHECKPOINT",
            "RESET maintenance_work_mem",
        ):
            self._ask(command)
        self._allow(free=self._plan == "free")
        stream = (
            f"(SELECT * FROM l ORDER BY {quoted(self.key)}) AS l" if self._plan == "sorted" else "l"
        )
        return self.query(stream)

    def kind(self, kind: pa.DataType) -> str:
        """A type of PostgreSQL."""
        if _is_bytes(kind):
            return "bytea"
        if kinds.is_timestamp(kind):
            return "timestamptz" if kind.tz else "timestamp"
        if kinds.is_decimal(kind):
            return f"numeric({kind.precision}, {kind.scale})"
        return _TYPES.get(kind, "")

    def _ask(self, command: str) -> list[str]:
        return self._connection.ask(f"{command};")

    def _copy(self, name: str, batch: pa.RecordBatch) -> None:
        path = self.folder / "rows.csv"
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(_printable(batch), path, options)
        try:
            self._connection.ask(f"\\copy {name} from '{path}' with (format csv)")
        finally:
            path.unlink()

    # --- Plans ----------------------------------------------------------------------------------

    def _allow(self, *, free: bool) -> None:
        for setting in _JOINS:
            self._ask(f"SET {setting} = {'on' if free else 'off'}")

    def _explain(self) -> None:
        self.used = self._nodes()
        self._allow(free=True)
        self.choice = self._nodes()
        self._allow(free=self._plan == "free")

    def _nodes(self) -> str:
        """The steps of the plan, from the top."""
        lines = self._ask(f"EXPLAIN (COSTS OFF) {self.question}")
        steps = [line.replace("->", "").strip() for line in lines if not re.search(r":\s", line)]
        return " > ".join(steps[1:])


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        is_(kind) for is_ in (kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary)
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

"""PostgreSQL: the table clustered by a B⁺-tree on its key, the stream as a temporary table.

``shared_buffers`` is the budget. ``plan`` says what may be done:

``index``   no hash and no merge join, so every stream row asks the index (the paper's form)
``sorted``  the same, after the stream rows have been sorted by key, within the time
``free``    whatever the planner likes best

``choice`` is what the planner takes when nothing is forbidden, ``used`` what was done.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyarrow.types as pat

from thetabench.ssij.peers import Answer, Peer, Types, quoted
from thetabench.ssij.peers.server import Server
from thetastream.errors import RegistryError

PLANS = ("index", "sorted", "free")
_JOINS = ("enable_hashjoin", "enable_mergejoin")
_LEAST = 128 << 10  # of shared_buffers
_ROWS = 1 << 18  # copied at a time
_BYTES = (pat.is_binary, pat.is_fixed_size_binary)


class Postgres(Peer):
    """A server and a session."""

    types: ClassVar[Types] = {
        "bigint": (pat.is_integer,),
        "double precision": (pat.is_floating,),
        "timestamp": (pat.is_timestamp,),
        "text": (pat.is_string, pat.is_large_string),
        "bytea": _BYTES,
    }

    def __init__(self, *given: Any, plan: str = "index", **options: Any) -> None:
        if plan not in PLANS:
            raise RegistryError(f"plan must be one of {', '.join(PLANS)}; got {plan!r}")
        self._plan = plan
        super().__init__(*given, **options)

    def place(self, folder: Path) -> Path:
        """Start a server; its files are where its account can enter."""
        self.budget = max(self.budget, _LEAST)
        settings = {"shared_buffers": f"{self.budget >> 10}kB", "jit": "off"}
        self._server = self.opened.enter_context(closing(Server(folder, settings)))
        return self._server.folder

    def join(self, batch: pa.RecordBatch) -> Answer:
        """Copy the rows, then ask."""
        self._ask("DROP TABLE IF EXISTS pg_temp.l")
        self._ask(f"CREATE TEMPORARY TABLE l ({self.columns(batch.schema)})")
        self._copy("l", batch)
        self._ask("ANALYZE l")
        start = perf_counter()
        (line,) = self._ask(self.question)
        seconds = perf_counter() - start
        count, total = line.split("|")
        return Answer(int(count), int(total or 0), seconds)

    # --- Loading --------------------------------------------------------------------------------

    def load(self, table: Path) -> str:
        """Copy the table, then cluster it."""
        self._connection = self.opened.enter_context(closing(self._server.session()))
        self._ask("SET maintenance_work_mem = '256MB'")
        with pq.ParquetFile(table) as file:
            self._ask(f"CREATE TABLE r ({self.columns(file.schema_arrow)})")
            for batch in file.iter_batches(batch_size=_ROWS):
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
        ordered = f"(SELECT * FROM l ORDER BY {quoted(self.key)}) AS l"
        return self.query(ordered if self._plan == "sorted" else "l")

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

    @property
    def choice(self) -> str:
        """How the planner would join the last batch if nothing were forbidden."""
        self._allow(free=True)
        try:
            return self.used
        finally:
            self._allow(free=self._plan == "free")

    @property
    def used(self) -> str:
        """How the last batch was joined: the steps of the plan, from the top."""
        lines = self._ask(f"EXPLAIN (COSTS OFF) {self.question}")
        steps = [line.replace("->", "").strip() for line in lines if not re.search(r":\s", line)]
        return " > ".join(steps[1:])


def _printable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with byte strings in PostgreSQL's notation."""
    columns = [
        pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()])
        if any(holds(column.type) for holds in _BYTES)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
